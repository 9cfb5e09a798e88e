"""Resumption tokens: the state survives the round trip, and forged tokens are refused."""

import random
import string
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oai.errors import ProtocolError
from oai.vocabulary import ErrorCode, Verb
from provider.protocol.tokens import ItemList, Position, SetList, Tokens

NOW = datetime(2024, 2, 29, 12, 0, 0, tzinfo=UTC)
KEY = b"k" * 32
TOKENS = Tokens([KEY], timedelta(hours=48))

moments = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001 hypothesis wants them so
numbers = st.integers(0, 2**63 - 1)
item_lists = st.builds(
    ItemList,
    verb=st.sampled_from([Verb.LIST_RECORDS, Verb.LIST_IDENTIFIERS]),
    metadata_prefix=st.text(string.ascii_letters + "_", min_size=1, max_size=30),
    set_spec=st.none() | st.text(max_size=300),
    from_=st.none() | moments,
    until=moments,
    after=st.none() | st.builds(Position, datestamp=moments, id=numbers),
    cursor=numbers,
    size=st.none() | numbers,
)


@settings(deadline=None)
@given(item_lists)
def test_a_list_of_records_survives_the_round_trip(state: ItemList) -> None:
    token = TOKENS.write(state, NOW)
    assert TOKENS.read_items(token, state.verb, NOW) == state
    assert set(token) <= set(string.ascii_letters + string.digits + "-_.")


@settings(deadline=None)
@given(st.builds(SetList, after=st.none() | st.text(max_size=300), cursor=numbers))
def test_a_list_of_sets_survives_the_round_trip(state: SetList) -> None:
    assert TOKENS.read_sets(TOKENS.write(state, NOW), NOW) == state


STATE = ItemList(
    verb=Verb.LIST_RECORDS,
    metadata_prefix="oai_dc",
    set_spec="domain:cz",
    from_=None,
    until=NOW,
    after=Position(datestamp=NOW, id=7),
)
TOKEN = TOKENS.write(STATE, NOW)


@settings(deadline=None)
@given(st.integers(0, len(TOKEN) - 1), st.sampled_from(string.printable + "ž\0"))
def test_a_token_with_a_changed_character_is_refused(place: int, character: str) -> None:
    altered = TOKEN[:place] + character + TOKEN[place + 1 :]
    if altered == TOKEN:
        assert TOKENS.read_items(altered, Verb.LIST_RECORDS, NOW) == STATE
    else:
        assert "altered" in refusal(altered)


@pytest.mark.parametrize(
    "character", sorted({*string.ascii_letters, *string.digits, "-", "_", "="} - {TOKEN[-1]})
)
def test_a_token_with_changed_spare_bits_of_its_last_character_is_refused(character: str) -> None:
    assert "altered" in refusal(TOKEN[:-1] + character)


@settings(deadline=None)
@given(st.text(max_size=200))
def test_arbitrary_text_is_not_accepted_as_a_token(text: str) -> None:
    assert "altered" in refusal(text)


def test_a_token_of_another_key_is_refused() -> None:
    other = Tokens([b"o" * 32], timedelta(hours=48))
    assert "altered" in refusal(other.write(STATE, NOW))


def test_a_token_of_another_verb_is_refused() -> None:
    state = SetList(after="domain:cz")
    assert "belongs to ListSets" in refusal(TOKENS.write(state, NOW))


def test_a_token_is_accepted_until_its_last_second() -> None:
    token = TOKENS.write(STATE, NOW - timedelta(hours=48))
    assert TOKENS.read_items(token, Verb.LIST_RECORDS, NOW) == STATE


def test_an_expired_token_is_refused() -> None:
    assert "expired" in refusal(TOKENS.write(STATE, NOW - timedelta(hours=48, seconds=1)))


def test_a_token_of_another_version_is_refused() -> None:
    serializer = TOKENS._serializers[0]  # noqa: SLF001 only its owner can sign what no version of ours writes
    token = serializer.dumps({"v": 0})
    assert "another version" in refusal(str(token))


def test_a_very_long_token_is_refused_without_decoding() -> None:
    serializer = TOKENS._serializers[0]  # noqa: SLF001 signed as ours, so that only its length tells
    token = str(serializer.dumps({"v": 1, "long": random.Random(1).randbytes(4096).hex()}))
    assert len(token) > 4096
    assert "altered" in refusal(token)


def refusal(token: str) -> str:
    with pytest.raises(ProtocolError) as refused:
        TOKENS.read_items(token, Verb.LIST_RECORDS, NOW)
    assert refused.value.code is ErrorCode.BAD_RESUMPTION_TOKEN
    return refused.value.message


def test_tokens_of_a_former_key_are_accepted_and_new_ones_use_the_present_key() -> None:
    former = Tokens([b"f" * 32], timedelta(hours=48))
    both = Tokens([KEY, b"f" * 32], timedelta(hours=48))
    assert both.read_items(former.write(STATE, NOW), STATE.verb, NOW) == STATE
    assert both.write(STATE, NOW) == TOKENS.write(STATE, NOW)
    altered = former.write(STATE, NOW)[:-1]
    with pytest.raises(ProtocolError, match="altered"):
        both.read_items(altered, STATE.verb, NOW)
