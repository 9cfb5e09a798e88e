"""How many connections a server holds open, from which addresses, and how long each may keep it waiting.

A connection costs a file descriptor and some memory, and a client can open one and stay silent. When
there are too many, the server closes those that have been idle longest, counted from their opening or
their last response. A request in progress, a response still being sent and a stream of events are never
closed to make room; if no connection is idle, the new one is refused.
"""

import asyncio
import contextlib
import ipaddress
import itertools
import logging
import resource
import socket
import struct
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.typedefs import Handler

from oai.errors import of_kind
from oai.logs import RareWarning
from oai.proxies import Network, visitor
from oai.sections import ProviderSettings, WebSettings

_NOT_SENT: Final = 64 * 1024
_CLIENT_LEFT: Final = 499
"""As nginx writes it into its access log; it is never sent."""
_LONGEST_TICK: Final = 1.0
_SHORT_TICK: Final = 0.05


@dataclass(eq=False, kw_only=True)
class _Sending:
    """A response being sent; `taken` and `owed_seconds` refer to the start of its grace period."""

    transport: asyncio.Transport
    writer: AbstractStreamWriter
    ended: bool = False
    taken: int = 0
    owed_seconds: float = 0.0


class Slowness:
    """Watches responses being sent; disconnects clients that read less than `rate` bytes/s for `seconds`."""

    def __init__(self, *, seconds: float, rate: int) -> None:
        self._seconds = seconds
        self._least = max(1.0, rate * seconds)
        self._tick = min(_LONGEST_TICK, seconds / 4)
        self._under_way: set[_Sending] = set()
        self._known: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self.cut_off = 0
        """Connections that were aborted."""

    @contextlib.contextmanager
    def sending(self, request: web.Request) -> Iterator[None]:
        """Watch the request's response from now on, until the client has read all of it."""
        transport = request.transport
        if transport is None:
            yield
            return
        self._prepare(transport)
        sending = _Sending(transport=transport, writer=request.writer)
        self._under_way.add(sending)
        try:
            yield
        finally:
            sending.ended = True
            if not transport.get_write_buffer_size():
                self._under_way.discard(sending)

    @contextlib.asynccontextmanager
    async def watch(self) -> AsyncIterator[None]:
        """Watch responses for the duration of the block."""
        task = asyncio.create_task(self._keep_watching())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def all_taken(self) -> None:
        """Wait until no response is left in memory, including responses that have been ended."""
        while any(sending.transport.get_write_buffer_size() for sending in self._under_way):  # noqa: ASYNC110 no event to wait for
            await asyncio.sleep(_SHORT_TICK)

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
            # A copy, because the loop removes responses from the set.
            for sending in list(self._under_way):
                self._look_at(sending)

    def _look_at(self, sending: _Sending) -> None:
        owed = sending.transport.get_write_buffer_size()
        taken = sending.writer.output_size - owed
        if not owed:
            sending.taken, sending.owed_seconds = taken, 0.0
            if sending.ended:
                self._under_way.discard(sending)
            return
        sending.owed_seconds += self._tick
        if sending.owed_seconds < self._seconds:
            return
        if taken - sending.taken < self._least:
            self.cut_off += 1
            self._under_way.discard(sending)
            sending.transport.abort()
        sending.taken, sending.owed_seconds = taken, 0.0

    def _prepare(self, transport: asyncio.Transport) -> None:
        """Limit the kernel's send buffer, so that the client's reading speed shows, and set its timeout."""
        if transport in self._known:
            return
        self._known.add(transport)
        connection = transport.get_extra_info("socket")
        if connection is None or connection.family not in {socket.AF_INET, socket.AF_INET6}:
            return
        options = {"TCP_NOTSENT_LOWAT": _NOT_SENT, "TCP_USER_TIMEOUT": int(self._seconds * 1000)}
        for name, value in options.items():
            if hasattr(socket, name):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


