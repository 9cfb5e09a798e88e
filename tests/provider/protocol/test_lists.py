"""Lists page by page: complete, in order, by set and by window, with valid resumption tokens."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

import pytest
from pytest_aiohttp import AiohttpClient
from sqlalchemy import update

from oai.database import Database, open_database
from oai.datestamps import format_datestamp, utc_now
from oai.settings import Settings
from oai.signing import UNKNOWN_SECONDS, replace_keys, signing_keys
from oai.vocabulary import Verb
from provider.app import create_app
from provider.models import UNLISTED, Mimetype
from provider.protocol.pages import list_size
from provider.protocol.scopes import find_scope
from provider.protocol.tokens import PURPOSE, ItemList, SetList, Tokens
from tests.provider.archive import BEGINNING, Archive
from tests.provider.conftest import Kept, Provider

ALL = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}
LISTS = ["ListRecords", "ListIdentifiers"]
LATER = datetime(2999, 1, 1, tzinfo=UTC)


async def test_a_list_is_complete_and_in_order(provider: Provider, archive: Archive) -> None:
    expected: list[str] = []
    # One page, one record more, and multiples of three records, of four headers, and of both.
    for count in (1, 4, 6, 12, 13):
        expected += archive.add_many(count - len(expected))
        assert await provider.listed() == expected


async def test_documents_with_the_same_datestamp_are_each_listed_once(
    provider: Provider, archive: Archive
) -> None:
    expected = [archive.add(datestamp=BEGINNING) for _ in range(11)]
    assert await provider.listed() == expected


async def test_a_list_that_fits_in_one_answer_has_no_token(provider: Provider, archive: Archive) -> None:
    for verb, size in (("ListRecords", 3), ("ListIdentifiers", 1)):
        archive.add_many(size)  # four in the end
        assert (await provider.ask(verb=verb, metadataPrefix="oai_dc")).token is None, verb


async def test_the_last_of_several_pages_is_full_and_has_an_empty_token(
    provider: Provider, archive: Archive
) -> None:
    archive.add_many(12)
    for verb, size, pages in (("ListRecords", 3, 4), ("ListIdentifiers", 4, 3)):
        found = await provider.pages(verb=verb, metadataPrefix="oai_dc")
        assert [len(page.identifiers) for page in found] == [size] * pages
        assert [bool(page.token) for page in found] == [True] * (pages - 1) + [False]
        assert found[-1].token == ""
        assert "expirationDate" not in found[-1].token_facts


async def test_tokens_have_cursor_and_complete_list_size(provider: Provider, archive: Archive) -> None:
    archive.add_many(7)
    window = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", from_="2020-01-01")
    assert "completeListSize" not in window.token_facts  # a window has no stored count
    found = await provider.pages(verb="ListRecords", metadataPrefix="oai_dc")
    assert [page.token_facts["cursor"] for page in found] == ["0", "3", "6"]
    assert [page.token_facts["completeListSize"] for page in found] == ["7", "7", "7"]


async def test_the_complete_list_size_of_a_set_is_its_stored_count(
    provider: Provider, archive: Archive
) -> None:
    for _ in range(5):
        archive.add(collections=["collection:serials:nov07"])
    archive.add("http://elsewhere.test/", mime_type="image/png")
    for set_spec in ("mimetype", "mimetype:text", "domain:cz:example:www", "collection:serials"):
        size = 6 if set_spec == "mimetype" else 5
        first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", set=set_spec)
        assert first.token_facts["completeListSize"] == str(size), set_spec


async def test_the_complete_list_size_excludes_documents_with_future_datestamps(
    provider: Provider, archive: Archive
) -> None:
    archive.add_many(7)
    archive.add(datestamp=LATER)
    archive.add(datestamp=UNLISTED)
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    assert first.token_facts["completeListSize"] == "7"


def test_no_size_is_returned_if_too_many_documents_have_future_datestamps(
    archive: Archive, database: Database
) -> None:
    archive.add_many(7)
    for expected in (7, None):
        archive.add(datestamp=LATER)
        with database.session() as session:
            scope = find_scope(session, None)
            assert scope is not None
            assert list_size(session, scope, utc_now(), most_ahead=1) == expected


async def test_no_complete_list_size_is_sent_if_the_stored_count_is_zero(
    provider: Provider, archive: Archive, database: Database
) -> None:
    archive.add_many(7)
    with database.session() as session:
        session.execute(update(Mimetype).values(documents=0))
        session.commit()
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    assert "completeListSize" not in first.token_facts


@pytest.fixture(scope="module")
def six(kept: Kept) -> list[str]:
    """The documents of an archive that tests only read, at twelve hours' distance."""
    moments = ["01T00:00:00", "01T12:00:00", "01T23:59:59", "02T00:00:00", "02T23:59:59", "03T00:00:00"]
    archive = kept.archive()
    return [archive.add(datestamp=datetime.fromisoformat(f"2020-01-{moment}Z")) for moment in moments]


