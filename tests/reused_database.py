"""A database that tests use one after the other: emptied between them, and replaced where that is not enough.

Copying the template and connecting to the copy costs 50 ms of processor time, emptying it 8 ms. What tests
wrote is found by the sizes of the tables' files. Sequences begin again. Where a test has changed, analysed or
much enlarged a table, or changed rows that the template has, the next one gets another copy.
"""

import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from pydantic import SecretStr
from sqlalchemy import URL, Engine, event

from oai.database import Database
from oai.settings import Settings

_FILLED = """
    SELECT relname, pg_relation_size(oid) FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND pg_relation_size(oid) > 0
    """
_ENLARGED = 100_000
"""Bytes of a table from which what was deleted would be in the way of the next tests."""
_RESTART = """
    SELECT setval(seqrelid::regclass, seqstart, false) FROM pg_sequence
    WHERE pg_sequence_last_value(seqrelid) IS NOT NULL
    """
_SCHEMA = """
    SELECT (SELECT hash_record_extended(ROW(string_agg(ROW(oid, relname, relkind, relnatts, reloptions)::text,
                                                       ',' ORDER BY oid)), 0)
            FROM pg_class WHERE relnamespace = 'public'::regnamespace),
        (SELECT count(*) FROM pg_statistic WHERE starelid >= 16384),
        (SELECT hash_record_extended(ROW(string_agg(oid || tgenabled::text, ',' ORDER BY oid)), 0)
         FROM pg_trigger),
        (SELECT ROW(count(*), max(oid))::text FROM pg_proc),
        (SELECT ROW(count(*), max(oid))::text FROM pg_constraint),
        (SELECT ROW(count(*), max(oid))::text FROM pg_attrdef),
        (SELECT count(*) FROM pg_namespace WHERE nspname !~ '^pg_'),
        (SELECT count(*) FROM pg_db_role_setting)
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
        self._begun: tuple[object, ...] = ()
        self._given: dict[str, object] = {}

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
            self._begun = self._schema(self._connection)
            self._given = {
                name: self._rows(self._connection, name) for name in self._filled(self._connection)
            }
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
        filled = self._filled(connection)
        given = {name: self._rows(connection, name) for name in self._given}
        large = max(filled.values()) > _ENLARGED
        if large or self._schema(connection) != self._begun or given != self._given:
            return False
        written = [sql.Identifier(name) for name in filled if name not in self._given]
        deletions = [sql.SQL("DELETE FROM {}").format(name) for name in written]
        connection.execute(sql.SQL("; ").join([*deletions, sql.SQL(_RESTART)]))
        return True

    def close(self) -> None:
        """Drop it."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self._maintenance.execute(f"DROP DATABASE {self.name} WITH (FORCE)")

    @staticmethod
    def _schema(connection: psycopg.Connection) -> tuple[object, ...]:
        return connection.execute(_SCHEMA).fetchall()[0]

    @staticmethod
    def _filled(connection: psycopg.Connection) -> dict[str, int]:
        return dict(connection.execute(_FILLED).fetchall())

    @staticmethod
    def _rows(connection: psycopg.Connection, table: str) -> object:
        found = sql.SQL("SELECT one::text FROM {} AS one ORDER BY 1").format(sql.Identifier(table))
        return connection.execute(found).fetchall()


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
    reused: ReusedDatabase, engine: Engine, backends: set[int], tmp_path: Path
) -> Iterator[Settings]:
    """Return settings for one test: an empty database, and a data directory of its own."""
    url = reused.open()
    if engine.url != url:
        engine.dispose()
        engine.url = url
    address = SecretStr(url.render_as_string(hide_password=False))
    # Sections that are not given are the class's default objects; a test that changes one must not change
    # them for all tests of its process.
    yield Settings(data=tmp_path / "data", database_url=address).model_copy(deep=True)
    reused.empty(frozenset(backends), engine.dispose)


@pytest.fixture
def database(engine: Engine, settings: Settings) -> Database:
    """Open the test's database. Its schema is not checked again, because it is a copy of the template's."""
    del settings
    return Database(engine=engine)
