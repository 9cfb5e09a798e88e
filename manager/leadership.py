"""Which of several managers leads: the one that holds an advisory lock in PostgreSQL.

The lock belongs to a connection of its own. When the leader dies, the server gives the lock to the next.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Final

import psycopg
from sqlalchemy import text
from sqlalchemy.orm import Session

from manager.processes import host_name
from oai.database import Database

_LOCK: Final = 0x7A_61_74_76_61_01
"""A key of our own among the server's advisory locks."""

_NAME: Final = "zatva manager"
_OPTIONS: Final = "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"


@contextlib.asynccontextmanager
async def leadership(database: Database, *, poll_seconds: float) -> AsyncIterator[psycopg.AsyncConnection]:
    """Stand by until this manager leads; it leads as long as the connection lives, and the block lasts.

    Raises psycopg.OperationalError where the database does not answer.
    """
    connection = await psycopg.AsyncConnection.connect(
        database.conninfo,
        autocommit=True,
        application_name=f"{_NAME} on {host_name()}, process {os.getpid()}",
        options=_OPTIONS,
        connect_timeout=10,
    )
    async with connection:
        while not await _took_the_lock(connection):  # noqa: ASYNC110 the lock is the server's, not ours
            await asyncio.sleep(poll_seconds)
        yield connection


async def lost(connection: psycopg.AsyncConnection, *, poll_seconds: float) -> None:
    """Return when the connection, and the leadership with it, is gone."""
    with contextlib.suppress(psycopg.OperationalError):
        while True:
            await connection.execute("SELECT 1")
            await asyncio.sleep(poll_seconds)


def leader(session: Session) -> str | None:
    """The manager that leads, by host and process; None where no manager runs."""
    name: str | None = session.scalar(_LEADER, {"high": _LOCK >> 32, "low": _LOCK & 0xFFFF_FFFF})
    return None if name is None else name.removeprefix(f"{_NAME} on ")


async def _took_the_lock(connection: psycopg.AsyncConnection) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
    row = await cursor.fetchone()
    return bool(row and row[0])


_LEADER = text("""
    SELECT activity.application_name FROM pg_locks AS lock JOIN pg_stat_activity AS activity USING (pid)
    WHERE lock.locktype = 'advisory' AND lock.granted AND lock.objsubid = 1
    AND lock.classid::bigint = :high AND lock.objid::bigint = :low
    AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
""")
