"""A database that tests use one after the other: emptied between them, and replaced where that is not enough.

Copying the template and connecting to the copy costs 50 ms of processor time, emptying it 8 ms. What tests
wrote is found by the sizes of the tables' files. Rows that the template has are put back, sequences begin
again, statistics are removed, and tables with much in their files are vacuumed. Where a test has changed the
schema, or made a table very large, the next one gets another copy.

Deleted rows stay in the files of tables and indexes. Tests that count what is read there, or that depend on
places of rows, are marked with `copied_database` and the reason, and have copies.
"""

import itertools
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, Engine, event

from oai.settings import Settings
from tests.conftest import COPIED, settings_for

_FILLED = """
    SELECT relname, pg_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
    """
_ENLARGED = 100_000
"""Bytes of a table from which what was deleted would be in the way of the next tests."""
_VERY_LARGE = 2_000_000
"""Bytes of a table from which another copy costs less."""
_RESTART = """
    SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence
    WHERE pg_sequence_last_value(seqrelid) IS NOT NULL
    """
_SCHEMA = """
    SELECT (SELECT sum(hash_record_extended(ROW(oid, relname, relkind, relnatts, reloptions, relhasrules,
                                                relrowsecurity), 0))
            FROM pg_class WHERE relnamespace = 'public'::regnamespace),
        (SELECT sum(hashtext(attname::text)::bigint + atttypid::bigint)
         FROM pg_attribute JOIN begun ON begun.oid = attrelid WHERE attnum > 0),
        (SELECT sum(hash_record_extended(ROW(oid, tgenabled), 0)) FROM pg_trigger),
        (SELECT ROW(count(*), max(oid))::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace),
        (SELECT ROW(count(*), max(oid))::text FROM pg_constraint
         WHERE connamespace = 'public'::regnamespace),
        (SELECT ROW(count(*), max(pg_attrdef.oid))::text FROM pg_attrdef JOIN begun ON begun.oid = adrelid),
        (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_'),
        (SELECT count(*) FROM pg_db_role_setting)
    """
"""What is in the schema. Connections that stay may have temporary tables, which are none of it."""
_NOTE_SIZES = """
    CREATE TEMP TABLE begun AS SELECT oid, relpages, reltuples, relallvisible
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
    """
_STATISTICS = """
    SELECT (SELECT count(*) FROM pg_statistic JOIN begun ON oid = starelid),
        sum(relpages), sum(reltuples), sum(relallvisible)
    FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'i')
    """
_FORGET_STATISTICS = """
    DELETE FROM pg_statistic WHERE starelid IN (SELECT oid FROM begun);
    UPDATE pg_class AS own SET (relpages, reltuples, relallvisible) =
        (begun.relpages, begun.reltuples, begun.relallvisible)
    FROM begun WHERE begun.oid = own.oid AND (own.relpages, own.reltuples, own.relallvisible)
        <> (begun.relpages, begun.reltuples, begun.relallvisible)
    """
_PUT_BACK = """
    DELETE FROM {table};
    INSERT INTO {table} SELECT (given::{table}).* FROM unnest({rows}::text[]) AS given
    """
_LEFT = """
    SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> ALL(%s) AND pid <> pg_backend_pid()
    """
_LOCKED = """
    SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND database =
                   (SELECT oid FROM pg_database WHERE datname = current_database()))
    """
_numbers = itertools.count(1)


