"""A server on 127.0.0.1 that sends bytes exactly as given, valid HTTP or not."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class RawServer:
    """Sends what `answer` returns for a request's first line, then closes or holds the connection."""

    answer: Callable[[str], bytes]
    hold: bool = False
    drip: float = 0
    """Seconds between two bytes after the head."""
    url: str = ""
    asked: list[str] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            self.bodies.append(await reader.readexactly(_length(head)))
            await self._send(writer, self.answer(head.splitlines()[0]))
            if self.hold:
                await reader.read()
        writer.close()

    async def _send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        if not self.drip:
            writer.write(data)
            await writer.drain()
            return
        head, _, body = data.partition(b"\r\n\r\n")
        writer.write(head + b"\r\n\r\n")
        for number in range(len(body)):
            writer.write(body[number : number + 1])
            await writer.drain()
            await asyncio.sleep(self.drip)


def reply(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """Return an HTTP answer; `length` is the announced Content-Length, correct or not."""
    declared = len(body) if length is None else length
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {declared}", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextlib.asynccontextmanager
async def serve_raw(server: RawServer) -> AsyncIterator[RawServer]:
    """Serve for the block; `url` is set."""
    tasks: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await server.handle(reader, writer)
        except asyncio.CancelledError:
            writer.close()
        finally:
            tasks.discard(task)

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"http://127.0.0.1:{port}/oai"
    try:
        yield server
    finally:
        listening.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _length(head: str) -> int:
    for line in head.splitlines():
        name, _, value = line.partition(":")
        if name.lower() == "content-length":
            return int(value)
    return 0
