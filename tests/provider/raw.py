"""Clients that send and receive raw bytes on a socket, so that tests can be slow or send invalid HTTP."""

import asyncio
import socket
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RawClient:
    """One connection to a server on this machine."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def rest(self) -> bytes:
        """Return all bytes received until the server closes or resets the connection."""
        found = b""
        try:
            while piece := await self.reader.read(65_536):
                found += piece
        except ConnectionResetError:
            return found
        return found

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            return


async def connect(port: int, *, receive_buffer: int | None = None) -> RawClient:
    """Connect; a small receive buffer makes the server wait for us sooner."""
    connection = socket.socket()
    if receive_buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    connection.setblocking(False)  # noqa: FBT003 its only argument
    await asyncio.get_running_loop().sock_connect(connection, ("127.0.0.1", port))
    # A small limit, because bytes in the stream's own buffer count as received.
    reader, writer = await asyncio.open_connection(sock=connection, limit=1024)
    return RawClient(reader=reader, writer=writer)


def get(query: str, *headers: str, path: str = "/oai") -> bytes:
    """The bytes of a GET request."""
    lines = [f"GET {path}?{query} HTTP/1.1", "Host: archive.example", *headers, "", ""]
    return "\r\n".join(lines).encode()
