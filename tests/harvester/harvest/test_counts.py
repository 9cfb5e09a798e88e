"""Each record is counted once, in a harvest's outcome and in sums over the history."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from harvester.harvest.approval import release
from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome, columns_of_counts, received, shares_of, write_history
from harvester.harvest.run import Tuning
from harvester.harvest.verdict import End, Evidence, judge
from harvester.models import History
from harvester.store import deletions
from harvester.store.records import write_records
from oai.errors import ExitCode
from tests.harvester.fake_repository import many
from tests.harvester.library import Library

_IN_STORE = ("new_count", "updated_count", "unchanged_count", "deleted_count")
_OTHERS = ("filtered_count", "repeated_count", "tombstone_count", "postponed_count")


def sums(library: Library) -> dict[str, int]:
    """Return the sums over the whole table, as computed by a program that ignores interruptions."""
    columns = list(columns_of_counts({}))
    with library.database.session() as session:
        row = session.execute(select(*(func.sum(getattr(History, name)) for name in columns))).one()
    return dict(zip(columns, map(int, row), strict=True))


def stop_at(library: Library, begin: str) -> asyncio.Event:
    """Return an event that is set when the page whose token starts like this is requested."""
    stop = asyncio.Event()

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if asked.get("resumptionToken", "").startswith(begin):
            stop.set()
        return good

    library.fake.fault = fault
    return stop


async def test_the_history_counts_the_records_of_a_resumed_harvest_once(library: Library) -> None:
    first = await library.run(stop=stop_at(library, "10"))
    second = await library.run(stop=stop_at(library, "20"))
    last = await library.run()

    assert 0 < first.counts["records"] < second.counts["records"] < 25 == last.counts["records"]
    assert (sums(library)["record_count"], sums(library)["new_count"]) == (25, 25)
    assert [row.continued_by for row in library.history()] == [last.history_id, last.history_id, None]
    reached = [row.evidence["reached"]["record_count"] for row in library.history()[:2]]
    assert reached == [first.counts["records"], second.counts["records"]]
    before = second.counts["records"]
    assert f"{before} before, {25 - before} since it was resumed" in last.in_words()


async def test_a_harvest_that_resumes_no_run_leaves_other_history_rows_unchanged(library: Library) -> None:
    await library.run(stop=stop_at(library, "20"))
    await library.run(full=True)

    assert [row.continued_by for row in library.history()] == [None, None]


async def test_a_list_that_starts_again_counts_its_records_once(library: Library) -> None:
    await library.run(stop=stop_at(library, "20"))
    expired = [True]

    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if "resumptionToken" in asked and expired:
            expired.clear()
            return library.fake.answer({"verb": "ListRecords", "resumptionToken": "gone"}).encode()
        return good

    library.fake.fault = fault
    outcome = await library.run()

    assert outcome.evidence.restarts + outcome.evidence.taken_up == 1
    shares = {name: count for name, count in shares_of(outcome.counts).items() if count}
    assert sum(shares.values()) == received(outcome.counts) == outcome.as_json()["received"]
    assert shares == {"new": 25} | ({"repeated": shares["repeated"]} if "repeated" in shares else {})
    assert sums(library)["new_count"] == 25


def sort_records(library: Library) -> None:
    """Give each record a later datestamp than the one before it."""
    library.fake.items = [
        replace(item, datestamp=f"2024-01-{number + 1:02}T00:00:00Z")
        for number, item in enumerate(library.fake.items)
    ]


def refuse_tokens(library: Library) -> None:
    def fault(asked: dict[str, str], good: bytes) -> bytes:
        if "resumptionToken" in asked:
            return library.fake.answer({"verb": "ListRecords", "resumptionToken": "gone"}).encode()
        return good

    library.fake.fault = fault


def delete_in_place(library: Library, *numbers: int) -> None:
    for number in numbers:
        library.delete(number, datestamp=library.fake.items[number].datestamp)


async def test_deletions_of_unknown_records_are_counted_once_when_a_list_is_requested_again(
    library: Library,
) -> None:
    sort_records(library)
    delete_in_place(library, 2, 9, 12, 22)
    refuse_tokens(library)
    outcome = await library.run()

    assert outcome.evidence.restarts > 0
    shares = shares_of(outcome.counts)
    assert (shares["new"], shares["tombstones"], shares["unchanged"]) == (21, 4, 0)
    assert sum(shares.values()) == received(outcome.counts)


async def test_deletions_of_stored_records_are_counted_once_when_a_list_is_requested_again(
    library: Library,
) -> None:
    sort_records(library)
    await library.run()
    delete_in_place(library, 2, 9, 12, 22)
    refuse_tokens(library)
    outcome = await library.run(full=True)

    assert outcome.evidence.restarts > 0
    shares = shares_of(outcome.counts)
    assert (shares["deleted"], shares["unchanged"]) == (4, 21)
    assert sum(shares.values()) == received(outcome.counts)


async def test_a_record_repeated_on_a_later_page_counts_as_repeated_and_not_as_unchanged(
    library: Library,
) -> None:
    library.fake.items = [*library.fake.items, library.fake.items[0]]
    first = await library.run()
    second = await library.run(full=True)

    assert (first.counts["new"], first.counts["unchanged"], first.counts["repeated"]) == (25, 0, 1)
    assert (second.counts["unchanged"], second.counts["repeated"]) == (25, 1)
    assert "26 records (25 unchanged, 1 repeated)" in second.in_words()


async def test_held_deletions_are_counted_before_and_after_their_approval(library: Library) -> None:
    await library.run()
    library.change_settings(brake_minimum=1, brake_deletions=1.0)
    library.delete(1, 2, 3)
    held = await library.run(full=True)

    assert (held.counts["deleted"], held.counts["postponed"]) == (0, 3)
    assert sum(shares_of(held.counts).values()) == received(held.counts) == 25
    release(library.database, library.settings, held.history_id or 0)
    row = library.history()[-1]
    assert (row.deleted_count, row.postponed_count, row.disappeared_count) == (3, 0, 0)


async def test_a_release_that_was_interrupted_and_repeated_counts_all_its_deletions(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletions are applied in pieces of 1,000; here 600 are reported, and 500 are of unlisted records."""
    library.fake.page_size, library.fake.items = 2000, many(1200)
    await library.run()
    library.delete(*range(600))
    del library.fake.items[600:1100]
    held = await library.run(full=True)
    assert (held.status, held.counts["postponed"]) == ("held", 600)
    pieces = 0

    def fail_later(*given: Any, **named: Any) -> list[int]:
        nonlocal pieces
        pieces += 1
        if pieces == 2:
            raise ConnectionError
        return write_records(*given, **named)

    monkeypatch.setattr(deletions, "write_records", fail_later)
    with pytest.raises(ConnectionError):
        release(library.database, library.settings, held.history_id or 0)
    row = library.history()[-1]
    assert (row.deleted_count, row.postponed_count, row.disappeared_count) == (1000, 0, 400)
    assert release(library.database, library.settings, held.history_id or 0)[1] == 100
    row = library.history()[-1]
    assert (row.deleted_count, row.postponed_count, row.disappeared_count) == (1100, 0, 500)
    assert (row.failure_reason or "").endswith(": 1,100 records deleted")


