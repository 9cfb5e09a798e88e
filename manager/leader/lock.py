"""Election of the leading manager: the one that holds an advisory lock in PostgreSQL.

The lock belongs to a separate connection. When the leader dies, the server grants the lock to the next
manager. A leader that hangs keeps its connection, so a manager that stands by ends the connection when no
statement has come from it for too long. That alone would not keep the former leader from writing, because its
other connections may still be open. So each leader has a number, and each of its transactions takes a second
lock, the fence, in shared mode and then compares the number. A new leader takes the fence in exclusive mode
before it increments the number. So a transaction of the former leader either ends before the new leader
begins, or sees the new number and is rolled back.
"""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Concatenate, Final, ParamSpec, TypeVar

import psycopg
from sqlalchemy import Connection, event, text, update
from sqlalchemy.orm import Session, SessionTransaction

from manager.models import Leader
from manager.worker.process import host_name
from oai.database import SERVER_KEEPALIVES, Database
from oai.errors import ZatvaError, required
from oai.executor import DatabaseExecutor

_LOCK: Final = 0x7A_61_74_76_61_01
"""A key reserved for this program among the server's advisory locks."""
_FENCE: Final = 0x7A_61_74_76_61_02

_NAME: Final = "zatva manager"
_SILENCE: Final = 10.0
_log = logging.getLogger("manager.leading")
_P = ParamSpec("_P")
_T = TypeVar("_T")


class NotLeadingError(ZatvaError):
    """Another manager has become the leader; the transaction is not committed."""


@dataclass(frozen=True, kw_only=True)
class Leadership:
    """A leadership that was obtained."""

    number: int
    connection: psycopg.AsyncConnection


@dataclass(frozen=True, kw_only=True)
class Managers:
    """The running managers, each by host and process id."""

    leader: str | None
    stand_bys: tuple[str, ...]


