"""Load control: a bounded number of requests work, a bounded number wait, and the others get 503.

A route does all of its blocking database work in one call of `admitted`.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from enum import StrEnum
from typing import Any, Final, TypeVar

from aiohttp import web
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from oai.database import first_line
from oai.errors import TryLaterError
from provider.http.query_cancellation import Statements

_RETRY_BUSY: Final = 10
_RETRY_DATABASE: Final = 60

_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class Why(StrEnum):
    """Why a request is answered with 503."""

    BUSY = "busy"
    """All threads are busy, and the queue is full or the wait was too long."""
    DATABASE = "database"
    """The database is not available, or did not answer in time."""
    STORE = "store"
    """Files of harvested records cannot be read."""
    CLIENT = "client"
    """The client has too many concurrent requests, or sent too many in a minute."""


class TryLater(web.HTTPServiceUnavailable):
    """503 with Retry-After, as OAI-PMH 2.0 specifies for a busy repository (section 3.1.2.2)."""

    def __init__(self, why: Why, reason: str, seconds: int) -> None:
        super().__init__(
            text=f"503: {reason}; try again in {seconds} seconds\n",
            headers={"Retry-After": str(seconds), "Cache-Control": "no-store"},
        )
        self.why = why


class Admission:
    """A bounded pool of threads with a bounded queue in front of it.

    Lengthy work, such as a page of a list, may use a quarter of the threads: building pages occupies one
    core however many threads do it, and with more of them a single record waits longer
    (docs/performance.md).

    The counters change only in the event loop's thread: a finished thread schedules the change there.
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
        """Threads that are working."""

    async def run(self, work: Callable[[], _Result], *, lengthy: bool = False) -> _Result:
        """Do the blocking work in a thread and return its result.

        Raises TryLaterError if the queue is full, or the wait was too long. A caller that disconnects
        while it waits leaves no work behind; if its work has started, the running statement is cancelled.
        """
        doors = [self._free_for_lengthy, self._free] if lengthy else [self._free]
        await self._enter(doors)
        loop = asyncio.get_running_loop()
        call = self._statements.call()
        try:
            future = self._pool.submit(call.run, work)
        except RuntimeError:
            _release(doors)
            raise TryLaterError("the provider is shutting down") from None
        self.working += 1

        def leave() -> None:
            self.working -= 1
            _release(doors)

        def done(_: Future[Any]) -> None:
            # Called in the worker thread, which must not touch semaphores and counters of the loop.
            loop.call_soon_threadsafe(leave)

        future.add_done_callback(done)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            self._statements.cancel(call)
            raise

    @property
    def is_idle(self) -> bool:
        """Whether no request waits, and lengthy work could begin at once."""
        return not (self.waiting or self._free.locked() or self._free_for_lengthy.locked())

    async def close(self) -> None:
        """Wait for the work that has started."""
        await asyncio.to_thread(self._pool.shutdown)
        self._statements.close()

    async def _enter(self, doors: Sequence[asyncio.Semaphore]) -> None:
        """Acquire the semaphores one by one; a failure or cancellation releases those already acquired."""
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
    """Do a request's blocking database work in the provider's bounded pool, and return its result.

    `lengthy` work leaves three quarters of the threads to other requests.

    Raises TryLater, which is the answer 503 with Retry-After, if no thread becomes free in time, the
    database cannot be reached, or a statement takes too long. The work must not write to the client,
    because a slow reader would hold its thread.
    """
    try:
        return await request.app[ADMISSION].run(work, lengthy=lengthy)
    except TryLaterError as error:
        raise TryLater(Why.BUSY, str(error), _RETRY_BUSY) from None
    except (OperationalError, InterfaceError, PoolTimeoutError) as error:
        _log.warning("503 for %s: %s", request.path_qs[:500], first_line(error))
        raise TryLater(Why.DATABASE, "the database does not answer in time", _RETRY_DATABASE) from None
