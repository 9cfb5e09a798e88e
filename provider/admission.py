"""Load control: so many requests work at a time, so many wait for so long, and the rest come back later."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from oai.errors import TryLaterError

_Result = TypeVar("_Result")


class Admission:
    """A bounded pool of threads with a bounded waiting room in front of it."""

    def __init__(self, *, threads: int, waiting_room: int, wait_seconds: float) -> None:
        self._pool = ThreadPoolExecutor(max_workers=threads, thread_name_prefix="provider")
        self._free = asyncio.Semaphore(threads)
        self._waiting_room = waiting_room
        self._wait_seconds = wait_seconds
        self._waiting = 0

    async def run(self, work: Callable[[], _Result]) -> _Result:
        """Do the blocking work in a thread and give its result.

        Raises TryLaterError when the waiting room is full, or the wait was too long. A caller that goes away
        while it waits leaves no work behind; work that has begun keeps its thread until it is done.
        """
        await self._enter()
        loop = asyncio.get_running_loop()
        try:
            future = self._pool.submit(work)
        except RuntimeError:
            self._free.release()
            raise TryLaterError("the provider is shutting down") from None

        def leave(_: Future[Any]) -> None:
            loop.call_soon_threadsafe(self._free.release)

        future.add_done_callback(leave)
        return await asyncio.wrap_future(future)

    async def close(self) -> None:
        """Wait for the work that has begun."""
        await asyncio.to_thread(self._pool.shutdown)

    async def _enter(self) -> None:
        if self._free.locked() and self._waiting >= self._waiting_room:
            raise TryLaterError(f"all threads are busy, and {self._waiting} requests wait already")
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds):
                await self._free.acquire()
        except TimeoutError:
            raise TryLaterError(f"no thread was free for {self._wait_seconds:g} seconds") from None
        finally:
            self._waiting -= 1
