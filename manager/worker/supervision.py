"""What a running harvest is told to do, and how long it may take to do it before its process is killed."""

import asyncio
import time
from typing import Any, Final

from manager.worker.process import HarvestProcess, ProcessOutcome
from manager.worker.settlement import Cause
from oai.sections import ManagerSettings

_URGENCY: Final = (Cause.PAUSED, Cause.STOPPED, Cause.RESTARTED, Cause.DELETED, Cause.SHUTDOWN, Cause.KILLED)
"""A later one of these takes the place of an earlier one."""


class StopRequest:
    """The end that a harvest is told to come to; one for each harvest in hand."""

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._cause: Cause | None = None

    @property
    def cause(self) -> Cause | None:
        """Why it is to end; None as long as it may go on."""
        return self._cause

    def give(self, cause: Cause) -> None:
        """Tell it to end; what is less urgent than what it was told before changes nothing."""
        if self._cause is None or _URGENCY.index(cause) > _URGENCY.index(self._cause):
            self._cause = cause
            self._changed.set()

    async def changed(self) -> None:
        """Wait until it is told something new."""
        await self._changed.wait()
        self._changed.clear()


async def supervise(process: HarvestProcess, order: StopRequest, settings: ManagerSettings) -> ProcessOutcome:
    """Wait for the process to end, and see to it that it does where it is told to.

    Cancelling kills it.
    """
    waiting = asyncio.create_task(process.wait())
    deadline: float | None = None
    try:
        while not waiting.done():
            patience = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not await _told(waiting, order, patience):
                if not waiting.done():
                    process.kill()
                    break
                continue
            if deadline is None and order.cause is not Cause.KILLED:
                process.ask_to_stop()
            deadline = time.monotonic() + _patience(order.cause, settings)
    except asyncio.CancelledError:
        process.kill()
        await waiting
        raise
    return await waiting


async def _told(waiting: asyncio.Future[ProcessOutcome], order: StopRequest, patience: float | None) -> bool:
    """Whether something new was told, before the end of the process or of our patience."""
    changed = asyncio.create_task(order.changed())
    either: set[asyncio.Future[Any]] = {waiting, changed}
    await asyncio.wait(either, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
    if changed.done():
        return not waiting.done()
    changed.cancel()
    return False


def _patience(cause: Cause | None, settings: ManagerSettings) -> float:
    match cause:
        case Cause.KILLED:
            return 0
        case Cause.PAUSED | Cause.STOPPED:
            return settings.page_seconds
    return settings.stop_seconds
