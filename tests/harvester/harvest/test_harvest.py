"""Whole harvests in this process: a real server, a real database, real files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from sqlalchemy import select, text, update

from harvester.cli.harvest import dry_run
from harvester.harvest.preparation import RULES_CHANGED
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.source import open_source
from harvester.harvest.watermark import CompleteHarvest, watermark
from harvester.models import Harvest, OaiSet, Repository, SetMapping
from harvester.repositories import harvest_from_the_start
from harvester.vocabulary import Level, Method
from oai.database import Database
from oai.datestamps import parse_datestamp, utc_now
from oai.errors import ExitCode
from oai.failures import Failure, FailureCode
from oai.settings import Settings
from tests.harvester.fake_repository import Answer, FakeRepository, Fault, Item, many, serve
from tests.harvester.harvest.deletions import stopped_after
from tests.harvester.library import Library, facts_of

FILTERS = """<filters match="any"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><filter xpath="//dc:title" regexp="Title [0-4] " invert="false" ignoreCase="true"/>
</filters>"""
NOW = "2024-06-01T12:00:00Z"


@pytest.fixture
async def library(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Library]:
    async with serve(FakeRepository(items=many(25), now=NOW)) as fake:
        library = Library(database, settings, fake, tmp_path / "out")
        library.change_settings(retries=1, max_wait=5.0, first_delay=0.01)
        yield library


def counts(outcome: RunOutcome) -> dict[str, int]:
    return {
        name: number
        for name, number in outcome.counts.items()
        if number and name not in {"requests", "bytes", "schema_checked"}
    }


def dies_at(fake: FakeRepository, token_begins: str) -> Fault:
    """Return a fault that fails all requests from the page with this token on."""

    def fault(_: dict[str, str], good: bytes) -> bytes | tuple[int, dict[str, str], bytes]:
        dead = any(one.get("resumptionToken", "").startswith(token_begins) for one in fake.asked)
        return (500, {}, b"") if dead else good

    return fault


def at_page(
    token_begins: str, body: bytes | Callable[[bytes], bytes]
) -> Callable[[dict[str, str], bytes], bytes]:
    """Apply the fault to the page with this token; an empty token means the first page."""

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        found = (
            asked.get("verb") == "ListRecords"
            and asked.get("resumptionToken", "").split("|")[0] == token_begins
        )
        return (body(good) if callable(body) else body) if found else good

    return fault


async def test_a_first_harvest_stores_every_record_in_its_own_file(library: Library) -> None:
    outcome = await library.run()
    assert (outcome.verdict, outcome.status, outcome.exit_code) == ("complete", "completed", ExitCode.DONE)
    assert counts(outcome) == {"records": 25, "new": 25, "pages": 3}
    files = library.files()
    assert set(files) == {f"fake.example/{number}.xml" for number in range(25)}
    root = etree.fromstring(files["fake.example/7.xml"])
    assert root.tag == "{http://www.openarchives.org/OAI/2.0/}record"
    assert root.findtext("{*}header/{*}identifier") == "oai:fake.example:7"
    assert files["fake.example/7.xml"].startswith(b"<?xml version='1.0' encoding='UTF-8'?>")


async def test_rows_have_the_files_digests_and_sets(library: Library) -> None:
    library.fake.items = [
        Item(identifier="oai:a:1", sets=("x", "y:z", "x")),
        Item(identifier="oai:a:2", deleted=True),
    ]
    await library.run()
    records = library.records()
    assert (records["oai:a:1"].filename, records["oai:a:1"].status) == ("a/1.xml", "active")
    assert (records["oai:a:2"].filename, records["oai:a:2"].status) == (None, "deleted")
    with library.database.session() as session:
        specs = session.scalars(select(SetMapping.set_spec).order_by(SetMapping.set_spec)).all()
    assert specs == ["x", "y:z"]


async def test_set_rows_of_a_changed_record_are_not_rewritten_if_its_sets_stay(library: Library) -> None:
    def rows() -> dict[str, str]:
        with library.database.session() as session:
            written = text("SELECT set_spec, xmin::text FROM oai_set_mapping")
            return {spec: transaction for spec, transaction in session.execute(written)}  # noqa: C416 a row is no pair to mypy

    library.fake.items = [Item(identifier="oai:a:1", sets=("left", "stays"))]
    await library.run()
    before = rows()
    changed = Item(identifier="oai:a:1", title="Newer", sets=("stays", "joined"), datestamp=NOW)
    library.fake.items = [changed]
    assert (await library.run()).counts["updated"] == 1
    after = rows()
    assert (set(after), after["stays"]) == ({"stays", "joined"}, before["stays"])


async def test_set_rows_are_deleted_with_their_records_and_with_the_repository(library: Library) -> None:
    library.fake.items = [Item(identifier=f"oai:a:{number}", sets=("x", f"y{number}")) for number in range(3)]
    await library.run()

    def left(statement: str) -> list[str]:
        with library.database.session() as session:
            session.execute(text(statement))
            session.commit()
            return sorted(session.scalars(select(SetMapping.set_spec)))

    assert left("DELETE FROM oai_record WHERE identifier = 'oai:a:1'") == ["x", "x", "y0", "y2"]
    elsewhere = "SET LOCAL search_path TO ''; DELETE FROM public.oai_record WHERE identifier = 'oai:a:2'"
    assert left(elsewhere) == ["x", "y0"]
    assert left("DELETE FROM oai_repository") == []


async def test_the_next_harvest_requests_only_changes_since_the_start_of_the_last_one(
    library: Library,
) -> None:
    await library.run()
    outcome = await library.run()
    assert library.fake.lists()[-1]["from"] == "2024-06-01T11:59:00Z"
    assert "until" not in library.fake.lists()[-1]
    assert (outcome.verdict, outcome.status, counts(outcome)) == ("complete", "no changes", {})


@pytest.mark.parametrize(("time", "begins"), [("T12:00:00Z", "2024-05-31T11:5"), ("", "2024-05-30T23:5")])
async def test_the_next_harvest_requests_what_changed_after_the_clock_was_set_back(
    library: Library, time: str, begins: str
) -> None:
    """The change is dated before the watermark. A date without a time does not show the clock."""
    library.fake.now = f"2024-06-01{time}"
    await library.run()
    library.fake.now = f"2024-05-31{time}"
    library.fake.items.append(Item(identifier="late", datestamp="2024-05-31T12:30:00Z"))
    outcome = await library.run()
    warned = [text for text in outcome.warnings if "clock fell" in text]
    assert (outcome.counts["new"], len(warned)) == (0, 1 if time else 0)
    outcome = await library.run()
    assert library.fake.lists()[-1]["from"].startswith(begins)
    assert (outcome.counts["new"], outcome.warnings) == (1, ())
    await library.run()
    assert library.fake.lists()[-1]["from"] == f"{begins}9:00Z"


@pytest.mark.parametrize("date", ["0001-01-01T05:00:00Z", "0001-01-01"])
async def test_an_absurd_response_date_is_not_a_failure(library: Library, date: str) -> None:
    await library.run()
    library.fake.now = date
    assert [(await library.run()).verdict for _ in range(2)] == ["complete", "complete"]


async def test_a_stopped_clock_of_the_server_hides_no_change(library: Library) -> None:
    """The answers fall further behind each time, but changes have the same date."""
    await library.run()
    with library.database.session() as session:
        session.execute(update(Harvest).values(watermark_lag=Harvest.watermark_lag - 86_400))
        session.commit()
    outcome = await library.run()
    assert (library.harvest_row().watermark, outcome.warnings) == (NOW, ())


async def test_a_from_before_the_earliest_datestamp_is_omitted_if_the_server_rejects_it(
    library: Library,
) -> None:
    await library.run()
    library.fake.first_from = "2024-07-01T00:00:00Z"
    library.fake.now = "2024-07-02T00:00:00Z"
    library.fake.items = [replace(item, datestamp="2024-07-01T00:00:00Z") for item in library.fake.items]
    outcome = await library.run()
    assert (outcome.verdict, outcome.counts["updated"]) == ("complete", len(library.fake.items))
    bounds = [asked["from"] for asked in library.fake.lists() if "from" in asked]
    assert bounds == ["2024-06-01T11:59:00Z", "2024-05-31"]


async def none_match_with(library: Library, status: int, broken: Callable[[bytes], bytes]) -> None:
    """Harvest, then answer lists of changes by noRecordsMatch with this status, changed by `broken`."""
    await library.run()

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        return (status, {"Content-Type": "text/xml"}, broken(good)) if "from" in asked else good

    library.fake.fault = fault


BROKEN_ERRORS: dict[str, Callable[[bytes], bytes]] = {
    "a bare ampersand": lambda good: good.replace(b">no<", b">no records & no sets<"),
    "cut off": lambda good: good.partition(b"</OAI-PMH>")[0],
    "a bare ampersand, cut off": lambda good: good.replace(b">no<", b">no & no<").partition(b"</error>")[0],
    "content after it": lambda good: good.replace(b"</OAI-PMH>", b"<hr></OAI-PMH>"),
}


@pytest.mark.parametrize("kind", BROKEN_ERRORS)
async def test_a_lenient_harvest_reads_an_error_in_an_answer_that_is_not_well_formed(
    library: Library, kind: str
) -> None:
    await none_match_with(library, 200, BROKEN_ERRORS[kind])
    outcome = await library.run()
    assert (outcome.verdict, outcome.evidence.end) == ("complete", "noRecordsMatch")
    outcome = await library.run(validation=Level.STRICT)
    assert outcome.failure is not None
    assert (outcome.exit_code, outcome.failure.code) == (ExitCode.STRICT_CHECK, "malformed_answer")


@pytest.mark.parametrize("level", [Level.LOOSE, Level.STRICT])
@pytest.mark.parametrize("status", [400, 404, 500])
async def test_an_error_of_the_protocol_is_read_whatever_its_http_status(
    library: Library, status: int, level: Level
) -> None:
    await none_match_with(library, status, lambda good: good)
    outcome = await library.run(validation=level)
    assert (outcome.verdict, outcome.evidence.end) == ("complete", "noRecordsMatch")


HTML = b"<!DOCTYPE html><html><title>Error</title></html>"


def expires_at_20(answer: Answer, *, until_restart: bool) -> Fault:
    """Return a fault that answers the third page's token like this, perhaps only until the list restarts."""
    restarted = [False]

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        restarted[0] |= until_restart and "metadataPrefix" in asked
        expired = asked.get("resumptionToken", "").startswith("20") and not restarted[0]
        return answer if expired else good

    return fault


