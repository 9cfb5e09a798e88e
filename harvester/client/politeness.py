"""Limits the requests to a host: how many at a time, and the delay between them, over all clients."""

import asyncio
import contextlib
import time
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit


class HostGate:
    """Admits the requests to one host.

    Tasks of one event loop share it. Its counters change only between awaits; the condition wakes those
    waiting.
    """

    def __init__(self) -> None:
        self._under_way = 0
        self._next = 0.0
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def turn(self, politeness: "Politeness") -> AsyncIterator[None]:
        """Wait for a turn, and hold it for the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._under_way < politeness.per_host)
            self._under_way += 1
        try:
            await self._wait_for_delay(politeness)
            yield
        finally:
            self._under_way -= 1
            self._next = max(self._next, politeness.clock() + politeness.delay)
            async with self._changed:
                self._changed.notify_all()

    async def _wait_for_delay(self, politeness: "Politeness") -> None:
        if not politeness.delay:
            return
        now = politeness.clock()
        start = max(now, self._next)
        # Reserved before the wait: the next task gets the time after ours, although we still wait.
        self._next = start + politeness.delay
        if start > now:
            await politeness.sleep(start - now)


class HostGates:
    """The gates of one process, by event loop and host, so that all clients share them."""

    def __init__(self) -> None:
        self._gates: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, HostGate]] = (
            weakref.WeakKeyDictionary()
        )

    def gate(self, url: str) -> HostGate:
        """Return the gate of the URL's host and port."""
        hosts = self._gates.setdefault(asyncio.get_running_loop(), defaultdict(HostGate))
        return hosts[urlsplit(url).netloc.rpartition("@")[2].lower()]


SHARED_GATES = HostGates()


@dataclass(frozen=True, kw_only=True)
class Politeness:
    """The politeness settings of one client.

    At most `per_host` requests to a host are in progress at a time. A request begins `delay` seconds after
    the previous one began and, if they do not overlap, after it ended. `clock` returns monotonic seconds.
    """

    per_host: int = 4
    delay: float = 0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    gates: HostGates = field(default=SHARED_GATES)

    def turn(self, url: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until a request to the URL's host may be sent; the turn lasts for the block."""
        return self.gates.gate(url).turn(self)
