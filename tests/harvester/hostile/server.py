"""An OAI-PMH server on a raw socket of 127.0.0.1, so that HTTP itself can be broken too."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import parse_qsl, urlsplit

from tests.harvester.fake_repository import FakeRepository, Item

XML_TYPE = ("Content-Type", "text/xml; charset=utf-8")
Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A request, with the answer of a correct server."""

    arguments: Mapping[str, str]
    path: str
    base: str
    good: bytes
    times: int
    """How often the same request was sent before."""
    cookies: str = ""
    """The Cookie header of the request."""

    @property
    def verb(self) -> str:
        return self.arguments.get("verb", "")

    @property
    def offset(self) -> int:
        """Return the position in the list of the requested page; -1 for other requests."""
        if self.verb not in {"ListRecords", "ListIdentifiers"}:
            return -1
        number = self.arguments.get("resumptionToken", "0").partition("|")[0]
        return int(number) if number.isdigit() else 0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What is sent. `length` is announced if it differs from the body's; -1 announces no length.

    With status 0, the connection is reset without an answer.
    """

    body: bytes = b""
    status: int = 200
    headers: Headers = (XML_TYPE,)
    length: int | None = None
    reset: bool = False
    """Whether the connection is reset after the body."""
    drip: float = 0
    """Seconds between the body's single bytes."""
    kept_alive: bool = False
    """Whether the connection stays open, with bytes beyond the announced length sent a moment later."""


_LATE = 0.02

Fault = Callable[[Ask], Reply | bytes | None]
"""Returns what is sent in place of the good answer; None keeps the good answer."""


def no_fault(_ask: Ask) -> None:
    """Leave every answer unchanged."""


@dataclass(kw_only=True)
class Hostile:
    """A repository of known content, and the faults of its server."""

    items: list[Item]
    fault: Fault = no_fault
    page_size: int = 10
    granularity: str = "YYYY-MM-DDThh:mm:ssZ"
    sizes: bool = True
    seconds_each: float = 0
    """How long each answer takes."""
    asked: list[Ask] = field(default_factory=list)
    url: str = ""

    def __post_init__(self) -> None:
        self._good = FakeRepository(
            items=self.items,
            page_size=self.page_size,
            granularity=self.granularity,
            sizes=self.sizes,
            now="2024-06-01T12:00:00Z",
        )

    def reply(self, target: str, cookies: str = "") -> Reply:
        """Return the answer to one request."""
        parts = urlsplit(target)
        arguments = dict(parse_qsl(parts.query, keep_blank_values=True))
        self._good.url = self.url
        ask = Ask(
            arguments=arguments,
            path=parts.path,
            base=self.url,
            good=self._good.answer(arguments).encode(),
            times=sum(before.arguments == arguments and before.path == parts.path for before in self.asked),
            cookies=cookies,
        )
        self.asked.append(replace(ask, good=b""))
        chosen = self.fault(ask)
        if chosen is None:
            chosen = ask.good
        return chosen if isinstance(chosen, Reply) else Reply(body=chosen)


@contextlib.asynccontextmanager
async def served(hostile: Hostile) -> AsyncIterator[Hostile]:
    """Serve for the block; `url` is set."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                kept_alive = True
                while kept_alive:
                    request = await reader.readuntil(b"\r\n\r\n")
                    await asyncio.sleep(hostile.seconds_each)
                    reply = hostile.reply(request.split(b" ")[1].decode("ascii"), _cookies(request))
                    await _send(writer, reply)
                    kept_alive = reply.kept_alive
        except asyncio.CancelledError:
            writer.transport.abort()
        with contextlib.suppress(OSError):
            writer.close()
            await writer.wait_closed()

    running: set[asyncio.Task[None]] = set()

    async def tracked(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(handle(reader, writer))
        running.add(task)
        task.add_done_callback(running.discard)

    server = await asyncio.start_server(tracked, "127.0.0.1", 0, limit=2**20)
    hostile.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/oai"
    try:
        yield hostile
    finally:
        server.close()
        unfinished = list(running)
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        await server.wait_closed()


def _cookies(request: bytes) -> str:
    lines = request.decode("latin-1").split("\r\n")
    return next((line[len("cookie:") :].strip() for line in lines if line.lower().startswith("cookie:")), "")


async def _send(writer: asyncio.StreamWriter, reply: Reply) -> None:
    if not reply.status:
        writer.transport.abort()
        return
    length = len(reply.body) if reply.length is None else reply.length
    lines = [f"HTTP/1.1 {reply.status} So"]
    lines += [f"{name}: {value}" for name, value in reply.headers]
    if length >= 0:
        lines.append(f"Content-Length: {length}")
    connection = "keep-alive" if reply.kept_alive else "close"
    writer.write("\r\n".join([*lines, f"Connection: {connection}", "", ""]).encode("latin-1"))
    if reply.kept_alive:
        writer.write(reply.body[:length])
        await writer.drain()
        await asyncio.sleep(_LATE)
        writer.write(reply.body[length:])
        await writer.drain()
    elif reply.drip:
        for byte in reply.body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(reply.drip)
    else:
        writer.write(reply.body)
        await writer.drain()
    if reply.reset:
        writer.transport.abort()
