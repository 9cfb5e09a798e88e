"""How often one host is asked: so many requests at a time, and so long between two, over all clients."""

import asyncio
import contextlib
import time
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit


class HostGate:
    """Lets the requests to one host through."""

    def __init__(self) -> None:
        self._under_way = 0
        self._next = 0.0
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def turn(self, politeness: "Politeness") -> AsyncIterator[None]:
        """Wait for a turn and hold it for the block."""
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
        # Whoever comes next takes the time after ours, though we still wait.
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
        """The gate of the URL's host and port."""
        hosts = self._gates.setdefault(asyncio.get_running_loop(), defaultdict(HostGate))
        return hosts[urlsplit(url).netloc.rpartition("@")[2].lower()]


SHARED_GATES = HostGates()


@dataclass(frozen=True, kw_only=True)
class Politeness:
    """The manners of one client.

    At most `per_host` requests to a host are under way at a time. One begins `delay` seconds after the one
    before it began, and, where they do not overlap, after it ended. `clock` gives seconds that only grow.
    """

    per_host: int = 4
    delay: float = 0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    gates: HostGates = field(default=SHARED_GATES)

    def turn(self, url: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Wait until a request to the URL's host may be sent; it lasts for the block."""
        return self.gates.gate(url).turn(self)