async def stop_strictly_at_20(library: Library) -> None:
    library.fake.fault = dies_at(library.fake, "20")
    assert (await library.run(validation=Level.STRICT)).verdict == "failed"
    assert (library.harvest_row().resumption_token or "").startswith("20")
    library.fake.asked.clear()


@pytest.mark.parametrize("answer", [(500, {}, b""), (404, {}, HTML), (200, {}, HTML)])
async def test_a_strict_harvest_starts_again_if_its_stored_token_is_refused_without_an_oai_error(
    library: Library, answer: Answer
) -> None:
    await stop_strictly_at_20(library)
    library.fake.fault = expires_at_20(answer, until_restart=True)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, len(library.files()), outcome.evidence.restarts) == ("complete", 25, 1)
    assert [text for text in outcome.warnings if text.startswith("the list was started again")]


async def test_a_strict_harvest_starts_again_once_for_a_stored_token(library: Library) -> None:
    await stop_strictly_at_20(library)
    library.fake.fault = expires_at_20((500, {}, b""), until_restart=False)
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.evidence.restarts) == ("failed", 1)
    assert outcome.failure is not None
    assert outcome.failure.code is FailureCode.HTTP_SERVER_ERROR


async def test_a_stored_token_is_kept_while_the_list_itself_is_not_available(library: Library) -> None:
    await stop_strictly_at_20(library)
    library.fake.fault = lambda asked, good: (404, {}, b"") if "List" in asked["verb"] else good
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.evidence.restarts) == ("failed", 0)
    assert (library.harvest_row().resumption_token or "").startswith("20")


async def test_a_finished_run_leaves_no_state_to_resume(library: Library) -> None:
    await library.run()
    with library.database.session() as session:
        assert session.scalars(select(Harvest.run_parameters.is_(None))).one()


async def test_after_a_first_harvest_from_a_date_the_next_one_requests_everything_once(
    library: Library,
) -> None:
    """Older records were never requested; the next one does, unless it has the same lower bound."""
    for harvest_from in ("2024-01-01", None, None):
        assert (await library.run(harvest_from=harvest_from)).verdict == "complete"
    assert begun(library) == ["2024-01-01T00:00:00Z", None, "2024-06-01T11:59:00Z"]


def begun(library: Library) -> list[str | None]:
    """Return the `from` of each requested list."""
    return [one.get("from") for one in library.fake.lists() if "resumptionToken" not in one]


