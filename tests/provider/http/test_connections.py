"""The number of open connections is limited; only idle ones are closed to accept new ones."""

import asyncio

from oai.connections import CONNECTIONS
from oai.database import Database
from oai.settings import Settings
from tests.provider.listening import (
    IDENTIFY,
    SECONDS,
    app_of,
    eventually,
    listening,
    locked,
    status_of,
    waiting_statements,
)
from tests.provider.raw import RawClient, connect, get


async def ask(client: RawClient) -> bytes:
    """Send another request over the connection; return the first line of its answer."""
    client.writer.write(IDENTIFY)
    head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), SECONDS)
    length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
    await client.reader.readexactly(int(length.partition(b":")[2]))
    return head.partition(b"\r\n")[0]


async def test_requests_are_served_while_many_connections_are_idle(
    database: Database, settings: Settings
) -> None:
    app = app_of(database, settings, connections=20, client_requests=0)
    async with listening(app) as port:
        idle = [await connect(port) for _ in range(300)]
        for _ in range(30):
            assert await status_of(port) == 200
        await eventually(lambda: sum(map(closed, idle)) >= 280)
        assert app[CONNECTIONS].open <= 21
        for one in idle:
            await one.close()


def closed(client: RawClient) -> bool:
    return client.reader.at_eof() or client.reader.exception() is not None


async def test_the_connections_idle_longest_are_closed_first(database: Database, settings: Settings) -> None:
    app = app_of(database, settings, connections=16, client_requests=0)
    async with listening(app) as port:
        silent = [await connect(port) for _ in range(4)]
        await eventually(lambda: app[CONNECTIONS].open == 4)
        asked = [await connect(port) for _ in range(12)]
        for client in [*asked, silent[3], asked[0]]:
            assert await ask(client) == b"HTTP/1.1 200 OK"
        more = [await connect(port) for _ in range(4)]
        for client in more:
            assert await ask(client) == b"HTTP/1.1 200 OK"
        await eventually(lambda: all(map(closed, [*silent[:3], asked[1]])))
        assert not any(map(closed, [silent[3], asked[0], *asked[2:], *more]))
        assert app[CONNECTIONS].closed == 4
        for client in (*asked, *silent, *more):
            await client.close()


async def test_a_connection_with_a_running_request_is_not_closed(
    database: Database, settings: Settings
) -> None:
    app = app_of(database, settings, connections=16, client_requests=0)
    async with listening(app) as port:
        client = await connect(port)
        async with locked(database):
            client.writer.write(get("verb=ListRecords&metadataPrefix=oai_dc"))
            await waiting_statements(database, 1)
            idle = [await connect(port) for _ in range(60)]
            await eventually(lambda: sum(map(closed, idle)) > 40)
        line = await asyncio.wait_for(client.reader.readline(), SECONDS)
        assert line == b"HTTP/1.1 200 OK\r\n"
        for one in (client, *idle):
            await one.close()


async def test_idle_connections_are_closed_after_the_configured_time(
    database: Database, settings: Settings
) -> None:
    app = app_of(database, settings, idle_seconds=0.2)
    async with listening(app) as port:
        client = await connect(port)
        await ask(client)
        assert await asyncio.wait_for(client.rest(), SECONDS) == b""
        assert app[CONNECTIONS].closed == 0
        await client.close()