@pytest.mark.usefixtures("six")
async def test_a_token_has_its_expiration_date(reading: Provider) -> None:
    first = await reading.ask(verb="ListRecords", metadataPrefix="oai_dc")
    expires = datetime.fromisoformat(first.token_facts["expirationDate"])
    assert expires - datetime.fromisoformat(first.response_date) == timedelta(hours=48)


@pytest.mark.usefixtures("six")
async def test_a_token_may_be_used_again(reading: Provider) -> None:
    first = await reading.ask(verb="ListRecords", metadataPrefix="oai_dc")
    again = [await reading.ask(verb="ListRecords", resumptionToken=first.token or "") for _ in range(3)]
    assert len({tuple(page.identifiers) for page in again}) == 1
    assert again[0].identifiers != first.identifiers


@pytest.mark.usefixtures("six")
async def test_the_response_repeats_the_token_of_the_request(reading: Provider) -> None:
    token = (await reading.ask(verb="ListRecords", metadataPrefix="oai_dc")).token or ""
    second = await reading.ask(verb="ListRecords", resumptionToken=token)
    assert second.request == {"verb": "ListRecords", "resumptionToken": token}


@pytest.mark.parametrize("verb", ["ListIdentifiers", "ListSets"])
@pytest.mark.usefixtures("six")
async def test_a_token_is_refused_for_another_verb(reading: Provider, verb: str) -> None:
    token = (await reading.ask(verb="ListRecords", metadataPrefix="oai_dc")).token or ""
    refused = await reading.ask(verb=verb, resumptionToken=token)
    assert refused.codes == ["badResumptionToken"]
    assert refused.request == {"verb": verb, "resumptionToken": token}


@pytest.mark.usefixtures("six")
@pytest.mark.parametrize("verb", [*LISTS, "ListSets"])
@pytest.mark.parametrize(
    "change", [lambda t: t[:-1], lambda t: t + "A", lambda t: "A" + t, lambda t: t.swapcase()]
)
async def test_an_altered_token_is_refused(
    reading: Provider, verb: str, change: Callable[[str], str]
) -> None:
    prefix = {} if verb == "ListSets" else {"metadataPrefix": "oai_dc"}
    token = (await reading.ask(verb=verb, **prefix)).token
    assert token
    refused = await reading.ask(verb=verb, resumptionToken=change(token))
    assert refused.codes == ["badResumptionToken"]


@pytest.mark.usefixtures("six")
@pytest.mark.parametrize("verb", [*LISTS, "ListSets"])
async def test_an_expired_token_is_refused(reading: Provider, kept_database: Database, verb: str) -> None:
    with kept_database.session() as session:
        tokens = Tokens(signing_keys(session, PURPOSE), timedelta(hours=1))
    state: ItemList | SetList = SetList()
    if verb != "ListSets":
        state = ItemList(verb=Verb(verb), metadata_prefix="oai_dc", set_spec=None, from_=None, until=LATER)
    refused = await reading.ask(verb=verb, resumptionToken=tokens.write(state, BEGINNING))
    assert refused.codes == ["badResumptionToken"]
    assert "expired" in refused.messages


