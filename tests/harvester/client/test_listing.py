"""Lists as streams of items, with their progress, from a real server."""

from collections.abc import AsyncIterator
from datetime import UTC, date, datetime

import pytest

from harvester.client import (
    BadResumptionTokenError,
    CannotDisseminateFormatError,
    IdDoesNotExistError,
    OaiError,
    open_client,
)
from harvester.reading.errors import oai_error
from oai.vocabulary import ErrorCode
from tests.harvester.fake_repository import FakeRepository, Item, many, serve

_NOW = "2024-06-01T12:00:00Z"


@pytest.fixture
async def repository() -> AsyncIterator[FakeRepository]:
    async with serve(FakeRepository(items=many(25), now=_NOW, sets=[f"s{n}" for n in range(12)])) as served:
        yield served


async def test_progress_is_updated_during_iteration(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        listing = client.records()
        assert listing.progress.pages == 0
        cursors = {}
        async for record in listing:
            progress = listing.progress
            cursors[progress.cursor] = record.header.identifier
            assert (progress.complete_list_size, progress.response_date) == (25, _NOW)
    assert list(cursors) == [0, 10, 20]
    assert (listing.progress.pages, listing.progress.received) == (3, 25)
    assert listing.progress.resumption_token == ""


async def test_a_list_is_resumed_by_its_token(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        begun = client.headers()
        first = [await anext(begun) for _ in range(10)]
        rest = [header async for header in client.headers(resumption_token=begun.progress.resumption_token)]
    assert [header.identifier for header in (*first, *rest)] == [item.identifier for item in repository.items]


async def test_iteration_by_pages_has_the_same_progress(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        listing = client.records()
        sizes = [(len(page.records), listing.progress.received) async for page in listing.pages()]
    assert sizes == [(10, 10), (10, 20), (5, 25)]


async def test_sets_and_formats_are_listings_too(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        sets, formats = client.list_sets(), client.formats()
        assert [found.set_spec async for found in sets] == list(repository.sets)
        assert [found.metadata_prefix async for found in formats] == ["oai_dc"]
    assert (sets.progress.pages, sets.progress.response_date) == (2, _NOW)
    assert (formats.progress.received, formats.progress.response_date) == (1, _NOW)


async def test_a_list_without_records_is_empty_and_has_its_response_date(
    repository: FakeRepository,
) -> None:
    async with open_client(repository.url) as client:
        listing = client.records(from_=date(2030, 1, 1))
        assert [record async for record in listing] == []
    assert listing.progress.first_response_date == _NOW


@pytest.mark.parametrize(
    ("latest", "first"),
    [
        ("2024-06-01T14:00:00.539+02:00", "2024-06-01T12:00:00Z"),
        ("2024-06-01T14:00:00", "2024-06-01T14:00:00"),
        ("yesterday", "yesterday"),
    ],
)
async def test_the_first_response_date_is_in_a_form_that_servers_accept(
    repository: FakeRepository, latest: str, first: str
) -> None:
    repository.now = latest
    async with open_client(repository.url) as client:
        listing = client.records(loose=True)
        await anext(listing)
    assert (listing.progress.first_response_date, listing.progress.response_date) == (first, latest)


async def test_no_records_match_in_the_middle_of_a_list_is_an_error(repository: FakeRepository) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes:
        nothing = repository.answer({"verb": "ListRecords", "from": "2030-01-01"})
        return nothing.encode() if "resumptionToken" in asked else good

    repository.fault = fault
    async with open_client(repository.url) as client:
        listing = client.records()
        with pytest.raises(OaiError, match="noRecordsMatch"):
            _ = [record async for record in listing]
    assert listing.progress.received == 10


async def test_bounds_may_be_strings_dates_and_datetimes(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        moment = datetime(2024, 1, 1, 12, 0, tzinfo=UTC)
        _ = [header async for header in client.headers(from_=date(2023, 12, 31), until=moment)]
        assert [header async for header in client.headers(from_="2030", set_spec="a")] == []
        with pytest.raises(ValueError, match="no time zone"):
            client.headers(from_=datetime(2024, 1, 1))  # noqa: DTZ001 the point
    assert repository.asked[0]["from"] == "2023-12-31"
    assert repository.asked[0]["until"] == "2024-01-01T12:00:00Z"


async def test_records_that_cannot_be_read_are_counted_in_lenient_reading(repository: FakeRepository) -> None:
    repository.fault = lambda _, good: good.replace(b"Title 12 ", b"\x01")
    async with open_client(repository.url) as client:
        listing = client.records(loose=True)
        assert len([record async for record in listing]) == 24
    assert listing.progress.faults == 1


async def test_errors_have_a_class_for_each_code(repository: FakeRepository) -> None:
    async with open_client(repository.url) as client:
        with pytest.raises(IdDoesNotExistError):
            await client.get_record("nothing")
        with pytest.raises(BadResumptionTokenError):
            await anext(client.records(resumption_token="wrong"))
    classes = {type(oai_error("http://x", code, "")) for code in ErrorCode}
    assert len(classes) == len(ErrorCode)
    assert OaiError not in classes
    assert type(oai_error("http://x", "cannotDisseminateFormat", "")) is CannotDisseminateFormatError
    assert type(oai_error("http://x", "ownInvention", "")) is OaiError


async def test_a_record_has_its_metadata_fields_and_xml(repository: FakeRepository) -> None:
    repository.items = [
        Item(identifier="oai:f:1", title="One & two"),
        Item(identifier="oai:f:2", deleted=True),
    ]
    async with open_client(repository.url) as client:
        record, deleted = [record async for record in client.records()]
    assert record.metadata is not None
    assert record.metadata.tag == "{http://www.openarchives.org/OAI/2.0/oai_dc/}dc"
    assert record.fields() == {"title": ["One & two"]}
    assert record.xml().startswith(b"<?xml version='1.0' encoding='UTF-8'?>\n<record")
    assert list(record.abouts) == []
    assert deleted.metadata is None
    assert deleted.fields() == {}
