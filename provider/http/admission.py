"""Load control: so many requests work at a time, so many wait for so long, and the rest come back later.

A route does all of its blocking database work in one call of `admitted`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Any, Final, TypeVar

from aiohttp import web
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from oai.errors import TryLaterError
from provider.http.query_cancellation import Statements

_RETRY_BUSY: Final = 10
_RETRY_DATABASE: Final = 60

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class Why(StrEnum):
    """Why a request is asked to come back later."""

    BUSY = "busy"
    """All threads work, and the waiting room is full or the wait was too long."""
    DATABASE = "database"
    """The database is away, or did not answer in time."""
    STORE = "store"
    """Files of harvested records cannot be read."""
    CLIENT = "client"
    """The client has too many requests under way, or sent too many in a minute."""


class TryLater(web.HTTPServiceUnavailable):
    """503 with Retry-After, as OAI-PMH 2.0 asks of a busy repository (section 3.1.2.2)."""

    def __init__(self, why: Why, reason: str, seconds: int) -> None:
        super().__init__(
            text=f"503: {reason}; try again in {seconds} seconds\n",
            headers={"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )
        self.why = why


class Admission:
    """A bounded pool of threads with a bounded waiting room in front of it.

    Lengthy work, as a page of a list is, may take a quarter of the threads: building pages keeps one core
    busy whatever their number, and with more at a time a single record waits longer (docs/performance.md).
    """

    def __init__(
        self, *, threads: int, waiting_room: int, wait_seconds: float, statements: Statements
    ) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="provider")
        self._free = asyncio.Semaphore(threads)
        self._free_for_lengthy = asyncio.Semaphore(max(1, threads // 4))
        self._waiting_room = waiting_room
        self._wait_seconds = wait_seconds
        self._statements = statements
        self.threads = threads
        self.waiting = 0
        """Requests that wait for a thread."""
        self.working = 0
        """Threads at work."""

    async def run(self, work: Callable[[], _Result], *, lengthy: bool = False) -> _Result:
        """Do the blocking work in a thread and give its result.

        Raises TryLaterError when the waiting room is full, or the wait was too long. A caller that goes away
        while it waits leaves no work behind; of work that has begun, the statement that runs is cancelled.
        """
        doors = [self._free_for_lengthy, self._free] if lengthy else [self._free]
        await self._enter(doors)
        loop = asyncio.get_running_loop()
        errand = self._statements.errand()
        try:
            future = self._pool.submit(errand.run, work)
        except RuntimeError:
            _release(doors)
            raise TryLaterError("the provider is shutting down") from None
        self.working += 1

        def leave() -> None:
            self.working -= 1
            _release(doors)

        def done(_: Future[Any]) -> None:
            loop.call_soon_threadsafe(leave)

        future.add_done_callback(done)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._statements.cancel(errand)
            raise

    async def close(self) -> None:
        """Wait for the work that has begun."""
        await asyncio.to_thread(self._pool.shutdown)
        self._statements.close()

    async def _enter(self, doors: Sequence[asyncio.Semaphore]) -> None:
        """Go through the doors one by one; whoever has to turn back leaves none of them taken."""
        if any(door.locked() for door in doors) and self.waiting >= self._waiting_room:
            raise TryLaterError(f"all threads are busy, and {self.waiting} requests are already waiting")
        self.waiting += 1
        passed: list[asyncio.Semaphore] = []
        try:
            async with asyncio.timeout(self._wait_seconds):
                for door in doors:
                    await door.acquire()
                    passed.append(door)
        except BaseException as error:
            _release(passed)
            if isinstance(error, TimeoutError):
                raise TryLaterError(f"no thread was free for {self._wait_seconds:g} seconds") from None
            raise
        finally:
            self.waiting -= 1


def _release(doors: Sequence[asyncio.Semaphore]) -> None:
    for door in doors:
        door.release()


ADMISSION: Final = web.AppKey("admission", Admission)


async def admitted(request: web.Request, work: Callable[[], _Result], *, lengthy: bool = False) -> _Result:
    """Do a request's blocking database work in the provider's bounded pool, and give its result.

    `lengthy` work leaves three quarters of the threads to other requests.

    Raises TryLater, which is the answer 503 with Retry-After, when no thread becomes free in time, the
    database cannot be reached, or a statement takes too long. The work must not write to the client:
    whoever reads slowly would hold its thread.
    """
    try:
        return await request.app[ADMISSION].run(work, lengthy=lengthy)
    except TryLaterError as error:
        raise TryLater(Why.BUSY, str(error), _RETRY_BUSY) from None
    except (OperationalError, InterfaceError, PoolTimeoutError) as error:
        _log.warning("503 for %s: %s", request.path_qs[:500], _first_line(error))
        raise TryLater(Why.DATABASE, "the database does not answer in time", _RETRY_DATABASE) from None


def _first_line(error: Exception) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(original).partition("\n")[0]
