"""Poolers between Zatva and PostgreSQL, such as PgBouncer, which have to keep the sessions of connections."""

import contextlib
import select
from typing import Any, Final

import psycopg
from sqlalchemy import Connection, Engine

from oai.errors import DatabaseNotReadyError, required

NO_SESSIONS: Final = (
    "the pooler between Zatva and PostgreSQL is not in session mode: set pool_mode = session in PgBouncer, "
    "or set database_url to PostgreSQL itself"
)
_PID: Final = "SELECT pg_backend_pid()"
_TRANSACTIONS: Final = 10
_ANSWER_SECONDS: Final = 2.0


def require_sessions(connection: Connection) -> None:
    """Check that a pooler, if there is one, lends no connection's server process to another connection.

    Otherwise it would also separate connections from their locks, settings and prepared statements. The
    connection must have no open transaction. Raises DatabaseNotReadyError.
    """
    driver = required(connection.connection.driver_connection, "the connection is open")
    pid = _pid(driver)
    # Poolers give clients keys of their own for the cancellation of statements, with other numbers.
    if driver.info.backend_pid == pid:
        return
    # A busy pooler has lent the process to others meanwhile; an idle one lends it to the next connection.
    moved = any(_pid(driver) != pid for _ in range(_TRANSACTIONS))
    if moved or _other_pid(connection.engine) == pid:
        raise DatabaseNotReadyError(NO_SESSIONS)


def _pid(driver: Any) -> int:  # noqa: ANN401 as SQLAlchemy types it
    """Return the server process of the connection's next transaction."""
    # Prepared by its fifth repetition, the statement would fail where another client has prepared its own.
    (pid,) = driver.execute(_PID, prepare=False).fetchone()
    driver.rollback()
    return int(pid)


def _other_pid(engine: Engine) -> int | None:
    """Return the server process of another connection; None if the pooler has none left for it."""
    _, parameters = engine.dialect.create_connect_args(engine.url)
    with contextlib.closing(psycopg.connect(**parameters)) as other:
        # Without psycopg's execute, which would wait until the pooler gives up, for minutes.
        other.pgconn.send_query(_PID.encode())
        if not select.select([other.pgconn.socket], [], [], _ANSWER_SECONDS)[0]:
            return None
        result = other.pgconn.get_result()
        value = result and result.get_value(0, 0)
        return int(value) if value else None
