"""Who of the managers leads is decided here for this one: it stands by, leads, and lets another one lead."""

import asyncio
import contextlib
import logging

import psycopg
from sqlalchemy.exc import OperationalError

from manager.duties import Duties
from manager.leadership import Fenced, Lead, leadership, lost, managers, note_limits
from manager.notices.sending import telling
from manager.ticking import ticking
from manager.transactions import Transactions
from manager.worker import Worker
from oai.database import Database
from oai.settings import Settings

logger = logging.getLogger(__name__)

_POLLS_TO_TAKE_OVER = 5


class Manager:
    """One of the managers of a database; once `drain` is set, it leads only where nobody else would."""

    def __init__(
        self,
        settings: Settings,
        database: Database,
        transactions: Transactions,
        worker: Worker,
        *,
        drain: asyncio.Event,
    ) -> None:
        self._settings = settings
        self._poll = settings.manager.tick_seconds
        self._database = database
        self._transactions = transactions
        self._worker = worker
        self._drain = drain
        self._leads = False

    def leads(self) -> bool:
        """Whether this manager leads now."""
        return self._leads

    async def lead(self) -> None:
        """Stand by, lead, and stand by again when the database went away, until cancelled."""
        while True:
            try:
                if self._drain.is_set():
                    await self._stand_back()
                async with leadership(self._database, poll_seconds=self._poll) as lead:
                    await self._while_leading(lead)
            except (OperationalError, psycopg.OperationalError) as error:
                logger.warning("the database does not answer: %s", error)
            finally:
                self._leads = False
            logger.warning("this manager is no longer the leader")
            await asyncio.sleep(self._poll)

    async def dispensable(self) -> None:
        """Return as soon as another manager leads."""
        while self._leads or not await self._somebody_leads():  # noqa: ASYNC110 another process leads
            await asyncio.sleep(self._poll)

    async def _while_leading(self, lead: Lead) -> None:
        fenced = Fenced(self._transactions, lead.number)
        manager = self._settings.manager
        await fenced.run(note_limits, per_host=manager.per_host, overall=manager.overall)
        duties = Duties(self._settings, self._database, self._transactions, fenced, self._worker)
        async with (
            ticking(duties.functions(), seconds=self._poll, ending=duties.ending),
            telling(self._settings, self._transactions, fenced),
        ):
            logger.info("this manager is now the leader (number %d)", lead.number)
            self._leads = True
            losing = asyncio.create_task(lost(lead, poll_seconds=self._poll))
            handing_over = asyncio.create_task(self._another_may_lead())
            try:
                await asyncio.wait([losing, handing_over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in (losing, handing_over):
                    task.cancel()

    async def _another_may_lead(self) -> None:
        """Return when this manager is to drain and another one stands by."""
        await self._drain.wait()
        while True:
            with contextlib.suppress(OperationalError):
                if (await self._transactions.run(managers)).stand_bys:
                    logger.info("this manager is draining and hands over the leadership")
                    return
            await asyncio.sleep(self._poll)

    async def _stand_back(self) -> None:
        """Return when nobody leads, and nobody else has begun to for a while."""
        silent = 0
        while silent < _POLLS_TO_TAKE_OVER:
            silent = 0 if await self._somebody_leads() else silent + 1
            await asyncio.sleep(self._poll)

    async def _somebody_leads(self) -> bool:
        return (await self._transactions.run(managers)).leader is not None
