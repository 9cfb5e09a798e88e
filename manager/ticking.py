"""The tick: functions that are called again and again, none of which keeps the others from it."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import UTC, datetime

import psycopg
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from sqlalchemy.exc import OperationalError

from manager.leadership import NotLeadingError

logger = logging.getLogger(__name__)

Function = Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def ticking(
    functions: Sequence[Function], *, seconds: float, ending: threading.Event
) -> AsyncIterator[None]:
    """Call each function every so many seconds for as long as the block lasts, at once for the first time.

    One that takes longer is left out until it is done. At the end `ending` is set, and what is under way is
    waited for.
    """
    calls = _Calls()
    scheduler = _scheduler(calls, functions, seconds)
    ending.clear()
    scheduler.start()
    try:
        yield
    finally:
        scheduler.pause()
        ending.set()
        await calls.are_over()
        scheduler.shutdown(wait=False)


def _scheduler(calls: "_Calls", functions: Sequence[Function], seconds: float) -> AsyncIOScheduler:
    quiet = logging.getLogger(f"{__name__}.scheduler")
    # That a call still goes on when its next one is due is nothing to warn of.
    quiet.setLevel(logging.ERROR)
    scheduler = AsyncIOScheduler(timezone=UTC, logger=quiet)
    for function in functions:
        scheduler.add_job(
            calls.call,
            "interval",
            args=[function],
            seconds=seconds,
            next_run_time=datetime.now(UTC),
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )
    return scheduler


class _Calls:
    """The calls under way; the scheduler's own ending would cut them off with an error."""

    def __init__(self) -> None:
        self._under_way: set[asyncio.Future[None]] = set()

    async def call(self, function: Function) -> None:
        """Call one function; whatever goes wrong is told, and the next tick comes all the same."""
        call: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._under_way.add(call)
        try:
            await function()
        except (OperationalError, psycopg.OperationalError) as error:
            logger.warning("the database does not answer: %s", error)
        except NotLeadingError as error:
            logger.warning("%s", error)
        except Exception:
            logger.exception("internal error in one of the manager's functions; it is tried again")
        finally:
            self._under_way.remove(call)
            call.set_result(None)

    async def are_over(self) -> None:
        """Wait until no call is under way."""
        await asyncio.sleep(0)
        if self._under_way:
            await asyncio.wait(self._under_way)
