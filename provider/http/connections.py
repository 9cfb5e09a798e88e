"""How many connections may be open: beyond that, those that nobody uses are closed.

A connection costs a file and some memory, and whoever opens one can leave it open and say nothing. Room is
made at the cost of those that have been idle longest, since they came or since their last answer. A request
that is under way, or an answer that is still being taken, is never cut off here.
"""

import asyncio
import contextlib
import resource
import socket
import weakref
from collections.abc import Iterator
from typing import Final

from aiohttp import web

_OTHER_FILES: Final = 200
"""Files that a process has open beside its connections, and some to spare."""
_SHARE: Final = 16
"""When there are too many, one in so many is closed, so that not every newcomer has to look at all."""


class Connections:
    """The open connections of one process, of which there may be `most`."""

    def __init__(self, *, most: int) -> None:
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        room = most if files == resource.RLIM_INFINITY else files - _OTHER_FILES
        self.most = max(1, min(most, room))
        """As many as the system lets the process have files, if that is fewer."""
        self.open = 0
        """As of the last one that came."""
        self.closed = 0
        """Connections that were closed to make room."""
        self._in_use: set[asyncio.Transport] = set()
        self._idle_since: weakref.WeakKeyDictionary[asyncio.Transport, float] = weakref.WeakKeyDictionary()

    @contextlib.contextmanager
    def asking(self, request: web.Request) -> Iterator[None]:
        """The request's connection is in use for the time of the block."""
        transport = request.transport
        if transport is None:
            yield
            return
        self._in_use.add(transport)
        try:
            yield
        finally:
            self._in_use.discard(transport)
            self._idle_since[transport] = asyncio.get_running_loop().time()

    def make_room(self, server: web.Server) -> None:
        """Close what is too much, now that one more has come."""
        known = (one.transport for one in server.connections)
        transports = [one for one in known if one is not None and not one.is_closing()]
        self.open = len(transports)
        now = asyncio.get_running_loop().time()
        for transport in transports:
            self._idle_since.setdefault(transport, now)
        if self.open <= self.most:
            return
        idle = sorted(filter(self._is_idle, transports), key=self._idle_since.__getitem__)
        for transport in idle[: max(self.open - self.most, self.most // _SHARE)]:
            self.closed += 1
            transport.abort()

    def _is_idle(self, transport: asyncio.Transport) -> bool:
        return transport not in self._in_use and not transport.get_write_buffer_size()


CONNECTIONS: Final = web.AppKey("connections", Connections)


class BoundedSite(web.SockSite):
    """Takes connections from a socket, and makes room for each."""

    def __init__(self, runner: web.AppRunner, listener: socket.socket, *, backlog: int) -> None:
        super().__init__(runner, listener, backlog=backlog)
        self._listener = listener
        self._connections = runner.app[CONNECTIONS]

    async def start(self) -> None:
        """Begin to take connections."""
        await web.BaseSite.start(self)
        server = self._runner.server
        assert server is not None  # noqa: S101 a runner that was set up has one

        loop = asyncio.get_running_loop()

        def protocol() -> asyncio.Protocol:
            # The server knows of the newcomer in the loop's next round.
            loop.call_soon(loop.call_soon, self._connections.make_room, server)
            return server()

        self._server = await loop.create_server(protocol, sock=self._listener, backlog=self._backlog)
