"""Identifiers depend on the capture alone, and only their canonical form is accepted."""

import uuid
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provider.holdings.identifiers import oai_identifier, parse_oai_identifier
from tests.provider.archives import capture_key

MOMENT = datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC)
KEY = uuid.UUID("0123456789abcdef0123456789abcdef")


def test_the_key_never_changes() -> None:
    # Published identifiers depend on this value, which was computed with sha256sum.
    assert capture_key("http://example.com/", MOMENT).hex == "2f49024b7e056cacad011f728f44ab85"


def test_the_key_is_the_same_in_every_time_zone() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert capture_key("http://example.com/", elsewhere) == capture_key("http://example.com/", MOMENT)


def test_fractions_of_a_second_give_different_keys() -> None:
    moments = [MOMENT.replace(microsecond=fraction) for fraction in (0, 1, 10, 100_000)]
    assert len({capture_key("http://example.com/", moment) for moment in moments}) == len(moments)


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        capture_key("http://example.com/", MOMENT.replace(tzinfo=None))


@given(st.uuids())
def test_the_key_is_parsed_from_an_identifier(key: uuid.UUID) -> None:
    assert parse_oai_identifier("webarchiv.example", oai_identifier("webarchiv.example", key)) == key


@pytest.mark.parametrize(
    "text",
    [
        f"oai:webarchiv.example:{KEY.hex.upper()}",
        f"oai:webarchiv.example:{KEY}",
        f"oai:webarchiv.example:{KEY.hex[:-1]}",
        f"oai:webarchiv.example:{KEY.hex}0",
        f"oai:webarchiv.example:{KEY.hex}\n",
        f"oai:other.example:{KEY.hex}",
        f"OAI:webarchiv.example:{KEY.hex}",
        "oai:webarchiv.example:\u0660\u0661\u0662\u0663456789abcdef0123456789abcdef",
        "",
    ],
)
def test_only_the_canonical_form_of_an_identifier_is_parsed(text: str) -> None:
    assert parse_oai_identifier("webarchiv.example", text) is None
