"""Records that break answers are found and quarantined, and all the others come; whole harvests."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from harvester.harvest.harvest import harvest
from harvester.harvest.models import ListMarks, Quarantined
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.models import History
from harvester.repositories import add_repository
from harvester.vocabulary import Level, Method
from oai.database import Database
from oai.errors import ExitCode
from oai.failures import Failure, FailureCode
from oai.settings import Settings
from tests.harvester.fake_repository import Answer, FakeRepository, Fault, Item, serve

NOW = "2024-06-01T12:00:00Z"
POISON = b"oai:fake.example:33<"
START = datetime(2024, 1, 1, 6, 30)  # noqa: DTZ001 written out as UTC below
DEAD = (500, dict[str, str](), b"")


def dated(count: int, step: timedelta = timedelta(days=1)) -> list[Item]:
    """So many items, each dated a step later than the one before."""
    return [
        Item(
            identifier=f"oai:fake.example:{number}",
            datestamp=f"{(START + number * step).isoformat()}Z",
            title=f"Title {number} ",
        )
        for number in range(count)
    ]


class Bench:
    """A fake repository of sixty dated records, and a folder to harvest it into."""

    def __init__(self, database: Database, settings: Settings, fake: FakeRepository, folder: Path) -> None:
        self.database, self.settings, self.fake, self.folder = database, settings, fake, folder
        with database.session() as session:
            self.repository_id = add_repository(
                session, base_url=fake.url, base_dir=str(folder)
            ).repository_id
            session.commit()

    async def run(self, **parameters: Any) -> RunOutcome:
        request = HarvestRequest(repository_id=self.repository_id, **parameters)
        return await harvest(self.database, self.settings, request, stop=asyncio.Event())

    def allow(self, requests: int) -> None:
        self.change_settings(isolation_requests=requests)

    def change_settings(self, **values: Any) -> None:
        changed = self.settings.harvester.model_copy(update=values)
        self.settings = self.settings.model_copy(update={"harvester": changed})

    def names(self) -> set[int]:
        return {int(path.stem) for path in self.folder.rglob("*.xml")}

    def quarantine(self) -> list[Quarantined]:
        with self.database.session() as session:
            return list(session.scalars(select(Quarantined).order_by(Quarantined.quarantine_id)))

    def windows(self) -> list[tuple[str | None, str | None]]:
        asked = [one for one in self.fake.lists() if "resumptionToken" not in one]
        return [(one.get("from"), one.get("until")) for one in asked]


@pytest.fixture
async def bench(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Bench]:
    quick = settings.harvester.model_copy(update={"retries": 0, "first_delay": 0.01})
    fake = FakeRepository(items=dated(60), now=NOW)
    async with serve(fake):
        yield Bench(database, settings.model_copy(update={"harvester": quick}), fake, tmp_path / "out")


ALL = set(range(60))


def dies(fake: FakeRepository, argument: str, begins: str) -> Fault:
    """A server that answers nothing well any more once it was asked with that argument."""

    def fault(_: dict[str, str], good: bytes) -> bytes | Answer:
        return DEAD if any(one.get(argument, "").startswith(begins) for one in fake.asked) else good

    return fault


def list_page(asked: dict[str, str]) -> int:
    """Where the page of ListRecords that is asked for begins; -1 where none is."""
    return int(asked.get("resumptionToken", "0").split("|")[0]) if asked["verb"] == "ListRecords" else -1


def kills_records(asked: dict[str, str], good: bytes) -> bytes | Answer:
    """Record 33 kills the server whenever its metadata is asked for."""
    return DEAD if POISON in good and asked["verb"] != "ListIdentifiers" else good


async def test_a_record_that_kills_the_server_costs_itself_alone(bench: Bench) -> None:
    bench.fake.fault = kills_records
    outcome = await bench.run()
    assert bench.names() == ALL - {33}
    assert (outcome.verdict, outcome.exit_code) == ("partial", ExitCode.RECORDS_REFUSED)
    assert (outcome.evidence.refused, outcome.evidence.windows_left) == (1, 0)
    assert outcome.evidence.isolation_requests <= 31
    (kept,) = bench.quarantine()
    assert (kept.identifier, kept.resolved) == ("oai:fake.example:33", None)
    assert "HTTP status 500" in kept.reason
    assert kept.history_id is not None


async def test_all_records_of_one_date_are_told_apart_by_their_headers(bench: Bench) -> None:
    bench.fake.items = [Item(identifier=item.identifier) for item in bench.fake.items]
    bench.fake.fault = kills_records
    await bench.run()
    assert bench.names() == ALL - {33}


async def test_a_server_that_does_not_select_by_datestamp_is_asked_record_by_record(bench: Bench) -> None:
    bench.fake.sizes = False

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if {"from", "until"} & set(asked):
            good = bench.fake.answer({"verb": asked["verb"], "metadataPrefix": "oai_dc"}).encode()
        return kills_records(asked, good)

    bench.fake.fault = fault
    outcome = await bench.run()
    assert bench.names() == ALL - {33}
    assert any("does not select by datestamp" in warning for warning in outcome.warnings)


async def test_a_server_that_takes_no_bounds_is_asked_record_by_record(bench: Bench) -> None:
    bench.fake.sizes = False

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if {"from", "until"} & set(asked):
            return (
                b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badArgument"/></OAI-PMH>'
            )
        return kills_records(asked, good)

    bench.fake.fault = fault
    await bench.run()
    assert bench.names() == ALL - {33}


async def test_the_bad_record_is_kept_with_its_bytes_and_where_they_were(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    await bench.run()
    (kept,) = bench.quarantine()
    assert kept.identifier == "oai:fake.example:33"
    assert b"<oops " in kept.raw
    assert kept.raw_size == len(kept.raw)
    assert kept.byte_offset is not None
    assert "resumptionToken" in kept.url


async def test_a_quarantined_record_is_resolved_when_it_reads_well_again(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    await bench.run()
    first = bench.quarantine()[0]
    await bench.run()
    (again,) = bench.quarantine()
    assert (again.first_seen, again.resolved) == (first.first_seen, None)
    assert again.last_seen > first.last_seen
    bench.fake.fault = None
    outcome = await bench.run()
    assert (outcome.verdict, bench.names()) == ("complete", ALL)
    assert bench.quarantine()[0].resolved is not None


async def test_what_names_no_record_is_resolved_by_a_complete_run(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b"<identifier>oai:fake.example:33", b"<identifier><")
    await bench.run()
    assert [kept.identifier for kept in bench.quarantine()] == [None]
    bench.fake.fault = None
    await bench.run()
    assert bench.quarantine()[0].resolved is not None


async def test_a_page_that_breaks_off_costs_nothing(bench: Bench) -> None:
    cut = b"Title 33 "
    bench.fake.fault = lambda asked, good: (
        good[: good.index(cut)] if asked["verb"] == "ListRecords" and cut in good else good
    )
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")


async def test_a_strict_run_fails_and_keeps_the_page(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    outcome = await bench.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    (kept,) = bench.quarantine()
    assert b"oai:fake.example:30<" in kept.raw


async def test_headers_that_cannot_be_read_either_are_left_out_with_their_window(bench: Bench) -> None:
    bench.fake.fault = lambda asked, good: DEAD if POISON in good and "metadataPrefix" in asked else good
    bench.fake.page_size = 1000
    outcome = await bench.run()
    assert bench.names() == ALL - {33}
    assert (outcome.verdict, outcome.evidence.windows_left) == ("partial", 0)
    assert any("are skipped" in kept.reason for kept in bench.quarantine())


async def test_a_server_that_is_down_is_not_searched_for_bad_records(bench: Bench) -> None:
    bench.fake.fault = dies(bench.fake, "resumptionToken", "30")
    outcome = await bench.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert bench.quarantine() == []
    bench.fake.fault = None
    assert ((await bench.run()).verdict, bench.names()) == ("complete", ALL)


async def test_the_search_has_a_limit_and_the_next_run_goes_on_with_it(bench: Bench) -> None:
    bench.allow(3)
    bench.fake.fault = kills_records
    outcome = await bench.run()
    assert (outcome.verdict, outcome.status) == ("partial", "incomplete")
    assert outcome.exit_code == ExitCode.RECORDS_REFUSED
    assert "isolation_requests" in (outcome.failure_reason or "")
    for _ in range(30):
        outcome = await bench.run()
        if outcome.status != "incomplete":
            break
    assert (outcome.verdict, outcome.status) == ("partial", "completed with errors")
    assert bench.names() == ALL - {33}


async def test_no_search_at_all_leaves_a_failed_run(bench: Bench) -> None:
    bench.allow(0)
    bench.fake.fault = kills_records
    outcome = await bench.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert bench.names() == set(range(30))


async def test_without_time_to_work_around_faults_the_run_ends_there_and_can_be_resumed(bench: Bench) -> None:
    bench.change_settings(max_recovery_seconds=0)
    bench.fake.fault = kills_records
    outcome = await bench.run()
    assert (outcome.verdict, outcome.status) == ("partial", "incomplete")
    assert outcome.exit_code == ExitCode.REMOTE_FAILED
    assert outcome.failure == Failure(
        code=FailureCode.RECOVERY_TIME, facts={"limit": 0, "setting": "harvester.max_recovery_seconds"}
    )
    assert "raise harvester.max_recovery_seconds" in (outcome.failure_reason or "")
    assert bench.names() == set(range(30))
    bench.change_settings(max_recovery_seconds=1800)
    asked = len(bench.fake.lists())
    await bench.run()
    assert bench.fake.lists()[asked]["resumptionToken"].startswith("30|")
    assert bench.names() == ALL - {33}


async def test_pages_that_always_stall_half_way_end_the_run_when_its_time_is_spent(bench: Bench) -> None:
    bench.change_settings(timeout=0.2, max_recovery_seconds=0.1)
    stalls = asyncio.Event()

    async def before(asked: dict[str, str]) -> None:
        if "resumptionToken" in asked or asked["verb"] == "ListIdentifiers":
            await stalls.wait()

    bench.fake.before = before
    outcome = await bench.run()
    stalls.set()
    assert outcome.failure is not None
    assert (outcome.verdict, outcome.failure.code) == ("partial", FailureCode.RECOVERY_TIME)
    assert outcome.evidence.windows_left
    bench.fake.before = None
    bench.change_settings(timeout=60, max_recovery_seconds=1800)
    assert ((await bench.run()).status, bench.names()) == ("completed", ALL)


async def test_the_search_for_single_records_ends_with_the_time_and_is_resumed(bench: Bench) -> None:
    """The requests for single records count as the other ones do."""
    bench.fake.items = [replace(item, datestamp=NOW) for item in bench.fake.items]
    bench.change_settings(timeout=0.2, max_recovery_seconds=0.1)
    stalls = asyncio.Event()

    async def before(asked: dict[str, str]) -> None:
        if asked["verb"] == "GetRecord" and asked["identifier"].endswith((":31", ":32")):
            await stalls.wait()

    bench.fake.before = before
    bench.fake.fault = lambda asked, good: DEAD if list_page(asked) == 30 else good
    outcome = await bench.run()
    stalls.set()
    assert outcome.failure is not None
    assert (outcome.verdict, outcome.failure.code) == ("partial", FailureCode.RECOVERY_TIME)
    bench.fake.before = None
    bench.change_settings(timeout=60, max_recovery_seconds=1800)
    await bench.run()
    assert bench.names() >= ALL - {31, 32}


async def test_headers_that_break_by_the_other_method_are_left_out_too(bench: Bench) -> None:
    bench.fake.fault = lambda _, good: DEAD if POISON in good else good
    await bench.run(method=Method.IDENTIFIERS)
    assert bench.names() == ALL - {33}


def expires(fake: FakeRepository, at: str, times: int) -> None:
    """Let the token of the page expire so many times."""
    left = [times]

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("resumptionToken", "").startswith(at) and left[0]:
            left[0] -= 1
            return fake.answer({"verb": "ListRecords", "resumptionToken": "gone"}).encode()
        return good

    fake.fault = fault


async def test_an_ordered_list_goes_on_from_its_last_page_when_the_token_expires(bench: Bench) -> None:
    expires(bench.fake, "30|", 1)
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")
    assert (outcome.evidence.taken_up, outcome.evidence.restarts) == (1, 0)
    assert bench.windows()[-1] == ("2024-01-21T06:29:00Z", None)


async def test_a_list_without_order_begins_again_when_the_token_expires(bench: Bench) -> None:
    bench.fake.items = bench.fake.items[1::2] + bench.fake.items[::2]
    expires(bench.fake, "40|", 1)
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")
    assert (outcome.evidence.taken_up, outcome.evidence.restarts) == (0, 1)


async def test_a_list_that_turns_out_to_have_no_order_begins_again_after_all(bench: Bench) -> None:
    bench.fake.sizes = False
    bench.fake.items = bench.fake.items[10:50] + bench.fake.items[:10] + bench.fake.items[59:49:-1]
    expires(bench.fake, "30|", 1)
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")
    assert (outcome.evidence.taken_up, outcome.evidence.restarts) == (1, 1)


async def test_a_token_that_always_expires_leads_to_shorter_windows(bench: Bench) -> None:
    bench.fake.items = bench.fake.items[1::2] + bench.fake.items[::2]
    expires(bench.fake, "40|", 1000)
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")


async def test_no_records_match_in_the_middle_loses_nothing_that_was_announced(bench: Bench) -> None:
    bench.fake.fault = lambda asked, good: (
        bench.fake.answer({"verb": "ListRecords", "from": "2030"}).encode()
        if asked.get("resumptionToken", "").startswith("50") and asked["verb"] == "ListRecords"
        else good
    )
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")


async def test_no_records_match_in_the_middle_is_a_doubt_where_nothing_was_announced(bench: Bench) -> None:
    bench.fake.sizes = False
    bench.fake.fault = lambda asked, good: (
        bench.fake.answer({"verb": "ListRecords", "from": "2030"}).encode()
        if asked.get("resumptionToken", "").startswith("50")
        else good
    )
    outcome = await bench.run()
    assert (outcome.verdict, outcome.evidence.late_no_match) == ("partial", 1)


async def test_a_list_in_circles_is_got_by_shorter_windows(bench: Bench) -> None:
    bench.fake.fault = lambda asked, good: (
        good.replace(b">30|||</", b">20|||</") if asked["verb"] == "ListRecords" else good
    )
    outcome = await bench.run()
    assert (bench.names(), outcome.verdict) == (ALL, "complete")


async def test_bounds_that_are_refused_in_seconds_are_sent_as_days(bench: Bench) -> None:
    refused = b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badArgument"/></OAI-PMH>'
    bench.fake.fault = lambda asked, good: refused if "T" in asked.get("from", "") else good
    outcome = await bench.run(harvest_from="2024-01-11T00:00:00Z")
    assert (bench.names(), outcome.verdict) == (set(range(10, 60)), "complete")


async def test_records_that_come_twice_while_others_do_not_are_noticed(bench: Bench) -> None:
    bench.fake.items[40:50] = bench.fake.items[20:30]
    outcome = await bench.run()
    assert (outcome.verdict, outcome.evidence.repeated, outcome.evidence.missing) == ("partial", 10, 10)


async def test_records_that_come_twice_across_an_interruption_are_noticed(bench: Bench) -> None:
    bench.fake.items[40:50] = bench.fake.items[20:30]
    bench.fake.fault = dies(bench.fake, "resumptionToken", "30")
    bench.allow(0)
    assert (await bench.run()).verdict == "failed"
    bench.fake.fault = None
    outcome = await bench.run()
    assert outcome.evidence.resumed_at == 30
    assert (outcome.verdict, outcome.evidence.repeated, outcome.evidence.missing) == ("partial", 10, 10)
    with bench.database.session() as session:
        assert session.scalars(select(ListMarks)).all() == []


async def test_what_a_run_brought_before_its_list_began_again_is_not_unchanged_to_it(bench: Bench) -> None:
    expired = (
        b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badResumptionToken"/></OAI-PMH>'
    )
    bench.fake.items.reverse()
    bench.fake.fault = lambda asked, good: (
        expired
        if asked.get("resumptionToken", "").startswith("30") and len(bench.fake.lists()) == 4
        else good
    )
    outcome = await bench.run()
    assert (outcome.verdict, outcome.evidence.restarts) == ("complete", 1)
    assert (outcome.counts["records"], outcome.counts["new"], outcome.counts["unchanged"]) == (60, 60, 0)


async def test_a_single_record_that_is_oddly_answered_is_taken_by_a_loose_run_with_a_warning(
    bench: Bench,
) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes:
        odd = asked["verb"] == "GetRecord" and POISON in good
        return good.replace(b"openarchives.org/OAI/2.0/", b"openarchives.org/OAI/2.0") if odd else good

    bench.fake.fault = fault
    outcome = await bench.run(method=Method.IDENTIFIERS)
    assert (bench.names(), outcome.verdict) == (ALL, "complete")
    assert any("namespace" in warning for warning in outcome.warnings)


async def test_warnings_and_evidence_of_a_run_that_was_cut_off_are_in_the_next_history_row(
    bench: Bench,
) -> None:
    dead = dies(bench.fake, "resumptionToken", "50")
    bench.fake.fault = lambda asked, good: dead(asked, good.replace(b"Title 33 ", b"<oops "))
    await bench.run()
    bench.fake.fault = None
    await bench.run()
    with bench.database.session() as session:
        last = session.scalars(select(History).order_by(History.history_id.desc())).first()
    assert last is not None
    assert "oai:fake.example:33" in last.warnings[0]
    assert (last.evidence["refused"], last.verdict) == (1, "partial")
