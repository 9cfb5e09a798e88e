"""The worker: takes harvests from the queue and sees each through as a process, on any number of machines.

What it does is bounded by the process: the harvest ends when the process does, and the process ends when the
job is deleted, when the worker ends, or when the worker's machine loses it.
"""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

from procrastinate import App
from procrastinate.exceptions import ConnectorException
from sqlalchemy import select
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import queue
from manager.indexing_worker import IndexingWorker
from manager.launching import Run, claim, note_process
from manager.models import Job, JobStatus
from manager.processes import HARVESTER, HarvestProcess, environment_for, host_name
from manager.transactions import Transactions
from manager.watching import Cause, Ending, settle
from oai.database import Database
from oai.settings import Settings

logger = logging.getLogger(__name__)

_SLOWEST_POLL = 5.0
_STOP_POLL = 1.0


class Worker:
    """Runs harvests, several at a time; one for each process of ours."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transactions: Transactions,
        *,
        command: Sequence[str] = HARVESTER,
    ) -> None:
        self._settings = settings
        self._database = database
        self._transactions = transactions
        self._command = command
        self._host = host_name()
        self._stops: dict[int, asyncio.Future[Cause]] = {}
        self._indexing = IndexingWorker(settings, transactions)

    @property
    def job_ids(self) -> frozenset[int]:
        """The jobs that are in this worker's hands."""
        return frozenset(self._stops)

    @property
    def index(self) -> queue.Index:
        """What indexes an archive file."""
        return self._indexing.index

    async def run(self, *, concurrency: int | None = None) -> None:
        """Work until cancelled; the harvests under way are ended then. A lost database is waited for."""
        async with queue.open_queue(self._database, self.harvest, self.index) as app:
            watching = [
                asyncio.create_task(self._watch_for_stops()),
                asyncio.create_task(self._indexing.watch_for_lost(app)),
            ]
            try:
                while True:
                    await self._work(app, concurrency or self._settings.manager.concurrency)
                    logger.warning("the queue's database went away; trying again")
                    await asyncio.sleep(self._settings.manager.tick_seconds)
            finally:
                for watch in watching:
                    watch.cancel()
                await asyncio.wait(watching)

    async def harvest(self, job_id: int) -> None:
        """Run one job from its claim to its settlement. Cancelling ends its process first."""
        stop: asyncio.Future[Cause] = asyncio.get_running_loop().create_future()
        self._stops[job_id] = stop
        life = asyncio.create_task(self._see_through(job_id, stop))
        cancelled = False
        try:
            while not life.done():
                try:
                    await asyncio.shield(life)
                except asyncio.CancelledError:
                    cancelled = True
                    _ask(stop, Cause.SHUTDOWN)
            life.result()
        finally:
            del self._stops[job_id]
        if cancelled:
            raise asyncio.CancelledError

    async def _work(self, app: App, concurrency: int) -> None:
        """Take from both queues until the database goes away or we are cancelled; then both are ended."""
        manager = self._settings.manager
        places = {queue.QUEUE: concurrency, queue.INDEX_QUEUE: manager.indexing_concurrency}
        working = [
            asyncio.create_task(
                queue.work(
                    app,
                    name,
                    concurrency=number,
                    poll_seconds=min(manager.tick_seconds, _SLOWEST_POLL),
                    lost_seconds=manager.lost_seconds,
                )
            )
            for name, number in places.items()
        ]
        try:
            await asyncio.wait(working, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in working:
                task.cancel()
            await _ended(working)
        for task in working:
            with contextlib.suppress(ConnectorException, asyncio.CancelledError):
                task.result()

    async def _see_through(self, job_id: int, stop: asyncio.Future[Cause]) -> None:
        run = None if stop.done() else await self._transactions.run(claim, job_id, self._host)
        if run is None:
            logger.info("job %d is not queued any more", job_id)
            return
        try:
            process = await HarvestProcess.start(
                [*self._command, *run.arguments], environment_for(self._settings)
            )
        except OSError as error:
            ending = Ending(cause=Cause.ENDED, said=str(error))
        else:
            logger.info("job %d: harvest of repository %d started", job_id, run.repository_id)
            run, ending = await self._watch(run, process, stop)
        await self._transactions.run(settle, run, ending, self._settings.manager)
        logger.info("job %d: %s, exit code %s", job_id, ending.cause.name.lower(), ending.exit_code)

    async def _watch(
        self, run: Run, process: HarvestProcess, stop: asyncio.Future[Cause]
    ) -> tuple[Run, Ending]:
        waiting = asyncio.create_task(process.wait())
        either: set[asyncio.Future[Any]] = {waiting, stop}
        try:
            await self._transactions.run(note_process, run.job_id, process.process_id)
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not waiting.done():
                process.ask_to_stop()
                await asyncio.wait([waiting], timeout=self._settings.manager.stop_seconds)
            if not waiting.done():
                logger.warning("job %d: process %d did not end when asked to", run.job_id, process.process_id)
                process.kill()
            outcome = await waiting
        cause = stop.result() if stop.done() else Cause.ENDED
        run = dataclasses.replace(run, process_id=process.process_id)
        return run, Ending(cause=cause, exit_code=outcome.exit_code, said=outcome.said)

    async def _watch_for_stops(self) -> None:
        """Look again and again which of the jobs in hand are to stop: those marked so, and those deleted."""
        while True:
            await asyncio.sleep(min(self._settings.manager.tick_seconds, _STOP_POLL))
            # Meanwhile jobs come and go; only those that were asked about are judged.
            in_hand = dict(self._stops)
            try:
                going_on = await self._transactions.run(_going_on, list(in_hand))
            except OperationalError as error:
                logger.warning("the database does not answer: %s", error.orig)
                continue
            for job_id in in_hand.keys() - going_on:
                _ask(in_hand[job_id], Cause.STOPPED)


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for cancelled tasks to end, however often we are cancelled ourselves meanwhile."""
    while any(not task.done() for task in tasks):
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait(tasks)


def _going_on(session: Session, job_ids: list[int]) -> set[int]:
    query = select(Job.job_id).where(Job.job_id.in_(job_ids), Job.status != JobStatus.STOPPING)
    return set(session.scalars(query))


def _ask(stop: asyncio.Future[Cause], cause: Cause) -> None:
    if not stop.done():
        stop.set_result(cause)
