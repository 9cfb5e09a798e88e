"""The leader's loop: the duties of the leading manager at each tick."""

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping

import psycopg
from psycopg.errors import ReadOnlySqlTransaction
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from harvester.bibliographic.imports import prune_imports
from harvester.harvest.checkpoint import end_silent
from harvester.locks import remove_expired
from manager import exports, queue, store_audits
from manager.disks import EVERY, sample_disks
from manager.leader.dispatcher import is_low, launch_due
from manager.leader.lock import (
    Fenced,
    Leadership,
    NotLeadingError,
    fence_all,
    leadership,
    lost,
    managers,
    note_limits,
)
from manager.leader.planner import (
    make_job,
    remove_jobs_of_paused,
    replan_after_wrong_clock,
    without_job,
)
from manager.leader.stuck import flag_stuck
from manager.notices.delivery import deliver_notices
from manager.worker import registry
from manager.worker.settlement import settle_lost, settle_orphans
from manager.worker.worker import Worker
from oai.database import Database, first_line
from oai.datestamps import format_datestamp
from oai.disk import disks_of
from oai.errors import InterruptedRunError
from oai.executor import DatabaseExecutor
from oai.outage import Outage
from oai.probes import server_state
from oai.sections import ManagerSettings
from oai.settings import Settings
from provider.holdings.access import refresh

logger = logging.getLogger("manager.ticking")

Function = Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def ticking(
    functions: Mapping[Function, float], *, ending: threading.Event, outage: Outage
) -> AsyncIterator[Callable[[], Mapping[str, float]]]:
    """Call each function at once and then at its interval in seconds, for as long as the block lasts.

    Yields what returns for how many seconds the call of each function has lasted, 0 if none is under way. A
    function that takes longer than the interval is not called again until it has returned. At the end of the
    block, `ending` is set and the calls under way are awaited. `outage` receives errors of the database.
    """
    calls = _Calls(functions, outage)
    over = asyncio.Event()
    ending.clear()
    repeated = [
        asyncio.create_task(calls.repeat(function, seconds, over)) for function, seconds in functions.items()
    ]
    try:
        yield calls.seconds
    finally:
        ending.set()
        over.set()
        await asyncio.wait(repeated)


class _Calls:
    """The calls of the functions, timed by the monotonic clock.

    With times of the wall clock, a clock that is set back would stop all duties for as long as the step.
    """

    def __init__(self, functions: Iterable[Function], outage: Outage) -> None:
        self._outage = outage
        self._begun: dict[str, float | None] = dict.fromkeys(map(_name, functions))

    def seconds(self) -> Mapping[str, float]:
        """Return for how many seconds the call of each function has lasted; 0 if none is under way."""
        now = time.monotonic()
        return {name: 0.0 if begun is None else now - begun for name, begun in self._begun.items()}

    async def repeat(self, function: Function, seconds: float, over: asyncio.Event) -> None:
        """Call a function at once and at each interval; those that pass during a call are left out."""
        begun = time.monotonic()
        while not over.is_set():
            await self._call(function)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds - (time.monotonic() - begun) % seconds):
                    await over.wait()

    async def _call(self, function: Function) -> None:
        """Call one function; errors are logged, and the next tick follows regardless."""
        self._begun[_name(function)] = time.monotonic()
        try:
            await function()
        except (OperationalError, psycopg.OperationalError) as error:
            self._outage.failed(first_line(error))
        except NotLeadingError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("internal error in one of the manager's functions; it is tried again")
        finally:
            self._begun[_name(function)] = None


def _name(function: Function) -> str:
    return getattr(function, "__name__", "").strip("_")


duties_logger = logging.getLogger("manager.duties")

_SOONEST = 0.1
_SELDOM = 1.0
"""The least seconds between two calls of functions for which no harvest waits, however short the ticks."""
_EACH_MINUTE = 60.0
_EACH_HOUR = 3600.0
_MOST_REMOVED = 10_000
"""The most results that one call removes, so that its transactions are short."""
LONG_WAIT = 30.0
"""Seconds after which a wait for a lock is logged."""


