"""Whole harvests that find and quarantine records which break answers, and store all others."""

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy import select

from harvester.harvest.models import ListMarks
from harvester.models import History
from harvester.vocabulary import Level, Method
from oai.database import Database
from oai.errors import ExitCode
from oai.failures import Failure, FailureCode
from oai.settings import Settings
from tests.harvester.client.raw_server import RawServer, reply, serve_raw
from tests.harvester.fake_repository import Answer, FakeRepository, Fault, Item, serve
from tests.harvester.library import Library

NOW = "2024-06-01T12:00:00Z"
POISON = b"oai:fake.example:33<"
START = datetime(2024, 1, 1, 6, 30)  # noqa: DTZ001 written out as UTC below
DEAD = (500, dict[str, str](), b"")
LISTS = {"ListRecords", "ListIdentifiers"}


def dated(count: int, step: timedelta = timedelta(days=1)) -> list[Item]:
    """Return the given number of items, each with a later datestamp than the one before it."""
    return [
        Item(
            identifier=f"oai:fake.example:{number}",
            datestamp=f"{(START + number * step).isoformat()}Z",
            title=f"Title {number} ",
        )
        for number in range(count)
    ]


@pytest.fixture
async def library(database: Database, settings: Settings, tmp_path: Path) -> AsyncIterator[Library]:
    fake = FakeRepository(items=dated(60), now=NOW)
    async with serve(fake):
        library = Library(database, settings, fake, tmp_path / "out")
        library.change_settings(retries=0, first_delay=0.01)
        yield library


ALL = set(range(60))


def dies(fake: FakeRepository, argument: str, begins: str) -> Fault:
    """Return a fault that fails all requests after the first one with this argument."""

    def fault(_: dict[str, str], good: bytes) -> bytes | Answer:
        return DEAD if any(one.get(argument, "").startswith(begins) for one in fake.asked) else good

    return fault


def list_page(asked: dict[str, str]) -> int:
    """Return the position at which the requested page of ListRecords starts; -1 for other requests."""
    return int(asked.get("resumptionToken", "0").split("|")[0]) if asked["verb"] == "ListRecords" else -1


def kills_records(asked: dict[str, str], good: bytes) -> bytes | Answer:
    """Fail every request whose answer has the metadata of record 33."""
    return DEAD if POISON in good and asked["verb"] != "ListIdentifiers" else good


async def test_only_the_record_that_crashes_the_server_is_lost(library: Library) -> None:
    library.fake.fault = kills_records
    outcome = await library.run()
    assert library.numbers() == ALL - {33}
    assert (outcome.verdict, outcome.exit_code) == ("partial", ExitCode.RECORDS_REFUSED)
    assert (outcome.evidence.refused, outcome.evidence.windows_left) == (1, 0)
    assert outcome.evidence.isolation_requests <= 31
    (kept,) = library.quarantine()
    assert (kept.identifier, kept.resolved) == ("oai:fake.example:33", None)
    assert "HTTP status 500" in kept.reason
    assert kept.history_id is not None


async def test_records_with_the_same_date_are_isolated_by_their_headers(library: Library) -> None:
    library.fake.items = [Item(identifier=item.identifier) for item in library.fake.items]
    library.fake.fault = kills_records
    await library.run()
    assert library.numbers() == ALL - {33}


async def test_a_warning_says_that_all_records_of_a_list_without_bounds_are_fetched_one_by_one(
    library: Library,
) -> None:
    library.fake.items = [Item(identifier="oai:fake.example:33")]
    library.fake.fault = lambda asked, good: good if asked["verb"] != "ListRecords" else DEAD
    outcome = await library.run()
    assert "fetching all records one by one" in str(outcome.notes), outcome.notes


async def test_records_of_a_server_that_ignores_dates_are_fetched_one_by_one(library: Library) -> None:
    library.fake.sizes = False

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if {"from", "until"} & set(asked):
            good = library.fake.answer({"verb": asked["verb"], "metadataPrefix": "oai_dc"}).encode()
        return kills_records(asked, good)

    library.fake.fault = fault
    outcome = await library.run()
    assert library.numbers() == ALL - {33}
    assert any("does not select by datestamp" in warning for warning in outcome.warnings)


