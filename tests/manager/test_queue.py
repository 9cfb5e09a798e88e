"""The task queue when its database is temporarily not available."""

import asyncio
import contextlib
from datetime import UTC, datetime, timedelta
from typing import Any

import procrastinate
import pytest
from procrastinate.exceptions import ConnectorException
from psycopg import OperationalError
from psycopg.errors import CannotConnectNow
from sqlalchemy import text

from manager import queue
from manager.worker.registry import Membership, register
from oai.database import Database
from tests.manager.conftest import Tables, until

_CUT_OFF = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%finish_job%'"
)

_LISTENS = (
    "SELECT pid FROM pg_stat_activity"
    " WHERE datname = current_database() AND state = 'idle' AND query ILIKE 'listen%'"
)


async def _no_file(_file_id: int) -> None:
    """No file is queued here."""


def _handlers(harvest: queue.Handler = _no_file) -> queue.Handlers:
    return queue.Handlers(harvest=harvest, index=_no_file, audit=_no_file, export=_no_file)


@pytest.mark.parametrize("meanwhile", ["nothing", "it was carried out"])
async def test_a_task_leaves_the_queue_although_its_connection_is_lost_at_its_end(
    database: Database, tables: Tables, meanwhile: str
) -> None:
    at_work: list[asyncio.Task[object]] = []

    async def harvest(_job_id: int) -> None:
        at_work.extend(task for task in asyncio.all_tasks() if task.get_name().startswith("process job"))
        holder.execute(text("SELECT FROM procrastinate_jobs FOR UPDATE"))

    with database.engine.connect() as holder, database.session() as session:
        queue.defer(session, [queue.QueuedHarvest(job_id=1, repository_id=1)])
        session.commit()
        async with queue.open_queue(database, _handlers(harvest), closed=asyncio.Event()) as app:
            # The queue is polled so rarely that the worker notices the loss only at the end of its task.
            working = asyncio.create_task(
                queue.work(app, queue.QUEUE, concurrency=2, poll_seconds=600, lost_seconds=1800)
            )
            await until(lambda: tables(_CUT_OFF))
            if meanwhile == "it was carried out":
                holder.execute(text("DELETE FROM procrastinate_jobs"))
            holder.commit()
            (process,) = at_work
            await asyncio.wait_for(process, 20)
            assert tables.one("SELECT count(*) FROM procrastinate_jobs") == 0
            assert not working.done()
            working.cancel()
            await asyncio.wait([working])


async def test_a_task_that_was_given_to_another_worker_ends_without_an_error(
    database: Database, tables: Tables
) -> None:
    begun, goes_on = asyncio.Event(), asyncio.Event()

    async def harvest(_job_id: int) -> None:
        begun.set()
        await goes_on.wait()

    with database.session() as session:
        queue.defer(session, [queue.QueuedHarvest(job_id=1, repository_id=1)])
        session.commit()
    async with queue.open_queue(database, _handlers(harvest), closed=asyncio.Event()) as app:
        working = asyncio.create_task(
            queue.work(app, queue.QUEUE, concurrency=1, poll_seconds=600, lost_seconds=1800)
        )
        await asyncio.wait_for(begun.wait(), 20)
        tables("DELETE FROM procrastinate_jobs")
        (process,) = (task for task in asyncio.all_tasks() if task.get_name().startswith("process job"))
        goes_on.set()
        await asyncio.wait_for(process, 20)
        working.cancel()
        await asyncio.wait([working])


