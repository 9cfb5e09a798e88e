"""The worker: takes harvests from the queue and runs a process for each, on any number of machines.

Its work is tied to the process: the harvest ends when the process does, and the process ends when the job is
deleted, when the worker ends, or when the worker's machine fails. A draining worker takes no new work and
ends when its current work is done.
"""

import asyncio
import contextlib
import dataclasses
import logging
import os
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, TypeVar

from procrastinate import App
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import exports, queue, store_audits
from manager.models import Job, JobStatus
from manager.worker import registry
from manager.worker.claim import ClaimedRun, claim, note_process
from manager.worker.process import (
    AUDITOR,
    EXPORTER,
    HARVESTER,
    HarvestProcess,
    PreforkServer,
    environment_for,
    host_name,
)
from manager.worker.queued_process import IndexingWorker, ProcessWorker, repeated
from manager.worker.registry import Membership
from manager.worker.settlement import WANTED, Cause, JobEnd, settle
from manager.worker.supervision import StopRequest, supervise
from oai.database import Database, first_line
from oai.executor import DatabaseExecutor
from oai.logs import RareWarning
from oai.migrations import refuse_newer_tables
from oai.settings import Settings
from provider.export import prepared_files

logger = logging.getLogger("manager.worker")

_Result = TypeVar("_Result")
_QUICKEST_POLL = 1.0
"""The queue announces new tasks, so polls only find those whose announcement was missed."""
_SLOWEST_POLL = 5.0
_STOP_POLL = 1.0
_END_SECONDS: Final = 5.0
"""Seconds for a cancelled queue to end by itself."""
_AUDITS: Final = 1
"""Audits at a time: each reads a whole store, and two would compete for the same disks."""
_EXPORTS: Final = 1
"""Files prepared for download at a time, likewise."""


