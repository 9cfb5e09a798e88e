"""Whole harvests in this process: a real server, a real database, real files."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from sqlalchemy import select, text

from harvester.cli.harvest import rehearse
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.models import Harvest, History, Record, SetMapping
from harvester.repositories import add_repository
from harvester.vocabulary import Level, Method
from oai.database import Database
from oai.datestamps import parse_datestamp, utc_now
from oai.errors import ExitCode
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, Fault, Item, many, serve
from tests.harvester.library import facts_of

FILTERS = """<filters match="any"><selectionNamespaces>xmlns:dc='http://purl.org/dc/elements/1.1/'
</selectionNamespaces><filter xpath="//dc:title" regexp="Title [0-4] " invert="false" ignoreCase="true"/>
</filters>"""
NOW = "2024-06-01T12:00:00Z"


class Bench:
    """A fake repository, its row, and a folder to harvest it into."""

    def __init__(self, database: Database, settings: Settings, fake: FakeRepository, folder: Path) -> None:
        self.database = database
        self.settings = settings
        self.fake = fake
        self.folder = folder
        with database.session() as session:
            added = add_repository(session, base_url=fake.url, base_dir=str(folder))
            session.commit()
            self.repository_id = added.repository_id

    async def run(self, *, stop: asyncio.Event | None = None, **parameters: Any) -> RunOutcome:
        request = HarvestRequest(repository_id=self.repository_id, **parameters)
        return await harvest(self.database, self.settings, request, stop=stop or asyncio.Event())

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.folder).as_posix(): path.read_bytes()
            for path in self.folder.rglob("*")
            if path.is_file()
        }

    def history(self) -> list[History]:
        with self.database.session() as session:
            return list(session.scalars(select(History).order_by(History.history_id)))

    def records(self) -> dict[str, Record]:
        with self.database.session() as session:
            return {record.identifier: record for record in session.scalars(select(Record))}

    def harvest_row(self) -> Harvest:
        with self.database.session() as session:
            return session.scalars(select(Harvest)).one()


@pytest.fixture
async def bench(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Bench]:
    quick = settings.model_copy(
        update={
            "harvester": settings.harvester.model_copy(
                update={"retries": 1, "max_wait": 5.0, "first_delay": 0.01}
            )
        }
    )
    async with serve(FakeRepository(items=many(25), now=NOW)) as fake:
        yield Bench(database, quick, fake, tmp_path / "out")


def counts(outcome: RunOutcome) -> dict[str, int]:
    return {
        name: number
        for name, number in outcome.counts.items()
        if number and name not in {"requests", "bytes"}
    }


def with_settings(settings: Settings, **changes: Any) -> Settings:
    return settings.model_copy(update={"harvester": settings.harvester.model_copy(update=changes)})


def dies_at(fake: FakeRepository, token_begins: str) -> Fault:
    """A server that answers nothing well any more once the page is asked for."""

    def fault(_: dict[str, str], good: bytes) -> bytes | tuple[int, dict[str, str], bytes]:
        dead = any(one.get("resumptionToken", "").startswith(token_begins) for one in fake.asked)
        return (500, {}, b"") if dead else good

    return fault


def at_page(
    token_begins: str, body: bytes | Callable[[bytes], bytes]
) -> Callable[[dict[str, str], bytes], bytes]:
    """A fault of the page that the token asks for; an empty one asks for the first."""

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        found = (
            asked.get("verb") == "ListRecords"
            and asked.get("resumptionToken", "").split("|")[0] == token_begins
        )
        return (body(good) if callable(body) else body) if found else good

    return fault


async def test_a_first_harvest_brings_every_record_as_a_file_of_its_own(bench: Bench) -> None:
    outcome = await bench.run()
    assert (outcome.verdict, outcome.status, outcome.exit_code) == ("complete", "completed", ExitCode.DONE)
    assert counts(outcome) == {"records": 25, "new": 25, "pages": 3}
    files = bench.files()
    assert set(files) == {f"fake.example/{number}.xml" for number in range(25)}
    root = etree.fromstring(files["fake.example/7.xml"])
    assert root.tag == "{http://www.openarchives.org/OAI/2.0/}record"
    assert root.findtext("{*}header/{*}identifier") == "oai:fake.example:7"
    assert files["fake.example/7.xml"].startswith(b"<?xml version='1.0' encoding='UTF-8'?>")


async def test_rows_name_files_digests_and_sets(bench: Bench) -> None:
    bench.fake.items = [
        Item(identifier="oai:a:1", sets=("x", "y:z", "x")),
        Item(identifier="oai:a:2", deleted=True),
    ]
    await bench.run()
    records = bench.records()
    assert (records["oai:a:1"].filename, records["oai:a:1"].status) == ("a/1.xml", "active")
    assert (records["oai:a:2"].filename, records["oai:a:2"].status) == (None, "deleted")
    with bench.database.session() as session:
        specs = session.scalars(select(SetMapping.set_spec).order_by(SetMapping.set_spec)).all()
    assert specs == ["x", "y:z"]


async def test_sets_go_with_their_records_and_with_the_repository(bench: Bench) -> None:
    bench.fake.items = [Item(identifier=f"oai:a:{number}", sets=("x", f"y{number}")) for number in range(3)]
    await bench.run()

    def left(statement: str) -> list[str]:
        with bench.database.session() as session:
            session.execute(text(statement))
            session.commit()
            return sorted(session.scalars(select(SetMapping.set_spec)))

    assert left("DELETE FROM oai_record WHERE identifier = 'oai:a:1'") == ["x", "x", "y0", "y2"]
    elsewhere = "SET LOCAL search_path TO ''; DELETE FROM public.oai_record WHERE identifier = 'oai:a:2'"
    assert left(elsewhere) == ["x", "y0"]
    assert left("DELETE FROM oai_repository") == []


async def test_the_next_harvest_asks_only_for_what_changed_since_the_last_one_began(bench: Bench) -> None:
    await bench.run()
    outcome = await bench.run()
    assert bench.fake.lists()[-1]["from"] == "2024-06-01T11:59:00Z"
    assert "until" not in bench.fake.lists()[-1]
    assert (outcome.verdict, outcome.status, counts(outcome)) == ("complete", "no changes", {})


async def test_from_is_written_in_the_granularity_of_the_repository(bench: Bench) -> None:
    bench.fake.granularity = "YYYY-MM-DD"
    await bench.run()
    await bench.run()
    assert bench.fake.lists()[-1]["from"] == "2024-06-01"


async def test_changed_unchanged_new_and_deleted_records_are_told_apart(bench: Bench) -> None:
    await bench.run()
    before = (bench.folder / "fake.example/1.xml").stat().st_mtime_ns
    items = bench.fake.items
    items[2] = replace(items[2], title="Changed")
    items[3] = replace(items[3], deleted=True, datestamp="2024-06-02T00:00:00Z")
    items.append(Item(identifier="oai:fake.example:99"))
    items.append(Item(identifier="oai:fake.example:never-seen", deleted=True))
    outcome = await bench.run(full=True)
    assert counts(outcome) == {
        "records": 27, "unchanged": 23, "updated": 1, "deleted": 1, "new": 1, "tombstones": 1, "pages": 3
    }  # fmt: skip
    assert (bench.folder / "fake.example/1.xml").stat().st_mtime_ns == before
    assert b"Changed" in bench.files()["fake.example/2.xml"]
    assert "fake.example/3.xml" not in bench.files()
    flags = {name.rpartition(":")[2]: record.update_flag for name, record in bench.records().items()}
    assert [flags[name] for name in ("1", "2", "3", "99", "never-seen")] == [
        "unchanged", "updated", "deleted", "new", "deleted"
    ]  # fmt: skip
    again = await bench.run(full=True)
    assert counts(again) == {"records": 27, "unchanged": 27, "pages": 3}


async def test_rows_that_are_written_again_stay_on_their_pages(bench: Bench) -> None:
    """So that no index has to be told of the new version; each flag changes when everything comes again.

    A row at the end of a page's half may be too long for what is left.
    """

    def pages() -> dict[str, str]:
        with bench.database.session() as session:
            found = session.execute(
                text("SELECT identifier, split_part(ctid::text, ',', 1) AS page FROM oai_record")
            )
            return {row.identifier: row.page for row in found}

    bench.fake.items = many(100)
    await bench.run()
    before = pages()
    outcome = await bench.run(full=True)
    assert (counts(outcome)["unchanged"], len(set(before.values())) > 3) == (100, True)
    assert {record.update_flag for record in bench.records().values()} == {"unchanged"}
    assert len(pages().items() & before.items()) > 80


async def test_a_record_comes_back_from_deletion(bench: Bench) -> None:
    item = bench.fake.items[0]
    bench.fake.items = [replace(item, deleted=True)]
    await bench.run()
    bench.fake.items = [item]
    outcome = await bench.run(full=True)
    assert counts(outcome)["new"] == 1
    assert list(bench.files()) == ["fake.example/0.xml"]


async def test_a_file_that_was_lost_is_written_again(bench: Bench) -> None:
    await bench.run()
    (bench.folder / "fake.example/4.xml").unlink()
    outcome = await bench.run(full=True)
    assert counts(outcome)["unchanged"] == 25
    assert len(bench.files()) == 25


@pytest.mark.parametrize(
    ("parameters", "moved"),
    [
        ({}, True),
        ({"harvest_to": "2024-12-31"}, False),
        ({"harvest_from": "2024-01-01"}, False),
        ({"max_records": 5}, False),
        ({"full": True}, True),
    ],
)
async def test_the_watermark_moves_only_when_everything_is_here(
    bench: Bench,
    parameters: dict[str, Any],
    moved: bool,  # noqa: FBT001
) -> None:
    await bench.run(**parameters)
    assert (bench.harvest_row().watermark == NOW) is moved


async def test_a_from_before_the_watermark_moves_it_on(bench: Bench) -> None:
    await bench.run()
    bench.fake.now = "2024-07-01T00:00:00Z"
    await bench.run(harvest_from="2024-06-02")
    assert bench.harvest_row().watermark == NOW
    await bench.run(harvest_from="2024-01-01")
    assert bench.harvest_row().watermark == "2024-07-01T00:00:00Z"


async def test_the_first_pages_response_date_is_the_watermark(bench: Bench) -> None:
    bench.fake.fault = at_page("20", lambda good: good.replace(NOW.encode(), b"2024-06-01T18:00:00Z"))
    await bench.run()
    assert bench.harvest_row().watermark == NOW


@pytest.mark.parametrize(
    ("told", "watermark", "from_"),
    [
        ("2019-04-18T07:46:18.539Z", "2019-04-18T07:46:18Z", "2019-04-18T07:45:18Z"),
        ("2019-04-18T07:46:18+02:00", "2019-04-18T05:46:18Z", "2019-04-18T05:45:18Z"),
        ("2019-04-18 07:46:18", "2019-04-18T07:46:18Z", "2019-04-18T07:45:18Z"),
        ("2019-04-18", "2019-04-18T00:00:00Z", "2019-04-17T23:59:00Z"),
    ],
)
async def test_any_date_that_can_be_read_is_one_to_begin_the_next_harvest_from(
    bench: Bench, told: str, watermark: str, from_: str
) -> None:
    bench.fake.now = told
    outcome = await bench.run()
    assert (outcome.verdict, bench.harvest_row().watermark, outcome.warnings) == ("complete", watermark, ())
    bench.fake.asked.clear()
    await bench.run()
    assert bench.fake.lists()[0]["from"] == from_


async def test_a_local_time_ahead_of_ours_is_no_later_than_the_run_began(bench: Bench) -> None:
    """Of a time without a zone nobody knows what it is in UTC; what changes in between must not be missed."""
    bench.fake.now = "2199-04-18T07:46:18"
    await bench.run()
    watermark = bench.harvest_row().watermark or ""
    assert parse_datestamp(watermark).moment <= utc_now()


async def test_where_no_date_can_be_read_the_history_and_the_plan_say_so(bench: Bench) -> None:
    bench.fake.now = "18th of April"
    outcome = await bench.run()
    assert (outcome.verdict, bench.harvest_row().watermark) == ("complete", None)
    (row,) = bench.history()
    assert [
        warning for warning in row.warnings if "the responseDate '18th of April' cannot be read" in warning
    ]
    request = HarvestRequest(repository_id=bench.repository_id)
    with bench.database.session() as session:
        planned = rehearse(session, bench.settings, request, url=None, folder=None)
    assert planned.from_ is None
    assert (
        planned.why
        == "because the last harvest has no valid date: its responseDate '18th of April' cannot be read"
    )
    bench.fake.now = NOW
    outcome = await bench.run()
    assert (outcome.warnings, bench.harvest_row().watermark) == ((), NOW)


async def test_a_run_that_moves_no_watermark_does_not_warn_of_its_date(bench: Bench) -> None:
    bench.fake.now = "18th of April"
    for parameters in ({"max_records": 5}, {"harvest_from": "2024-01-01"}, {"harvest_to": "2024-05-01"}):
        outcome = await bench.run(**parameters)
        assert outcome.warnings == ()


async def test_what_disappeared_is_dated_by_the_answer_however_that_writes_it(bench: Bench) -> None:
    bench.fake.fault = lambda _asked, good: good.replace(b">persistent<", b">no<")
    await bench.run()
    del bench.fake.items[24]
    bench.fake.now = "2024-06-05T12:00:00.25+02:00"
    await bench.run(full=True)
    gone = bench.records()["oai:fake.example:24"]
    assert (gone.status, gone.datestamp) == ("deleted", "2024-06-05T10:00:00Z")


async def test_a_sample_stops_at_its_number(bench: Bench) -> None:
    outcome = await bench.run(max_records=12)
    assert (outcome.verdict, outcome.exit_code, len(bench.files())) == ("partial", ExitCode.DONE, 12)
    assert counts(outcome)["records"] == 12


async def test_a_malformed_answer_fails_a_strict_harvest(bench: Bench) -> None:
    bench.fake.fault = at_page("10", lambda good: good.replace(b"Title 12 ", b"&"))
    outcome = await bench.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.status, outcome.exit_code) == ("failed", "failed", ExitCode.STRICT_CHECK)
    assert "not well-formed" in (outcome.failure_reason or "")
    assert counts(outcome)["new"] == 10
    assert bench.harvest_row().watermark is None


async def test_a_loose_harvest_skips_a_broken_record_and_goes_on(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b"Title 12 ", b"<")
    outcome = await bench.run()
    assert (outcome.verdict, outcome.status) == ("partial", "completed with errors")
    assert outcome.exit_code == ExitCode.RECORDS_REFUSED
    assert counts(outcome) == {"records": 24, "new": 24, "invalid": 1, "pages": 3}
    assert "oai:fake.example:12" in bench.history()[0].warnings[0]
    assert bench.harvest_row().watermark is None


async def test_the_first_record_that_was_refused_is_told_whatever_was_odd_before(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.fake.fault = lambda asked, good: (
        b"<html>" if asked["verb"] == "Identify" else good.replace(b"Title 12 ", b"<")
    )
    outcome = await bench.run()
    told = outcome.in_words().splitlines()[2]
    assert told.startswith("1 record was rejected; the first: ")
    assert "oai:fake.example:12" in told
    identify, *_ = bench.history()[0].warnings
    assert identify.startswith("Identify: ")
    assert caplog.text.count(identify) == 1


async def test_a_record_that_is_broken_in_the_list_alone_is_fetched_by_itself(bench: Bench) -> None:
    bench.fake.fault = at_page("10", lambda good: good.replace(b"Title 12 ", b"<"))
    outcome = await bench.run()
    assert (outcome.verdict, len(bench.files()), outcome.evidence.mended) == ("complete", 25, 1)
    assert [asked["identifier"] for asked in bench.fake.asked if asked["verb"] == "GetRecord"] == [
        "oai:fake.example:12"
    ]


async def test_a_mended_list_of_unknown_length_is_not_called_complete(bench: Bench) -> None:
    bench.fake.sizes = False
    bench.fake.fault = at_page("10", lambda good: good.replace(b"Title 12 ", b"<"))
    outcome = await bench.run()
    assert (outcome.verdict, outcome.evidence.unconfirmed, len(bench.files())) == ("partial", 1, 25)
    assert outcome.exit_code == ExitCode.RECORDS_REFUSED


async def test_a_list_that_breaks_off_is_partial_and_goes_on_from_there_next_time(bench: Bench) -> None:
    bench.settings = with_settings(bench.settings, isolation_requests=0)
    bench.fake.fault = at_page("10", lambda good: good[: good.index(b"Title 15 ")])
    outcome = await bench.run()
    assert (outcome.verdict, outcome.status, outcome.exit_code) == (
        "partial",
        "incomplete",
        ExitCode.REMOTE_FAILED,
    )
    assert len(bench.files()) == 15
    bench.fake.fault = None
    outcome = await bench.run()
    assert bench.fake.lists()[-2]["resumptionToken"].startswith("10|")
    assert len(bench.files()) == 25


async def test_fewer_records_than_announced_are_no_success(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b'completeListSize="25"', b'completeListSize="30"')
    outcome = await bench.run()
    assert (outcome.verdict, outcome.exit_code) == ("partial", ExitCode.RECORDS_REFUSED)
    assert outcome.evidence.missing == 5
    assert bench.harvest_row().watermark is None


async def test_a_server_that_dies_leaves_a_failed_run_that_resumes(bench: Bench) -> None:
    bench.fake.fault = dies_at(bench.fake, "20")
    outcome = await bench.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert "500" in (outcome.failure_reason or "")
    bench.fake.fault = None
    asked = len(bench.fake.lists())
    outcome = await bench.run()
    assert len(bench.fake.lists()) == asked + 1
    assert (outcome.verdict, counts(outcome)["records"], outcome.evidence.resumed_at) == ("complete", 25, 20)
    assert bench.harvest_row().watermark == NOW
    assert [row.status for row in bench.history()] == ["failed", "completed"]


async def test_a_run_of_another_kind_does_not_resume(bench: Bench) -> None:
    bench.fake.fault = dies_at(bench.fake, "20")
    await bench.run()
    bench.fake.fault = None
    outcome = await bench.run(full=True)
    assert counts(outcome)["records"] == 25
    assert counts(outcome)["unchanged"] == 20


async def test_an_expired_token_begins_the_list_again_from_the_same_date(bench: Bench) -> None:
    await bench.run()
    bench.fake.items = [replace(item, datestamp="2024-06-03T00:00:00Z") for item in bench.fake.items]
    bench.fake.fault = dies_at(bench.fake, "20")
    await bench.run()
    expired = [True]

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if "resumptionToken" in asked and expired:
            expired.clear()
            return bench.fake.answer({"verb": "ListRecords", "resumptionToken": "gone"}).encode()
        return good

    bench.fake.fault = fault
    outcome = await bench.run()
    assert outcome.verdict == "complete"
    assert counts(outcome)["records"] == 25
    assert any("was started again" in warning for warning in outcome.warnings)
    assert [asked.get("from") for asked in bench.fake.lists()][-4:] == [
        None,
        "2024-06-01T11:59:00Z",
        None,
        None,
    ]


async def test_a_stop_leaves_a_run_that_can_be_resumed(bench: Bench) -> None:
    stop = asyncio.Event()

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("resumptionToken", "").startswith("20"):
            stop.set()
        return good

    bench.fake.fault = fault
    outcome = await bench.run(stop=stop)
    assert (outcome.verdict, outcome.status, outcome.exit_code) == (
        "partial",
        "incomplete",
        ExitCode.INTERRUPTED,
    )
    outcome = await bench.run()
    assert (outcome.verdict, len(bench.files()), counts(outcome)["records"]) == ("complete", 25, 25)


async def test_a_503_is_waited_out_and_one_too_long_ends_the_run(bench: Bench) -> None:
    waits = ["0", "100000"]
    bench.fake.fault = lambda asked, good: (
        (503, {"Retry-After": waits.pop(0)}, b"") if waits and "resumptionToken" in asked else good
    )
    outcome = await bench.run()
    assert (outcome.exit_code, outcome.status) == (ExitCode.TRY_LATER, "failed")
    asked = len(bench.fake.asked)
    again = await bench.run()
    assert (again.exit_code, len(bench.fake.asked)) == (ExitCode.TRY_LATER, asked)
    assert "asked to wait until" in (again.failure_reason or "")
    assert (await bench.run(ignore_wait=True)).verdict == "complete"
    assert (await bench.run()).verdict == "complete"


async def test_waits_without_end_leave_a_partial_run_that_resumes(bench: Bench) -> None:
    bench.settings = with_settings(bench.settings, max_wait_total=3.0, retries=0)
    bench.fake.fault = lambda asked, good: (
        (503, {"Retry-After": "0.01"}, b"") if asked.get("resumptionToken", "").startswith("10") else good
    )
    outcome = await bench.run()
    assert (outcome.exit_code, outcome.status, len(bench.records())) == (ExitCode.TRY_LATER, "incomplete", 10)
    (row,) = bench.history()
    assert (row.failure_code, facts_of(row)) == (
        "waiting_time",
        {"limit": 3, "setting": "harvester.max_wait_total"},
    )
    bench.fake.fault = None
    bench.fake.asked.clear()
    assert (await bench.run(ignore_wait=True)).verdict == "complete"
    assert bench.fake.lists()[0]["resumptionToken"].startswith("10")
    assert len(bench.records()) == 25


async def test_the_other_method_brings_the_same_files(bench: Bench, tmp_path: Path) -> None:
    bench.fake.items.append(Item(identifier="oai:fake.example:gone", deleted=True))
    await bench.run()
    expected = bench.files()
    for path in bench.folder.rglob("*.xml"):
        path.unlink()
    outcome = await bench.run(method=Method.IDENTIFIERS, full=True)
    assert outcome.verdict == "complete"
    assert bench.files() == expected
    assert sum(asked.get("verb") == "GetRecord" for asked in bench.fake.asked) == 25
    del tmp_path


async def test_one_record_that_cannot_be_got_is_refused_and_the_rest_comes(bench: Bench) -> None:
    bench.fake.fault = lambda asked, good: (
        good.replace(b"<metadata>", b"<meta>") if asked.get("identifier", "").endswith(":7") else good
    )
    outcome = await bench.run(method=Method.IDENTIFIERS)
    assert (outcome.verdict, len(bench.files())) == ("partial", 24)
    assert "oai:fake.example:7" in outcome.warnings[0]


async def test_filters_choose_and_are_counted(bench: Bench, tmp_path: Path) -> None:
    file = tmp_path / "filters.xml"
    file.write_text(FILTERS)
    outcome = await bench.run(filter_file=file)
    assert counts(outcome) == {"records": 25, "new": 5, "filtered": 20, "pages": 3}
    assert outcome.verdict == "complete"


async def test_a_faulty_rule_file_fails_the_run_and_says_why_in_the_history(
    bench: Bench, tmp_path: Path
) -> None:
    file = tmp_path / "filters.xml"
    file.write_text("<filters><filter/></filters>")
    outcome = await bench.run(filter_file=file)
    assert outcome.exit_code == ExitCode.USAGE
    assert "line" in (bench.history()[0].failure_reason or "")
    assert bench.fake.asked == []


async def test_very_strict_stops_at_a_record_that_is_not_valid(bench: Bench) -> None:
    assert (await bench.run(validation=Level.VERY_STRICT)).verdict == "complete"
    bench.fake.items[12] = Item(identifier="oai:fake.example:12", metadata="<nothing xmlns='x'/>")
    outcome = await bench.run(validation=Level.VERY_STRICT, full=True)
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert "oai:fake.example:12" in (outcome.failure_reason or "")


async def test_hostile_identifiers_stay_below_the_folder_and_keep_apart(bench: Bench) -> None:
    names = ["oai:../../up", "/etc/passwd", "oai:a:Case", "oai:a:case", "oai:A:case", "oai:x\u00e9",
             "oai:xe\u0301",
             "oai:con:nul", "oai:" + "long" * 1000, "a" * 400, "oai:a::b", "oai:a:b.xml:c",
             "oai:a:b"]  # fmt: skip
    bench.fake.items = [Item(identifier=name) for name in names]
    outcome = await bench.run()
    assert counts(outcome)["new"] == len(names)
    files = bench.files()
    assert len({name.lower() for name in files}) == len(names)
    assert [path.name for path in bench.folder.parent.iterdir() if path.name not in {"data", "out"}] == []
    for name, record in bench.records().items():
        assert etree.fromstring(files[record.filename or ""]).findtext("{*}header/{*}identifier") == name
    again = await bench.run(full=True)
    assert counts(again)["unchanged"] == len(names)


async def test_a_full_folder_gets_folders_beside_it(bench: Bench) -> None:
    await bench.run(files_per_directory=10)
    places = sorted(name.rpartition("/")[0] for name in bench.files())
    assert {place: places.count(place) for place in places} == {
        "fake.example": 10, "fake.example/starting_at_10": 10, "fake.example/starting_at_20": 5
    }  # fmt: skip


async def test_two_formats_in_one_folder_keep_apart(bench: Bench) -> None:
    await bench.run()
    await bench.run(metadata_prefix="other")
    assert len(bench.files()) == 50
    assert "fake.example/1@other.xml" in bench.files()


async def test_a_record_that_comes_twice_is_stored_once(bench: Bench) -> None:
    bench.fake.items += bench.fake.items[20:]
    bench.fake.page_size = 100
    outcome = await bench.run()
    assert counts(outcome) == {"records": 30, "new": 25, "repeated": 5, "pages": 1}


def version(number: int, day: int, *, deleted: bool = False) -> Item:
    """A version of a record, dated a day in May and titled by it."""
    return Item(
        identifier=f"oai:fake.example:{number}",
        datestamp=f"2024-05-{day:02}T00:00:00Z",
        title=f"of day {day}",
        deleted=deleted,
    )


def one_by_one(bench: Bench) -> None:
    """Let each page be committed before the next one comes, so that no two are taken in together."""

    def pages() -> int:
        with bench.database.session() as session:
            return session.scalars(select(Harvest)).one().counts.get("pages", 0)

    async def before(asked: dict[str, str]) -> None:
        first = asked.get("resumptionToken", "0").partition("|")[0]
        while await asyncio.to_thread(pages) < int(first) // bench.fake.page_size:  # noqa: ASYNC110 of a row
            await asyncio.sleep(0.01)

    async def after_the_first(asked: dict[str, str]) -> None:
        if "resumptionToken" in asked:
            await before(asked)

    bench.fake.before = after_the_first


@pytest.mark.parametrize("page_size", [100, 5])
@pytest.mark.parametrize("apart", [True, False])
async def test_an_older_version_that_comes_later_in_a_list_does_not_replace_the_newer_one(
    bench: Bench, page_size: int, *, apart: bool
) -> None:
    others = many(10)
    bench.fake.items = [
        version(77, 9),
        *others[:4],
        version(78, 3),
        *others[4:],
        version(77, 2),
        version(78, 4),
    ]
    bench.fake.page_size, bench.fake.sizes = page_size, False
    if apart:
        one_by_one(bench)
    outcome = await bench.run()
    files = bench.files()
    assert b"of day 9" in files["fake.example/77.xml"]
    assert b"of day 4" in files["fake.example/78.xml"]
    assert bench.records()["oai:fake.example:77"].datestamp == "2024-05-09T00:00:00Z"
    (warning,) = outcome.warnings
    assert warning.endswith("the newer version counts: 1; the first: 'oai:fake.example:77'")
    assert outcome.verdict == "complete"


async def test_the_newer_version_stays_in_each_further_harvest_of_the_same_list(bench: Bench) -> None:
    """Also where it is unchanged, so that this run has written nothing of it."""
    bench.fake.items = [version(77, 9), *many(10), version(77, 2)]
    bench.fake.page_size = 5
    one_by_one(bench)
    for _ in range(3):
        outcome = await bench.run(full=True)
        assert b"of day 9" in bench.files()["fake.example/77.xml"]
        assert len(outcome.warnings) == 1
    assert counts(outcome) == {"records": 12, "unchanged": 11, "repeated": 1, "outdated": 1, "pages": 3}


async def test_a_record_that_comes_back_older_in_a_later_run_is_stored(bench: Bench) -> None:
    bench.fake.items = [version(number, 9) for number in range(12)]
    await bench.run()
    bench.fake.items = [version(number, 2) for number in range(12)]
    outcome = await bench.run(full=True)
    assert (counts(outcome)["updated"], outcome.warnings) == (12, ())
    assert b"of day 2" in bench.files()["fake.example/7.xml"]


@pytest.mark.parametrize("apart", [True, False])
async def test_a_newer_deletion_stays_though_an_older_version_comes_behind_it(
    bench: Bench, *, apart: bool
) -> None:
    bench.fake.items = [version(77, 2), *many(10)]
    await bench.run()
    bench.fake.items = [version(77, 9, deleted=True), version(78, 9, deleted=True), *many(10)]
    bench.fake.items += [version(77, 2), version(78, 2)]
    bench.fake.page_size = 5
    if apart:
        one_by_one(bench)
    outcome = await bench.run(full=True)
    records = bench.records()
    gone = [records[f"oai:fake.example:{number}"] for number in (77, 78)]
    assert [(row.status, row.datestamp) for row in gone] == [("deleted", "2024-05-09T00:00:00Z")] * 2
    assert counts(outcome)["outdated"] == 2


async def test_an_older_deletion_does_not_remove_a_newer_version(bench: Bench) -> None:
    bench.fake.items = [version(77, 9), *many(10), version(77, 2, deleted=True)]
    bench.fake.page_size = 5
    one_by_one(bench)
    await bench.run()
    assert bench.records()["oai:fake.example:77"].status == "active"
    assert b"of day 9" in bench.files()["fake.example/77.xml"]


async def test_an_empty_repository_is_complete(bench: Bench) -> None:
    bench.fake.items = []
    outcome = await bench.run()
    assert (outcome.verdict, outcome.status, outcome.exit_code) == ("complete", "no changes", ExitCode.DONE)
    assert bench.harvest_row().watermark == NOW


async def test_a_repository_in_use_is_refused_and_left_alone(bench: Bench) -> None:
    with bench.database.engine.connect() as connection:
        connection.execute(text("SELECT pg_advisory_lock(23122, :id)"), {"id": bench.repository_id})
        outcome = await bench.run()
    assert outcome.exit_code == ExitCode.TRY_LATER
    assert bench.fake.asked == []
    assert "being harvested" in (bench.history()[0].failure_reason or "")


async def test_every_ended_run_has_one_history_row_with_its_job(bench: Bench) -> None:
    await bench.run(job_id=7, recurring_id=8, set_spec="none")
    bench.fake.fault = lambda _asked, _good: b"<html>"
    await bench.run(job_id=9)
    rows = bench.history()
    assert [(row.job_id, row.recurring_id, row.verdict) for row in rows] == [
        (7, 8, "complete"),
        (9, None, "failed"),
    ]
    assert rows[0].set_spec == "none"
    assert rows[1].failure_reason


async def test_a_list_in_circles_fails_a_strict_run_and_is_not_resumed(bench: Bench) -> None:
    bench.fake.fault = at_page("20", lambda good: good.replace(b">", b">").replace(b"></res", b">20|||</res"))
    outcome = await bench.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    assert "circular" in (outcome.failure_reason or "")
    assert bench.harvest_row().resumption_token is None


def endless(fake: FakeRepository) -> None:
    """From the second page on, each one has the first page's records, and a token that never came before."""

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if not asked.get("verb", "").startswith("List"):
            return good
        count = len(fake.asked)
        pages = {name: value for name, value in asked.items() if name in {"verb", "metadataPrefix"}}
        first = fake.answer(pages | {"metadataPrefix": "oai_dc"}).encode()
        return first.replace(b">10|||<", b">10|||x%d<" % count)

    fake.fault = fault


