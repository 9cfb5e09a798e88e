"""The manager at work: a worker inside, and, while it leads, the three functions on a tick."""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any

import psycopg
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from procrastinate import App
from sqlalchemy.exc import OperationalError

from manager import queue
from manager.launching import launch_due
from manager.leadership import leadership, lost
from manager.processes import HARVESTER
from manager.recurring import make_job, wanting
from manager.transactions import Transactions
from manager.watching import settle_lost, settle_orphans
from manager.worker import Worker
from oai.database import Database
from oai.errors import InterruptedRunError
from oai.settings import Settings
from provider.holdings.access import refresh

logger = logging.getLogger(__name__)

Tick = Callable[[], Awaitable[None]]


async def run(
    settings: Settings,
    database: Database,
    *,
    concurrency: int | None = None,
    command: Sequence[str] = HARVESTER,
) -> None:
    """Lead, or stand by to lead, and work, until cancelled; then the harvests under way are ended first.

    `concurrency` is how many harvests run here at a time (default: as set); `command` starts a harvester.
    """
    with Transactions(database) as transactions:
        worker = Worker(settings, database, transactions, command=command)
        manager = _Manager(settings, database, transactions, worker)
        leading = asyncio.create_task(manager.lead())
        working = asyncio.create_task(worker.run(concurrency=concurrency))
        try:
            await asyncio.wait([leading, working], return_when=asyncio.FIRST_COMPLETED)
        finally:
            # In this order, so that what ends here is not started here again.
            await _end(leading)
            await _end(working)
        # Neither ends by itself but by a fault.
        leading.result()
        working.result()


async def run_worker(
    settings: Settings,
    database: Database,
    *,
    concurrency: int | None = None,
    command: Sequence[str] = HARVESTER,
) -> None:
    """Work without ever leading, until cancelled: for further machines."""
    with Transactions(database) as transactions:
        worker = Worker(settings, database, transactions, command=command)
        await worker.run(concurrency=concurrency)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel the task and wait for its end, however often we are told to end ourselves meanwhile."""
    task.cancel()
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])


def until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run `run` or `run_worker` until SIGTERM or SIGINT; that is how such a program ends, and no fault."""

    async def watched() -> None:
        task = asyncio.create_task(work)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(watched())


class _Manager:
    """The three functions and the archive's access rules, and the ticking of them."""

    def __init__(
        self, settings: Settings, database: Database, transactions: Transactions, worker: Worker
    ) -> None:
        self._settings = settings.manager
        self._publish_margin = settings.provider.publish_margin
        self._database = database
        self._transactions = transactions
        self._worker = worker
        self._ticks: set[asyncio.Future[None]] = set()
        self._ending = threading.Event()

    async def lead(self) -> None:
        """Stand by, lead, and stand by again when the database went away, until cancelled."""
        poll = self._settings.tick_seconds
        while True:
            try:
                async with leadership(self._database, poll_seconds=poll) as connection, self._ticking():
                    logger.info("this manager leads")
                    await lost(connection, poll_seconds=poll)
            except psycopg.OperationalError as error:
                logger.warning("the database does not answer: %s", error)
            logger.warning("this manager does not lead any more")
            await asyncio.sleep(poll)

    @contextlib.asynccontextmanager
    async def _ticking(self) -> AsyncIterator[None]:
        scheduler = AsyncIOScheduler(timezone=UTC)
        async with queue.open_queue(self._database, self._worker.harvest, self._worker.index) as app:

            async def watch() -> None:
                await self._watch(app)

            for function in (self._make_jobs, self._launch, watch, self._refresh_access):
                scheduler.add_job(
                    self._calmly,
                    "interval",
                    args=[function],
                    seconds=self._settings.tick_seconds,
                    next_run_time=datetime.now(UTC),
                    coalesce=True,
                    max_instances=1,
                    misfire_grace_time=None,
                )
            self._ending.clear()
            scheduler.start()
            try:
                yield
            finally:
                scheduler.pause()
                self._ending.set()
                await self._ticks_are_over()
                scheduler.shutdown(wait=False)

    async def _ticks_are_over(self) -> None:
        """Wait for the functions under way; the scheduler's own ending would cut them off with an error."""
        await asyncio.sleep(0)
        if self._ticks:
            await asyncio.wait(self._ticks)

    async def _calmly(self, function: Tick) -> None:
        """Run one function; whatever goes wrong is told, and the next tick comes all the same."""
        tick: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ticks.add(tick)
        try:
            await function()
        except (OperationalError, psycopg.OperationalError) as error:
            logger.warning("the database does not answer: %s", error)
        except Exception:
            logger.exception("a fault in one of the manager's functions; it is tried again")
        finally:
            self._ticks.remove(tick)
            tick.set_result(None)

    async def _make_jobs(self) -> None:
        """Function 1, each schedule in a transaction of its own."""
        for recurring_id in await self._transactions.run(wanting):
            job_id = await self._transactions.run(make_job, recurring_id)
            if job_id is not None:
                logger.info("schedule %d: job %d is made", recurring_id, job_id)

    async def _launch(self) -> None:
        """Function 2."""
        await self._transactions.run(launch_due)

    async def _watch(self, app: App) -> None:
        """Function 3, for what is in no worker's hands any more."""
        lost_ones = await queue.stalled(app, lost_seconds=self._settings.lost_seconds)
        for number, job_id in lost_ones.items():
            if job_id not in self._worker.job_ids:
                logger.warning("job %d: its worker is gone", job_id)
                await self._transactions.run(settle_lost, job_id, self._settings)
                await queue.forget(app, number)
        await self._transactions.run(settle_orphans, self._settings)

    async def _refresh_access(self) -> None:
        """Open what was under an embargo that has ended, and finish interrupted changes of collections."""
        changed = await asyncio.to_thread(self._refreshed)
        if changed:
            logger.info("access: %d documents changed", changed)

    def _refreshed(self) -> int:
        def check() -> None:
            if self._ending.is_set():
                raise InterruptedRunError("the manager ends; the next one goes on with it")

        with self._database.session() as session:
            try:
                return refresh(session, margin=self._publish_margin, check=check)
            except InterruptedRunError as interruption:
                logger.info("access: %s", interruption)
                return 0