class Worker:
    """Runs harvests, several at a time; each process has one of these.

    `_orders` is changed only by coroutines of one event loop, and so needs no lock.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transactions: DatabaseExecutor,
        *,
        command: Sequence[str] = HARVESTER,
        drain: asyncio.Event | None = None,
    ) -> None:
        self._settings = settings
        self._database = database
        self._transactions = transactions
        self._command = command
        self._host = host_name()
        self._orders: dict[int, StopRequest] = {}
        self._indexing = IndexingWorker(settings, transactions, ends=self._is_cancelled)
        self._auditing = ProcessWorker(
            settings,
            transactions,
            command=AUDITOR,
            what="store audit",
            claim=store_audits.claim,
            settle=store_audits.give_back,
            ends=self._is_cancelled,
        )
        self._exporting = ProcessWorker(
            settings,
            transactions,
            command=EXPORTER,
            what="prepared file",
            claim=prepared_files.claim,
            settle=partial(exports.give_back, folder=settings.exports),
            ends=self._is_cancelled,
        )
        can_fork = tuple(command) == HARVESTER and sys.platform == "linux"
        self._server = PreforkServer() if can_fork and settings.manager.prefork else None
        self._drain = asyncio.Event() if drain is None else drain
        self._worker_id: int | None = None
        self._losses = RareWarning(logger)
        self._running: asyncio.Task[None] | None = None

    @property
    def job_ids(self) -> frozenset[int]:
        """Return the jobs that this worker holds."""
        return frozenset(self._orders)

    async def run(self, *, concurrency: int | None = None) -> None:
        """Work until cancelled or drained; when cancelled, the running harvests are ended.

        If the database becomes unavailable, it waits until the database returns. Raises ConnectorException
        for any other error of the queue's statements: no later attempt would succeed; DatabaseNotReadyError
        once the tables are newer than this version.
        """
        self._running = asyncio.current_task()
        places = concurrency or self._settings.manager.concurrency
        membership = Membership(
            host=self._host,
            process_id=os.getpid(),
            concurrency=places,
            lost_seconds=self._settings.manager.lost_seconds,
        )
        handlers = queue.Handlers(
            harvest=self.harvest,
            index=self._indexing.run,
            audit=self._auditing.run,
            export=self._exporting.run,
        )
        async with queue.open_queue(self._database, handlers, closed=self._drain) as app:
            self._worker_id = await self._transactions.run(registry.register, membership)
            logger.info("worker %d runs up to %d harvests at a time", self._worker_id, places)
            watch = asyncio.create_task(self._keep_watch(self._worker_id, membership))
            watching = [watch, asyncio.create_task(self._indexing.watch_for_lost())]
            try:
                while (why := await self._work(app, places, watch)) is not None:
                    self._losses.warn(f"the connection to the queue's database was lost{why}; trying again")
                    await asyncio.sleep(self._settings.manager.tick_seconds)
            finally:
                for watch in watching:
                    watch.cancel()
                await _ended(watching)
                if self._server is not None:
                    await self._server.close()
                with contextlib.suppress(OperationalError):
                    await self._transactions.run(registry.unregister, self._worker_id)
        logger.info("worker %d is drained: it takes no new jobs and none is running", self._worker_id)

    async def harvest(self, job_id: int) -> None:
        """Run one job from claim to settlement. Cancelling ends its process first."""
        order = self._orders[job_id] = StopRequest()
        life = asyncio.create_task(self._supervise(job_id, order))
        cancelled = False
        try:
            while not life.done():
                try:
                    # Shielded, so that a cancellation ends the process in order and the job is still settled.
                    await asyncio.shield(life)
                except asyncio.CancelledError:
                    cancelled = True
                    order.give(Cause.SHUTDOWN)
            life.result()
        finally:
            del self._orders[job_id]
        if cancelled:
            raise asyncio.CancelledError

    async def _work(self, app: App, concurrency: int, watch: asyncio.Task[None]) -> str | None:
        """Take tasks from all queues until drained (None) or until the database is lost (the reason).

        On return and on cancellation, all queues' tasks have ended. Raises what `run` does, and the error
        with which `watch` ends.
        """
        manager = self._settings.manager
        places = {
            queue.QUEUE: concurrency,
            queue.INDEX_QUEUE: manager.indexing_concurrency,
            queue.AUDIT_QUEUE: _AUDITS,
            queue.EXPORT_QUEUE: _EXPORTS,
        }
        working = [
            asyncio.create_task(
                queue.work(
                    app,
                    name,
                    concurrency=number,
                    poll_seconds=min(max(manager.tick_seconds, _QUICKEST_POLL), _SLOWEST_POLL),
                    lost_seconds=manager.lost_seconds,
                )
            )
            for name, number in places.items()
        ]
        drained = asyncio.create_task(self._drained())
        try:
            await asyncio.wait([*working, drained, watch], return_when=asyncio.FIRST_COMPLETED)
        finally:
            done = drained.done()
            for task in (*working, drained):
                task.cancel()
            await _ended([*working, drained], cancel_again=lambda: not self._holds_work())
        if self._is_cancelled():  # while the tasks of a lost queue ended
            raise asyncio.CancelledError
        if watch.done():
            watch.result()
        why = _reason_of_loss([task.exception() for task in working if not task.cancelled()])
        return None if done else why

    async def _drained(self) -> None:
        """Return when the worker is draining and holds no work."""
        await self._drain.wait()
        while self._holds_work():  # noqa: ASYNC110 the queue calls the worker and offers no event
            await asyncio.sleep(_STOP_POLL)

    def _holds_work(self) -> bool:
        others = (self._indexing, self._auditing, self._exporting)
        return bool(self._orders) or any(other.numbers for other in others)

    async def _supervise(self, job_id: int, order: StopRequest) -> None:
        if order.cause is not None:
            return
        overlap = self._settings.harvester.overlap
        run = await self._transactions.run(
            claim, job_id, self._host, self._worker_id, overlap=overlap, data=self._settings.data
        )
        if run is None:
            logger.info("job %d is no longer queued, or may not run", job_id)
            return
        origin = {"job": job_id, "repository": run.repository_id}
        try:
            process = await HarvestProcess.start(
                [*self._command, *run.arguments],
                environment_for(self._settings),
                self._server,
                origin=origin,
            )
        except OSError as error:
            ending = JobEnd(cause=Cause.ENDED, stderr=str(error))
        else:
            started = "job %d: harvest of repository %d started"
            logger.info(started, job_id, run.repository_id, extra={"origin": origin})
            run, ending = await self._watch(run, process, order)
        # Otherwise the job would count as lost although this worker lives.
        number = await self._repeated(
            order, partial(settle, run=run, ending=ending, settings=self._settings.manager)
        )
        logger.info(
            "job %d: %s, exit code %s, run %s", job_id, ending.cause.name.lower(), ending.exit_code, number,
            extra={"origin": {**origin, "run": number}},
        )  # fmt: skip

    async def _watch(
        self, run: ClaimedRun, process: HarvestProcess, order: StopRequest
    ) -> tuple[ClaimedRun, JobEnd]:
        ending = asyncio.create_task(supervise(process, order, self._settings.manager))
        try:
            await self._repeated(
                order, partial(note_process, job_id=run.job_id, process_id=process.process_id)
            )
        except BaseException:
            order.give(Cause.SHUTDOWN)
            await ending
            raise
        outcome = await ending
        run = dataclasses.replace(run, process_id=process.process_id)
        return run, JobEnd(
            cause=order.cause or Cause.ENDED, exit_code=outcome.exit_code, stderr=outcome.stderr
        )

    async def _repeated(self, order: StopRequest, work: Callable[[Session], _Result]) -> _Result:
        """Return what the transaction returns; repeated until the database answers or the worker stops."""
        manager, begun = self._settings.manager, time.monotonic()

        def goes_on() -> bool:
            # A queue that lost its database also ends its tasks, and the worker then continues.
            stops = order.worker_ends and self._is_cancelled()
            return not stops or time.monotonic() - begun < manager.stop_seconds

        return await repeated(
            lambda: self._transactions.run(work),
            pause=manager.tick_seconds,
            goes_on=goes_on,
            outage=self._database.outage,
        )

    def _is_cancelled(self) -> bool:
        return self._running is not None and self._running.cancelling() > 0

    async def _keep_watch(self, worker_id: int, membership: Membership) -> None:
        """Send heartbeats, and repeatedly read which jobs are to end and whether the worker is to drain."""
        sign_seconds = self._settings.manager.lost_seconds / queue.SIGNS_OF_LIFE
        last_sign = time.monotonic()
        while True:
            await asyncio.sleep(min(self._settings.manager.tick_seconds, _STOP_POLL))
            # A copy: jobs may be added and removed during the query, and only those queried may be judged.
            in_hand = dict(self._orders)
            try:
                wanted, drain = await self._transactions.run(_wanted, list(in_hand), worker_id)
                if drain and not self._drain.is_set():
                    logger.info("worker %d starts draining", worker_id)
                    self._drain.set()
                if time.monotonic() - last_sign >= sign_seconds or drain is not self._drain.is_set():
                    draining = self._drain.is_set()
                    await self._transactions.run(_give_sign, worker_id, membership, draining=draining)
                    last_sign = time.monotonic()
            except OperationalError as error:
                self._database.outage.failed(first_line(error))
                continue
            for job_id, cause in wanted.items():
                in_hand[job_id].give(cause)


async def _ended(
    tasks: Sequence[asyncio.Task[None]], *, cancel_again: Callable[[], bool] = lambda: False
) -> None:
    """Wait for cancelled tasks to end, even if this coroutine is itself cancelled repeatedly.

    Where `cancel_again` returns true, tasks that have not ended after some seconds are cancelled again. Each
    wait of the queue for a connection takes up to 30 s if the database is gone, and several would outlast
    the time that a service manager allows.
    """
    while waiting := [task for task in tasks if not task.done()]:
        with contextlib.suppress(asyncio.CancelledError):
            _, late = await asyncio.wait(waiting, timeout=_END_SECONDS)
            for task in late if cancel_again() else ():
                task.cancel()


def _reason_of_loss(errors: Sequence[BaseException | None]) -> str:
    """Return why the queue's database was lost; raise the first error that has another cause."""
    reasons = []
    for error in errors:
        if error is not None and not queue.is_lost(error):
            raise error
        if error is not None:
            reasons.append(queue.reason(error))
    # Without an error, it was a heartbeat that failed, whose error the queue has logged.
    return f": {reasons[0]}" if reasons else ""


def _give_sign(session: Session, worker_id: int, membership: Membership, *, draining: bool) -> None:
    """Record a heartbeat, unless another version has upgraded the tables: its harvests would all fail."""
    refuse_newer_tables(session.connection())
    registry.give_sign(session, worker_id, membership, draining=draining)


def _wanted(session: Session, job_ids: list[int], worker_id: int) -> tuple[dict[int, Cause], bool]:
    """Return which of the jobs are to end, with the cause, and whether the worker is to drain."""
    query = select(Job.job_id, Job.status).where(Job.job_id.in_(job_ids))
    statuses = {row.job_id: row.status for row in session.execute(query)} if job_ids else {}
    wanted = {job_id: WANTED[JobStatus(status)] for job_id, status in statuses.items() if status in WANTED}
    deleted = {job_id: Cause.DELETED for job_id in job_ids if job_id not in statuses}
    return wanted | deleted, registry.is_draining(session, worker_id)
