"""Health checks and metrics of a server: `/healthz`, `/readyz`, `/metrics`, the same for every part.

Also the state of the database's server that keeps statements waiting: its locks and free connections.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.errors import TryLaterError

ALIVE: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
_SECONDS: Final = 10.0


async def alive(_: web.Request) -> web.Response:
    """Report that the process is alive."""
    return text_answer("alive")


async def ready(check: Callable[[], Awaitable[object]], word: str = "ready") -> web.Response:
    """Report `word` if the check returns within ten seconds; otherwise 503."""
    try:
        async with asyncio.timeout(_SECONDS):
            await check()
    except (SQLAlchemyError, TryLaterError, TimeoutError):
        return web.Response(status=503, text="the database does not answer\n")
    return text_answer(word)


def text_answer(word: str) -> web.Response:
    """Answer with one word, which no cache may keep."""
    return web.Response(text=f"{word}\n", headers={"Cache-Control": "no-store"})


def metrics(registry: CollectorRegistry) -> web.Response:
    """Answer with the metrics in Prometheus' text format."""
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


@dataclass(frozen=True, kw_only=True)
class ServerState:
    """What keeps statements of this database from working."""

    connections_free: int
    """How many connections the server still admits."""
    lock_seconds: float
    """How long the first statement in the queue of a lock has been waiting; 0: none waits."""
    lock_holder: str
    """The session that holds that lock, in words."""
    lock_advice: str
    """How to end that session."""


# Without advisory locks, for which harvests and upgrades wait on purpose, and without sessions that are
# themselves kept waiting.
_STATE: Final = text(
    """
    SELECT CAST(current_setting('max_connections') AS int)
    - CAST(current_setting('superuser_reserved_connections') AS int)
    - (SELECT sum(numbackends) FROM pg_stat_database) AS free,
    found.seconds, found.pid, found.application, found.state
    FROM (VALUES (1)) AS always LEFT JOIN LATERAL (
        SELECT extract(epoch FROM clock_timestamp() - lock.waitstart) AS seconds, holder.pid,
        holder.application_name AS application, holder.state
        FROM pg_locks AS lock
        JOIN pg_stat_activity AS waiting ON waiting.pid = lock.pid AND waiting.datname = current_database()
        CROSS JOIN LATERAL unnest(pg_blocking_pids(lock.pid)) AS blocking (pid)
        JOIN pg_stat_activity AS holder ON holder.pid = blocking.pid
        WHERE lock.waitstart IS NOT NULL AND lock.locktype NOT IN ('advisory', 'virtualxid')
        AND NOT EXISTS (SELECT FROM pg_locks AS own WHERE own.pid = holder.pid AND NOT own.granted)
        ORDER BY lock.waitstart LIMIT 1
    ) AS found ON true
    """
)


def server_state(session: Session) -> ServerState:
    """Return the server's free connections, and the lock for which a statement has been waiting longest.

    It reads no table of ours, so that it waits for no lock itself.
    """
    free, seconds, pid, application, state = session.execute(_STATE).one()
    waited = float(seconds or 0)
    holder = (
        f"PostgreSQL's process {pid} ({application or 'unnamed'}, {state or 'state unknown'}) holds a lock "
        f"for which a statement has been waiting for {waited:.0f} s"
    )
    return ServerState(
        connections_free=int(free),
        lock_seconds=waited,
        lock_holder=holder,
        lock_advice=f"if it is a forgotten session, end it: SELECT pg_terminate_backend({pid})",
    )


def answers(session: Session) -> None:
    """Ask the database for an answer."""
    session.execute(text("SELECT 1"))
