"""The task queue between manager and workers: all use of procrastinate and of its tables is here.

A harvest waits in the queue under the lock `repository:<id>`, so that one process at a time harvests a
repository, across all machines. `oai_job` is authoritative; the queue only distributes the work.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import procrastinate
from procrastinate.connector import BaseConnector, Notify
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job as Task
from procrastinate.jobs import Status
from procrastinate.manager import JobManager
from psycopg import AsyncConnection, OperationalError
from psycopg.errors import RaiseException, ReadOnlySqlTransaction
from sqlalchemy import TextClause, text
from sqlalchemy.orm import Session

from oai.database import Database
from provider.holdings import status

if TYPE_CHECKING:
    from procrastinate.types import JSONDict

QUEUE: Final = "harvest"
TASK: Final = "harvest"
INDEX_QUEUE: Final = status.QUEUE
INDEX_TASK: Final = "index_file"
AUDIT_QUEUE: Final = "store_audit"
AUDIT_TASK: Final = "audit_store"
EXPORT_QUEUE: Final = "prepare_export"
EXPORT_TASK: Final = "prepare_export"
SIGNS_OF_LIFE: Final = 3.0
"""How many heartbeats a worker sends in the time after which it counts as lost."""

_POOL: Final = 4
_AT_ONCE: Final = 1000
_AWAY_SECONDS: Final = 60.0
"""Longer than the wait for a connection of the pool (30 s), so that heartbeats fail first."""
_TRY_SECONDS: Final = 0.5
_FORGOTTEN_SECONDS: Final = 3600.0

Handler = Callable[[int], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Handlers:
    """What a worker calls for the tasks of each queue."""

    harvest: Handler
    """Called with a job id."""
    index: Handler
    """Called with the id of an archive file of an indexing run."""
    audit: Handler
    """Called with the id of an audit of a store."""
    export: Handler
    """Called with the id of a file to be prepared for download."""

    def add_tasks(self, app: procrastinate.App) -> None:
        """Add the tasks; the names of their parameters are stored with each task in the queue."""

        @app.task(name=TASK, queue=QUEUE)
        async def harvest(job_id: int) -> None:
            await self.harvest(job_id)

        @app.task(name=INDEX_TASK, queue=INDEX_QUEUE)
        async def index(file_id: int) -> None:
            await self.index(file_id)

        @app.task(name=AUDIT_TASK, queue=AUDIT_QUEUE)
        async def audit(audit_id: int) -> None:
            await self.audit(audit_id)

        @app.task(name=EXPORT_TASK, queue=EXPORT_QUEUE)
        async def export(export_id: int) -> None:
            await self.export(export_id)


class DrainingJobManager(JobManager):
    """Hands out tasks until it is closed.

    procrastinate's own shutdown of a worker would stop its heartbeats immediately.
    """

    def __init__(self, connector: BaseConnector, closed: asyncio.Event) -> None:
        super().__init__(connector)
        self._closed = closed

    async def register_worker(self) -> int:
        """Register a worker that starts; raise CancelledError if it was cancelled meanwhile.

        The database driver may lose a cancellation that arrives just as a query ends. The worker's later
        waits are shielded, so that it would never learn of it.
        """
        worker_id = await super().register_worker()
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            await self.unregister_worker(worker_id)
            raise asyncio.CancelledError
        return worker_id

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Task | None:
        """Return the next task for the worker; None if there is none, or if the queue is closed."""
        return None if self._closed.is_set() else await super().fetch_job(queues, worker_id)

    async def finish_job(self, job: Task, status: Status, delete_job: bool) -> None:  # noqa: FBT001 inherited
        """Remove an ended task from the queue, retrying while the database is unavailable.

        procrastinate's own method tries once. A task left assigned to a live worker would keep its
        repository's lock permanently. If the database stays away longer than the deadline, the worker ends
        and its tasks go to others.
        """
        deadline = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                return await super().finish_job(job, status, delete_job)
            except ConnectorException as error:
                # It is no longer in the queue: the leader removed it because this worker seemed lost, or an
                # attempt succeeded whose response was lost.
                if isinstance(error.__cause__, RaiseException):
                    return None
                if not is_lost(error) or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(_TRY_SECONDS)


def is_lost(error: BaseException) -> bool:
    """Return whether the queue's database does not answer, so that the same call may succeed later."""
    return isinstance(error.__cause__, (OperationalError, ReadOnlySqlTransaction))


def reason(error: BaseException) -> str:
    """Return the first line of the error's cause, as the server or the driver wrote it."""
    return str(error.__cause__ or error).partition("\n")[0]


@dataclass(frozen=True, kw_only=True)
class QueuedHarvest:
    """A job to be put into the queue."""

    job_id: int
    repository_id: int
    priority: int = 0
    """The highest is taken first."""


def defer(session: Session, harvests: Sequence[QueuedHarvest]) -> None:
    """Put jobs into the queue within the session's transaction; the caller commits.

    Jobs that are already waiting in the queue are left unchanged.
    """
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
    tasks = [_task_of(app, harvest) for harvest in harvests]
    try:
        _defer_tasks(session, app, tasks)
    except AlreadyEnqueued:
        for task in tasks:
            with contextlib.suppress(AlreadyEnqueued):
                _defer_tasks(session, app, [task])