class ReusedDatabase:
    """A copy of a template on a server; `name` is that of the present copy."""

    def __init__(self, maintenance: psycopg.Connection, server: URL, template: str) -> None:
        self._maintenance = maintenance
        self._server = server
        self._template = template
        self.name = ""
        self._connection: psycopg.Connection | None = None
        self._schema: tuple[object, ...] = ()
        self._statistics: tuple[object, ...] = ()
        self._given: dict[str, list[str]] = {}
        """The template's own rows, as text, in the tables that have any."""

    def open(self) -> URL:
        """Return the address of an empty database; make one if there is none."""
        if self._connection is None:
            self.name = f"zatva_reused_{os.getpid()}_{next(_numbers)}"
            self._maintenance.execute(
                f"CREATE DATABASE {self.name} TEMPLATE {self._template} STRATEGY file_copy"
            )
            address = self._server.set(drivername="postgresql", database=self.name)
            self._connection = psycopg.connect(
                # Without triggers, and so without looking for rows that belong to deleted ones.
                address.render_as_string(hide_password=False),
                autocommit=True,
                options="-c session_replication_role=replica -c lock_timeout=5000",
            )
            self._connection.execute(_NOTE_SIZES)
            self._schema = _row(self._connection, _SCHEMA)
            self._statistics = _row(self._connection, _STATISTICS)
            self._given = _rows(self._connection, _filled(self._connection))
        return self._server.set(database=self.name)

    def empty(self, keeping: frozenset[int], disconnect: Callable[[], None]) -> None:
        """Empty it, or drop it if that is not enough.

        `keeping` are the server processes whose connections may stay; `disconnect` ends these, too.
        """
        connection = self._connection
        if connection is None:
            return
        try:
            connection.execute(_LEFT, [list(keeping)])
            enough = self._emptied(connection, disconnect)
        except psycopg.OperationalError:
            # A connection that may stay has not ended its transaction, or a test has ended this one.
            enough = False
        if not enough:
            disconnect()
            self.close()

    def _emptied(self, connection: psycopg.Connection, disconnect: Callable[[], None]) -> bool:
        """Delete what was written; return whether the database is as it was in the beginning."""
        if connection.execute(_LOCKED).fetchone() == (True,):
            disconnect()
        filled = _filled(connection)
        if max(filled.values()) > _VERY_LARGE or _row(connection, _SCHEMA) != self._schema:
            return False
        statements = [
            sql.SQL("DELETE FROM {}").format(sql.Identifier(name))
            for name in filled
            if name not in self._given
        ]
        if _rows(connection, self._given) != self._given:
            statements += [
                sql.SQL(_PUT_BACK).format(table=sql.Identifier(name), rows=sql.Literal(rows))
                for name, rows in self._given.items()
            ]
        connection.execute(sql.SQL("; ").join([*statements, sql.SQL(_RESTART)]))
        for name in [name for name, size in filled.items() if size > _ENLARGED]:
            connection.execute(sql.SQL("VACUUM {}").format(sql.Identifier(name)))
        if _row(connection, _STATISTICS) != self._statistics:
            connection.execute(_FORGET_STATISTICS)
        return True

    def close(self) -> None:
        """Drop it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._maintenance.execute(f"DROP DATABASE {self.name} WITH (FORCE)")


def _row(connection: psycopg.Connection, query: str) -> tuple[object, ...]:
    return connection.execute(query.encode()).fetchall()[0]


def _filled(connection: psycopg.Connection) -> dict[str, int]:
    """The tables whose files have anything in them, with their sizes in bytes."""
    return dict(connection.execute(_FILLED).fetchall())


def _rows(connection: psycopg.Connection, tables: Collection[str]) -> dict[str, list[str]]:
    """The rows of each table, as text."""
    row = sql.SQL("ARRAY(SELECT one::text FROM {} AS one ORDER BY 1)")
    rows = sql.SQL(", ").join([row.format(sql.Identifier(name)) for name in tables])
    return dict(zip(tables, connection.execute(sql.SQL("SELECT {}").format(rows)).fetchall()[0], strict=True))


@pytest.fixture(scope="session")
def reused(maintenance: psycopg.Connection, server_url: URL, template: str) -> Iterator[ReusedDatabase]:
    """Yield the database that the tests of this folder use one after the other."""
    made = ReusedDatabase(maintenance, server_url, template)
    yield made
    made.close()


@pytest.fixture(scope="session")
def backends(engine: Engine) -> set[int]:
    """The server processes of the engine's connections."""
    found: set[int] = set()

    @event.listens_for(engine, "connect")
    def _note(connection: psycopg.Connection, _record: object) -> None:
        found.add(connection.info.backend_pid)

    @event.listens_for(engine, "close")
    def _forget(connection: psycopg.Connection, _record: object) -> None:
        found.discard(connection.info.backend_pid)

    return found


@pytest.fixture
def settings(
    reused: ReusedDatabase,
    engine: Engine,
    backends: set[int],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> Iterator[Settings]:
    """Return settings for one test: an empty database, and a data directory of its own."""
    if request.node.get_closest_marker(COPIED):
        yield request.getfixturevalue("copied_settings")
        return
    yield settings_for(reused.open(), tmp_path / "data")
    reused.empty(frozenset(backends), engine.dispose)