async def test_records_of_a_server_that_rejects_dates_are_fetched_one_by_one(library: Library) -> None:
    library.fake.sizes = False

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if {"from", "until"} & set(asked):
            return (
                b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badArgument"/></OAI-PMH>'
            )
        return kills_records(asked, good)

    library.fake.fault = fault
    await library.run()
    assert library.numbers() == ALL - {33}


async def test_a_quarantined_record_is_stored_with_its_bytes_and_position(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    await library.run()
    (kept,) = library.quarantine()
    assert kept.identifier == "oai:fake.example:33"
    assert b"<oops " in kept.raw
    assert kept.raw_size == len(kept.raw)
    assert kept.byte_offset is not None
    assert "resumptionToken" in kept.url


async def test_a_quarantined_record_is_resolved_when_it_becomes_readable(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    await library.run()
    first = library.quarantine()[0]
    await library.run()
    (again,) = library.quarantine()
    assert (again.first_seen, again.resolved) == (first.first_seen, None)
    assert again.last_seen > first.last_seen
    library.fake.fault = None
    outcome = await library.run()
    assert (outcome.verdict, library.numbers()) == ("complete", ALL)
    assert library.quarantine()[0].resolved is not None


async def test_an_entry_without_identifier_is_resolved_by_a_complete_run(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"<identifier>oai:fake.example:33", b"<identifier><")
    await library.run()
    assert [kept.identifier for kept in library.quarantine()] == [None]
    library.fake.fault = None
    await library.run()
    assert library.quarantine()[0].resolved is not None


async def test_no_record_of_a_truncated_page_is_lost(library: Library) -> None:
    cut = b"Title 33 "
    library.fake.fault = lambda asked, good: (
        good[: good.index(cut)] if asked["verb"] == "ListRecords" and cut in good else good
    )
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")


async def test_a_strict_run_fails_and_quarantines_the_page(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    outcome = await library.run(validation=Level.STRICT)
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.STRICT_CHECK)
    (kept,) = library.quarantine()
    assert b"oai:fake.example:30<" in kept.raw


async def test_a_date_range_whose_headers_are_unreadable_too_is_skipped(library: Library) -> None:
    library.fake.fault = lambda asked, good: DEAD if POISON in good and "metadataPrefix" in asked else good
    library.fake.page_size = 1000
    outcome = await library.run()
    assert library.numbers() == ALL - {33}
    assert (outcome.verdict, outcome.evidence.windows_left) == ("partial", 0)
    assert any("are skipped" in kept.reason for kept in library.quarantine())


async def test_a_date_range_that_cannot_be_listed_has_a_cause_and_is_not_a_rejected_record(
    library: Library,
) -> None:
    library.fake.fault = lambda asked, good: DEAD if POISON in good and "metadataPrefix" in asked else good
    library.fake.page_size = 1000
    outcome = await library.run()
    assert (outcome.counts["invalid"], outcome.evidence.refused) == (0, 0)
    ranges = library.quarantine()
    assert outcome.evidence.unread == len(ranges) > 0
    assert all(kept.failure.code is FailureCode.LIST_PARTLY_READ for kept in ranges)
    assert any("2024-02-03T06:30:00Z" in kept.failure.facts["range"] for kept in ranges)
    assert (outcome.status, outcome.exit_code) == ("completed with errors", ExitCode.RECORDS_REFUSED)
    assert outcome.failure is not None
    assert (outcome.failure.code, outcome.failure.kind) == (FailureCode.LIST_PARTLY_READ, "missing")
    assert outcome.failure.facts["count"] == len(ranges)
    assert outcome.failure.facts["for"]["code"] == FailureCode.HTTP_SERVER_ERROR
    assert outcome.failure.facts["url"].startswith(library.fake.url)
    assert "could not be listed" in (outcome.failure_reason or "")
    assert "could not be listed: The repository reports an internal error." in outcome.in_words()
    assert "rejected" not in outcome.in_words()


async def test_records_announced_after_an_unreadable_page_are_missing(library: Library) -> None:
    """The server ignores dates and fails at the second page of both kinds of lists."""

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if asked.get("resumptionToken"):
            return DEAD
        if {"from", "until"} & set(asked):
            return library.fake.answer({"verb": asked["verb"], "metadataPrefix": "oai_dc"}).encode()
        return good

    library.fake.fault = fault
    outcome = await library.run()
    assert library.numbers() == set(range(10))
    assert (outcome.evidence.missing, outcome.counts["records"], outcome.counts["invalid"]) == (50, 10, 0)
    assert (outcome.evidence.unread, outcome.evidence.windows_left) == (3, 0)
    assert len(library.fake.lists()) < 100
    assert outcome.failure is not None
    assert outcome.failure.code is FailureCode.LIST_PARTLY_READ
    assert "50 records that the repository announced are missing" in (outcome.failure_reason or "")


async def test_the_cause_of_an_unlisted_date_range_survives_an_interruption(library: Library) -> None:
    dead = dies(library.fake, "from", "2024-02-03T06:30:01Z")
    library.fake.fault = lambda asked, good: (
        DEAD if POISON in good and "metadataPrefix" in asked else dead(asked, good)
    )
    library.fake.page_size = 1000
    assert (await library.run()).verdict == "failed"
    library.fake.fault = None
    outcome = await library.run()
    assert (library.numbers(), outcome.evidence.unread) == (ALL - {33}, 2)
    assert outcome.failure is not None
    assert outcome.failure.facts["for"]["code"] == FailureCode.HTTP_SERVER_ERROR


async def test_a_server_that_fails_every_list_is_not_searched_by_dates(library: Library) -> None:
    library.fake.fault = lambda asked, good: DEAD if asked["verb"] in LISTS else good
    outcome = await library.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert outcome.failure is not None
    assert outcome.failure.code is FailureCode.HTTP_SERVER_ERROR
    assert (len(library.fake.lists()), library.quarantine()) == (5, [])


async def test_a_harvest_without_any_listed_record_fails_with_the_cause(library: Library) -> None:
    """The server fails lists of records and rejects lists of headers."""
    error = b'<error code="badArgument">no</error></OAI-PMH>'

    def fault(asked: dict[str, str], good: bytes) -> bytes | Answer:
        if asked["verb"] == "ListIdentifiers":
            return good[: good.index(b"<ListIdentifiers>")] + error
        return DEAD if asked["verb"] in LISTS else good

    library.fake.fault = fault
    outcome = await library.run()
    assert (outcome.counts["records"], outcome.evidence.unread) == (0, 1)
    assert (outcome.verdict, outcome.status) == ("failed", "failed")
    assert outcome.exit_code == ExitCode.REMOTE_FAILED
    assert outcome.failure is not None
    assert outcome.failure.code is FailureCode.HTTP_SERVER_ERROR
    assert "1 date range could not be listed" in (outcome.failure_reason or "")


async def test_an_http_violation_is_named_and_every_request_is_counted(
    database: Database, settings: Settings, tmp_path: Path
) -> None:
    fake = FakeRepository(items=dated(3), now=NOW)

    def answer(first_line: str) -> bytes:
        asked = dict(parse_qsl(urlsplit(first_line.split()[1]).query))
        if asked["verb"] in LISTS:
            return b"HTTP/1.1 abc\r\n\r\n"
        return reply(fake.answer(asked).encode())

    async with serve_raw(RawServer(answer=answer)) as server:
        fake.url = server.url
        library = Library(database, settings, fake, tmp_path / "out")
        library.change_settings(retries=0, first_delay=0.01)
        outcome = await library.run()
    assert (outcome.verdict, outcome.status, library.quarantine()) == ("failed", "failed", [])
    assert outcome.failure is not None
    assert outcome.failure.code is FailureCode.HTTP_INVALID
    assert outcome.counts["requests"] == len(server.asked) == 8


async def test_a_server_that_is_down_is_not_searched_for_bad_records(library: Library) -> None:
    library.fake.fault = dies(library.fake, "resumptionToken", "30")
    outcome = await library.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert library.quarantine() == []
    library.fake.fault = None
    assert ((await library.run()).verdict, library.numbers()) == ("complete", ALL)


async def test_the_search_has_a_limit_and_the_next_run_continues_it(library: Library) -> None:
    library.change_settings(isolation_requests=9)
    library.fake.fault = kills_records
    outcome = await library.run()
    assert (outcome.verdict, outcome.status) == ("partial", "incomplete")
    assert outcome.exit_code == ExitCode.RECORDS_REFUSED
    assert "isolation_requests" in (outcome.failure_reason or "")
    for _ in range(30):
        outcome = await library.run()
        if outcome.status != "incomplete":
            break
    assert (outcome.verdict, outcome.status) == ("partial", "completed with errors")
    assert library.numbers() == ALL - {33}


async def test_without_a_search_the_run_fails(library: Library) -> None:
    library.change_settings(isolation_requests=0)
    library.fake.fault = kills_records
    outcome = await library.run()
    assert (outcome.verdict, outcome.exit_code) == ("failed", ExitCode.REMOTE_FAILED)
    assert library.numbers() == set(range(30))


async def test_without_recovery_time_the_run_ends_at_the_fault_and_can_be_resumed(
    library: Library,
) -> None:
    library.change_settings(max_recovery_seconds=0)
    library.fake.fault = kills_records
    outcome = await library.run()
    assert (outcome.verdict, outcome.status) == ("partial", "incomplete")
    assert outcome.exit_code == ExitCode.REMOTE_FAILED
    assert outcome.failure == Failure(
        code=FailureCode.RECOVERY_TIME, facts={"limit": 0, "setting": "harvester.max_recovery_seconds"}
    )
    assert "raise harvester.max_recovery_seconds" in (outcome.failure_reason or "")
    assert library.numbers() == set(range(30))
    library.change_settings(max_recovery_seconds=1800)
    asked = len(library.fake.lists())
    await library.run()
    assert library.fake.lists()[asked]["resumptionToken"].startswith("30|")
    assert library.numbers() == ALL - {33}


async def test_pages_that_always_stall_end_the_run_when_its_recovery_time_is_spent(library: Library) -> None:
    library.change_settings(timeout=0.2, max_recovery_seconds=0.1)
    stalls = asyncio.Event()

    async def before(asked: dict[str, str]) -> None:
        if "resumptionToken" in asked or asked["verb"] == "ListIdentifiers":
            await stalls.wait()

    library.fake.before = before
    outcome = await library.run()
    stalls.set()
    assert outcome.failure is not None
    assert (outcome.verdict, outcome.failure.code) == ("partial", FailureCode.RECOVERY_TIME)
    assert outcome.evidence.windows_left
    library.fake.before = None
    library.change_settings(timeout=60, max_recovery_seconds=1800)
    assert ((await library.run()).status, library.numbers()) == ("completed", ALL)


async def test_the_search_for_single_records_ends_with_the_recovery_time_and_is_resumed(
    library: Library,
) -> None:
    """Requests for single records count like all others."""
    library.fake.items = [replace(item, datestamp=NOW) for item in library.fake.items]
    library.change_settings(timeout=0.2, max_recovery_seconds=0.1)
    stalls = asyncio.Event()

    async def before(asked: dict[str, str]) -> None:
        if asked["verb"] == "GetRecord" and asked["identifier"].endswith((":31", ":32")):
            await stalls.wait()

    library.fake.before = before
    library.fake.fault = lambda asked, good: DEAD if list_page(asked) == 30 else good
    outcome = await library.run()
    stalls.set()
    assert outcome.failure is not None
    assert (outcome.verdict, outcome.failure.code) == ("partial", FailureCode.RECOVERY_TIME)
    library.fake.before = None
    library.change_settings(timeout=60, max_recovery_seconds=1800)
    await library.run()
    assert library.numbers() >= ALL - {31, 32}


async def test_unreadable_headers_are_skipped_by_the_other_method_too(library: Library) -> None:
    library.fake.items = library.fake.items[20:40]
    library.fake.fault = lambda _, good: DEAD if POISON in good else good
    await library.run(method=Method.IDENTIFIERS)
    assert library.numbers() == set(range(20, 40)) - {33}


def expires(fake: FakeRepository, at: str, times: int) -> None:
    """Let the token of the page expire the given number of times."""
    left = [times]

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("resumptionToken", "").startswith(at) and left[0]:
            left[0] -= 1
            return fake.answer({"verb": "ListRecords", "resumptionToken": "gone"}).encode()
        return good

    fake.fault = fault


async def test_an_ordered_list_continues_from_its_last_page_when_the_token_expires(library: Library) -> None:
    expires(library.fake, "30|", 1)
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
    assert (outcome.evidence.taken_up, outcome.evidence.restarts) == (1, 0)
    (note,) = outcome.notes
    assert note.failure == Failure(code=FailureCode.LIST_CONTINUED, facts={"start": "2024-01-21T06:29:00Z"})
    assert library.windows()[-1] == ("2024-01-21T06:29:00Z", None)


async def test_an_unordered_list_restarts_when_the_token_expires(library: Library) -> None:
    library.fake.items = library.fake.items[1::2] + library.fake.items[::2]
    expires(library.fake, "40|", 1)
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
    assert (outcome.evidence.taken_up, outcome.evidence.restarts) == (0, 1)
    (note,) = outcome.notes
    assert note.failure == Failure(code=FailureCode.LIST_RESTARTED)


async def test_a_list_that_turns_out_to_be_unordered_restarts_after_all(library: Library) -> None:
    library.fake.sizes = False
    library.fake.items = library.fake.items[10:50] + library.fake.items[:10] + library.fake.items[59:49:-1]
    expires(library.fake, "30|", 1)
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
    assert (outcome.evidence.taken_up, outcome.evidence.restarts) == (1, 1)


async def test_a_token_that_always_expires_leads_to_shorter_windows(library: Library) -> None:
    library.fake.items = library.fake.items[1::2] + library.fake.items[::2]
    expires(library.fake, "40|", 1000)
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")


async def test_no_records_match_in_the_middle_of_a_list_loses_no_announced_record(library: Library) -> None:
    library.fake.fault = lambda asked, good: (
        library.fake.answer({"verb": "ListRecords", "from": "2030"}).encode()
        if asked.get("resumptionToken", "").startswith("50") and asked["verb"] == "ListRecords"
        else good
    )
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")


async def test_no_records_match_in_the_middle_is_a_doubt_if_no_size_was_announced(
    library: Library,
) -> None:
    library.fake.sizes = False
    library.fake.fault = lambda asked, good: (
        library.fake.answer({"verb": "ListRecords", "from": "2030"}).encode()
        if asked.get("resumptionToken", "").startswith("50")
        else good
    )
    outcome = await library.run()
    assert (outcome.verdict, outcome.evidence.late_no_match) == ("partial", 1)
    (note,) = outcome.notes
    assert note.failure is not None
    assert note.failure.code is FailureCode.LIST_ENDED_BY_ERROR


async def test_a_circular_list_is_harvested_in_shorter_windows(library: Library) -> None:
    library.fake.fault = lambda asked, good: (
        good.replace(b">30|||</", b">20|||</") if asked["verb"] == "ListRecords" else good
    )
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")


def last_token_again(size: int | None = None) -> Fault:
    """Repeat on the sixth page the token that led to it, in any window; pages may state another size."""

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        token = asked.get("resumptionToken", "")
        if token.startswith("50"):
            good = good.replace(b"></resumptionToken>", b">" + token.encode() + b"</resumptionToken>")
        return good if size is None else re.sub(rb'(ListSize=")\d+', rb"\g<1>%d" % size, good)

    return fault


async def test_a_list_whose_last_page_repeats_its_token_ends_if_its_size_confirms_it(
    library: Library,
) -> None:
    library.fake.fault = last_token_again()
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict, outcome.evidence.unread) == (ALL, "complete", 0)
    assert len(library.fake.lists()) == 7
    assert "circular" in outcome.warnings[0]
    assert (await library.run(full=True)).verdict == "complete"


@pytest.mark.parametrize("size", [10, 59, 61])
async def test_a_circular_list_with_another_size_is_not_complete(library: Library, size: int) -> None:
    library.fake.fault = last_token_again(size)
    await library.run()
    assert len(library.fake.lists()) > 7


async def test_bounds_that_are_rejected_in_seconds_are_sent_as_days(library: Library) -> None:
    refused = b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badArgument"/></OAI-PMH>'
    library.fake.fault = lambda asked, good: refused if "T" in asked.get("from", "") else good
    outcome = await library.run(harvest_from="2024-01-11T00:00:00Z")
    assert (library.numbers(), outcome.verdict) == (set(range(10, 60)), "complete")


async def test_records_listed_twice_in_place_of_others_are_detected(library: Library) -> None:
    library.fake.items[40:50] = library.fake.items[20:30]
    outcome = await library.run()
    assert (outcome.verdict, outcome.evidence.repeated, outcome.evidence.missing) == ("partial", 10, 10)


async def test_records_listed_twice_across_an_interruption_are_detected(library: Library) -> None:
    library.fake.items[40:50] = library.fake.items[20:30]
    library.fake.fault = dies(library.fake, "resumptionToken", "30")
    library.change_settings(isolation_requests=0)
    assert (await library.run()).verdict == "failed"
    library.fake.fault = None
    outcome = await library.run()
    assert outcome.evidence.resumed_at == 30
    assert (outcome.verdict, outcome.evidence.repeated, outcome.evidence.missing) == ("partial", 10, 10)
    with library.database.session() as session:
        assert session.scalars(select(ListMarks)).all() == []


async def test_records_received_before_a_restart_of_the_list_do_not_count_as_unchanged(
    library: Library,
) -> None:
    expired = (
        b'<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><error code="badResumptionToken"/></OAI-PMH>'
    )
    library.fake.items.reverse()
    library.fake.fault = lambda asked, good: (
        expired
        if asked.get("resumptionToken", "").startswith("30") and len(library.fake.lists()) == 4
        else good
    )
    outcome = await library.run()
    assert (outcome.verdict, outcome.evidence.restarts) == ("complete", 1)
    assert (outcome.counts["records"], outcome.counts["new"], outcome.counts["unchanged"]) == (60, 60, 0)


async def test_a_lenient_run_stores_a_single_record_with_an_odd_answer_and_warns(
    library: Library,
) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes:
        odd = asked["verb"] == "GetRecord" and POISON in good
        return good.replace(b"openarchives.org/OAI/2.0/", b"openarchives.org/OAI/2.0") if odd else good

    library.fake.fault = fault
    outcome = await library.run(method=Method.IDENTIFIERS)
    assert (library.numbers(), outcome.verdict) == (ALL, "complete")
    assert any("namespace" in warning for warning in outcome.warnings)


async def test_warnings_and_evidence_of_an_interrupted_run_are_in_the_next_history_row(
    library: Library,
) -> None:
    dead = dies(library.fake, "resumptionToken", "50")
    library.fake.fault = lambda asked, good: dead(asked, good.replace(b"Title 33 ", b"<oops "))
    await library.run()
    library.fake.fault = None
    await library.run()
    with library.database.session() as session:
        last = session.scalars(select(History).order_by(History.history_id.desc())).first()
    assert last is not None
    assert "oai:fake.example:33" in last.warnings[0]
    assert (last.evidence["refused"], last.verdict) == (1, "partial")


def loses_tokens_from(number: int) -> Fault:
    """Leave out the token element of the page that ends with this record."""
    last = f"<identifier>oai:fake.example:{number - 1}</identifier>".encode()

    def fault(_: dict[str, str], good: bytes) -> bytes:
        return re.sub(b"<resumptionToken.*</resumptionToken>", b"", good) if last in good else good

    return fault


@pytest.mark.parametrize("ends", [30, 60])
async def test_a_full_last_page_without_a_token_leaves_open_whether_all_records_are_stored(
    library: Library, ends: int
) -> None:
    library.fake.sizes = False
    library.fake.fault = loses_tokens_from(ends)
    outcome = await library.run()
    assert (library.numbers(), outcome.verdict) == (set(range(ends)), "partial")
    assert (outcome.evidence.abrupt, library.harvest_row().watermark) == (1, None)
    assert "It is not known whether all requested records are stored." in outcome.in_words()


async def test_known_missing_records_are_reported_as_missing(library: Library) -> None:
    library.fake.fault = lambda _, good: good.replace(b"Title 33 ", b"<oops ")
    outcome = await library.run()
    assert "Not all requested records are stored." in outcome.in_words()
