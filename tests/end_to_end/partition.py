"""A network that loses everything: sockets before PostgreSQL servers, for the processes on one side of it."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

_SOCKET: Final = ".s.PGSQL.5432"
_PIECE: Final = 65_536


class Partition:
    """Connections to the servers; while it is there, nothing passes in either direction."""

    def __init__(self) -> None:
        self.connections = 0
        """Connections that have taken this way."""
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def last(self, seconds: float) -> None:
        """Let nothing pass for so long; then end all connections, and lose what was under way."""
        self._passing.clear()
        await asyncio.sleep(seconds)
        for writer in list(self._writers):
            writer.transport.abort()
        self._passing.set()

    async def connect(self, target: Path, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass a new connection's bytes on to a server's socket, and its bytes back.

        Raises OSError if the server is gone.
        """
        # A connection begun during the partition stays without an answer.
        await self._passing.wait()
        try:
            from_server, to_server = await asyncio.open_unix_connection(target)
        except OSError:
            writer.transport.abort()
            raise
        self.connections += 1
        await asyncio.gather(self._pump(reader, to_server), self._pump(from_server, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(_PIECE):
                    await self._passing.wait()
                    writer.write(data)
                    await writer.drain()
        finally:
            self._writers.discard(writer)
            writer.close()


@contextlib.asynccontextmanager
async def partition(folder: Path, servers: Sequence[Path]) -> AsyncIterator[tuple[Partition, dict[str, str]]]:
    """Yield a partition, and the folder with the socket before each folder of a server's socket."""
    between = Partition()
    # Short, because the paths of sockets are limited to 107 bytes.
    base = Path(tempfile.mkdtemp(prefix="net-", dir=folder))
    places: dict[str, str] = {}
    async with contextlib.AsyncExitStack() as listening:
        listening.callback(shutil.rmtree, base)
        for number, server in enumerate(servers):
            place = base / str(number)
            place.mkdir()
            places[str(server)] = str(place)

            started = await _before(between, server / _SOCKET, place / _SOCKET)
            listening.callback(started.close)
        yield between, places


async def _before(between: Partition, target: Path, socket: Path) -> asyncio.Server:
    """Listen before a server's socket for as long as it is there.

    Connections to a server that is gone are then refused. If they were accepted and closed, libpq, and so
    psql, would give up and not try the other servers of the address.
    """

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await between.connect(target, reader, writer)
        except OSError:
            started.close()

    started = await asyncio.start_unix_server(connected, socket)
    return started
