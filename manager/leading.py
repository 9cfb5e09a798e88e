"""The leading manager: its functions on a tick, for as long as it leads.

All that it writes into the tables of schedules and jobs is written behind the fence of its leadership, so
that nothing of it commits after another manager has begun to lead.
"""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Concatenate, ParamSpec, TypeVar

import psycopg
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import queue, workers
from manager.launching import launch_due
from manager.leadership import Lead, NotLeadingError, leadership, lost, stand_in_fence
from manager.notices.sending import telling
from manager.recurring import make_job, wanting
from manager.stuck import flag_stuck
from manager.transactions import Transactions
from manager.watching import settle_lost, settle_orphans
from manager.worker import Worker
from oai.database import Database
from oai.errors import InterruptedRunError
from oai.sections import ManagerSettings
from oai.settings import Settings
from provider.holdings.access import refresh

logger = logging.getLogger(__name__)

Tick = Callable[[], Awaitable[None]]
_SOONEST = 0.1
_P = ParamSpec("_P")
_T = TypeVar("_T")


class Manager:
    """The three functions and the archive's access rules, and the ticking of them."""

    def __init__(
        self, settings: Settings, database: Database, transactions: Transactions, worker: Worker
    ) -> None:
        self._all_settings = settings
        self._settings = settings.manager
        self._publish_margin = settings.provider.publish_margin
        self._database = database
        self._transactions = transactions
        self._worker = worker
        self._ticks: set[asyncio.Future[None]] = set()
        self._ending = threading.Event()
        self._leads = False
        self._number = 0

    def leads(self) -> bool:
        """Whether this manager leads now."""
        return self._leads

    async def lead(self) -> None:
        """Stand by, lead, and stand by again when the database went away, until cancelled."""
        poll = self._settings.tick_seconds
        while True:
            try:
                async with (
                    leadership(self._database, poll_seconds=poll) as lead,
                    self._ticking(lead),
                    telling(self._all_settings, self._transactions),
                ):
                    logger.info("this manager leads, as leader %d", lead.number)
                    self._leads = True
                    await lost(lead, poll_seconds=poll)
            except psycopg.OperationalError as error:
                logger.warning("the database does not answer: %s", error)
            finally:
                self._leads = False
            logger.warning("this manager does not lead any more")
            await asyncio.sleep(poll)

    @contextlib.asynccontextmanager
    async def _ticking(self, lead: Lead) -> AsyncIterator[None]:
        self._number = lead.number
        scheduler = AsyncIOScheduler(timezone=UTC)
        functions = (
            self._make_jobs,
            self._launch,
            self._settle,
            self._flag_stuck,
            self._forget_workers,
            self._refresh_access,
        )
        for function in functions:
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
        except NotLeadingError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("a fault in one of the manager's functions; it is tried again")
        finally:
            self._ticks.remove(tick)
            tick.set_result(None)

    async def _fenced(
        self, function: Callable[Concatenate[Session, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Call the function in a transaction that commits only while this manager leads."""
        number = self._number

        def inside(session: Session) -> _T:
            stand_in_fence(session, number)
            return function(session, *args, **kwargs)

        return await self._transactions.run(inside)

    async def _make_jobs(self) -> None:
        """Function 1, each schedule in a transaction of its own, so that one's fault is not the others'."""
        for recurring_id in await self._transactions.run(wanting):
            if self._ending.is_set():
                return
            try:
                job_id = await self._fenced(make_job, recurring_id, self._settings)
            except (OperationalError, NotLeadingError):
                raise
            except Exception:
                logger.exception("schedule %d: a fault; it is tried again", recurring_id)
                continue
            if job_id is not None:
                logger.info("schedule %d: job %d is made", recurring_id, job_id)

    async def _launch(self) -> None:
        """Function 2; again and again within a tick while there is much to begin: workers may be quick."""
        end = time.monotonic() + 0.75 * self._settings.tick_seconds
        busy, pause = True, 0.0
        while busy and not self._ending.is_set() and time.monotonic() + pause <= end:
            await asyncio.sleep(pause)
            begun = time.monotonic()
            launched = await self._fenced(launch_due, self._settings)
            busy = bool(launched) or pause > 0
            # With many jobs due a look is dear; most of the time is left for other things.
            pause = max(_SOONEST, 4 * (time.monotonic() - begun))

    async def _settle(self) -> None:
        """Function 3, for what is in no worker's hands any more."""
        await self._fenced(_settle_stalled, self._settings, self._worker.job_ids)
        await self._fenced(settle_orphans, self._settings)

    async def _flag_stuck(self) -> None:
        await self._fenced(flag_stuck, self._settings)

    async def _forget_workers(self) -> None:
        await self._fenced(workers.forget_lost)

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


def _settle_stalled(session: Session, settings: ManagerSettings, in_hand: frozenset[int]) -> None:
    """Settle the harvests of workers that have been silent for too long; `in_hand` are certainly not lost."""
    for number, job_id in queue.stalled(session, lost_seconds=settings.lost_seconds).items():
        if job_id not in in_hand:
            logger.warning("job %d: its worker is gone", job_id)
            settle_lost(session, job_id, settings)
            queue.forget_lost(session, number)
