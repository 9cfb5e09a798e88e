"""The task queue between manager and workers: what we ask of procrastinate, and of its tables, is all here.

A harvest waits in the queue under the lock `repository:<id>`, so that one repository is harvested by one
process at a time on however many machines. The truth is in `oai_job`; the queue only hands the work out.
"""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

import procrastinate
from procrastinate.exceptions import AlreadyEnqueued
from procrastinate.jobs import Status
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database

if TYPE_CHECKING:
    from procrastinate.types import JSONDict

QUEUE: Final = "harvest"
TASK: Final = "harvest"
INDEX_QUEUE: Final = "index"
INDEX_TASK: Final = "index_file"
SIGNS_OF_LIFE: Final = 3.0
"""How many signs of life a worker gives in the time after which it counts as lost."""

_POOL: Final = 4
_AT_ONCE: Final = 1000

Harvest = Callable[[int], Awaitable[None]]
"""Takes the id of a job."""
Index = Callable[[int], Awaitable[None]]
"""Takes the id of an archive file of an indexing run."""


@dataclass(frozen=True, kw_only=True)
class WorkerLife:
    """A worker that the queue knows."""

    worker_id: int
    last_sign: datetime
    harvests: int


def defer(session: Session, job_id: int, repository_id: int) -> None:
    """Put a job into the queue within the session's transaction; the caller commits.

    A job that waits there already stays as it is.
    """
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
    connection = session.connection().connection.driver_connection
    task = app.configure_task(
        TASK,
        queue=QUEUE,
        lock=f"repository:{repository_id}",
        queueing_lock=f"job:{job_id}",
        connection=connection,
    )
    with contextlib.suppress(AlreadyEnqueued), session.begin_nested():
        task.defer(job_id=job_id)


def defer_files(session: Session, file_ids: Sequence[int]) -> None:
    """Put archive files of an indexing run into the queue within the session's transaction.

    The caller commits.
    """
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
    connection = session.connection().connection.driver_connection
    task = app.configure_task(INDEX_TASK, queue=INDEX_QUEUE, connection=connection)
    for begin in range(0, len(file_ids), _AT_ONCE):
        arguments: list[JSONDict] = [{"file_id": file_id} for file_id in file_ids[begin : begin + _AT_ONCE]]
        task.batch_defer(*arguments)


@contextlib.asynccontextmanager
async def open_queue(database: Database, harvest: Harvest, index: Index) -> AsyncIterator[procrastinate.App]:
    """Open the queue for a worker that calls `harvest` or `index` with the id of each job or file."""
    connector = procrastinate.PsycopgConnector(
        conninfo=database.conninfo,
        min_size=1,
        max_size=_POOL,
        kwargs={"application_name": "zatva worker", "connect_timeout": 10},
    )
    app = procrastinate.App(connector=connector)

    @app.task(name=TASK, queue=QUEUE)
    async def task(job_id: int) -> None:
        await harvest(job_id)

    @app.task(name=INDEX_TASK, queue=INDEX_QUEUE)
    async def index_task(file_id: int) -> None:
        await index(file_id)

    async with app.open_async():
        yield app


async def work(
    app: procrastinate.App, queue: str, *, concurrency: int, poll_seconds: float, lost_seconds: float
) -> None:
    """Take jobs or files from one of the queues until cancelled; then those under way are cancelled first.

    Returns, or raises procrastinate's ConnectorException, when the database goes away.
    """
    await app.run_worker_async(
        queues=[queue],
        concurrency=concurrency,
        fetch_job_polling_interval=poll_seconds,
        shutdown_graceful_timeout=0,
        delete_jobs="always",
        install_signal_handlers=False,
        update_heartbeat_interval=lost_seconds / SIGNS_OF_LIFE,
        stalled_worker_timeout=lost_seconds,
    )


async def stalled(app: procrastinate.App, *, lost_seconds: float) -> dict[int, int]:
    """The harvests whose worker has given no sign of life for so long: the queue's number to our job id."""
    tasks = await app.job_manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=lost_seconds)
    return {task.id: int(str(task.task_kwargs["job_id"])) for task in tasks if task.id is not None}


async def stalled_files(app: procrastinate.App, *, lost_seconds: float) -> dict[int, int]:
    """The same for archive files: the queue's number to our file's id."""
    tasks = await app.job_manager.get_stalled_jobs(queue=INDEX_QUEUE, seconds_since_heartbeat=lost_seconds)
    return {task.id: int(str(task.task_kwargs["file_id"])) for task in tasks if task.id is not None}


def forget_lost(session: Session, number: int) -> bool:
    """Take a stalled task out of the queue; whether nobody else has done so. The caller commits."""
    return session.scalar(_FORGET_LOST, {"number": number}) is not None


async def forget(app: procrastinate.App, number: int) -> None:
    """Take a stalled harvest out of the queue, which frees its repository."""
    await app.job_manager.finish_job_by_id_async(job_id=number, status=Status.FAILED, delete_job=True)


def orphans(session: Session) -> list[int]:
    """The ids of jobs that are said to be queued or under way while the queue knows nothing of them."""
    return list(session.scalars(_ORPHANS, {"queue": QUEUE}))


def workers(session: Session) -> list[WorkerLife]:
    """The workers that the queue knows, lost ones included until somebody notices."""
    return [WorkerLife(**row) for row in session.execute(_WORKERS).mappings()]


_ORPHANS = text("""
    SELECT job_id FROM oai_job
    WHERE status <> 0 AND NOT EXISTS (
        SELECT FROM procrastinate_jobs AS task
        WHERE task.queue_name = :queue AND task.status IN ('todo', 'doing')
        AND task.args ->> 'job_id' = oai_job.job_id::text)
    ORDER BY job_id
""")
_FORGET_LOST = text("DELETE FROM procrastinate_jobs WHERE id = :number AND status = 'doing' RETURNING id")
_WORKERS = text("""
    SELECT worker.id AS worker_id, worker.last_heartbeat AS last_sign, count(task.id) AS harvests
    FROM procrastinate_workers AS worker
    LEFT JOIN procrastinate_jobs AS task ON task.worker_id = worker.id AND task.status = 'doing'
    GROUP BY worker.id ORDER BY worker.id
""")