async def test_records_that_disappeared_count_as_deleted_and_not_as_received(library: Library) -> None:
    await library.run()
    library.forgets()
    del library.fake.items[3]
    outcome = await library.run(full=True)

    assert (outcome.counts["deleted"], outcome.counts["disappeared"]) == (1, 1)
    assert sum(shares_of(outcome.counts).values()) == received(outcome.counts) == 24
    assert "1 record was deleted because the repository no longer lists it." in outcome.in_words()
    row = library.history()[-1]
    assert row.record_count == sum(getattr(row, name) for name in (*_IN_STORE, *_OTHERS)) - 1


async def test_a_harvest_gives_signs_of_life_without_progress(library: Library) -> None:
    library.tuning = Tuning(sign_seconds=0.01)
    signs = []

    async def wait(arguments: dict[str, str]) -> None:
        if arguments.get("resumptionToken", "").startswith("10"):
            signs.append(library.harvest_row().last_sign)
            while signs[-1] in (None, signs[0]):
                await asyncio.sleep(0.01)
                signs.append(library.harvest_row().last_sign)

    library.fake.before = wait
    await library.run()

    assert signs[-1] not in (None, signs[0])


@pytest.mark.usefixtures("impatient")
async def test_a_harvest_of_a_busy_repository_says_that_it_did_not_start(library: Library) -> None:
    with only_harvest(library.database, library.repository_id):
        outcome = await library.run()

    assert outcome.in_words() == "The harvest did not start."
    assert "is being harvested" in (outcome.failure_reason or "")


def test_the_start_of_a_run_is_computed_from_its_end_by_the_database_clock(library: Library) -> None:
    evidence = Evidence(end=End.NO_TOKEN, listed=0, changes=0)
    verdict, status = judge(evidence)
    outcome = RunOutcome(
        repository_id=library.repository_id, status=status, verdict=verdict, exit_code=ExitCode.DONE,
        counts={}, evidence=evidence, seconds=90.5,
    )  # fmt: skip
    request = HarvestRequest(repository_id=library.repository_id)
    with library.database.session() as session:
        write_history(session, request, outcome, run=None, rules=(None, None))
        session.commit()
    (row,) = library.history()
    begun = row.harvest_end_time - timedelta(seconds=90.5)
    assert row.harvest_start_time == begun.replace(microsecond=0)
