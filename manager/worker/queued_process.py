"""Queued work that is not a harvest: one process for each archive file or audit of a store."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeVar

from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager import queue
from manager.worker.process import HarvestProcess, ProcessOutcome, environment_for, host_name, last_message
from oai.child import module_command
from oai.database import first_line
from oai.executor import DatabaseExecutor
from oai.failures import Failure, FailureCode
from oai.outage import Outage
from oai.settings import Settings
from provider.indexing.index_runs import claim, give_back
from provider.indexing.models import IndexFile, IndexFileState

logger = logging.getLogger("manager.indexing_worker")

_REASON_CHARACTERS: Final = 500
_Result = TypeVar("_Result")


async def repeated(
    attempt: Callable[[], Awaitable[_Result]],
    *,
    pause: float,
    goes_on: Callable[[], bool],
    outage: Outage,
) -> _Result:
    """Return what the transaction returns; while the database does not answer, try again after each pause.

    `outage` receives each error. Raises the last OperationalError as soon as `goes_on` is False.
    """
    while True:
        try:
            return await attempt()
        except OperationalError as error:
            if not goes_on():
                raise
            outage.failed(first_line(error))
        await asyncio.sleep(pause)


class SettleRow(Protocol):
    """Settles a row whose process ended; has no effect if the process has settled it itself."""

    def __call__(self, session: Session, number: int, reason: str, /, *, at_fault: bool) -> None:
        """Settle it; `at_fault` is False if only its worker was asked to end."""


class ProcessWorker:
    """Runs a process for each queued row of one table."""

    def __init__(
        self,
        settings: Settings,
        transactions: DatabaseExecutor,
        *,
        command: Sequence[str],
        what: str,
        claim: Callable[[Session, int, str], object],
        settle: SettleRow,
        ends: Callable[[], bool],
    ) -> None:
        """`ends` returns whether the worker ends; a queue that lost its database only cancels its tasks."""
        self._settings = settings
        self._transactions = transactions
        self._command = command
        self._what = what
        self._claim = claim
        self._settle = settle
        self._ends = ends
        self._numbers: set[int] = set()

    @property
    def numbers(self) -> frozenset[int]:
        """Return the rows that this worker holds."""
        return frozenset(self._numbers)

    async def run(self, number: int) -> None:
        """Work on one queued row. Cancelling ends its process and puts the row back for another worker."""
        self._numbers.add(number)
        stop = asyncio.Event()
        work = asyncio.create_task(self._work(number, stop))
        try:
            while not work.done():
                try:
                    # Shielded, so that no cancellation leaves the process running or the row assigned.
                    await asyncio.shield(work)
                except asyncio.CancelledError:
                    stop.set()
            work.result()
        finally:
            self._numbers.discard(number)
        if stop.is_set():
            raise asyncio.CancelledError

    async def _work(self, number: int, stop: asyncio.Event) -> None:
        process = await self._begin(number)
        if process is None:
            return
        waiting, stopping = asyncio.create_task(process.wait()), asyncio.create_task(stop.wait())
        await asyncio.wait([waiting, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if waiting.done():
            await self._give_back(number, in_words(waiting.result()))
            return
        process.ask_to_stop()
        await asyncio.wait([waiting], timeout=self._settings.manager.stop_seconds)
        if not waiting.done():
            process.kill()
        await waiting
        await self._give_back(number, f"the worker on {host_name()!r} ended", at_fault=False)

    async def _begin(self, number: int) -> HarvestProcess | None:
        """Claim the row and start its process; None if there is nothing to do or it cannot be started."""
        if not await self._transactions.run(self._claim, number, host_name()):
            logger.info("%s %d is no longer waiting", self._what, number)
            return None
        try:
            return await HarvestProcess.start(
                [*self._command, str(number)],
                environment_for(self._settings),
                origin={self._what.replace(" ", "_"): number},
            )
        except OSError as error:
            await self._give_back(number, f"could not be started on {host_name()!r}: {error}")
            return None

    async def _give_back(self, number: int, reason: str, *, at_fault: bool = True) -> None:
        """Settle the row; otherwise it would stay "running" although this worker lives."""
        manager, begun = self._settings.manager, time.monotonic()
        await repeated(
            lambda: self._transactions.run(self._settle, number, reason, at_fault=at_fault),
            pause=manager.tick_seconds,
            goes_on=lambda: not self._ends() or time.monotonic() - begun < manager.stop_seconds,
            outage=self._transactions.database.outage,
        )


def in_words(outcome: ProcessOutcome) -> str:
    """Return how the process ended, with the last line of its output."""
    message = last_message(outcome.stderr)[:_REASON_CHARACTERS]
    last = f"; its last message was: {message}" if message else ""
    how = (
        f"was ended by signal {-outcome.exit_code}"
        if outcome.exit_code < 0
        else f"ended with exit code {outcome.exit_code}"
    )
    return f"the process on {host_name()!r} {how}{last}"


INDEXER: Final = module_command("provider")
_PROCESS_LOST: Final = Failure(code=FailureCode.ARCHIVE_PROCESS_LOST)


class IndexingWorker(ProcessWorker):
    """Indexes archive files, several at a time; each process has one of these."""

    def __init__(
        self, settings: Settings, transactions: DatabaseExecutor, *, ends: Callable[[], bool]
    ) -> None:
        super().__init__(
            settings, transactions, command=INDEXER, what="file", claim=claim, settle=_put_back, ends=ends
        )

    async def watch_for_lost(self) -> None:
        """Put back the files whose worker sends no heartbeat; repeats until cancelled."""
        lost_seconds = self._settings.manager.lost_seconds
        while True:
            await asyncio.sleep(lost_seconds / queue.SIGNS_OF_LIFE)
            try:
                lost = await self._transactions.run(queue.stalled_files, lost_seconds=lost_seconds)
                for number, file_id in lost.items():
                    logger.warning("file %d: its worker is lost", file_id)
                    await self._transactions.run(_take_over, number, file_id)
            except OperationalError as error:
                self._transactions.database.outage.failed(first_line(error))


def _put_back(session: Session, file_id: int, reason: str, *, at_fault: bool) -> None:
    row = session.get(IndexFile, file_id, with_for_update=True)
    # While the database did not answer here, a worker elsewhere may have taken the file over.
    if row is not None and row.state == IndexFileState.RUNNING and row.host == host_name():
        _wait_again(session, file_id, reason, at_fault=at_fault)


def _wait_again(session: Session, file_id: int, reason: str, *, at_fault: bool) -> None:
    if give_back(session, file_id, _PROCESS_LOST, reason, at_fault=at_fault):
        queue.defer_files(session, [file_id])


def _take_over(session: Session, number: int, file_id: int) -> None:
    """Put a lost file back; of several workers only the one that removes its task does so."""
    if queue.forget_lost(session, number):
        _wait_again(session, file_id, "the worker that indexed it is lost", at_fault=True)
