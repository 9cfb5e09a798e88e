"""Lenient harvests store records that violate their XML Schema, and warn of them."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from lxml import etree

from harvester.harvest.page_reader import ProcessPolicy
from harvester.harvest.run import Tuning
from harvester.harvest.run_warnings import Note
from harvester.rules.schema_sampling import SampledRecord, SchemaSampler, open_sampler
from harvester.rules.schemas import SchemaCache
from harvester.vocabulary import Level
from oai.failures import FailureCode
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE
from tests.harvester.fake_repository import Item, many
from tests.harvester.library import Library
from tests.harvester.rules.schema_server import BOOK, schemas, serve_schemas

INVALID = (
    f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}">'
    "<dc:title>A</dc:title>\n<dc:pages>3</dc:pages></oai_dc:dc>"
)


def invalid(*numbers: int) -> list[Item]:
    return [Item(identifier=f"oai:a:{number}", metadata=INVALID) for number in numbers]


def codes(notes: Sequence[Note]) -> list[FailureCode | None]:
    return [note.failure.code if note.failure else None for note in notes]


async def test_invalid_records_are_stored_counted_and_the_first_ones_named(library: Library) -> None:
    library.fake.items = [*many(5), *invalid(*range(7))]
    library.fake.page_size = 12
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 12)
    notes = list(outcome.notes)
    assert codes(notes) == [*[FailureCode.RECORD_NOT_VALID] * 5, FailureCode.RECORDS_NOT_VALID]
    assert notes[0].failure is not None
    assert notes[0].failure.facts["identifier"] == "oai:a:0"
    assert "record 'oai:a:0' is not valid: line 3, element 'dc:pages'" in notes[0].text
    assert notes[-1].failure is not None
    assert notes[-1].failure.facts == {"count": 7, "checked": 12}
    assert notes[-1].text == "stored although they break their XML Schema: 7 of 12 checked records"


@pytest.mark.parametrize(
    ("check", "page_size", "checked"),
    [("none", 25, 0), ("sample", 25, 20), ("sample", 10, 25), ("full", 25, 25)],
)
async def test_the_setting_determines_how_many_records_of_a_page_are_checked(
    library: Library, check: str, page_size: int, checked: int
) -> None:
    library.fake.page_size = page_size
    library.change_settings(schema_check=check)
    outcome = await library.run()
    assert outcome.counts["schema_checked"] == checked
    assert outcome.warnings == ()


@pytest.mark.parametrize("level", [Level.STRICT, Level.VERY_STRICT])
async def test_stricter_harvests_take_no_sample(library: Library, level: Level) -> None:
    outcome = await library.run(validation=level)
    assert (outcome.verdict, outcome.counts["schema_checked"]) == ("complete", 0)


async def test_a_harvest_with_a_reading_process_checks_the_documents_of_that_process(
    library: Library,
) -> None:
    library.fake.items = [*many(700), *invalid(1)]
    library.fake.page_size = 100
    library.tuning = Tuning(process_policy=ProcessPolicy(records=1, share=-1))
    outcome = await library.run()
    assert (outcome.counts["new"], outcome.counts["schema_checked"]) == (701, 141)
    assert codes(outcome.notes) == [FailureCode.RECORD_NOT_VALID, FailureCode.RECORDS_NOT_VALID]
    assert "line 3, element 'dc:pages'" in outcome.notes[0].text


async def test_no_additional_requests_are_sent(library: Library) -> None:
    await library.run()
    assert [asked["verb"] for asked in library.fake.asked] == ["Identify", *["ListRecords"] * 3]


def book(pages: str, url: str) -> SampledRecord:
    element = etree.fromstring(
        '<record xmlns="http://www.openarchives.org/OAI/2.0/"><header><identifier>oai:a:1</identifier>'
        f'<datestamp>2024-01-01</datestamp></header><metadata><book xmlns="{BOOK}" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{BOOK} {url}"><title>A</title><author>Ann</author><pages>{pages}</pages>'
        "</book></metadata></record>"
    )
    return SampledRecord(identifier="oai:a:1", undated=False, content=element)


def sampler_of(metadata_prefix: str, folder: Path) -> SchemaSampler:
    sampler = open_sampler(metadata_prefix, "full", SchemaCache(folder=folder))
    assert sampler is not None
    return sampler


def test_a_missing_schema_of_a_lenient_harvest_is_logged_without_advice_on_the_level(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "harvester.rules.schema_sampling")
    sampler_of("book", tmp_path).check([book("3", "http://s/a.xsd")])
    assert caplog.messages
    assert caplog.messages[0].endswith("only cached schemas; put a valid one into the schema cache")


async def test_other_formats_are_checked_if_their_schema_is_cached(tmp_path: Path) -> None:
    async with serve_schemas() as server:
        url = f"{server.url}/book.xsd"
        records = [book("3", url), book("none", url)]
        without = await asyncio.to_thread(sampler_of("book", tmp_path).check, records)
        assert (without.checked, without.invalid, server.asked.total()) == (0, 0, 0)
        await schemas(tmp_path).gather(BOOK, url, by="a test")
        cached = server.asked.total()
        found = await asyncio.to_thread(sampler_of("book", tmp_path).check, records)
    assert (found.checked, found.invalid, server.asked.total()) == (2, 1, cached)


@pytest.mark.parametrize("content", [b"<record", b"", b"<!DOCTYPE x><record/>"])
def test_a_record_that_cannot_be_checked_does_not_end_the_harvest(content: bytes, tmp_path: Path) -> None:
    found = sampler_of("oai_dc", tmp_path).check(
        [SampledRecord(identifier="oai:a:1", undated=False, content=content)]
    )
    assert (found.checked, found.invalid) == (0, 0)


def test_only_sampled_records_of_a_format_without_schemas_are_parsed(tmp_path: Path) -> None:
    """Parsing every record of a page took longer than storing it."""
    looked_at = []

    def page() -> Iterator[SampledRecord]:
        for number in range(500):
            looked_at.append(number)
            yield book("3", "http://schemas.example/book.xsd")

    sampler = open_sampler("book", "sample", SchemaCache(folder=tmp_path))
    assert sampler is not None
    assert sampler.check(page()).checked == 0
    assert len(looked_at) == 20