def _task_of(app: procrastinate.App, harvest: QueuedHarvest) -> Task:
    task = app.configure_task(
        TASK,
        queue=QUEUE,
        lock=f"repository:{harvest.repository_id}",
        queueing_lock=f"job:{harvest.job_id}",
        priority=harvest.priority,
    )
    return task.make_new_job(job_id=harvest.job_id)


def _defer_tasks(session: Session, app: procrastinate.App, tasks: list[Task]) -> None:
    # The savepoint keeps the transaction usable when the unique queueing lock rejects a second task.
    with session.begin_nested():
        connection = session.connection().connection.driver_connection
        app.job_manager.batch_defer_jobs(tasks, connection)


def defer_files(session: Session, file_ids: Sequence[int], *, at_once: int = _AT_ONCE) -> None:
    """Put archive files of an indexing run into the queue within the session's transaction.

    The caller commits.
    """
    files: Sequence[JSONDict] = [{"file_id": file_id} for file_id in file_ids]
    _defer_all(session, INDEX_TASK, INDEX_QUEUE, files, at_once=at_once)


def defer_audits(session: Session, audit_ids: Sequence[int]) -> None:
    """Put audits of stores into the queue within the session's transaction. The caller commits."""
    _defer_all(session, AUDIT_TASK, AUDIT_QUEUE, [{"audit_id": audit_id} for audit_id in audit_ids])


def defer_export(session: Session, export_id: int) -> None:
    """Put a file to be prepared into the queue within the session's transaction. The caller commits."""
    _defer_all(session, EXPORT_TASK, EXPORT_QUEUE, [{"export_id": export_id}])


def _defer_all(
    session: Session, name: str, queue: str, arguments: "Sequence[JSONDict]", *, at_once: int = _AT_ONCE
) -> None:
    app = procrastinate.App(connector=procrastinate.SyncPsycopgConnector())
    connection = session.connection().connection.driver_connection
    task = app.configure_task(name, queue=queue, connection=connection)
    for begin in range(0, len(arguments), at_once):
        task.batch_defer(*arguments[begin : begin + at_once])


class _Connector(procrastinate.PsycopgConnector):
    """Listens for new tasks again after the database was away.

    procrastinate's own connector tries once, which a restart of PostgreSQL outlasts. The worker would then
    find new tasks only by polling until it ends.
    """

    async def listen_notify(self, on_notification: Notify, channels: Iterable[str]) -> None:
        """Call `on_notification` until cancelled. Raises ConnectorException for what no attempt changes."""
        channels = list(channels)
        while True:
            try:
                await super().listen_notify(on_notification=on_notification, channels=channels)
            except ConnectorException as error:
                if not is_lost(error):
                    raise
            await asyncio.sleep(_TRY_SECONDS)


@contextlib.asynccontextmanager
async def open_queue(
    database: Database, handlers: Handlers, *, closed: asyncio.Event
) -> AsyncIterator[procrastinate.App]:
    """Open the queue for a worker with these handlers.

    Once `closed` is set, no new tasks are taken; running ones continue.
    """
    connector = _Connector(
        conninfo=database.conninfo,
        min_size=1,
        max_size=_POOL,
        kwargs={"application_name": "zatva worker", "connect_timeout": 10},
        configure=_commit_each_statement,
    )
    app = procrastinate.App(connector=connector)
    app.job_manager = DrainingJobManager(connector, closed)
    handlers.add_tasks(app)
    try:
        await app.open_async()
        opening = asyncio.current_task()
        if opening is not None and opening.cancelling():
            # A pool that connects just then can lose the cancellation, and the worker would go on.
            raise asyncio.CancelledError
        yield app
    finally:
        # Also if opening was cancelled: a connecting pool whose tasks are only cancelled may ignore that,
        # and the process would wait for them indefinitely.
        await app.close_async()


async def _commit_each_statement(connection: AsyncConnection) -> None:
    # Each call of procrastinate is one statement; BEGIN and COMMIT around it would triple the round trips.
    await connection.set_autocommit(True)


async def work(
    app: procrastinate.App, queue: str, *, concurrency: int, poll_seconds: float, lost_seconds: float
) -> None:
    """Take tasks from one queue until cancelled; running ones are then cancelled first.

    Returns, or raises procrastinate's ConnectorException, when a statement fails (see `is_lost`).
    """
    await app.run_worker_async(
        queues=[queue],
        concurrency=concurrency,
        fetch_job_polling_interval=poll_seconds,
        shutdown_graceful_timeout=0,
        delete_jobs="always",
        install_signal_handlers=False,
        update_heartbeat_interval=lost_seconds / SIGNS_OF_LIFE,
        # Rows of other workers, whose heartbeats may be rarer, are removed long after they count as lost.
        stalled_worker_timeout=max(lost_seconds, _FORGOTTEN_SECONDS),
    )