async def test_harvests_with_a_lower_bound_request_only_what_has_changed_since_the_last(
    library: Library,
) -> None:
    library.fake.items[0] = replace(library.fake.items[0], datestamp="2023-01-01T00:00:00Z")
    for _ in range(3):
        outcome = await library.run(harvest_floor="2024-01-01")
        assert outcome.verdict == "complete"
    library.fake.items.append(Item(identifier="late", datestamp="2024-06-01T12:30:00Z"))
    library.fake.now = "2024-06-01T13:00:00Z"
    assert (await library.run(harvest_floor="2024-01-01")).counts["new"] == 1
    assert begun(library) == ["2024-01-01T00:00:00Z", *["2024-06-01T11:59:00Z"] * 3]
    assert library.harvest_row().complete_from == "2024-01-01T00:00:00Z"


async def test_an_earlier_lower_bound_requests_older_records_once(library: Library) -> None:
    for floor in ("2024-01-01", "2023-01-01", "2024-01-01"):
        await library.run(harvest_floor=floor)
    assert begun(library) == ["2024-01-01T00:00:00Z", "2023-01-01T00:00:00Z", "2024-06-01T11:59:00Z"]
    await library.run()
    assert library.harvest_row().complete_from is None


async def test_after_a_move_a_harvest_with_a_lower_bound_requests_what_was_complete_before(
    library: Library,
) -> None:
    await library.run()
    for _ in range(2):
        with library.database.session() as session:
            harvest_from_the_start(session, Harvest.repository_id == 1)
            session.commit()
    await library.run(harvest_from="2024-01-01")
    for _ in range(2):
        await library.run(harvest_floor="2024-01-01")
    assert begun(library) == [None, "2024-01-01T00:00:00Z", None, "2024-06-01T11:59:00Z"]


@pytest.mark.parametrize(
    ("before", "from_", "complete_from"),
    [
        (CompleteHarvest(), "2020-01-01", "2020-01-01"),
        (CompleteHarvest(), None, None),
        (CompleteHarvest(watermark=NOW), "2020-01-01", None),
        (CompleteHarvest(watermark=NOW, complete_from="2019-01-01"), "2024-06-01", "2019-01-01"),
        (
            CompleteHarvest(watermark=NOW, complete_from="2019-01-01"),
            "2018-01-01T00:00:00Z",
            "2018-01-01T00:00:00Z",
        ),
        (CompleteHarvest(watermark=NOW, complete_from="2019-01-01"), None, None),
    ],
)
def test_complete_harvests_reach_back_to_the_earliest_bound(
    before: CompleteHarvest, from_: str | None, complete_from: str | None
) -> None:
    after = before.extended("2024-07-01", from_)
    assert after == CompleteHarvest(watermark="2024-07-01", complete_from=complete_from)


async def test_from_is_written_in_the_granularity_of_the_repository(library: Library) -> None:
    library.fake.granularity = "YYYY-MM-DD"
    await library.run()
    await library.run()
    assert library.fake.lists()[-1]["from"] == "2024-05-31"


async def test_a_change_is_received_that_is_dated_by_a_local_day_before_that_of_the_last_harvest(
    library: Library,
) -> None:
    """In New York, it is still 31 May at 01:00 UTC on 1 June."""
    library.fake.granularity = "YYYY-MM-DD"
    library.fake.now = "2024-06-01T01:00:00Z"
    library.fake.items = [replace(item, datestamp="2024-05-30") for item in library.fake.items]
    await library.run()
    library.fake.now = "2024-06-01T02:00:00Z"
    library.fake.items.append(Item(identifier="late", datestamp="2024-05-31"))
    assert (await library.run()).counts["new"] == 1


@pytest.mark.parametrize(
    ("from_", "watermark"), [("2024-06-01", NOW), ("2024-05-31T18:00:00Z", "2024-06-02T12:00:00Z")]
)
async def test_a_requested_day_moves_the_watermark_only_if_it_is_before_that_of_the_last_harvest(
    library: Library, from_: str, watermark: str
) -> None:
    library.fake.granularity = "YYYY-MM-DD"
    await library.run()
    library.fake.now = "2024-06-02T12:00:00Z"
    outcome = await library.run(harvest_from=from_)
    assert (outcome.verdict, library.harvest_row().watermark) == ("complete", watermark)


async def test_changed_unchanged_new_and_deleted_records_are_distinguished(library: Library) -> None:
    await library.run()
    before = (library.folder / "fake.example/1.xml").stat().st_mtime_ns
    items = library.fake.items
    items[2] = replace(items[2], title="Changed")
    items[3] = replace(items[3], deleted=True, datestamp="2024-06-02T00:00:00Z")
    items.append(Item(identifier="oai:fake.example:99"))
    items.append(Item(identifier="oai:fake.example:never-seen", deleted=True))
    outcome = await library.run(full=True)
    assert counts(outcome) == {
        "records": 27, "unchanged": 23, "updated": 1, "deleted": 1, "new": 1, "tombstones": 1, "pages": 3
    }  # fmt: skip
    assert (library.folder / "fake.example/1.xml").stat().st_mtime_ns == before
    assert b"Changed" in library.files()["fake.example/2.xml"]
    assert "fake.example/3.xml" not in library.files()
    flags = {name.rpartition(":")[2]: record.update_flag for name, record in library.records().items()}
    assert [flags[name] for name in ("1", "2", "3", "99", "never-seen")] == [
        "unchanged", "updated", "deleted", "new", "deleted"
    ]  # fmt: skip
    again = await library.run(full=True)
    assert counts(again) == {"records": 27, "unchanged": 27, "pages": 3}


async def test_updated_rows_stay_on_their_database_pages(library: Library) -> None:
    """This way, indexes need no update; each flag changes when all records are received again.

    A row may be too long for the rest of its page.
    """

    def pages() -> dict[str, str]:
        with library.database.session() as session:
            found = session.execute(
                text("SELECT identifier, split_part(ctid::text, ',', 1) AS page FROM oai_record")
            )
            return {row.identifier: row.page for row in found}

    library.fake.items = many(100)
    await library.run()
    before = pages()
    outcome = await library.run(full=True)
    assert (counts(outcome)["unchanged"], len(set(before.values())) > 3) == (100, True)
    assert {record.update_flag for record in library.records().values()} == {"unchanged"}
    assert len(pages().items() & before.items()) > 80


async def test_a_deleted_record_is_stored_again_when_it_reappears(library: Library) -> None:
    item = library.fake.items[0]
    library.fake.items = [replace(item, deleted=True)]
    await library.run()
    library.fake.items = [item]
    outcome = await library.run(full=True)
    assert counts(outcome)["new"] == 1
    assert list(library.files()) == ["fake.example/0.xml"]


async def test_a_missing_file_is_written_again(library: Library) -> None:
    await library.run()
    (library.folder / "fake.example/4.xml").unlink()
    outcome = await library.run(full=True)
    assert counts(outcome)["unchanged"] == 25
    assert len(library.files()) == 25


