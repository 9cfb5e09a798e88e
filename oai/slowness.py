"""Clients that take their answers too slowly are cut off.

An answer that nobody takes stays in memory, and a client that takes a byte now and then would keep it there
for ever. It holds no thread and no database connection: those are free as soon as the answer is made.
"""

import asyncio
import contextlib
import socket
import weakref
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

_NOT_SENT: Final = 64 * 1024
_LONGEST_TICK: Final = 1.0
_SHORT_TICK: Final = 0.05


@dataclass(eq=False, kw_only=True)
class _Sending:
    """An answer on its way; `taken` and `owed_seconds` are as of the beginning of its time of grace."""

    transport: asyncio.Transport
    writer: AbstractStreamWriter
    ended: bool = False
    taken: int = 0
    owed_seconds: float = 0.0


class Slowness:
    """Watches answers on their way; who takes less than `rate` bytes a second for `seconds` is cut off."""

    def __init__(self, *, seconds: float, rate: int) -> None:
        self._seconds = seconds
        self._least = max(1.0, rate * seconds)
        self._tick = min(_LONGEST_TICK, seconds / 4)
        self._under_way: set[_Sending] = set()
        self._known: weakref.WeakSet[asyncio.Transport] = weakref.WeakSet()
        self.cut_off = 0
        """Connections that were ended."""

    @contextlib.contextmanager
    def sending(self, request: web.Request) -> Iterator[None]:
        """Watch the request's answer from now on, until the client has taken all of it."""
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
        """Look after them for the time of the block."""
        task = asyncio.create_task(self._keep_watching())
        yield
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task

    async def all_taken(self) -> None:
        """Wait until no answer is left in memory; those that were ended are taken from there, too."""
        while any(sending.transport.get_write_buffer_size() for sending in self._under_way):  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(_SHORT_TICK)

    async def _keep_watching(self) -> None:
        while True:
            await asyncio.sleep(self._tick)
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
        """Tell the kernel to hold little, so that we see what the client takes, and to give up, too."""
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
