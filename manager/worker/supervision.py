"""Requests to end a running harvest, and how long it may take before its process is killed."""

import asyncio
import time
from typing import Any, Final

from manager.worker.process import HarvestProcess, ProcessOutcome
from manager.worker.settlement import Cause
from oai.sections import ManagerSettings

_URGENCY: Final = (Cause.PAUSED, Cause.STOPPED, Cause.RESTARTED, Cause.DELETED, Cause.SHUTDOWN, Cause.KILLED)
"""In ascending urgency: a later cause replaces an earlier one."""


class StopRequest:
    """The request to end a harvest, with its cause; one object for each harvest that the worker holds.

    Only coroutines of one event loop use it, so its attributes need no lock.
    """

    def __init__(self) -> None:
        self._changed = asyncio.Event()
        self._cause: Cause | None = None
        self._worker_ends = False

    @property
    def cause(self) -> Cause | None:
        """Return why the harvest is to end; None as long as it may continue."""
        return self._cause

    @property
    def worker_ends(self) -> bool:
        """Return whether its worker ends, whatever the cause is."""
        return self._worker_ends

    def give(self, cause: Cause) -> None:
        """Request the end; a cause less urgent than the present one does not replace it."""
        self._worker_ends = self._worker_ends or cause is Cause.SHUTDOWN
        if self._cause is None or _URGENCY.index(cause) > _URGENCY.index(self._cause):
            self._cause = cause
            self._changed.set()

    async def changed(self) -> None:
        """Wait until a new cause is set."""
        await self._changed.wait()
        self._changed.clear()


async def supervise(process: HarvestProcess, order: StopRequest, settings: ManagerSettings) -> ProcessOutcome:
    """Wait for the process to end, and end it if requested: by a signal first, by force after a delay.

    Cancelling kills the process.
    """
    waiting = asyncio.create_task(process.wait())
    deadline: float | None = None
    try:
        while not waiting.done():
            seconds = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not await _new_cause(waiting, order, seconds):
                if not waiting.done():
                    process.kill()
                    break
                continue
            if deadline is None and order.cause is not Cause.KILLED:
                process.ask_to_stop()
            deadline = time.monotonic() + _seconds_to_end(order.cause, settings)
    except asyncio.CancelledError:
        process.kill()
        await waiting
        raise
    return await waiting


async def _new_cause(
    waiting: asyncio.Future[ProcessOutcome], order: StopRequest, seconds: float | None
) -> bool:
    """Return whether a new cause was set before the process ended and before the timeout."""
    changed = asyncio.create_task(order.changed())
    either: set[asyncio.Future[Any]] = {waiting, changed}
    await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    if changed.done():
        return not waiting.done()
    changed.cancel()
    return False


def _seconds_to_end(cause: Cause | None, settings: ManagerSettings) -> float:
    match cause:
        case Cause.KILLED:
            return 0
        case Cause.PAUSED | Cause.STOPPED:
            return settings.page_seconds
    return settings.stop_seconds