@pytest.mark.parametrize(
    ("parameters", "moved"),
    [
        pytest.param({}, True, marks=pytest.mark.long),
        ({"harvest_to": "2024-12-31"}, False),
        ({"harvest_from": "2024-01-01"}, True),
        ({"max_records": 5}, False),
        ({"full": True}, True),
    ],
)
async def test_the_watermark_moves_only_after_a_harvest_without_upper_bounds(
    library: Library,
    parameters: dict[str, Any],
    moved: bool,  # noqa: FBT001
) -> None:
    await library.run(**parameters)
    assert (library.harvest_row().watermark == NOW) is moved


async def test_a_harvest_from_before_the_watermark_advances_it(library: Library) -> None:
    await library.run()
    library.fake.now = "2024-07-01T00:00:00Z"
    await library.run(harvest_from="2024-06-02")
    assert library.harvest_row().watermark == NOW
    await library.run(harvest_from="2024-01-01")
    assert library.harvest_row().watermark == "2024-07-01T00:00:00Z"


async def test_the_first_pages_response_date_is_the_watermark(library: Library) -> None:
    library.fake.fault = at_page("20", lambda good: good.replace(NOW.encode(), b"2024-06-01T18:00:00Z"))
    await library.run()
    assert library.harvest_row().watermark == NOW


@pytest.mark.parametrize(
    ("date", "moment"),
    [
        ("2019-04-18T07:46:18.539Z", "2019-04-18T07:46:18Z"),
        ("2019-04-18T07:46:18+02:00", "2019-04-18T05:46:18Z"),
        ("2019-04-18 07:46:18", "2019-04-18T07:46:18Z"),
        ("2019-04-18", "2019-04-18T00:00:00Z"),
    ],
)
def test_any_date_that_can_be_read_is_a_watermark(date: str, moment: str) -> None:
    assert watermark(date, utc_now()) == moment


async def test_the_next_harvest_starts_from_the_watermark_in_any_notation(library: Library) -> None:
    library.fake.now = "2019-04-18T07:46:18+02:00"
    outcome = await library.run()
    assert (outcome.verdict, outcome.warnings) == ("complete", ())
    assert library.harvest_row().watermark == "2019-04-18T05:46:18Z"
    library.fake.asked.clear()
    await library.run()
    assert library.fake.lists()[0]["from"] == "2019-04-18T05:45:18Z"


@pytest.mark.parametrize("zone", ["", "Z", "+02:00"])
async def test_a_response_date_in_the_future_is_replaced_by_the_start_of_the_run(
    library: Library, zone: str
) -> None:
    """Some servers report local time as UTC; changes before that time must not be missed."""
    library.fake.now = f"2199-04-18T07:46:18{zone}"
    await library.run()
    assert parse_datestamp(library.harvest_row().watermark or "").moment <= utc_now()


async def test_an_unreadable_response_date_is_reported_in_the_history_and_the_plan(library: Library) -> None:
    library.fake.now = "18th of April"
    outcome = await library.run()
    assert (outcome.verdict, library.harvest_row().watermark) == ("complete", None)
    (row,) = library.history()
    assert [
        warning for warning in row.warnings if "the responseDate '18th of April' cannot be read" in warning
    ]
    request = HarvestRequest(repository_id=library.repository_id)
    with library.database.session() as session:
        planned = dry_run(session, library.settings, request, url=None, folder=None)
    assert planned.from_ is None
    assert (
        planned.why
        == "because the last harvest has no valid date: its responseDate '18th of April' cannot be read"
    )
    library.fake.now = NOW
    outcome = await library.run()
    assert (outcome.warnings, library.harvest_row().watermark) == ((), NOW)


async def test_a_run_that_moves_no_watermark_does_not_warn_about_an_unreadable_date(library: Library) -> None:
    library.fake.now = "18th of April"
    for parameters in ({"max_records": 5}, {"harvest_to": "2024-05-01"}):
        outcome = await library.run(**parameters)
        assert outcome.warnings == ()


async def test_records_that_disappeared_have_the_response_date_in_any_notation(library: Library) -> None:
    library.fake.fault = lambda _asked, good: good.replace(b">persistent<", b">no<")
    await library.run()
    del library.fake.items[24]
    library.fake.now = "2024-06-05T12:00:00.25+02:00"
    await library.run(full=True)
    gone = library.records()["oai:fake.example:24"]
    assert (gone.status, gone.datestamp) == ("deleted", "2024-06-05T10:00:00Z")


async def test_a_sample_stops_at_its_maximum_number_of_records(library: Library) -> None:
    outcome = await library.run(max_records=12)
    assert (outcome.verdict, outcome.exit_code, len(library.files())) == ("partial", ExitCode.DONE, 12)
    assert counts(outcome)["records"] == 12


async def test_a_malformed_answer_fails_a_strict_harvest(library: Library) -> None:
    library.fake.fault = at_page("10", lambda good: good.replace(b"Title 12 ", b"&"))
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.status, outcome.exit_code) == ("failed", "failed", ExitCode.STRICT_CHECK)
    assert "not well-formed" in (outcome.failure_reason or "")
    assert counts(outcome)["new"] == 10
    assert library.harvest_row().watermark is None


async def test_a_lenient_harvest_skips_a_broken_record_and_continues(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"Title 12 ", b"<")
    outcome = await library.run()
    assert (outcome.verdict, outcome.status) == ("partial", "completed with errors")
    assert outcome.exit_code == ExitCode.RECORDS_REFUSED
    assert counts(outcome) == {"records": 24, "new": 24, "invalid": 1, "pages": 3}
    assert "oai:fake.example:12" in library.history()[0].warnings[0]
    assert library.harvest_row().watermark is None


@pytest.mark.parametrize("validation", [Level.LOOSE, Level.STRICT])
async def test_a_record_is_repaired_as_configured_and_stays_unchanged(
    library: Library, validation: Level
) -> None:
    library.change_repository(repairs=["ampersand"])
    library.fake.fault = lambda _, good: good.replace(b"Title 12 ", b"This & that ")
    outcome = await library.run(validation=validation)
    assert (outcome.verdict, outcome.status, counts(outcome)["new"]) == ("complete", "completed", 25)
    (warning,) = library.history()[0].warnings
    assert warning.endswith("record 'oai:fake.example:12' was repaired on arrival: ampersand")
    (failure,) = library.history()[0].warning_failures
    assert failure == {"code": "record_repaired", "identifier": "oai:fake.example:12"}
    (file,) = [path for path in library.folder.rglob("*.xml") if b"This &amp; that" in path.read_bytes()]
    assert b'<repaired xmlns="urn:zatva:repaired:1">ampersand</repaired>' in file.read_bytes()
    outcome = await library.run(validation=validation, full=True)
    assert counts(outcome)["unchanged"] == 25