async def test_a_token_is_accepted_by_another_instance(
    provider: Provider, archive: Archive, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add_many(4)
    token = (await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")).token or ""
    with open_database(settings) as database:
        app = create_app(settings, database, base_url="http://other.example/oai")
        other = Provider(client=await aiohttp_client(app))
        second = await other.ask(verb="ListRecords", resumptionToken=token)
        await other.client.close()
    assert len(second.identifiers) == 1


async def test_an_instance_accepts_tokens_signed_with_a_key_created_by_another(
    provider: Provider, archive: Archive, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add_many(4)
    with open_database(settings) as database:
        app = create_app(settings, database, base_url="http://other.example/oai")
        other = Provider(client=await aiohttp_client(app))
        assert (await other.ask(verb="ListRecords", metadataPrefix="oai_dc")).identifiers  # it knows the key
        with archive.database.session() as session:
            replace_keys(session, overlap=timedelta(0))
            session.commit()
        token = (await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")).token or ""
        await asyncio.sleep(UNKNOWN_SECONDS)
        second = await other.ask(verb="ListRecords", resumptionToken=token)
        await other.client.close()
    assert (second.codes, len(second.identifiers)) == ([], 1)


async def test_changes_after_the_first_request_are_left_to_the_next_harvest(
    provider: Provider, archive: Archive
) -> None:
    expected = archive.add_many(5)
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", until="2020-01-01T00:00:04Z")
    archive.redate(expected[3], BEGINNING + timedelta(seconds=10))
    second = await provider.ask(verb="ListRecords", resumptionToken=first.token or "")
    assert second.identifiers == expected[4:]
    following = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", from_="2020-01-01T00:00:05Z")
    assert following.identifiers == [expected[3]]


@pytest.mark.parametrize("moved", [[3], [0, 1, 2, 3]])
async def test_a_list_whose_remaining_records_changed_ends_with_an_earlier_record(
    provider: Provider, archive: Archive, moved: Sequence[int]
) -> None:
    expected = archive.add_many(4)
    until = format_datestamp(BEGINNING + timedelta(seconds=3))
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", until=until)
    for number in moved:
        archive.redate(expected[number], BEGINNING + timedelta(seconds=10 + number))
    second = await provider.ask(verb="ListRecords", resumptionToken=first.token or "")
    assert (second.codes, second.identifiers, second.token) == ([], expected[:1], "")


async def test_a_list_of_which_all_is_being_published_is_continued_later(
    provider: Provider, archive: Archive
) -> None:
    expected = archive.add_many(4)
    until = format_datestamp(BEGINNING + timedelta(seconds=3))
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", until=until)
    for identifier in expected:
        archive.redate(identifier, utc_now() + timedelta(seconds=30))
    token = {"verb": "ListRecords", "resumptionToken": first.token or ""}
    response = await provider.client.get("/oai", params=token)
    assert (response.status, "Retry-After" in response.headers) == (503, True)
    for identifier in expected:
        archive.redate(identifier, BEGINNING + timedelta(seconds=10))
    assert (await provider.ask(**token)).identifiers == expected[:1]


async def test_a_document_is_not_listed_before_its_datestamp(provider: Provider, archive: Archive) -> None:
    due = archive.add()
    archive.add(datestamp=LATER)
    assert await provider.listed() == [due]
    assert await provider.listed(until="2999-12-31") == [due]


@pytest.mark.parametrize(
    ("from_", "until", "expected"),
    [
        ("2020-01-01", None, [0, 1, 2, 3, 4, 5]),
        ("2020-01-02", None, [3, 4, 5]),
        (None, "2020-01-01", [0, 1, 2]),
        (None, "2020-01-02", [0, 1, 2, 3, 4]),
        ("2020-01-02", "2020-01-02", [3, 4]),
        ("2020-01-01T23:59:59Z", "2020-01-02T00:00:00Z", [2, 3]),
        ("2020-01-01T12:00:00Z", "2020-01-01T12:00:00Z", [1]),
        ("2020-01-01T12:00:01Z", None, [2, 3, 4, 5]),
        (None, "2020-01-01T11:59:59Z", [0]),
        ("2020-01-03", "2999-01-01", [5]),
        ("0001-01-01", "9999-12-31", [0, 1, 2, 3, 4, 5]),
    ],
)
async def test_from_and_until_are_inclusive(
    reading: Provider, six: list[str], from_: str | None, until: str | None, expected: Sequence[int]
) -> None:
    window = {name: value for name, value in (("from", from_), ("until", until)) if value}
    assert await reading.listed(**window) == [six[index] for index in expected]


@pytest.mark.parametrize(
    "window",
    [
        {"until": "2019-12-31"},
        {"until": "1000-01-01T00:00:00Z"},
        {"from": "2020-01-04"},
        {"from": "2990-01-01"},
        {"from": "2020-01-01T00:00:01Z", "until": "2020-01-01T11:59:59Z"},
    ],
)
@pytest.mark.usefixtures("six")
async def test_an_empty_window_gets_no_records_match(reading: Provider, window: dict[str, str]) -> None:
    found = await reading.ask(verb="ListRecords", metadataPrefix="oai_dc", **window)
    assert found.codes == ["noRecordsMatch"]
    assert found.request == {"verb": "ListRecords", "metadataPrefix": "oai_dc", **window}


async def test_a_deletion_is_listed_with_its_own_datestamp(provider: Provider, archive: Archive) -> None:
    gone, *_ = archive.add_many(3)
    archive.redate(gone, BEGINNING + timedelta(days=1), deleted=True)
    found = await provider.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", from_="2020-01-02")
    assert (found.identifiers, found.deleted) == ([gone], [gone])


async def test_an_undeleted_record_is_listed_with_metadata_again(
    provider: Provider, archive: Archive
) -> None:
    back = archive.add(deleted=True)
    archive.redate(back, BEGINNING + timedelta(days=1), deleted=False)
    found = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")
    assert (found.identifiers, found.deleted) == ([back], [])
