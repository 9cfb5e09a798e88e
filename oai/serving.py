"""How the servers listen, run and stop."""

import asyncio
import contextlib
import errno
import ipaddress
import logging
import resource
import signal
import socket
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError

from oai.child import collect_garbage_seldom
from oai.connections import CONNECTIONS, CountedConnection
from oai.errors import UsageError, required
from oai.logs import RareWarning

_BACKLOG: Final = 512
_PORTS: Final = 1 << 16
_FILES: Final = 65_536
_ACCEPTED_AT_ONCE: Final = 16
"""Connections accepted in one iteration of the loop, so that connected clients are served in between.

In a burst, a server can have this many more files open than its share, and as many again that are being
closed: a connection is counted, and one that it replaces is closed, only in the following iterations.
"""
_NEW_OBJECTS: Final = 10_000
"""Created between two garbage collections; fewer than in a harvest: requests may leave reference cycles."""
_RETRY_SECONDS: Final = 0.2
_LINGER_SECONDS: Final = 1.0
"""How long the rest of an unread request body may still arrive after its response."""

_log = logging.getLogger(__name__)


def open_listener(host: str, port: int, *, shared: bool = False, option: str = "--port") -> socket.socket:
    """Return a bound TCP socket; `port` 0 takes a free one. With `shared`, several processes may bind it.

    Raises UsageError if the address is not local or the port is in use; `option` is the option to change
    then.
    """
    if port not in range(_PORTS):
        raise UsageError(
            f"port {port} is not valid; change {option} to a number from 0 (any free port) to {_PORTS - 1}"
        )
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, UnicodeError) as error:
        raise UsageError(f"cannot listen on {host!r}, port {port}: {error}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind(address)
    except OSError as error:
        listener.close()
        hint = f"; choose another port with {option}" if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"cannot listen on {host!r}, port {port}: {error}{hint}") from None
    return listener


def address(listener: socket.socket) -> str:
    """Return the listener's address as a URL without a path: `http://127.0.0.1:8080`."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def own_address(listener: socket.socket) -> str:
    """Return the listener's address as programs on this machine reach it.

    A listener on all addresses (0.0.0.0, ::) is reachable at the loopback address.
    """
    host, port = listener.getsockname()[:2]
    if ipaddress.ip_address(host.partition("%")[0]).is_unspecified:
        return f"http://[::1]:{port}" if ":" in host else f"http://127.0.0.1:{port}"
    return address(listener)


class _ServerLog(logging.Filter):
    """Drops reports of requests that are not HTTP, each of which aiohttp would log as a server error."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the log record is kept."""
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


def create_runner(
    app: web.Application,
    *,
    log: str,
    stop_seconds: float,
    longest_line: int = 8190,
    handler_cancellation: bool = False,
) -> web.AppRunner:
    """Return a runner for an application whose connections are limited (`oai.connections.bound`).

    `log` names the logger for errors, `longest_line` is the maximum length of a request line in bytes,
    and open responses have `stop_seconds` to finish at shutdown. With `handler_cancellation`, a request
    is cancelled when its client disconnects.
    """
    server_log = logging.getLogger(log)
    if not server_log.filters:
        server_log.addFilter(_ServerLog())
    return web.AppRunner(
        app,
        access_log=None,
        logger=server_log,
        handler_cancellation=handler_cancellation,
        keepalive_timeout=app[CONNECTIONS].limits.idle_seconds,
        lingering_time=_LINGER_SECONDS,
        max_line_size=longest_line,
        shutdown_timeout=stop_seconds,
    )


class _Request(web.Request):
    """A request whose response does not name the server's software.

    aiohttp adds its version and Python's to each response. Responses to requests that it
    could not read pass no middleware and no signal of the application, only this hook.
    """

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        await super()._prepare_hook(response)
        response.headers.pop(hdrs.SERVER, None)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")


class _Site(web.BaseSite):
    """Accepts connections from a listening socket.

    When the process runs out of files, asyncio's own server retries accepting as often as its backlog is
    long. It logs each failure with a traceback and schedules another attempt a second later, which fails
    as often again. Clients that open more connections than there are files would fill the log and block
    the loop.
    """

    def __init__(self, runner: web.AppRunner, listener: socket.socket) -> None:
        super().__init__(runner)
        self._listener = listener
        self._connections = runner.app[CONNECTIONS]
        self._loop = asyncio.get_running_loop()
        self._taking: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._failures = RareWarning(_log)

    @property
    def name(self) -> str:
        """The address of the listener."""
        return address(self._listener)

    async def start(self) -> None:
        """Begin to accept connections."""
        await super().start()
        self._listener.setblocking(False)  # noqa: FBT003 its only argument
        self._listener.listen(_BACKLOG)
        self._resume()

    async def stop(self) -> None:
        """Stop accepting; returns once the server knows every accepted connection."""
        if self._retry is not None:
            self._retry.cancel()
        self._loop.remove_reader(self._listener)
        self._listener.close()
        await asyncio.gather(*self._taking)
        await super().stop()

    def _resume(self) -> None:
        self._retry = None
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:
                self._pause(error)
                return
            connection.setblocking(False)  # noqa: FBT003 its only argument
            task = self._loop.create_task(self._take(connection))
            # Kept in a set, because the loop holds only weak references to tasks; `stop` waits for them.
            self._taking.add(task)
            task.add_done_callback(self._taking.discard)

    async def _take(self, connection: socket.socket) -> None:
        server = required(self._runner.server, "the runner was set up")
        try:
            await self._loop.connect_accepted_socket(
                lambda: CountedConnection(self._connections, server), connection
            )
        except OSError as error:
            connection.close()
            self._failures.warn(f"{self.name}: a connection was lost while it was accepted: {error}")

    def _pause(self, error: OSError) -> None:
        """Close idle connections and retry shortly; unregistered meanwhile: the listener stays readable."""
        closed = self._connections.close_idle()
        self._failures.warn(
            f"{self.name}: cannot accept connections: {error.strerror}; {closed} idle ones were "
            "closed. Allow the process more open files (ulimit -n, LimitNOFILE)"
        )
        self._loop.remove_reader(self._listener)
        self._retry = self._loop.call_later(_RETRY_SECONDS, self._resume)


def _take_all_files() -> None:
    """Raise the limit on open files: each connection is one, and the default is often 1,024."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if most == resource.RLIM_INFINITY else min(_FILES, most)
    if now != resource.RLIM_INFINITY and now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))


@contextlib.asynccontextmanager
async def serving(runner: web.AppRunner, listener: socket.socket, *, servers: int = 1) -> AsyncIterator[None]:
    """Serve during the block; at its end, open responses have the runner's shutdown time to finish.

    `servers` is the number of servers that share this process's files, including this one.
    """
    _take_all_files()
    await runner.setup()
    collect_garbage_seldom(_NEW_OBJECTS)
    server = required(runner.server, "the runner was set up")
    server.request_factory = partial(runner.app._make_request, _cls=_Request)  # noqa: SLF001 no public way
    try:
        runner.app[CONNECTIONS].share_files(servers)
        await _Site(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


def stop_signal(parent: int | None = None) -> asyncio.Event:
    """Return an event that SIGTERM, SIGINT and the end of `parent` set from now on.

    `parent` is the reading end of a pipe whose writing end only the parent process holds. Create the
    event before announcing that the server is ready, so that no signal is lost.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent is not None:

        def ended() -> None:
            loop.remove_reader(parent)
            stop.set()

        loop.add_reader(parent, ended)
    return stop