@pytest.mark.parametrize("validation", [Level.LOOSE, Level.STRICT])
async def test_an_xml_id_may_occur_in_several_records_and_twice_in_one(
    library: Library, validation: Level
) -> None:
    named = b'<dc:title xml:id="p1">'
    twice = named + b"Title 12 </dc:title>" + named
    library.fake.fault = lambda _, good: good.replace(b"<dc:title>", named).replace(
        named + b"Title 12 ", twice
    )
    outcome = await library.run(validation=validation)
    assert (outcome.verdict, outcome.status, counts(outcome)["new"]) == ("complete", "completed", 25)
    assert not any("well-formed" in one for one in library.history()[0].warnings or ())
    assert any(twice in path.read_bytes() for path in library.folder.rglob("*.xml"))


async def test_the_first_rejected_record_is_reported_despite_earlier_warnings(
    library: Library, caplog: pytest.LogCaptureFixture
) -> None:
    library.fake.fault = lambda asked, good: (
        b"<html>" if asked["verb"] == "Identify" else good.replace(b"Title 12 ", b"<")
    )
    outcome = await library.run()
    date = outcome.in_words().splitlines()[2]
    assert date.startswith("1 record was rejected; the first: ")
    assert "oai:fake.example:12" in date
    identify, *_ = library.history()[0].warnings
    assert identify.startswith("Identify: ")
    assert caplog.text.count(identify) == 1


async def test_a_record_that_is_broken_only_in_the_list_is_fetched_by_get_record(library: Library) -> None:
    library.fake.fault = at_page("10", lambda good: good.replace(b"Title 12 ", b"<"))
    outcome = await library.run()
    assert (outcome.verdict, len(library.files()), outcome.evidence.mended) == ("complete", 25, 1)
    assert [asked["identifier"] for asked in library.fake.asked if asked["verb"] == "GetRecord"] == [
        "oai:fake.example:12"
    ]


async def test_a_list_of_unknown_length_with_a_fetched_record_is_not_complete(library: Library) -> None:
    library.fake.sizes = False
    library.fake.fault = at_page("10", lambda good: good.replace(b"Title 12 ", b"<"))
    outcome = await library.run()
    assert (outcome.verdict, outcome.evidence.unconfirmed, len(library.files())) == ("partial", 1, 25)
    assert outcome.exit_code == ExitCode.RECORDS_REFUSED


async def test_a_truncated_list_is_partial_and_is_resumed_by_the_next_run(library: Library) -> None:
    library.change_settings(isolation_requests=0)
    library.fake.fault = at_page("10", lambda good: good[: good.index(b"Title 15 ")])
    outcome = await library.run()
    assert (outcome.verdict, outcome.status, outcome.exit_code) == (
        "partial",
        "incomplete",
        ExitCode.REMOTE_FAILED,
    )
    assert len(library.files()) == 15
    library.fake.fault = None
    outcome = await library.run()
    assert library.fake.lists()[-2]["resumptionToken"].startswith("10|")
    assert len(library.files()) == 25


async def test_a_run_warns_of_records_skipped_because_others_were_removed_meanwhile(library: Library) -> None:
    async def remove_first(asked: dict[str, str]) -> None:
        if asked.get("resumptionToken", "").startswith("10|") and len(library.fake.items) == 25:
            del library.fake.items[0]

    library.fake.before = remove_first
    outcome = await library.run()

    assert (outcome.verdict, outcome.counts["new"]) == ("complete", 24)
    assert "oai:fake.example:10" not in library.records()
    (note,) = outcome.notes
    assert note.text.startswith("the list became shorter while it was read: 25 records, then 24;")
    assert note.failure == Failure(code=FailureCode.LIST_SHORTENED, facts={"before": 25, "after": 24})


async def test_fewer_records_than_announced_are_a_partial_result(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b'completeListSize="25"', b'completeListSize="30"')
    outcome = await library.run()
    assert (outcome.verdict, outcome.exit_code) == ("partial", ExitCode.RECORDS_REFUSED)
    assert outcome.evidence.missing == 5
    assert library.harvest_row().watermark is None


async def test_a_failing_server_leaves_a_failed_run_that_is_resumed(library: Library) -> None:
    library.fake.fault = dies_at(library.fake, "20")
    outcome = await library.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert "500" in (outcome.failure_reason or "")
    library.fake.fault = None
    asked = len(library.fake.lists())
    outcome = await library.run()
    assert len(library.fake.lists()) == asked + 1
    assert (outcome.verdict, counts(outcome)["records"], outcome.evidence.resumed_at) == ("complete", 25, 20)
    assert library.harvest_row().watermark == NOW
    assert [row.status for row in library.history()] == ["failed", "completed"]


async def test_a_run_of_another_kind_does_not_resume(library: Library) -> None:
    library.fake.fault = dies_at(library.fake, "20")
    await library.run()
    library.fake.fault = None
    outcome = await library.run(full=True)
    assert counts(outcome)["records"] == 25
    assert counts(outcome)["unchanged"] == 20


async def test_an_expired_token_restarts_the_list_from_the_same_date(library: Library) -> None:
    await library.run()
    library.fake.items = [replace(item, datestamp="2024-06-03T00:00:00Z") for item in library.fake.items]
    library.fake.fault = dies_at(library.fake, "20")
    await library.run()
    expired = [True]

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if "resumptionToken" in asked and expired:
            expired.clear()
            return library.fake.answer({"verb": "ListRecords", "resumptionToken": "gone"}).encode()
        return good

    library.fake.fault = fault
    outcome = await library.run()
    assert outcome.verdict == "complete"
    assert counts(outcome)["records"] == 25
    assert any("was started again" in warning for warning in outcome.warnings)
    assert [asked.get("from") for asked in library.fake.lists()][-4:] == [
        None,
        "2024-06-01T11:59:00Z",
        None,
        None,
    ]


async def test_a_stop_signal_leaves_a_run_that_can_be_resumed(library: Library) -> None:
    stop = asyncio.Event()

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("resumptionToken", "").startswith("20"):
            stop.set()
        return good

    library.fake.fault = fault
    outcome = await library.run(stop=stop)
    assert (outcome.verdict, outcome.status, outcome.exit_code) == (
        "partial",
        "incomplete",
        ExitCode.INTERRUPTED,
    )
    outcome = await library.run()
    assert (outcome.verdict, len(library.files()), counts(outcome)["records"]) == ("complete", 25, 25)


