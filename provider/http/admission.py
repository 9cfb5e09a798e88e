"""Load control: a bounded number of requests work, a bounded number wait, and the others get 503.

A route does all of its blocking database work in one call of `admitted`. Archive files are read elsewhere
(`READING`), because the server of a file may be slow: that must not occupy the threads of lists.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from enum import StrEnum
from queue import SimpleQueue
from typing import Any, Final, TypeVar

from aiohttp import web
from sqlalchemy.exc import InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from oai.database import first_line
from oai.errors import TryLaterError
from provider.http.query_cancellation import Statements

_RETRY_BUSY: Final = 10
_RETRY_DATABASE: Final = 60
_END_SECONDS: Final = 3.0

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
    ARCHIVE = "archive"
    """Archive files cannot be read."""
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


class DaemonThreads(Executor):
    """As many threads as there are calls, for which neither `shutdown` nor the process's end waits."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._closed = False

    def submit(self, work: Callable[..., _Result], /, *args: Any, **kwargs: Any) -> Future[_Result]:  # noqa: ANN401 any work
        """Begin the call."""
        future: Future[_Result] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                result = work(*args, **kwargs)
            except BaseException as error:  # noqa: BLE001 whoever waits for the result handles it
                future.set_exception(error)
            else:
                future.set_result(result)

        self._calls.put(run)
        if not self._idle.acquire(blocking=False):
            threading.Thread(target=self._serve, name="provider-reading", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002 inherited
        """End the threads: idle ones now, others after their call."""
        self._closed = True
        while self._idle.acquire(blocking=False):
            self._calls.put(None)

    def _serve(self) -> None:
        while (call := self._calls.get()) is not None:
            call()
            if self._closed:
                break
            self._idle.release()


class Admission:
    """A bounded number of threads, of `pool` or an own one, with a bounded queue in front of it.

    Lengthy work, such as a page of a list, may use a quarter of the threads, or as many as given: building
    pages occupies one core however many threads do it, and with more of them a single record waits longer
    (docs/performance.md). With four threads and more, lengthy look-ups may use another quarter, so that lists
    do not wait for them.

    The counters change only in the event loop's thread: a finished thread schedules the change there.
    """

    def __init__(
        self,
        *,
        threads: int,
        waiting_room: int,
        wait_seconds: float,
        statements: Statements,
        lengthy: int | None = None,
        pool: Executor | None = None,
    ) -> None:
        self._pool = pool or ThreadPoolExecutor(max_workers=threads, thread_name_prefix="provider")
        self._free = asyncio.Semaphore(threads)
        self._free_for_lengthy = asyncio.Semaphore(lengthy or max(1, threads // 4))
        quarter = threads // 4
        self._free_for_look_ups = asyncio.Semaphore(quarter) if quarter else self._free_for_lengthy
        self._results: set[asyncio.Timeout] = set()
        self._end: float | None = None
        """When results are no longer waited for, by the loop's clock."""
        self._waiting_room = waiting_room
        self._wait_seconds = wait_seconds
        self._statements = statements
        self.threads = threads
        self.waiting = 0
        """Requests that wait for a thread."""
        self.working = 0
        """Threads that are working."""

    async def run(
        self,
        work: Callable[[], _Result],
        *,
        lengthy: bool = False,
        look_up: bool = False,
        patient: bool = False,
    ) -> _Result:
        """Do the blocking work in a thread and return its result.

        Raises TryLaterError if the queue is full, or the wait was too long, unless the work is `patient`.
        A caller that disconnects while it waits leaves no work behind; if its work has started, the running
        statement is cancelled.
        """
        doors = [self._narrow(look_up=look_up), self._free] if lengthy else [self._free]
        await self._enter(doors, patient=patient)
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
            with contextlib.suppress(RuntimeError):  # the loop is closed: a daemon thread outlasts it
                loop.call_soon_threadsafe(leave)

        future.add_done_callback(done)
        try:
            return await self._result(future)
        except asyncio.CancelledError:
            self._statements.cancel(call)
            raise

    def _narrow(self, *, look_up: bool) -> asyncio.Semaphore:
        return self._free_for_look_ups if look_up else self._free_for_lengthy

    def begin(self, work: Callable[[], object]) -> None:
        """Begin work whose result does not matter, without waiting for a free thread."""
        self._pool.submit(work)

    def stop_soon(self) -> None:
        """Wait a few more seconds for results; those that are not there then become TryLaterError."""
        self._end = asyncio.get_running_loop().time() + _END_SECONDS
        for limit in self._results:
            limit.reschedule(self._end)

    @property
    def is_idle(self) -> bool:
        """Whether no request waits, and lengthy work could begin at once."""
        return not (self.waiting or self._free.locked() or self._free_for_lengthy.locked())

    async def close(self) -> None:
        """Wait for the work that has started."""
        await asyncio.to_thread(self._pool.shutdown)
        self._statements.close()

    async def _result(self, future: Future[_Result]) -> _Result:
        limit = asyncio.timeout_at(self._end)
        try:
            async with limit:
                self._results.add(limit)
                return await asyncio.wrap_future(future)
        except TimeoutError:
            if not limit.expired():
                raise
            raise TryLaterError("the provider is shutting down") from None
        finally:
            self._results.discard(limit)

    async def _enter(self, doors: Sequence[asyncio.Semaphore], *, patient: bool) -> None:
        """Acquire the semaphores one by one; a failure or cancellation releases those already acquired."""
        if any(door.locked() for door in doors) and self.waiting >= self._waiting_room and not patient:
            raise TryLaterError(f"all threads are busy, and {self.waiting} requests are already waiting")
        self.waiting += 1
        passed: list[asyncio.Semaphore] = []
        try:
            async with asyncio.timeout(None if patient else self._wait_seconds):
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
READING: Final = web.AppKey("reading", Admission)
"""For reading archive files; `lengthy` is what a remote server sends. It has no database connections."""


async def admitted(
    request: web.Request,
    work: Callable[[], _Result],
    *,
    lengthy: bool = False,
    look_up: bool = False,
    where: web.AppKey[Admission] = ADMISSION,
) -> _Result:
    """Do a request's blocking database work in the provider's bounded pool, and return its result.

    `lengthy` work leaves three quarters of the threads to other requests, or half of them together with
    lengthy work that is a `look_up`.

    Raises TryLater, which is the answer 503 with Retry-After, if no thread becomes free in time, the
    database cannot be reached, or a statement takes too long. The work must not write to the client,
    because a slow reader would hold its thread.
    """
    try:
        return await request.app[where].run(work, lengthy=lengthy, look_up=look_up)
    except TryLaterError as error:
        raise TryLater(Why.BUSY, str(error), _RETRY_BUSY) from None
    except (OperationalError, InterfaceError, PoolTimeoutError) as error:
        _log.warning("503 for %s: %s", request.path_qs[:500], first_line(error))
        raise TryLater(Why.DATABASE, "the database does not answer in time", _RETRY_DATABASE) from None