def ranks(session: Session) -> dict[int, int]:
    """Return the jobs that wait in the queue, each with its priority there."""
    return {row.job_id: row.priority for row in session.execute(_RANKS, {"queue": QUEUE})}


def sizes(session: Session) -> dict[str, int]:
    """Return how many tasks wait for a worker in each queue."""
    waiting = {row.queue_name: row.tasks for row in session.execute(_SIZES)}
    return {name: waiting.get(name, 0) for name in (QUEUE, INDEX_QUEUE)}


def stalled(session: Session, *, lost_seconds: float) -> dict[int, int]:
    """Return the harvests whose worker has sent no heartbeat for so long: the task's id to the job id.

    If a worker's own settings allow a longer silence (see `oai_worker`), that one applies to all workers,
    because the queue does not know whose heartbeat it is. A heartbeat that is as far in the future, from a
    clock that was ahead, says nothing either. The same applies to the functions below.
    """
    rows = session.execute(_STALLED, {"queue": QUEUE, "seconds": lost_seconds})
    return {row.id: row.args["job_id"] for row in rows}


def stalled_files(session: Session, *, lost_seconds: float) -> dict[int, int]:
    """Return the archive files whose worker has sent no heartbeat for so long: task id to file id."""
    rows = session.execute(_STALLED, {"queue": INDEX_QUEUE, "seconds": lost_seconds})
    return {row.id: row.args["file_id"] for row in rows}


def lost_audits(session: Session, *, lost_seconds: float) -> list[int]:
    """Return the ids of open audits without a task, or whose worker has sent no heartbeat for so long.

    The tasks of lost workers are removed. The caller commits.
    """
    return _lost(session, _LOST_AUDITS, AUDIT_QUEUE, lost_seconds)


def lost_exports(session: Session, *, lost_seconds: float) -> list[int]:
    """Return the ids of files to be prepared likewise. The caller commits."""
    return _lost(session, _LOST_EXPORTS, EXPORT_QUEUE, lost_seconds)


def _lost(session: Session, found: TextClause, queue: str, lost_seconds: float) -> list[int]:
    session.execute(_FORGET_TASKS_OF_LOST_WORKERS, {"queue": queue, "seconds": lost_seconds})
    return list(session.scalars(found, {"queue": queue}))


def forget_lost(session: Session, number: int) -> bool:
    """Remove a stalled task; return False if another process has already done so. The caller commits."""
    return session.scalar(_FORGET_LOST, {"number": number}) is not None


def orphans(session: Session) -> list[int]:
    """Return the ids of jobs that are queued or under way although the queue has no task for them."""
    return list(session.scalars(_ORPHANS, {"queue": QUEUE}))


def _without_task(key: str, table: str, under_way: str) -> TextClause:
    """Return the statement that finds the rows under way for which the queue has no task."""
    return text(f"""
        SELECT {key} FROM {table} AS owner
        WHERE {under_way} AND NOT EXISTS (
            SELECT FROM procrastinate_jobs AS task
            WHERE task.queue_name = :queue AND task.status IN ('todo', 'doing')
            AND task.args ->> '{key}' = owner.{key}::text)
        ORDER BY {key}
    """)  # noqa: S608 built from constants only


_ORPHANS = _without_task("job_id", "oai_job", "status IN (1, 2, 3, 5, 6, 7)")
_LOST_AUDITS = _without_task(
    "audit_id", "oai_store_audit", "due IS NOT NULL AND state IN ('queued', 'running')"
)
_LOST_EXPORTS = _without_task("export_id", "prepared_export", "state IN ('queued', 'running')")
_FORGET_TASKS_OF_LOST_WORKERS = text("""
    DELETE FROM procrastinate_jobs AS task WHERE task.queue_name = :queue AND task.status = 'doing'
    AND NOT EXISTS (
        SELECT FROM procrastinate_workers AS worker WHERE worker.id = task.worker_id
        AND greatest(now() - worker.last_heartbeat, worker.last_heartbeat - now()) <= greatest(
            make_interval(secs => :seconds), (SELECT max(good_until - last_sign) FROM oai_worker)))
""")
_FORGET_LOST = text("DELETE FROM procrastinate_jobs WHERE id = :number AND status = 'doing' RETURNING id")
_RANKS = text("""
    SELECT (args ->> 'job_id')::int AS job_id, priority FROM procrastinate_jobs
    WHERE queue_name = :queue AND status = 'todo'
""")
_SIZES = text("""
    SELECT queue_name, count(*) AS tasks FROM procrastinate_jobs WHERE status = 'todo' GROUP BY queue_name
""")
_STALLED = text("""
    SELECT task.id, task.args FROM procrastinate_jobs AS task
    LEFT JOIN procrastinate_workers AS worker ON worker.id = task.worker_id
    WHERE task.queue_name = :queue AND task.status = 'doing'
    AND (worker.id IS NULL
        OR greatest(now() - worker.last_heartbeat, worker.last_heartbeat - now()) > greatest(
            make_interval(secs => :seconds), (SELECT max(good_until - last_sign) FROM oai_worker)))
    ORDER BY task.id
""")
