"""What the leading manager does tick by tick: its three functions, and what goes with them.

All that is written here is written behind the fence of its leadership, so that nothing of it commits after
another manager has begun to lead.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Sequence

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import queue, workers
from manager.launching import launch_due
from manager.leadership import Fenced, NotLeadingError, fence_all
from manager.recurring import make_job, wanting
from manager.stuck import flag_stuck
from manager.ticking import Function
from manager.transactions import Transactions
from manager.watching import settle_lost, settle_orphans
from manager.worker import Worker
from oai.database import Database
from oai.errors import InterruptedRunError
from oai.sections import ManagerSettings
from oai.settings import Settings
from provider.holdings.access import refresh

logger = logging.getLogger(__name__)

_SOONEST = 0.1


class Duties:
    """The duties of one leadership; `ending` is set when it ends."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transactions: Transactions,
        fenced: Fenced,
        worker: Worker,
    ) -> None:
        self._settings = settings.manager
        self._publish_margin = settings.provider.publish_margin
        self._database = database
        self._transactions = transactions
        self._fenced = fenced
        self._worker = worker
        self.ending = threading.Event()

    def functions(self) -> Sequence[Function]:
        """What is to be called on each tick."""
        return (
            self._make_jobs,
            self._launch,
            self._settle,
            self._flag_stuck,
            self._forget_workers,
            self.refresh_access,
        )

    async def _make_jobs(self) -> None:
        """Function 1, each schedule in a transaction of its own, so that one's fault is not the others'."""
        for recurring_id in await self._transactions.run(wanting):
            if self.ending.is_set():
                return
            try:
                job_id = await self._fenced.run(make_job, recurring_id, self._settings)
            except (OperationalError, NotLeadingError):
                raise
            except Exception:
                logger.exception("schedule %d: internal error; the manager tries again", recurring_id)
                continue
            if job_id is not None:
                logger.info("schedule %d: created job %d", recurring_id, job_id)

    async def _launch(self) -> None:
        """Function 2; again and again within a tick while there is much to begin: workers may be quick."""
        end = time.monotonic() + 0.75 * self._settings.tick_seconds
        busy, pause = True, 0.0
        while busy and not self.ending.is_set() and time.monotonic() + pause <= end:
            await asyncio.sleep(pause)
            begun = time.monotonic()
            launched = await self._fenced.run(launch_due, self._settings)
            busy = bool(launched) or pause > 0
            # With many jobs due a look is dear; most of the time is left for other things.
            pause = max(_SOONEST, 4 * (time.monotonic() - begun))

    async def _settle(self) -> None:
        """Function 3, for what is in no worker's hands any more."""
        await self._fenced.run(_settle_stalled, self._settings, self._worker.job_ids)
        await self._fenced.run(settle_orphans, self._settings)

    async def _flag_stuck(self) -> None:
        await self._fenced.run(flag_stuck, self._settings)

    async def _forget_workers(self) -> None:
        await self._fenced.run(workers.forget_lost)

    async def refresh_access(self) -> None:
        """Open what was under an embargo that has ended, and finish interrupted changes of collections."""
        changed = await asyncio.to_thread(self._refreshed)
        if changed:
            logger.info("access rules: updated %d documents", changed)

    def _refreshed(self) -> int:
        def check() -> None:
            if self.ending.is_set():
                raise InterruptedRunError("the manager is ending; the next leader continues")

        with self._database.session() as session:
            fence_all(session, self._fenced.number)
            try:
                return refresh(session, margin=self._publish_margin, check=check)
            except InterruptedRunError as interruption:
                logger.info("access rules: %s", interruption)
                return 0


def _settle_stalled(session: Session, settings: ManagerSettings, in_hand: frozenset[int]) -> None:
    """Settle the harvests of workers that have been silent for too long; `in_hand` are certainly not lost."""
    for number, job_id in queue.stalled(session, lost_seconds=settings.lost_seconds).items():
        if job_id not in in_hand:
            logger.warning("job %d: its worker is lost", job_id)
            settle_lost(session, job_id, settings)
            queue.forget_lost(session, number)