async def test_a_worker_hears_of_new_tasks_after_several_failed_attempts_to_listen(
    database: Database, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As while PostgreSQL restarts."""
    listen = procrastinate.PsycopgConnector.listen_notify
    refused = [OperationalError("refused"), CannotConnectNow("the database system is starting up")]
    begun = asyncio.Event()

    async def listen_after_a_restart(connector: procrastinate.PsycopgConnector, **arguments: Any) -> None:
        if refused:
            raise ConnectorException from refused.pop()
        await listen(connector, **arguments)

    async def harvest(_job_id: int) -> None:
        begun.set()

    monkeypatch.setattr(procrastinate.PsycopgConnector, "listen_notify", listen_after_a_restart)
    async with queue.open_queue(database, _handlers(harvest), closed=asyncio.Event()) as app:
        working = asyncio.create_task(
            queue.work(app, queue.QUEUE, concurrency=1, poll_seconds=600, lost_seconds=1800)
        )
        await until(lambda: tables(_LISTENS))
        with database.session() as session:
            queue.defer(session, [queue.QueuedHarvest(job_id=1, repository_id=1)])
            session.commit()
        await asyncio.wait_for(begun.wait(), 20)
        working.cancel()
        await asyncio.wait([working])


def test_a_queued_job_is_not_queued_again_beside_new_ones(database: Database, tables: Tables) -> None:
    jobs = [queue.QueuedHarvest(job_id=number, repository_id=number) for number in (1, 2)]
    with database.session() as session:
        queue.defer(session, jobs[:1])
        queue.defer(session, jobs)
        session.commit()
        assert queue.ranks(session) == {1: 0, 2: 0}
    assert tables.one("SELECT count(*) FROM procrastinate_jobs") == 2


def test_many_files_are_queued_in_parts_and_none_is_left_out(database: Database, tables: Tables) -> None:
    with database.session() as session:
        queue.defer_files(session, [1, 2, 3, 4, 5], at_once=2)
        session.commit()
    rows = tables("SELECT (args ->> 'file_id')::int AS file_id FROM procrastinate_jobs ORDER BY id")
    assert [row.file_id for row in rows] == [1, 2, 3, 4, 5]


def _hold_tasks(database: Database, tables: Tables, *, silent: int) -> None:
    """Queue a task in each queue; one worker holds them all and has been silent for so many seconds."""
    tables.add("procrastinate_workers", last_heartbeat=datetime.now(UTC) - timedelta(seconds=silent))
    with database.session() as session:
        queue.defer(session, [queue.QueuedHarvest(job_id=1, repository_id=1)])
        queue.defer_files(session, [2])
        queue.defer_audits(session, [3])
        queue.defer_export(session, 4)
        session.commit()
    tables(
        "UPDATE procrastinate_jobs SET status = 'doing', worker_id = (SELECT id FROM procrastinate_workers)"
    )


@pytest.mark.parametrize(
    ("silent", "lost_seconds", "held"),
    [(60, 30, 4), (60, 200, 4), (190, 200, 4), (190, 30, 2), (210, 200, 2), (-190, 200, 4), (-210, 200, 2)],
)
def test_a_worker_is_lost_after_the_longest_silence_that_any_settings_allow(
    database: Database, tables: Tables, silent: int, lost_seconds: float, held: int
) -> None:
    _hold_tasks(database, tables, silent=silent)
    with database.session() as session:
        for allowed in (20, 180):
            register(session, Membership(host="far", process_id=1, concurrency=1, lost_seconds=allowed))
        queue.lost_audits(session, lost_seconds=lost_seconds)
        queue.lost_exports(session, lost_seconds=lost_seconds)
        session.commit()
        harvests = queue.stalled(session, lost_seconds=lost_seconds)
        files = queue.stalled_files(session, lost_seconds=lost_seconds)
    assert [*harvests.values(), *files.values()] == ([] if held == 4 else [1, 2])
    assert tables.one("SELECT count(*) FROM procrastinate_jobs") == held


async def test_a_starting_worker_does_not_take_the_tasks_of_a_silent_worker(
    database: Database, tables: Tables
) -> None:
    _hold_tasks(database, tables, silent=60)
    async with queue.open_queue(database, _handlers(), closed=asyncio.Event()) as app:
        working = asyncio.create_task(
            queue.work(app, queue.QUEUE, concurrency=1, poll_seconds=600, lost_seconds=30)
        )
        await until(
            lambda: tables("SELECT FROM procrastinate_workers WHERE last_heartbeat > now() - '9 s'::interval")
        )
        working.cancel()
        await asyncio.wait([working])
    assert tables.one("SELECT count(worker_id) FROM procrastinate_jobs") == 4


async def test_a_starting_worker_is_cancelled_although_the_driver_loses_the_cancellation(
    database: Database, tables: Tables
) -> None:
    async with queue.open_queue(database, _handlers(), closed=asyncio.Event()) as app:
        ask = app.connector.execute_query_one_async

        async def losing(query: str, **arguments: object) -> dict[str, object]:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(0)
            return await ask(query, **arguments)

        app.connector.execute_query_one_async = losing  # type: ignore[method-assign]
        with pytest.raises(asyncio.CancelledError):
            await asyncio.create_task(app.job_manager.register_worker())
        assert tables("SELECT id FROM procrastinate_workers") == []


async def test_cancelling_the_opening_of_a_queue_leaves_no_task(database: Database) -> None:
    async def opened() -> None:
        async with queue.open_queue(database, _handlers(), closed=asyncio.Event()):
            await asyncio.sleep(60)

    for steps in range(30):
        opening = asyncio.create_task(opened())
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening])
        assert asyncio.all_tasks() == {asyncio.current_task()}