async def test_a_harvest_waits_as_a_503_requests_and_ends_if_the_wait_is_too_long(library: Library) -> None:
    waits = ["0", "100000"]
    library.fake.fault = lambda asked, good: (
        (503, {"Retry-After": waits.pop(0)}, b"") if waits and "resumptionToken" in asked else good
    )
    outcome = await library.run()
    assert (outcome.exit_code, outcome.status) == (ExitCode.TRY_LATER, "failed")
    asked = len(library.fake.asked)
    again = await library.run()
    assert (again.exit_code, len(library.fake.asked)) == (ExitCode.TRY_LATER, asked)
    assert "asked to wait until" in (again.failure_reason or "")
    assert (await library.run(ignore_wait=True)).verdict == "complete"
    assert (await library.run()).verdict == "complete"


async def test_a_job_leaves_a_long_wait_to_the_queue_and_resumes_later(library: Library) -> None:
    library.change_settings(max_wait=3600)
    waits = ["301"]
    library.fake.fault = lambda asked, good: (
        (503, {"Retry-After": waits.pop()}, b"") if waits and "resumptionToken" in asked else good
    )
    begun = utc_now()
    outcome = await asyncio.wait_for(library.run(job_id=1), 60)
    assert (outcome.exit_code, len(library.records())) == (ExitCode.TRY_LATER, 10)
    with library.database.session() as session:
        waits_until = session.scalars(select(Repository.not_before)).one()
    assert waits_until is not None
    assert waits_until - begun >= timedelta(seconds=300)
    outcome = await library.run(job_id=2, ignore_wait=True)
    assert (outcome.verdict, outcome.evidence.resumed_at, len(library.records())) == ("complete", 10, 25)


@pytest.mark.parametrize(("job", "setting", "waits"), [(None, 3600, 3600), (1, 3600, 300), (1, 60, 60)])
def test_only_jobs_wait_for_less_than_the_setting_allows(
    library: Library, job: int | None, setting: float, waits: float
) -> None:
    library.change_settings(max_wait=setting)
    request = HarvestRequest(repository_id=library.repository_id, job_id=job)
    with library.database.session() as session:
        source = open_source(session, library.settings, request, started=datetime.now(UTC))
    assert source.settings.harvester.max_wait == waits


async def test_endless_waits_leave_a_partial_run_that_is_resumed(library: Library) -> None:
    library.change_settings(max_wait_total=3.0, retries=0)
    library.fake.fault = lambda asked, good: (
        (503, {"Retry-After": "0.01"}, b"") if asked.get("resumptionToken", "").startswith("10") else good
    )
    outcome = await library.run()
    assert (outcome.exit_code, outcome.status, len(library.records())) == (
        ExitCode.TRY_LATER,
        "incomplete",
        10,
    )
    (row,) = library.history()
    assert (row.failure_code, facts_of(row)) == (
        "waiting_time",
        {"limit": 3, "setting": "harvester.max_wait_total"},
    )
    library.fake.fault = None
    library.fake.asked.clear()
    assert (await library.run(ignore_wait=True)).verdict == "complete"
    assert library.fake.lists()[0]["resumptionToken"].startswith("10")
    assert len(library.records()) == 25


async def test_both_methods_store_the_same_files(library: Library, tmp_path: Path) -> None:
    library.fake.items.append(Item(identifier="oai:fake.example:gone", deleted=True))
    await library.run()
    expected = library.files()
    for path in library.folder.rglob("*.xml"):
        path.unlink()
    outcome = await library.run(method=Method.IDENTIFIERS, full=True)
    assert outcome.verdict == "complete"
    assert library.files() == expected
    assert sum(asked.get("verb") == "GetRecord" for asked in library.fake.asked) == 25
    del tmp_path


async def test_a_record_that_is_not_available_is_rejected_and_the_others_are_stored(library: Library) -> None:
    library.fake.fault = lambda asked, good: (
        good.replace(b"<metadata>", b"<meta>") if asked.get("identifier", "").endswith(":7") else good
    )
    outcome = await library.run(method=Method.IDENTIFIERS)
    assert (outcome.verdict, len(library.files())) == ("partial", 24)
    assert "oai:fake.example:7" in outcome.warnings[0]