class Duties:
    """The duties of one leadership; `ending` is set when it ends."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transactions: DatabaseExecutor,
        fenced: Fenced,
        worker: Worker,
    ) -> None:
        self._all = settings
        self._next_sample = 0.0
        self._settings = settings.manager
        self._data = settings.data
        self._overlap = settings.harvester.overlap
        self._publish_margin = settings.provider.publish_margin
        self._database = database
        self._transactions = transactions
        self._fenced = fenced
        self._worker = worker
        self.ending = threading.Event()

    def functions(self) -> Mapping[Function, float]:
        """Return the functions, each with the seconds between two calls."""
        often, seldom = self._settings.tick_seconds, max(self._settings.tick_seconds, _SELDOM)
        others = (
            self._audit_stores,
            self._tidy_exports,
            self._flag_stuck,
            self._remove_locks,
            self._forget_workers,
            self._sample_disks,
            self.refresh_access,
        )
        of_harvests = (self._make_jobs, self._launch, self._settle)
        return {
            **dict.fromkeys(of_harvests, often),
            **dict.fromkeys(others, seldom),
            **dict.fromkeys((self._replan, self._log_locks), max(often, _EACH_MINUTE)),
            self.remove_results: _EACH_HOUR,
        }

    async def _log_locks(self) -> None:
        """Name the session that keeps statements waiting, in a thread of its own: all others may wait."""
        state = await asyncio.to_thread(self._database.read, server_state)
        if state.lock_seconds >= LONG_WAIT:
            duties_logger.warning("%s; %s", state.lock_holder, state.lock_advice)

    async def _replan(self) -> None:
        """Plan schedules again whose next times were computed with a wrong clock."""
        if again := await self._fenced.run(replan_after_wrong_clock, self._settings):
            listed = ", ".join(map(str, again))
            duties_logger.warning("the database's clock was ahead; planning schedules again: %s", listed)
        await self._fenced.run(store_audits.replan_after_wrong_clock)

    async def _make_jobs(self) -> None:
        """Function 1; each schedule has its own transaction, so that an error does not affect the others."""
        await self._fenced.run(remove_jobs_of_paused)
        for recurring_id in await self._transactions.run(without_job):
            if self.ending.is_set():
                return
            try:
                job_id = await self._fenced.run(
                    make_job, recurring_id, self._settings, data=self._data, overlap=self._overlap
                )
            except (OperationalError, NotLeadingError):
                raise
            except Exception:
                duties_logger.exception("schedule %d: internal error; the manager tries again", recurring_id)
                continue
            if job_id is not None:
                duties_logger.info("schedule %d: created job %d", recurring_id, job_id)

    async def _launch(self) -> None:
        """Function 2, repeated within a tick while many jobs are to begin, because workers may be quick."""
        end = time.monotonic() + 0.75 * self._settings.tick_seconds
        busy, pause = True, 0.0
        while busy and not self.ending.is_set() and time.monotonic() + pause <= end:
            await asyncio.sleep(pause)
            # With many jobs due each pass is expensive, and the queue need not be filled all the time.
            if pause and not await self._transactions.run(is_low, self._settings):
                continue
            begun = time.monotonic()
            launched = await self._fenced.run(launch_due, self._settings, self._data)
            busy = bool(launched) or pause > 0
            # Most of the time is left for other duties.
            pause = max(_SOONEST, 4 * (time.monotonic() - begun))

    async def _settle(self) -> None:
        """Function 3, for jobs that no worker holds any more."""
        await self._fenced.run(_settle_stalled, self._settings, self._worker.job_ids)
        await self._fenced.run(settle_orphans, self._settings)

    async def _audit_stores(self) -> None:
        """Queue the audits of stores that are due, and settle those of lost workers."""
        await self._fenced.run(store_audits.settle_lost, lost_seconds=self._settings.lost_seconds)
        queued = await self._fenced.run(store_audits.queue_due)
        if queued:
            duties_logger.info("queued %d audits of stores", len(queued))

    async def _tidy_exports(self) -> None:
        """Settle the prepared files of lost workers, and remove those that have expired."""
        await self._fenced.run(exports.tidy, self._all.exports, lost_seconds=self._settings.lost_seconds)

    async def remove_results(self) -> None:
        """Remove old results of imports and of audits of stores."""
        if days := self._settings.result_days:
            await self._fenced.run(prune_imports, keep_days=days, most=_MOST_REMOVED)
            await self._fenced.run(store_audits.prune_audits, keep_days=days, most=_MOST_REMOVED)

    async def _flag_stuck(self) -> None:
        await self._fenced.run(flag_stuck, self._settings)

    async def _remove_locks(self) -> None:
        """Remove expired locks of repositories, which have no effect any more."""
        for lock in await self._fenced.run(remove_expired):
            duties_logger.info(
                "repository %d: removed the lock of %s, which expired %s: %s",
                lock.repository_id, lock.holder, format_datestamp(lock.expires), lock.reason,
            )  # fmt: skip

    async def _forget_workers(self) -> None:
        await self._fenced.run(registry.forget_lost)

    async def _sample_disks(self) -> None:
        """Look at the free disk space once an hour."""
        if time.monotonic() >= self._next_sample:
            await self._fenced.run(sample_disks, await asyncio.to_thread(disks_of, self._all))
            self._next_sample = time.monotonic() + EVERY.total_seconds()

    async def refresh_access(self) -> None:
        """Open documents whose embargo has ended, and finish interrupted changes of collections."""
        changed = await asyncio.to_thread(self._refreshed)
        if changed:
            duties_logger.info("access rules: updated %d documents", changed)

    def _refreshed(self) -> int:
        def check() -> None:
            if self.ending.is_set():
                raise InterruptedRunError("the manager is ending; the next leader continues")

        with self._database.session() as session:
            fence_all(session, self._fenced.number)
            try:
                return refresh(session, margin=self._publish_margin, check=check)
            except InterruptedRunError as interruption:
                duties_logger.info("access rules: %s", interruption)
                return 0


def _settle_stalled(session: Session, settings: ManagerSettings, in_hand: frozenset[int]) -> None:
    """Settle the harvests of workers that have been silent for too long.

    The jobs in `in_hand` are held by this process's own worker and therefore certainly not lost.
    """
    for number, job_id in queue.stalled(session, lost_seconds=settings.lost_seconds).items():
        if job_id not in in_hand:
            duties_logger.warning("job %d: its worker is lost", job_id)
            # Otherwise the next try could not hold the repository.
            if end_silent(session, job_id, seconds=settings.lost_seconds):
                duties_logger.warning("job %d: its harvest hangs; its connections were ended", job_id)
            settle_lost(session, job_id, settings)
            queue.forget_lost(session, number)


leading_logger = logging.getLogger("manager.leading")

_POLLS_TO_TAKE_OVER = 5


class Manager:
    """One of the managers of a database; once `drain` is set, it leads only if no other manager does."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transactions: DatabaseExecutor,
        worker: Worker,
        *,
        drain: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._poll = settings.manager.tick_seconds
        self._lost = settings.manager.lost_seconds
        self._database = database
        self._transactions = transactions
        self._worker = worker
        self._drain = drain
        self._leads = False
        self._call_seconds: Callable[[], Mapping[str, float]] = dict

    def leads(self) -> bool:
        """Return whether this manager leads now."""
        return self._leads

    def call_seconds(self) -> Mapping[str, float]:
        """Return for how many seconds the call of each duty has lasted; none where this manager stands by."""
        return self._call_seconds() if self._leads else {}

    async def lead(self) -> None:
        """Stand by, lead, and stand by again after the database was unavailable, until cancelled."""
        while True:
            led = False
            try:
                if self._drain.is_set():
                    await self._wait_for_another_leader()
                async with leadership(
                    self._database, poll_seconds=self._poll, lost_seconds=self._lost
                ) as lead:
                    led = True
                    await self._while_leading(lead)
            except (OperationalError, psycopg.OperationalError, ReadOnlySqlTransaction) as error:
                self._database.outage.failed(first_line(error))
            finally:
                self._leads = False
            if led:
                leading_logger.warning("this manager is no longer the leader")
            await asyncio.sleep(self._poll)

    async def dispensable(self) -> None:
        """Return as soon as another manager leads."""
        while self._leads or not await self._has_leader():  # noqa: ASYNC110 another process leads
            await asyncio.sleep(self._poll)

    async def _while_leading(self, lead: Leadership) -> None:
        fenced = Fenced(self._transactions, lead.number)
        manager = self._settings.manager
        await fenced.run(note_limits, per_host=manager.per_host, overall=manager.overall)
        duties = Duties(self._settings, self._database, self._transactions, fenced, self._worker)
        async with (
            ticking(
                duties.functions(), ending=duties.ending, outage=self._database.outage
            ) as self._call_seconds,
            deliver_notices(self._settings, self._transactions, fenced),
        ):
            leading_logger.info("this manager is now the leader (number %d)", lead.number)
            self._leads = True
            often = min(self._poll, self._lost / queue.SIGNS_OF_LIFE)
            losing = asyncio.create_task(lost(lead, poll_seconds=often))
            handing_over = asyncio.create_task(self._wait_to_hand_over())
            try:
                await asyncio.wait([losing, handing_over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                self._leads = False
                for task in (losing, handing_over):
                    task.cancel()

    async def _wait_to_hand_over(self) -> None:
        """Return when this manager is to drain and another one stands by."""
        await self._drain.wait()
        while True:
            with contextlib.suppress(OperationalError):
                if (await self._transactions.run(managers)).stand_bys:
                    leading_logger.info("this manager is draining and hands over the leadership")
                    return
            await asyncio.sleep(self._poll)

    async def _wait_for_another_leader(self) -> None:
        """Return when no manager has led for several polls, so that another one had a chance to take over."""
        silent = 0
        while silent < _POLLS_TO_TAKE_OVER:
            silent = 0 if await self._has_leader() else silent + 1
            await asyncio.sleep(self._poll)

    async def _has_leader(self) -> bool:
        return (await self._transactions.run(managers)).leader is not None