@pytest.mark.parametrize("method", [Method.RECORDS, Method.IDENTIFIERS])
async def test_an_endless_list_ends_with_what_it_had_and_the_next_run_begins_a_new_one(
    bench: Bench, method: Method
) -> None:
    endless(bench.fake)
    outcome = await bench.run(method=method)
    assert (outcome.verdict, outcome.status, len(bench.records())) == ("partial", "incomplete", 10)
    (row,) = bench.history()
    assert (row.failure_code, facts_of(row)) == (
        "no_new_records",
        {"pages": 20, "setting": "harvester.max_repeated_pages"},
    )
    assert "raise harvester.max_repeated_pages" in (row.failure_reason or "")
    stands = bench.harvest_row()
    assert (stands.resumption_token, stands.run_parameters, stands.watermark) == (None, None, None)
    assert len(bench.fake.lists()) <= 23
    bench.fake.fault = None
    bench.fake.asked.clear()
    outcome = await bench.run(method=method)
    assert (outcome.verdict, len(bench.records())) == ("complete", 25)
    assert "from" not in bench.fake.lists()[0]
    assert "resumptionToken" not in bench.fake.lists()[0]


async def test_the_watermark_stays_where_an_incremental_harvest_is_endless(bench: Bench) -> None:
    await bench.run()
    before = bench.harvest_row().watermark
    bench.fake.items = many(25, start=100)
    endless(bench.fake)
    bench.fake.now = "2024-06-05T12:00:00Z"
    outcome = await bench.run(full=True)
    assert outcome.verdict == "partial"
    assert bench.harvest_row().watermark == before == NOW


async def test_a_list_that_is_resumed_does_not_count_what_came_before_as_repeated(bench: Bench) -> None:
    bench.settings = with_settings(bench.settings, max_repeated_pages=1)
    bench.fake.fault = dies_at(bench.fake, "20")
    await bench.run()
    bench.fake.asked.clear()
    # The server has moved on: the page behind the token begins with records that came already.
    bench.fake.fault = at_page("20", lambda _good: bench.fake.answer(
        {"verb": "ListRecords", "metadataPrefix": "oai_dc", "resumptionToken": "5|||"}
    ).encode())  # fmt: skip
    outcome = await bench.run()
    assert (outcome.failure, len(bench.records())) == (None, 25)
