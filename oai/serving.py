"""How our servers listen, run and stop."""

import asyncio
import contextlib
import errno
import signal
import socket
from collections.abc import AsyncIterator
from typing import Final

from aiohttp import web

from oai.errors import UsageError

_BACKLOG: Final = 512
_PORTS: Final = 1 << 16


def open_listener(host: str, port: int, *, shared: bool = False, option: str = "--port") -> socket.socket:
    """A bound TCP socket; `port` 0 takes a free one. With `shared`, several processes may bind the same.

    Raises UsageError when the address is not ours or the port is taken; `option` is what to change then.
    """
    if port not in range(_PORTS):
        raise UsageError(f"port {port}: ports are 0 (any free one) to {_PORTS - 1}; change {option}")
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
        hint = f"; choose another with {option}" if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"cannot listen on {host!r}, port {port}: {error}{hint}") from None
    return listener


def address(listener: socket.socket) -> str:
    """The listener's address as a URL without a path: `http://127.0.0.1:8080`."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def leave_unread(request: web.Request) -> None:
    """Read no more of a body that cannot be decoded: the server would fail at it again, and log that as ours.

    The connection is closed behind the answer.
    """
    request.content.feed_eof()
    request.protocol.close()


@contextlib.asynccontextmanager
async def serving(
    runner: web.AppRunner, listener: socket.socket, site: type[web.SockSite] = web.SockSite
) -> AsyncIterator[None]:
    """Serve during the block; at its end open answers have the runner's shutdown time to finish.

    `site` is what takes the connections.
    """
    await runner.setup()
    try:
        await site(runner, listener, backlog=_BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


def told_to_stop(parent: int | None = None) -> asyncio.Event:
    """From now on SIGTERM and SIGINT set this event, and so does the end of `parent`.

    `parent` is the reading end of a pipe whose writing end the parent process alone has. Take the event
    before announcing that the server is ready, so that no signal comes too early.
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
