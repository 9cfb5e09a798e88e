"""The task queue when its database goes away for a moment."""

import asyncio

import pytest
from sqlalchemy import text

from manager import queue
from oai.database import Database
from tests.manager.conftest import Tables, until

_CUT_OFF = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%finish_job%'"
)


async def _no_file(_file_id: int) -> None:
    """No file is queued here."""


@pytest.mark.parametrize("meanwhile", ["nothing", "it was carried out"])
async def test_a_task_whose_end_is_cut_off_leaves_the_queue_all_the_same(
    database: Database, tables: Tables, meanwhile: str
) -> None:
    at_work: list[asyncio.Task[object]] = []

    async def harvest(_job_id: int) -> None:
        at_work.extend(task for task in asyncio.all_tasks() if task.get_name().startswith("process job"))
        holder.execute(text("SELECT FROM procrastinate_jobs FOR UPDATE"))

    with database.engine.connect() as holder, database.session() as session:
        queue.defer(session, 1, 1)
        session.commit()
        async with queue.open_queue(database, harvest, _no_file, _no_file, closed=asyncio.Event()) as app:
            # It asks so seldom that the worker notices nothing of it else.
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


def test_many_files_are_queued_in_parts_and_none_is_left_out(database: Database, tables: Tables) -> None:
    with database.session() as session:
        queue.defer_files(session, [1, 2, 3, 4, 5], at_once=2)
        session.commit()
    rows = tables("SELECT (args ->> 'file_id')::int AS file_id FROM procrastinate_jobs ORDER BY id")
    assert [row.file_id for row in rows] == [1, 2, 3, 4, 5]
