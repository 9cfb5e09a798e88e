"""The provider on a separate port, and conditions for which tests under load wait."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
from aiohttp import web

from oai.database import Database
from oai.serving import address, open_listener, serving
from oai.settings import Settings
from provider.app import create_app
from provider.serving import create_runner
from tests.provider.conftest import BASE_URL, small_pages
from tests.provider.raw import connect, get

IDENTIFY = get("verb=Identify")
SECONDS = 60.0


@asynccontextmanager
async def listening(app: web.Application) -> AsyncIterator[int]:
    """Serve the application; yield its port."""
    with open_listener("127.0.0.1", 0) as listener:
        async with serving(create_runner(app), listener):
            yield int(address(listener).rpartition(":")[2])


def app_of(database: Database, settings: Settings, **changes: object) -> web.Application:
    return create_app(small_pages(settings, **changes), database, base_url=BASE_URL)


@asynccontextmanager
async def locked(database: Database) -> AsyncIterator[None]:
    """Lock the table of documents against reading for the block."""
    async with await psycopg.AsyncConnection.connect(database.conninfo) as connection:
        await connection.execute("LOCK TABLE document IN ACCESS EXCLUSIVE MODE")
        yield
        await connection.rollback()


async def waiting_statements(database: Database, number: int) -> None:
    """Wait until this number of statements wait for a lock."""
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as connection:
        async with asyncio.timeout(SECONDS):
            while (await connection.execute("SELECT FROM pg_locks WHERE NOT granted")).rowcount != number:  # noqa: ASYNC110 it is the server's event
                await asyncio.sleep(0.01)


async def status_of(port: int, sent: bytes = IDENTIFY) -> int:
    client = await connect(port)
    client.writer.write(sent)
    line = await asyncio.wait_for(client.reader.readline(), SECONDS)
    await client.close()
    return int(line.split()[1])


async def eventually(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():  # noqa: ASYNC110 nothing tells of it
            await asyncio.sleep(0.01)
