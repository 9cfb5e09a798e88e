"""Complete harvests by SRU: a real server, the real database, real files and processes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from harvester.bibliographic.importer import run_import
from harvester.bibliographic.imports import ImportFacts
from harvester.bibliographic.models import BibliographicRow
from harvester.client.query_results import MARC21_NAMESPACE
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.models import History, Record, Repository
from harvester.repositories import add_repository
from harvester.vocabulary import AccessProtocol, Level, Verdict
from oai.database import Database
from oai.errors import ExitCode
from oai.settings import Settings
from tests.harvester.rules.schema_server import schema, serve_schemas
from tests.harvester.sru.fake_sru import Book, FakeSru, books, diagnostics, serve_sru
from tests.harvester.test_commands import run


@dataclass(kw_only=True)
class Shelf:
    """An SRU service, its row, and a folder for its harvest."""

    database: Database
    settings: Settings
    fake: FakeSru
    folder: Path
    repository_id: int

    async def run(self, *, stop: asyncio.Event | None = None, **parameters: Any) -> RunOutcome:
        chosen = {"metadata_prefix": "marcxml", "set_spec": "dc.title=title", **parameters}
        request = HarvestRequest(repository_id=self.repository_id, **chosen)
        return await harvest(self.database, self.settings, request, stop=stop or asyncio.Event())

    def records(self) -> dict[str, str]:
        with self.database.session() as session:
            return {record.identifier: record.status for record in session.scalars(select(Record))}


@pytest.fixture
async def shelf(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Shelf]:
    quick = settings.harvester.model_copy(update={"retries": 0, "first_delay": 0.01})
    async with serve_sru(FakeSru(books=books(25), cap=10)) as fake:
        with database.session() as session:
            added = add_repository(
                session, base_url=fake.url, base_dir=str(tmp_path / "out"), protocol=AccessProtocol.SRU
            )
            session.commit()
            repository_id = added.repository_id
        yield Shelf(
            database=database,
            settings=settings.model_copy(update={"harvester": quick}),
            fake=fake,
            folder=tmp_path / "out",
            repository_id=repository_id,
        )


async def test_a_result_is_stored_as_files_and_rows(shelf: Shelf) -> None:
    outcome = await shelf.run()
    assert outcome.verdict is Verdict.COMPLETE, outcome.failure_reason
    assert (outcome.counts["new"], outcome.evidence.complete_list_size) == (25, 25)
    files = list(shelf.folder.rglob("*.xml"))
    assert len(files) == 25
    assert (shelf.folder / "+sru/127.0.0.1/sru/books/nkc0007.xml").exists()
    assert {asked["query"] for asked in shelf.fake.searches()} == {"dc.title=title"}
    with shelf.database.session() as session:
        row = session.scalars(select(Repository)).one()
    assert (row.protocol, row.repository_name) == ("sru", "Fake catalogue")


@pytest.mark.parametrize(("type_", "valid"), [("anyType", 10), ("int", 0)])
async def test_records_are_validated_by_the_namespace_of_their_schema_and_not_by_its_identifier(
    shelf: Shelf, type_: str, valid: int
) -> None:
    del shelf.fake.books[10:]
    text = schema(f'<xs:element name="record" type="xs:{type_}"/>', MARC21_NAMESPACE)
    async with serve_schemas({"/marc.xsd": text}) as server:
        shelf.fake.location = f"{server.url}/marc.xsd"
        outcome = await shelf.run(validation=Level.VERY_STRICT)
    assert outcome.counts["new"] == valid
    assert ("is not valid" in (outcome.failure_reason or "")) == (not valid)


async def test_a_second_harvest_requests_all_records_and_finds_them_unchanged(shelf: Shelf) -> None:
    await shelf.run()
    shelf.fake.books[3] = Book(number="nkc0003", title="Another", changed="20240202000000.0")
    again = await shelf.run()
    assert again.verdict is Verdict.COMPLETE
    assert (again.counts["updated"], again.counts["unchanged"]) == (1, 24)


async def test_an_interrupted_run_is_resumed_at_its_position(shelf: Shelf) -> None:
    stop = asyncio.Event()

    async def stopping(asked: dict[str, str]) -> None:
        while asked.get("startRecord") == "11" and not stop.is_set():
            await asyncio.sleep(0.01)
            if len(shelf.records()) == 10:
                stop.set()

    shelf.fake.before = stopping
    cut_off = await shelf.run(stop=stop)
    assert cut_off.exit_code is ExitCode.INTERRUPTED
    before = len(shelf.fake.searches())
    shelf.fake.before = None
    done = await shelf.run()
    assert done.verdict is Verdict.COMPLETE, done.failure_reason
    assert len(shelf.records()) == 25
    assert shelf.fake.searches()[before]["startRecord"] == "11"


async def test_records_missing_from_a_harvest_of_all_records_count_as_deleted(shelf: Shelf) -> None:
    await shelf.run(set_spec="")
    assert shelf.fake.searches()[0]["query"] == "cql.allRecords=1"
    del shelf.fake.books[24]
    again = await shelf.run(set_spec="")
    assert again.counts["deleted"] == 1
    assert shelf.records()["sru:127.0.0.1:sru:books:nkc0024"] == "deleted"


async def test_a_number_of_records_that_is_too_small_deletes_no_records(shelf: Shelf) -> None:
    await shelf.run(set_spec="")
    shelf.fake.fault = lambda _asked, good: good.replace(b"<numberOfRecords>25<", b"<numberOfRecords>15<")
    again = await shelf.run(set_spec="")
    assert again.verdict is Verdict.COMPLETE, again.failure_reason
    assert (again.counts["deleted"], again.counts["unchanged"]) == (0, 25)
    shelf.fake.limit = 20
    cut_off = await shelf.run(set_spec="")
    assert (cut_off.verdict, cut_off.counts["deleted"]) == (Verdict.PARTIAL, 0)
    assert set(shelf.records().values()) == {"active"}


async def test_each_harvest_starts_at_the_first_record_even_if_the_server_limits_positions(
    shelf: Shelf,
) -> None:
    shelf.fake.limit = 20
    assert (await shelf.run()).verdict is Verdict.PARTIAL
    shelf.fake.books[0] = Book(number="nkc0000", title="Another", changed="20240202000000.0")
    again = await shelf.run()
    assert (again.verdict, again.counts["updated"]) == (Verdict.PARTIAL, 1)


@pytest.mark.parametrize("code", ["58", "59"])
async def test_a_partial_result_deletes_no_records(shelf: Shelf, code: str) -> None:
    await shelf.run(set_spec="")
    del shelf.fake.books[20:]
    end = b"</searchRetrieveResponse>"
    shelf.fake.fault = lambda _asked, good: good.replace(end, diagnostics(code, "timeout").encode() + end)
    again = await shelf.run(set_spec="")
    assert (again.verdict, again.counts["deleted"]) == (Verdict.PARTIAL, 0)
    assert set(shelf.records().values()) == {"active"}


async def test_a_query_deletes_no_records_that_it_no_longer_finds(shelf: Shelf) -> None:
    await shelf.run()
    del shelf.fake.books[20:]
    again = await shelf.run()
    assert again.counts["deleted"] == 0
    assert set(shelf.records().values()) == {"active"}


async def test_records_that_cannot_be_read_are_rejected_one_by_one(shelf: Shelf) -> None:
    shelf.fake.books[4] = Book(number="x", surrogate="64")
    outcome = await shelf.run()
    assert outcome.verdict is Verdict.PARTIAL
    assert (outcome.counts["new"], outcome.counts["invalid"]) == (24, 1)
    with shelf.database.session() as session:
        warnings = session.scalars(select(History)).one().warnings
    assert any("record at position 5: diagnostic 64" in warning for warning in warnings)


async def test_a_server_that_stops_before_the_end_leaves_a_partial_harvest(shelf: Shelf) -> None:
    shelf.fake.limit = 20
    outcome = await shelf.run()
    assert outcome.exit_code is ExitCode.RECORDS_REFUSED
    assert outcome.first_refusal is not None
    assert "narrow the query" in outcome.first_refusal
    assert len(shelf.records()) == 20


def _imported(shelf: Shelf) -> tuple[ImportFacts, list[tuple[str, str, str]]]:
    """Run an import and return the bibliographic rows: identifier, title, format."""
    facts = run_import(shelf.database, shelf.settings, shelf.repository_id, started_by="me")
    with shelf.database.session() as session:
        rows = session.execute(
            select(BibliographicRow.identifier, BibliographicRow.title, BibliographicRow.format).order_by(
                BibliographicRow.identifier
            )
        )
        return facts, [(row.identifier, row.title, row.format) for row in rows]


@pytest.mark.parametrize(("prefix", "format_"), [("marcxml", "marc21"), ("oai_dc", "dublin_core")])
async def test_records_harvested_by_sru_become_bibliographic_rows(
    prefix: str, format_: str, shelf: Shelf
) -> None:
    await shelf.run(metadata_prefix=prefix)
    facts, rows = _imported(shelf)
    assert (facts.state, facts.metadata_prefix, facts.new, facts.refused) == ("completed", prefix, 25, 0)
    assert rows == [
        (f"sru:127.0.0.1:sru:books:{book.number}", book.title, format_) for book in shelf.fake.books
    ]


async def test_an_import_follows_changes_in_a_catalogue_harvested_by_sru(shelf: Shelf) -> None:
    await shelf.run(set_spec="")
    _imported(shelf)
    shelf.fake.books[3] = Book(number="nkc0003", title="Another", changed="20240202000000.0")
    del shelf.fake.books[24]
    await shelf.run(set_spec="")
    facts, rows = _imported(shelf)
    assert (facts.seen, facts.updated, facts.deleted) == (1, 1, 1)
    assert [title for _, title, _ in rows][3:] == ["Another", *(f"Title {number}" for number in range(4, 24))]


async def test_dates_have_to_be_in_the_query(shelf: Shelf) -> None:
    outcome = await shelf.run(harvest_from="2024-01-01")
    assert outcome.failure_reason is not None
    assert "add them to the query" in outcome.failure_reason


async def test_the_commands_support_sru(environment: dict[str, str], tmp_path: Path) -> None:
    async with serve_sru(FakeSru(books=books(12))) as fake:
        probed = await run(environment, "probe", fake.url, "--protocol", "sru", "--query", "cats")
        out = str(tmp_path / "out")
        harvested = await run(
            environment, "harvest", fake.url, "--protocol", "sru", "--query", "cats",
            "--format", "marcxml", "--out", out, "--json",
        )  # fmt: skip
        again = await run(environment, "harvest", "1", "--query", "cats", "--format", "marcxml", "--json")
    assert probed.code == 0, probed.err
    for words in ("Fake catalogue", "SRU 1.2", "12 of 12 on the first page", "No problems found."):
        assert words in probed.out
    assert harvested.code == 0, harvested.err
    assert {"verdict": "complete", "new": 12}.items() <= harvested.json.items()
    assert {"verdict": "complete", "unchanged": 12}.items() <= again.json.items()
