"""The manager with the harvester itself, over a small repository."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from harvester.harvest.checkpoint import end_silent, is_held
from manager.jobs import views as jobs
from manager.jobs.views import JobView
from manager.worker.process import HARVESTER
from oai.database import Database
from oai.datestamps import format_datestamp, parse_datestamp
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.manager.conftest import Tables, alive, manager_process, managing, until


@contextlib.asynccontextmanager
async def stuck_after(records: int, tables: Tables) -> AsyncIterator[tuple[FakeRepository, asyncio.Event]]:
    """Serve a repository whose list blocks after so many records until the event is set."""
    go_on = asyncio.Event()
    repository = FakeRepository(items=many(30), page_size=records)

    async def wait(arguments: dict[str, str]) -> None:
        if "resumptionToken" in arguments:
            await go_on.wait()

    repository.before = wait
    async with serve(repository):
        tables.repository(repository.url)
        yield repository, go_on
        go_on.set()


def spoil_the_first_record(_: dict[str, str], body: bytes) -> bytes:
    """Add a bare ampersand to the first title of the page."""
    return body.replace(b"<dc:title>", b"<dc:title>&", 1)


def job_with_a_page(database: Database) -> JobView | None:
    with database.session() as session:
        views = [view for view in jobs.list_jobs(session) if view.progress and view.progress.pages]
    return views[0] if views else None


async def test_a_repository_and_a_schedule_inserted_by_plain_sql_are_harvested(
    quick: Settings, database: Database, tables: Tables
) -> None:
    async with serve(FakeRepository(items=many(25))) as repository:
        tables.repository(repository.url)
        tables.add("oai_recurring_job", repository_id=1, frequency="hourly", set_spec="")
        async with managing(quick, database, HARVESTER):
            await until(tables.history)
            await until(lambda: tables("SELECT FROM oai_job WHERE harvest_start_time > now()"))
    assert tables.history() == [("completed", "oai_dc")]
    (row,) = tables("SELECT record_count, job_id, recurring_id FROM oai_history")
    assert tuple(row) == (25, 1, 1)
    assert len(list((quick.store / "here").rglob("*.xml"))) == 25


async def test_the_second_run_of_a_schedule_with_a_lower_bound_requests_only_changes(
    quick: Settings, database: Database, tables: Tables
) -> None:
    async with serve(FakeRepository(items=many(25))) as repository:
        tables.repository(repository.url)
        tables.add("oai_recurring_job", repository_id=1, frequency="hourly", harvest_from="2024-01-01")
        async with managing(quick, database, HARVESTER):
            await until(tables.history)
            await until(lambda: tables("SELECT FROM oai_job WHERE harvest_start_time > now()"))
            watermark = tables.one("SELECT watermark FROM oai_harvest")
            tables("UPDATE oai_job SET harvest_start_time = now()")
            await until(lambda: len(tables.history()) == 2)
        requested = [one.get("from") for one in repository.lists() if "resumptionToken" not in one]
    assert [status for status, _ in tables.history()] == ["completed", "no changes"]
    minute_before = format_datestamp(parse_datestamp(watermark).moment - timedelta(minutes=1))
    assert requested == ["2024-01-01T00:00:00Z", minute_before]


async def test_progress_is_shown_and_a_killed_harvest_resumes_where_it_stopped(
    quick: Settings, database: Database, tables: Tables
) -> None:
    async with stuck_after(10, tables) as (repository, go_on):
        tables.add("oai_job", repository_id=1)
        async with managing(quick, database, HARVESTER):
            job = await until(lambda: job_with_a_page(database))
            assert (job.state, job.progress.records, job.progress.complete_list_size) == ("running", 10, 30)
            os.kill(job.process_id, signal.SIGKILL)
            await until(tables.history)
            go_on.set()
            await until(lambda: len(tables.history()) == 2)
        beginnings = [asked for asked in repository.lists() if "resumptionToken" not in asked]
    assert tables.history() == [("failed", "oai_dc"), ("completed", "oai_dc")]
    assert tables.one("SELECT count(*) FROM oai_record") == 30
    assert tables.one("SELECT sum(record_count) FROM oai_history") == 30
    assert len(beginnings) == 1


# What becomes of a job that is killed is in `test_job_control.py`.
@pytest.mark.parametrize(
    ("order", "status"),
    [
        ("kill the process", "failed"),
        pytest.param("kill the job", "killed", marks=pytest.mark.long),
    ],
)
async def test_the_row_of_a_killed_harvest_has_its_counts_warnings_errors_and_changes(
    quick: Settings, database: Database, tables: Tables, order: str, status: str
) -> None:
    async with stuck_after(10, tables) as (repository, _):
        repository.fault = spoil_the_first_record
        tables.add("oai_job", repository_id=1)
        async with managing(quick, database, HARVESTER):
            job = await until(lambda: job_with_a_page(database))
            if order == "kill the job":
                tables("UPDATE oai_job SET status = 6")
            else:
                os.kill(job.process_id, signal.SIGKILL)
            await until(tables.history)
            tables("DELETE FROM oai_job")
    (row,) = tables("SELECT * FROM oai_history ORDER BY history_id LIMIT 1")
    assert (row.status, row.verdict) == (status, "partial")
    assert (row.record_count, row.new_count, row.invalid_count) == (9, 9, 1)
    assert row.requests > 0
    assert row.bytes > 0
    assert any("refused" in warning or "oai:" in warning for warning in row.warnings)
    assert (row.evidence["end"], row.evidence["pages"], row.evidence["resumable"]) == ("cut off", 1, True)
    assert tables.one("SELECT history_id FROM oai_quarantine") == row.history_id
    changes = "SELECT count(*) FROM oai_change WHERE harvest_id = :harvest AND run_started = :began"
    assert tables.one(changes, harvest=row.harvest_id, began=row.run_started) == 9


async def test_connections_of_a_hanging_harvest_are_ended_and_not_those_of_a_running_one(
    quick: Settings, database: Database, tables: Tables
) -> None:
    def ended(seconds: float) -> bool:
        with database.session() as session:
            return end_silent(session, 1, seconds=seconds)

    async with stuck_after(10, tables):
        tables.add("oai_job", repository_id=1)
        async with managing(quick, database, HARVESTER):
            job = await until(lambda: job_with_a_page(database))
            assert is_held(database, 1)
            assert not ended(600)
            os.kill(job.process_id, signal.SIGSTOP)
            await until(lambda: ended(2))
            assert not is_held(database, 1)
            os.kill(job.process_id, signal.SIGKILL)


async def test_a_harvest_that_ends_with_its_manager_is_resumed_by_the_next_manager(
    quick: Settings, database: Database, tables: Tables
) -> None:
    async with stuck_after(10, tables) as (repository, go_on):
        tables.add("oai_job", repository_id=1)
        async with managing(quick, database, HARVESTER):
            job = await until(lambda: job_with_a_page(database))
        assert not alive(job.process_id)
        assert tables.history() == [("incomplete", "oai_dc")]
        go_on.set()
        async with managing(quick, database, HARVESTER):
            await until(lambda: len(tables.history()) == 2)
        beginnings = [asked for asked in repository.lists() if "resumptionToken" not in asked]
    assert tables.history()[1] == ("completed", "oai_dc")
    assert len(beginnings) == 1


async def test_the_harvest_of_a_killed_manager_stops_by_itself(
    quick_environment: dict[str, str], database: Database, tables: Tables
) -> None:
    async with stuck_after(10, tables):
        tables.add("oai_job", repository_id=1)
        async with manager_process(quick_environment, "zatva", "manager", "run") as manager:
            job = await until(lambda: job_with_a_page(database))
            manager.kill()
            await asyncio.to_thread(manager.wait)
            await until(lambda: not alive(job.process_id))
    assert tables.history() == [("incomplete", "oai_dc")]