class Fenced:
    """Transactions that commit only while the leader with that number leads."""

    def __init__(self, transactions: DatabaseExecutor, number: int) -> None:
        self.number = number
        self._transactions = transactions

    async def run(
        self, function: Callable[Concatenate[Session, _P], _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> _T:
        """Run as `Transactions.run` does; raises NotLeadingError before the call if another manager leads."""

        def inside(session: Session) -> _T:
            check_leader_number(session, self.number)
            return function(session, *args, **kwargs)

        return await self._transactions.run(inside)


@contextlib.asynccontextmanager
async def leadership(
    database: Database, *, poll_seconds: float, lost_seconds: float
) -> AsyncIterator[Leadership]:
    """Stand by until this manager leads; the leadership lasts as long as the connection and the block.

    A leader from which no statement has come for `lost_seconds` is deposed. Raises psycopg.OperationalError
    if the database does not answer.
    """
    connection = await psycopg.AsyncConnection.connect(
        database.conninfo,
        autocommit=True,
        application_name=f"{_NAME} on {host_name()}, process {os.getpid()}",
        options=SERVER_KEEPALIVES,
        connect_timeout=10,
        keepalives_idle=10,
        tcp_user_timeout=int(_SILENCE * 1000),
    )
    async with connection:
        while not await _took_the_lock(connection):
            await _depose_silent_leader(connection, lost_seconds)
            await asyncio.sleep(poll_seconds)
        yield Leadership(number=await _begin(connection), connection=connection)


async def lost(lead: Leadership, *, poll_seconds: float) -> None:
    """Return when the connection, and with it the leadership, is lost or does not respond.

    The statements also show the standby managers that this one does not hang.
    """
    with contextlib.suppress(psycopg.OperationalError, TimeoutError):
        while True:
            async with asyncio.timeout(_SILENCE):
                await lead.connection.execute("SELECT 1")
            await asyncio.sleep(poll_seconds)


def check_leader_number(session: Session, number: int) -> None:
    """Let the session's transaction commit only while the leader with that number leads.

    Call it at the beginning of the transaction; raises NotLeadingError if another manager leads.
    """
    _check_number(session.connection(), number)


def note_limits(session: Session, *, per_host: int, overall: int | None) -> None:
    """Store the limits that the leader applies. The caller commits."""
    session.execute(update(Leader).values(per_host=per_host, overall=overall))


def fence_all(session: Session, number: int) -> None:
    """Apply the fence to every later transaction of the session; for functions that commit by themselves.

    Beginning a transaction raises NotLeadingError if another manager leads.
    """

    def begun(_session: Session, _transaction: SessionTransaction, connection: Connection) -> None:
        _check_number(connection, number)

    event.listen(session, "after_begin", begun)


def managers(session: Session) -> Managers:
    """Return the leader and the standby managers."""
    rows = session.execute(_MANAGERS, {"name": f"{_NAME} on %"}).all()
    names = [(row.application_name.removeprefix(f"{_NAME} on "), row.leads) for row in rows]
    return Managers(
        leader=next((name for name, leads in names if leads), None),
        stand_bys=tuple(name for name, leads in names if not leads),
    )


def leader(session: Session) -> str | None:
    """Return the leading manager as host and process id; None if no manager runs."""
    return managers(session).leader


def _check_number(connection: Connection, number: int) -> None:
    # Two statements in one round trip; two, because the snapshot in which the number is read must be taken
    # after the lock was granted.
    cursor = connection.exec_driver_sql(_ENTRY).cursor
    cursor.nextset()
    row = cursor.fetchone()
    present = row and row[0]
    if present != number:
        raise NotLeadingError(f"leader {number} lost the leadership to leader {present}")


async def _took_the_lock(connection: psycopg.AsyncConnection) -> bool:
    cursor = await connection.execute("SELECT pg_try_advisory_lock(%s)", [_LOCK])
    row = await cursor.fetchone()
    return bool(row and row[0])


async def _depose_silent_leader(connection: psycopg.AsyncConnection, lost_seconds: float) -> None:
    """End the connection of a leader that hangs: it would keep the lock as long as its machine runs."""
    cursor = await connection.execute(_DEPOSE, [lost_seconds])
    for name, _ended in await cursor.fetchall():
        _log.warning(
            "the leading %s has been silent for more than %g seconds; its connection was ended",
            name, lost_seconds,
        )  # fmt: skip


async def _begin(connection: psycopg.AsyncConnection) -> int:
    """Wait for the former leader's transactions to end, and return the number of the new leadership."""
    async with connection.transaction():
        # Exclusive: granted when no transaction of the former leader holds the fence any more; held until the
        # new number is committed, so that a waiting transaction then reads the new number.
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_FENCE])
        cursor = await connection.execute(_COUNT_UP, [host_name(), os.getpid()])
        row = await cursor.fetchone()
    number: int = required(row, "the upsert returns one")[0]
    return number


# Timeouts, so that a successor does not wait forever for the former leader's transactions if its machine is
# gone.
_ENTRY: Final = f"""
    SELECT set_config('lock_timeout', '5s', true),
    set_config('idle_in_transaction_session_timeout', '10s', true),
    pg_advisory_xact_lock_shared({_FENCE});
    SELECT number FROM oai_leader
"""  # noqa: S608 the key is a constant
_COUNT_UP: Final = """
    INSERT INTO oai_leader AS leader (number, host, process_id) VALUES (1, %s, %s)
    ON CONFLICT ("only") DO UPDATE SET number = leader.number + 1, host = excluded.host,
    process_id = excluded.process_id, began = now() RETURNING number
"""
_LEADS: Final = f"""EXISTS (
    SELECT FROM pg_locks AS held WHERE held.pid = activity.pid AND held.database = activity.datid
    AND held.locktype = 'advisory' AND held.granted AND held.objsubid = 1
    AND CAST(held.classid AS bigint) = {_LOCK >> 32} AND CAST(held.objid AS bigint) = {_LOCK & 0xFFFF_FFFF})
"""
_MANAGERS = text(
    f"""
    SELECT activity.application_name, {_LEADS} AS leads
    FROM pg_stat_activity AS activity
    WHERE activity.datname = current_database() AND activity.application_name LIKE :name
    ORDER BY activity.backend_start
    """  # noqa: S608 as above
)
_DEPOSE: Final = f"""
    SELECT activity.application_name, pg_terminate_backend(activity.pid) FROM pg_stat_activity AS activity
    WHERE activity.datname = current_database()
    AND activity.state_change < clock_timestamp() - make_interval(secs => %s) AND {_LEADS}
"""  # noqa: S608 as above
