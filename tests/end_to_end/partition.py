"""A network that can be interrupted: sockets in front of PostgreSQL servers."""

import asyncio
import contextlib
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

_SOCKET: Final = ".s.PGSQL.5432"
_PIECE: Final = 65_536


class Partition:
    """Connections to the servers; during an interruption, no bytes pass in either direction."""

    def __init__(self) -> None:
        self.connections = 0
        """Connections that have taken this way."""
        self._passing = asyncio.Event()
        self._passing.set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def last(self, seconds: float) -> None:
        """Interrupt the network for this time; then end all connections and drop bytes in transit."""
        self._passing.clear()
        await asyncio.sleep(seconds)
        for writer in list(self._writers):
            writer.transport.abort()
        self._passing.set()

    async def pass_on(self, listening: socket.socket, target: Path, connections: asyncio.TaskGroup) -> None:
        """Pass the bytes of each new connection on to a server's socket, and its bytes back.

        Returns when the server is gone. Its clients are then refused, because the listening socket is closed:
        if they were accepted and left, libpq, and so psql, would not try the other servers of the address.

        Connections are accepted here, because asyncio's server loses, when it is closed, one that it has just
        accepted.
        """
        loop = asyncio.get_running_loop()
        with listening:
            while True:
                accepted, _ = await loop.sock_accept(listening)
                reader, writer = await asyncio.open_unix_connection(sock=accepted)
                # A connection opened during the partition gets no answer, nor do those after it.
                await self._passing.wait()
                try:
                    from_server, to_server = await asyncio.open_unix_connection(target)
                except OSError:
                    writer.transport.abort()
                    return
                self.connections += 1
                connections.create_task(self._pump(reader, to_server))
                connections.create_task(self._pump(from_server, writer))

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError):
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
    places = {str(server): str(base / str(number)) for number, server in enumerate(servers)}
    try:
        async with asyncio.TaskGroup() as tasks:
            listening = [
                tasks.create_task(between.pass_on(_listen(Path(place)), Path(server) / _SOCKET, tasks))
                for server, place in places.items()
            ]
            yield between, places
            for task in listening:
                task.cancel()
    finally:
        shutil.rmtree(base)


def _listen(place: Path) -> socket.socket:
    """Listen in a new folder, as a server does."""
    place.mkdir()
    listening = socket.socket(socket.AF_UNIX)
    listening.setblocking(False)  # noqa: FBT003 its only argument
    listening.bind(str(place / _SOCKET))
    listening.listen()
    return listening