_OTHER_FILES: Final = 200
"""Files that a process has open besides its connections, with a reserve."""
_LEAST_SHARE: Final = 4
"""If the reserve leaves too few files, connections get one file in this many."""
_BATCH: Final = 16
"""When there are too many connections, one in this many is closed, so that not each new one closes one."""
_REFUSED: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\n"
    b"Content-Type: text/plain; charset=utf-8\r\nContent-Length: 26\r\n\r\n503: too many connections\n"
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The limits of one server; the defaults are for small servers such as the metrics endpoint."""

    connections: int = 64
    connections_per_address: int = 0
    """0: no limit."""
    idle_seconds: float = 75
    """How long a connection may stay without a complete request head."""
    body_seconds: float = 30
    slow_seconds: float = 60
    slow_rate: int = 1024
    trusted: tuple[Network, ...] = ()
    """Proxies, which are exempt from the limit per address because they forward for many clients."""


def limits_of(section: ProviderSettings | WebSettings) -> ConnectionLimits:
    """Return the limits from a section of the settings."""
    return ConnectionLimits(
        connections=section.connections,
        connections_per_address=section.connections_per_address,
        idle_seconds=section.idle_seconds,
        body_seconds=section.body_seconds,
        slow_seconds=section.slow_seconds,
        slow_rate=section.slow_rate,
        trusted=tuple(ipaddress.ip_network(network, strict=False) for network in section.trusted_proxies),
    )


class Connections:
    """The open connections of one server.

    All methods run in the event loop's thread and do not await, so the collections need no lock.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self.most = limits.connections
        """The configured limit, or fewer if the process may open fewer files; see `share_files`."""
        self.slowness = Slowness(seconds=limits.slow_seconds, rate=limits.slow_rate)
        self.closed = 0
        """Connections that were closed to make room."""
        self.refused = 0
        """New connections that were refused because no connection was idle."""
        self._whose: dict[asyncio.Transport, str | None] = {}
        # Both are ordered by the time at which a connection became idle. A dictionary keeps that order and
        # finds a connection in constant time.
        self._idle: dict[asyncio.Transport, None] = {}
        self._of: dict[str, dict[asyncio.Transport, None]] = {}
        self._under_way: Counter[asyncio.Transport] = Counter()
        self._refusals = RareWarning(_log)

    @property
    def open(self) -> int:
        """Number of open connections."""
        return len(self._whose)

    def share_files(self, servers: int) -> None:
        """Limit connections to the available files, which `servers` servers of this process share evenly.

        Each server has its own share, so that clients that exhaust one server's share do not affect
        another server.
        """
        files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if files != resource.RLIM_INFINITY:
            room = max(files - _OTHER_FILES, files // _LEAST_SHARE)
            self.most = max(1, min(self.limits.connections, room // servers))

    def admit(self, transport: asyncio.Transport) -> bool:
        """Return whether the new connection may stay; closes idle connections for it if necessary."""
        peer = transport.get_extra_info("peername")
        whose = visitor(peer[0] if peer else None, (), self.limits.trusted).limited_as
        own = self._of.get(whose, {}) if whose is not None else {}
        if self._is_full(own) and not self._close(own, 1):
            self._refuse(
                f"{whose} already has {len(own)} connections and none of them is idle; if it is a "
                "proxy, add it to trusted_proxies"
            )
            return False
        if self.open >= self.most and not self.close_idle():
            self._refuse(f"{self.open} connections are open and none of them is idle")
            return False
        self._whose[transport] = whose
        self._become_idle(transport)
        return True

    def lose(self, transport: asyncio.Transport) -> None:
        """Remove a connection that is closed or about to be closed."""
        whose = self._whose.pop(transport, None)
        self._idle.pop(transport, None)
        if whose is not None:
            self._of[whose].pop(transport, None)
            if not self._of[whose]:
                del self._of[whose]

    def close_idle(self) -> int:
        """Close the connections that have been idle longest; return how many."""
        return self._close(self._idle, max(1, self.most // _BATCH))

    def use(self, request: web.Request) -> None:
        """Mark the request's connection as in use until its response is sent; call it in the request's task.

        A client that does not read the response is disconnected.
        """
        transport, task = request.transport, asyncio.current_task()
        if transport is None or task is None:
            return
        watched = contextlib.ExitStack()
        watched.enter_context(self.slowness.sending(request))
        # A counter, because the connection's next request may begin before the end of this task is
        # reported.
        self._under_way[transport] += 1
        self._idle.pop(transport, None)

        def sent(_: asyncio.Task[object]) -> None:
            watched.close()
            self._under_way[transport] -= 1
            if not self._under_way[transport]:
                del self._under_way[transport]
                if transport in self._whose:
                    self._become_idle(transport)

        task.add_done_callback(sent)

    @contextlib.contextmanager
    def body_in_time(self, request: web.Request) -> Iterator[None]:
        """Make reading the request's body raise HTTPRequestTimeout if it takes longer than `body_seconds`."""
        body, seconds = request.content, self.limits.body_seconds
        if body.is_eof():
            yield
            return
        late = web.HTTPRequestTimeout(text=f"408: sending the form took longer than {seconds:g} seconds\n")

        def end() -> None:
            if not body.is_eof():
                body.set_exception(late)

        timer = asyncio.get_running_loop().call_later(seconds, end)
        try:
            yield
        finally:
            timer.cancel()
            if body.exception() is late:
                leave_unread(request)

    def _is_full(self, own: dict[asyncio.Transport, None]) -> bool:
        """Return whether an address has reached its limit, which is at most half of all connections."""
        limit = self.limits.connections_per_address
        return bool(limit) and len(own) >= max(1, min(limit, self.most // 2))

    def _become_idle(self, transport: asyncio.Transport) -> None:
        self._idle[transport] = None
        whose = self._whose[transport]
        if whose is not None:
            own = self._of.setdefault(whose, {})
            own.pop(transport, None)
            own[transport] = None

    def _close(self, among: Iterable[asyncio.Transport], most: int) -> int:
        idle = list(itertools.islice(filter(self._is_idle, among), most))
        for transport in idle:
            # Immediately, because the transport reports the loss only in the loop's next iteration.
            self.lose(transport)
            transport.abort()
        self.closed += len(idle)
        return len(idle)

    def _is_idle(self, transport: asyncio.Transport) -> bool:
        return transport in self._idle and not transport.get_write_buffer_size()

    def _refuse(self, why: str) -> None:
        self.refused += 1
        self._refusals.warn(f"connection refused: {why}")


CONNECTIONS: Final = web.AppKey("connections", Connections)


def leave_unread(request: web.Request) -> None:
    """Discard the rest of an unreadable body; otherwise the server fails on it again and logs an error.

    The connection is closed after the response.
    """
    request.content.feed_eof()
    request.protocol.close()


def break_off(request: web.Request) -> None:
    """End the connection of an incomplete response so that the client cannot mistake a part for the whole.

    A response of HTTP/1.0 ends with its connection; only a reset (RST) shows that something is missing.
    """
    if request.transport is None or request.transport.is_closing():
        return
    connection = request.transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    request.transport.abort()


def bound(app: web.Application, limits: ConnectionLimits) -> None:
    """Apply these limits to the application's connections; call this before adding other middlewares."""
    app[CONNECTIONS] = Connections(limits)
    app.middlewares.append(_bounded)
    app.cleanup_ctx.append(_slow_clients)


def client_left(request: web.Request, error: Exception) -> bool:
    """Return whether the error is only that the connection of this request is closed."""
    gone = request.transport is None or request.transport.is_closing()
    return gone and isinstance(error, ConnectionError)


@web.middleware
async def _bounded(request: web.Request, handler: Handler) -> web.StreamResponse:
    connections = request.config_dict[CONNECTIONS]
    connections.use(request)
    try:
        with connections.body_in_time(request):
            response = await handler(request)
    except ConnectionError as error:
        if not client_left(request, error):
            raise
        # aiohttp would log the error with its traceback; a response that cannot be sent ends quietly.
        return web.Response(status=_CLIENT_LEFT)
    if isinstance(response, web.FileResponse):
        # Otherwise sendfile sends it, which does not reveal how much the client has read.
        response.enable_compression(web.ContentCoding.identity)
    return response


async def _slow_clients(app: web.Application) -> AsyncIterator[None]:
    async with app[CONNECTIONS].slowness.watch():
        yield


class CountedConnection(asyncio.Protocol):
    """Passes everything to the HTTP server's own protocol once the connection is admitted."""

    def __init__(self, connections: Connections, server: web.Server) -> None:
        self._connections = connections
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._http: asyncio.Protocol | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Admit the connection, or refuse and close it."""
        transport = of_kind(transport, asyncio.Transport, "it carries a stream")
        if not self._connections.admit(transport):
            transport.write(_REFUSED)
            transport.close()
            return
        self._transport, self._http = transport, self._server()
        self._http.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection and inform the HTTP protocol."""
        if self._transport is not None and self._http is not None:
            self._connections.lose(self._transport)
            self._http.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on."""
        if self._http is not None:
            self._http.data_received(data)

    def eof_received(self) -> bool | None:
        """Pass on that the client has finished sending."""
        return self._http.eof_received() if self._http is not None else None

    def pause_writing(self) -> None:
        """Pass on that the client reads its response slowly."""
        if self._http is not None:
            self._http.pause_writing()

    def resume_writing(self) -> None:
        """Pass on that the send buffer has space again."""
        if self._http is not None:
            self._http.resume_writing()
