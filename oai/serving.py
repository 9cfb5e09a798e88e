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


def open_listener(host: str, port: int, *, shared: bool = False, option: str = "--port") -> socket.socket:
    """A bound TCP socket; `port` 0 takes a free one. With `shared`, several processes may bind the same.

    Raises UsageError when the address is not ours or the port is taken; `option` is what to change then.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise UsageError(f"cannot listen on {host!r}, port {port}: {error}") from None
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    try:
        listener.bind(address)
    except (OSError, OverflowError) as error:
        listener.close()
        hint = f"; choose another with {option}" if getattr(error, "errno", None) == errno.EADDRINUSE else ""
        raise UsageError(f"cannot listen on {host!r}, port {port}: {error}{hint}") from None
    return listener


def address(listener: socket.socket) -> str:
    """The listener's address as a URL without a path: `http://127.0.0.1:8080`."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.asynccontextmanager
async def serving(
    app: web.Application,
    listener: socket.socket,
    *,
    stop_seconds: float,
    cancel_abandoned: bool = False,
    longest_line: int = 8190,
) -> AsyncIterator[None]:
    """Serve the app during the block; at its end open answers have `stop_seconds` to finish.

    With `cancel_abandoned` a handler ends when its client has gone. `longest_line` is in bytes, of a request.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        handler_cancellation=cancel_abandoned,
        max_line_size=longest_line,
        shutdown_timeout=stop_seconds,
    )
    await runner.setup()
    try:
        await web.SockSite(runner, listener, backlog=_BACKLOG).start()
        yield
    finally:
        await runner.cleanup()


async def until_stopped(parent: int | None = None) -> None:
    """Wait for SIGTERM or SIGINT, or for the end of `parent`, the reading end of a pipe that it holds open."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if parent is not None:
        loop.add_reader(parent, stop.set)
    try:
        await stop.wait()
    finally:
        if parent is not None:
            loop.remove_reader(parent)
