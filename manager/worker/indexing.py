"""Indexing in a worker: takes files from the queue and runs a process for each.

A file whose worker is lost is put back by any other worker, so indexing needs no manager.
"""

import asyncio
import logging
import sys
from typing import Final

from procrastinate import App
from procrastinate.exceptions import ConnectorException
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import queue
from manager.worker.process import HarvestProcess, ProcessOutcome, environment_for, host_name
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from provider.indexing.index_runs import claim, give_back

logger = logging.getLogger("manager.indexing_worker")

INDEXER: Final = (sys.executable, "-m", "provider")
_REASON_CHARACTERS: Final = 500


class IndexingWorker:
    """Indexes archive files, several at a time; each process has one of these."""

    def __init__(self, settings: Settings, transactions: DatabaseExecutor) -> None:
        self._settings = settings
        self._transactions = transactions
        self._file_ids: set[int] = set()

    @property
    def file_ids(self) -> frozenset[int]:
        """Return the files that this worker holds."""
        return frozenset(self._file_ids)

    async def index(self, file_id: int) -> None:
        """Index one queued file. Cancelling ends its process and puts the file back for another worker."""
        self._file_ids.add(file_id)
        try:
            await self._index(file_id)
        finally:
            self._file_ids.discard(file_id)

    async def _index(self, file_id: int) -> None:
        if not await self._transactions.run(claim, file_id, host_name()):
            logger.info("file %d is no longer waiting", file_id)
            return
        try:
            process = await HarvestProcess.start([*INDEXER, str(file_id)], environment_for(self._settings))
        except OSError as error:
            await self._give_back(file_id, f"could not be started on {host_name()!r}: {error}")
            return
        waiting = asyncio.create_task(process.wait())
        try:
            # Shielded, so that a second cancellation cannot leave the process running or the file assigned.
            outcome = await asyncio.shield(waiting)
        except asyncio.CancelledError:
            await asyncio.shield(self._stop(file_id, process, waiting))
            raise
        # Has no effect if the process has settled its file itself.
        await self._give_back(file_id, _in_words(outcome))

    async def _stop(
        self, file_id: int, process: HarvestProcess, waiting: "asyncio.Task[ProcessOutcome]"
    ) -> None:
        process.ask_to_stop()
        await asyncio.wait([waiting], timeout=self._settings.manager.stop_seconds)
        if not waiting.done():
            process.kill()
        await waiting
        await self._give_back(file_id, f"the worker on {host_name()!r} ended", at_fault=False)

    async def _give_back(self, file_id: int, reason: str, *, at_fault: bool = True) -> None:
        await self._transactions.run(_wait_again, file_id, reason, at_fault=at_fault)

    async def watch_for_lost(self, app: App) -> None:
        """Put back the files whose worker sends no heartbeat; repeats until cancelled."""
        lost_seconds = self._settings.manager.lost_seconds
        while True:
            await asyncio.sleep(lost_seconds / queue.SIGNS_OF_LIFE)
            try:
                lost = await queue.stalled_files(app, lost_seconds=lost_seconds)
                for number, file_id in lost.items():
                    logger.warning("file %d: its worker is lost", file_id)
                    await self._transactions.run(_take_over, number, file_id)
            except (OperationalError, ConnectorException) as error:
                logger.warning("the database does not answer: %s", error)


def _wait_again(session: Session, file_id: int, reason: str, *, at_fault: bool) -> None:
    if give_back(session, file_id, reason, at_fault=at_fault):
        queue.defer_files(session, [file_id])


def _take_over(session: Session, number: int, file_id: int) -> None:
    """Put a lost file back; of several workers only the one that removes its task does so."""
    if queue.forget_lost(session, number):
        _wait_again(session, file_id, "the worker that indexed it is lost", at_fault=True)


def _in_words(outcome: ProcessOutcome) -> str:
    last_line = outcome.said.replace("\0", "").strip().rpartition("\n")[2].strip()[:_REASON_CHARACTERS]
    said = f"; its last message was: {last_line}" if last_line else ""
    how = (
        f"was ended by signal {-outcome.exit_code}"
        if outcome.exit_code < 0
        else f"ended with exit code {outcome.exit_code}"
    )
    return f"the process on {host_name()!r} {how}{said}"