async def test_filters_select_records_and_are_counted(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "filters.xml"
    file.write_text(FILTERS)
    outcome = await library.run(filter_file=file)
    assert counts(outcome) == {"records": 25, "new": 5, "filtered": 20, "pages": 3}
    assert outcome.verdict == "complete"


async def test_a_filter_that_excludes_every_record_causes_a_warning(library: Library, tmp_path: Path) -> None:
    file = tmp_path / "filters.xml"
    file.write_text(FILTERS.replace("//dc:title", "//dc:titel"))
    for full in (False, True):
        outcome = await library.run(filter_file=file, full=full)
        assert (outcome.verdict, outcome.counts["filtered"]) == ("complete", 25)
        (note,) = outcome.notes
        assert note.failure == Failure(code=FailureCode.RECORDS_FILTERED, facts={"count": 25})
        assert note.text == "the filter excluded all records that were received: 25"


async def test_an_incremental_harvest_says_that_changed_rules_do_not_apply_to_older_records(
    library: Library, tmp_path: Path
) -> None:
    file = tmp_path / "filter.xml"
    file.write_text(FILTERS)
    await library.run(filter_file=file)
    assert await _says_that_rules_changed(library, filter_file=file) == (False, False)
    file.write_text(FILTERS.replace("</", " </", 1))
    for _run in range(2):
        assert await _says_that_rules_changed(library, filter_file=file) == (True, True)
    assert await _says_that_rules_changed(library) == (True, True)
    # What is newer than `until` is not requested again.
    until = {"full": True, "harvest_to": "2015-01-01"}
    assert await _says_that_rules_changed(library, filter_file=file, **until) == (True, True)
    assert await _says_that_rules_changed(library, filter_file=file) == (True, True)
    assert await _says_that_rules_changed(library, filter_file=file, full=True) == (False, False)
    assert await _says_that_rules_changed(library, filter_file=file) == (False, False)


async def test_a_harvest_from_the_earliest_date_of_its_schedule_applies_changed_rules_to_all(
    library: Library, tmp_path: Path
) -> None:
    file = tmp_path / "filter.xml"
    since: dict[str, Any] = {"filter_file": file, "harvest_floor": "2019-01-01"}
    file.write_text(FILTERS)
    await library.run(**since)
    file.write_text(FILTERS.replace("</", " </", 1))
    assert await _says_that_rules_changed(library, **since) == (True, True)
    with library.database.session() as session:
        harvest_from_the_start(session, Harvest.repository_id == library.repository_id)
        session.commit()
    for _run in range(2):
        assert await _says_that_rules_changed(library, **since) == (False, False)


async def _says_that_rules_changed(library: Library, **parameters: Any) -> tuple[bool, bool]:
    """Return whether the plan of a harvest, and then the harvest itself, warn of changed rules."""
    request = HarvestRequest(repository_id=library.repository_id, **parameters)
    with library.database.session() as session:
        planned = dry_run(session, library.settings, request, url=None, folder=None)
    outcome = await library.run(**parameters)
    return RULES_CHANGED.text in planned.remarks, RULES_CHANGED in outcome.notes


async def test_a_harvest_warns_of_an_interrupted_one_that_it_does_not_continue(library: Library) -> None:
    await stopped_after(library, 20, full=True)
    words = "an interrupted harvest with other parameters, which had received 20 records, is not continued"
    for warnings in ((words,), ()):
        assert (await library.run()).warnings == warnings


async def test_a_harvest_warns_of_a_set_that_is_no_longer_listed(library: Library) -> None:
    library.fake.items[3] = replace(library.fake.items[3], sets=("maps:old",))
    with library.database.session() as session:
        session.add(OaiSet(repository_id=library.repository_id, set_spec="maps:old"))
        session.commit()
    for set_spec, expected in (("maps", False), ("maps:old", False), ("map", True), ("cart", True)):
        outcome = await library.run(set_spec=set_spec)
        failure = Failure(code=FailureCode.SET_NOT_LISTED, facts={"set": set_spec})
        said = any("list of sets does not contain" in one.text for one in outcome.notes)
        coded = any(one.failure == failure for one in outcome.notes)
        assert (outcome.verdict, said, coded) == ("complete", expected, expected), set_spec
    library.fake.items[4] = replace(library.fake.items[4], sets=("cart",))
    assert not (await library.run(set_spec="cart", full=True)).warnings


async def test_a_set_without_records_causes_a_warning_if_the_list_of_sets_is_unknown(
    library: Library,
) -> None:
    for full, expected in ((True, True), (False, False)):
        outcome = await library.run(set_spec="none", full=full)
        failure = Failure(code=FailureCode.SET_UNCHECKED, facts={"set": "none"})
        said = any("no records of set 'none'" in one.text for one in outcome.notes)
        coded = any(one.failure == failure for one in outcome.notes)
        assert (outcome.verdict, said, coded) == ("complete", expected, expected), full


async def test_an_invalid_rule_file_fails_the_run_with_the_reason_in_the_history(
    library: Library, tmp_path: Path
) -> None:
    file = tmp_path / "filters.xml"
    file.write_text("<filters><filter/></filters>")
    outcome = await library.run(filter_file=file)
    assert outcome.exit_code == ExitCode.USAGE
    assert "line" in (library.history()[0].failure_reason or "")
    assert library.fake.asked == []


async def test_very_strict_stops_at_a_record_that_is_not_valid(library: Library) -> None:
    assert (await library.run(validation=Level.VERY_STRICT)).verdict == "complete"
    library.fake.items[12] = Item(identifier="oai:fake.example:12", metadata="<nothing xmlns='x'/>")
    outcome = await library.run(validation=Level.VERY_STRICT, full=True)
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert "oai:fake.example:12" in (outcome.failure_reason or "")


async def test_hostile_identifiers_get_distinct_files_inside_the_folder(library: Library) -> None:
    names = ["oai:../../up", "/etc/passwd", "oai:a:Case", "oai:a:case", "oai:A:case", "oai:x\u00e9",
             "oai:xe\u0301",
             "oai:con:nul", "oai:" + "long" * 1000, "a" * 400, "oai:a::b", "oai:a:b.xml:c",
             "oai:a:b"]  # fmt: skip
    library.fake.items = [Item(identifier=name) for name in names]
    outcome = await library.run()
    assert counts(outcome)["new"] == len(names)
    files = library.files()
    assert len({name.lower() for name in files}) == len(names)
    assert [path.name for path in library.folder.parent.iterdir() if path.name not in {"data", "out"}] == []
    for name, record in library.records().items():
        assert etree.fromstring(files[record.filename or ""]).findtext("{*}header/{*}identifier") == name
    again = await library.run(full=True)
    assert counts(again)["unchanged"] == len(names)


async def test_a_full_folder_is_continued_in_subfolders(library: Library) -> None:
    await library.run(files_per_directory=10)
    places = sorted(name.rpartition("/")[0] for name in library.files())
    assert {place: places.count(place) for place in places} == {
        "fake.example": 10, "fake.example/starting_at_10": 10, "fake.example/starting_at_20": 5
    }  # fmt: skip


async def test_two_formats_in_one_folder_have_separate_files(library: Library) -> None:
    await library.run()
    await library.run(metadata_prefix="other")
    assert len(library.files()) == 50
    assert "fake.example/1@other.xml" in library.files()


async def test_a_record_that_is_listed_twice_is_stored_once(library: Library) -> None:
    library.fake.items += library.fake.items[20:]
    library.fake.page_size = 100
    outcome = await library.run()
    assert counts(outcome) == {"records": 30, "new": 25, "repeated": 5, "pages": 1}


def version(number: int, day: int, *, deleted: bool = False) -> Item:
    """Return a version of a record, with a day in May as datestamp and in its title."""
    return Item(
        identifier=f"oai:fake.example:{number}",
        datestamp=f"2024-05-{day:02}T00:00:00Z",
        title=f"of day {day}",
        deleted=deleted,
    )


def one_by_one(library: Library) -> None:
    """Commit each page before the next one is received, so that pages are not stored in groups."""

    def pages() -> int:
        with library.database.session() as session:
            return session.scalars(select(Harvest)).one().counts.get("pages", 0)

    async def before(asked: dict[str, str]) -> None:
        first = asked.get("resumptionToken", "0").partition("|")[0]
        while await asyncio.to_thread(pages) < int(first) // library.fake.page_size:  # noqa: ASYNC110 of a row
            await asyncio.sleep(0.01)

    async def after_the_first(asked: dict[str, str]) -> None:
        if "resumptionToken" in asked:
            await before(asked)

    library.fake.before = after_the_first


@pytest.mark.parametrize(("page_size", "apart"), [(100, False), (5, False), (5, True)])
async def test_an_older_version_later_in_a_list_does_not_replace_the_newer_one(
    library: Library, page_size: int, *, apart: bool
) -> None:
    others = many(10)
    library.fake.items = [
        version(77, 9),
        *others[:4],
        version(78, 3),
        *others[4:],
        version(77, 2),
        version(78, 4),
    ]
    library.fake.page_size, library.fake.sizes = page_size, False
    if apart:
        one_by_one(library)
    outcome = await library.run()
    files = library.files()
    assert b"of day 9" in files["fake.example/77.xml"]
    assert b"of day 4" in files["fake.example/78.xml"]
    assert library.records()["oai:fake.example:77"].datestamp == "2024-05-09T00:00:00Z"
    *repeated, warning = outcome.warnings
    assert len(repeated) == (page_size == 5)
    assert warning.endswith("the newer version counts: 1; the first: 'oai:fake.example:77'")
    assert outcome.verdict == "complete"


async def test_the_newer_version_stays_in_each_further_harvest_of_the_same_list(library: Library) -> None:
    """Even if it is unchanged, so that this run has not written it."""
    library.fake.items = [version(77, 9), *many(10), version(77, 2)]
    library.fake.page_size = 5
    one_by_one(library)
    for _ in range(3):
        outcome = await library.run(full=True)
        assert b"of day 9" in library.files()["fake.example/77.xml"]
        assert [note.failure.code if note.failure else None for note in outcome.notes] == [
            None,  # the version that is ignored
            FailureCode.RECORDS_MISSING,
        ]
    assert counts(outcome) == {"records": 12, "unchanged": 11, "repeated": 1, "outdated": 1, "pages": 3}


async def test_an_older_version_in_a_later_run_is_stored(library: Library) -> None:
    library.fake.items = [version(number, 9) for number in range(12)]
    await library.run()
    library.fake.items = [version(number, 2) for number in range(12)]
    outcome = await library.run(full=True)
    assert (counts(outcome)["updated"], outcome.warnings) == (12, ())
    assert b"of day 2" in library.files()["fake.example/7.xml"]


@pytest.mark.parametrize("apart", [True, False])
async def test_a_newer_deletion_stays_if_an_older_version_follows_it(
    library: Library, *, apart: bool
) -> None:
    library.fake.items = [version(77, 2), *many(10)]
    await library.run()
    library.fake.items = [version(77, 9, deleted=True), version(78, 9, deleted=True), *many(10)]
    library.fake.items += [version(77, 2), version(78, 2)]
    library.fake.page_size = 5
    if apart:
        one_by_one(library)
    outcome = await library.run(full=True)
    records = library.records()
    gone = [records[f"oai:fake.example:{number}"] for number in (77, 78)]
    assert [(row.status, row.datestamp) for row in gone] == [("deleted", "2024-05-09T00:00:00Z")] * 2
    assert counts(outcome)["outdated"] == 2


async def test_an_older_deletion_does_not_remove_a_newer_version(library: Library) -> None:
    library.fake.items = [version(77, 9), *many(10), version(77, 2, deleted=True)]
    library.fake.page_size = 5
    one_by_one(library)
    await library.run()
    assert library.records()["oai:fake.example:77"].status == "active"
    assert b"of day 9" in library.files()["fake.example/77.xml"]


async def test_an_empty_repository_is_complete(library: Library) -> None:
    library.fake.items = []
    outcome = await library.run()
    assert (outcome.verdict, outcome.status, outcome.exit_code) == ("complete", "no changes", ExitCode.DONE)
    assert library.harvest_row().watermark == NOW


@pytest.mark.usefixtures("impatient")
async def test_a_harvest_of_a_repository_in_use_does_not_start_and_sends_no_request(library: Library) -> None:
    with library.database.engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(23122, :id)"), {"id": library.repository_id})
        outcome = await library.run()
    assert outcome.exit_code == ExitCode.TRY_LATER
    assert library.fake.asked == []
    assert "being harvested" in (library.history()[0].failure_reason or "")


async def test_every_ended_run_has_one_history_row_with_its_job(library: Library) -> None:
    await library.run(job_id=7, recurring_id=8, set_spec="none")
    library.fake.fault = lambda _asked, _good: b"<html>"
    await library.run(job_id=9)
    rows = library.history()
    assert [(row.job_id, row.recurring_id, row.verdict) for row in rows] == [
        (7, 8, "complete"),
        (9, None, "failed"),
    ]
    assert rows[0].set_spec == "none"
    assert rows[1].failure_reason


async def test_a_circular_list_fails_a_strict_run_and_is_not_resumed(library: Library) -> None:
    library.fake.fault = at_page("20", lambda good: good.replace(b"></res", b">20|||</res"))
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert "circular" in (outcome.failure_reason or "")
    assert library.harvest_row().resumption_token is None


def endless(fake: FakeRepository) -> None:
    """Serve the first page's records again from the second page on, each time with a new token."""

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if not asked.get("verb", "").startswith("List"):
            return good
        count = len(fake.asked)
        pages = {name: value for name, value in asked.items() if name in {"verb", "metadataPrefix"}}
        first = fake.answer(pages | {"metadataPrefix": "oai_dc"}).encode()
        return first.replace(b">10|||<", b">10|||x%d<" % count)

    fake.fault = fault


@pytest.mark.parametrize("method", [Method.RECORDS, pytest.param(Method.IDENTIFIERS, marks=pytest.mark.long)])
async def test_an_endless_list_keeps_the_received_records_and_the_next_run_starts_a_new_list(
    library: Library, method: Method
) -> None:
    endless(library.fake)
    outcome = await library.run(method=method)
    assert (outcome.verdict, outcome.status, len(library.records())) == ("partial", "incomplete", 10)
    (row,) = library.history()
    assert (row.failure_code, facts_of(row)) == (
        "no_new_records",
        {"pages": 20, "setting": "harvester.max_repeated_pages"},
    )
    assert "raise harvester.max_repeated_pages" in (row.failure_reason or "")
    stands = library.harvest_row()
    assert (stands.resumption_token, stands.run_parameters, stands.watermark) == (None, None, None)
    assert len(library.fake.lists()) <= 23
    library.fake.fault = None
    library.fake.asked.clear()
    outcome = await library.run(method=method)
    assert (outcome.verdict, len(library.records())) == ("complete", 25)
    assert "from" not in library.fake.lists()[0]
    assert "resumptionToken" not in library.fake.lists()[0]


async def test_the_watermark_stays_if_an_incremental_harvest_is_endless(library: Library) -> None:
    await library.run()
    before = library.harvest_row().watermark
    library.fake.items = many(25, start=100)
    endless(library.fake)
    library.fake.now = "2024-06-05T12:00:00Z"
    outcome = await library.run(full=True)
    assert outcome.verdict == "partial"
    assert library.harvest_row().watermark == before == NOW


async def test_a_resumed_list_does_not_count_earlier_records_as_repeated(library: Library) -> None:
    library.change_settings(max_repeated_pages=1)
    library.fake.fault = dies_at(library.fake, "20")
    await library.run()
    library.fake.asked.clear()
    # The server has changed: the page of the token starts with records that were already received.
    library.fake.fault = at_page("20", lambda _good: library.fake.answer(
        {"verb": "ListRecords", "metadataPrefix": "oai_dc", "resumptionToken": "5|||"}
    ).encode())  # fmt: skip
    outcome = await library.run()
    assert (outcome.failure, len(library.records())) == (None, 25)
