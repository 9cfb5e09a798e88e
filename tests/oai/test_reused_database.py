"""The database that tests use one after the other: nothing of a test is left for the next one."""

from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import URL, Engine, make_url, text

from tests.reused_database import ReusedDatabase

_ROW = "INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://a.example/oai', 'a') RETURNING 1"

_MANY = """
INSERT INTO oai_repository (base_url, base_dir)
SELECT n::text, repeat('x', 500) || n FROM generate_series(1, 300) AS n
"""


@pytest.fixture
def reused(maintenance: psycopg.Connection, server_url: URL, template: str) -> Iterator[ReusedDatabase]:
    made = ReusedDatabase(maintenance, server_url, template)
    yield made
    made.close()


def connected(reused: ReusedDatabase) -> psycopg.Connection:
    url = reused.open().set(drivername="postgresql")
    return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)


def end(reused: ReusedDatabase) -> None:
    reused.empty(frozenset(), lambda: None)


def test_rows_sequences_connections_and_locks_are_gone(reused: ReusedDatabase) -> None:
    with connected(reused) as connection:
        connection.execute(_ROW)
        connection.execute("SELECT pg_advisory_lock(1)")
        name = reused.name
        end(reused)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with connected(reused) as connection:
        assert reused.name == name
        assert connection.execute("SELECT count(*) FROM oai_repository").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone() == (
            0,
        )
        row = connection.execute(f"{_ROW.removesuffix('1')} repository_id").fetchone()
        assert row == (1,)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE oai_repository ADD COLUMN more int",
        "CREATE INDEX more ON oai_repository (base_dir)",
        f"{_ROW}; ANALYZE oai_repository",
        "UPDATE publication_mark SET moment = moment + interval '1 second'",
        "DELETE FROM publication_mark",
        _MANY,
        "CREATE SCHEMA more",
        "ALTER TABLE collection DISABLE TRIGGER ALL",
    ],
)
def test_what_cannot_be_emptied_leads_to_another_copy(reused: ReusedDatabase, change: str) -> None:
    with connected(reused) as connection:
        before = reused.name
        connection.execute(change)
    end(reused)
    with connected(reused) as connection:
        assert reused.name != before
        assert connection.execute("SELECT count(*) FROM oai_repository").fetchone() == (0,)
        assert connection.execute("SELECT count(*) FROM publication_mark").fetchone() == (1,)


def test_another_copy_is_made_if_its_connection_was_ended(reused: ReusedDatabase) -> None:
    with connected(reused) as connection:
        before = reused.name
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    end(reused)
    with connected(reused):
        assert reused.name != before


def test_a_test_with_a_copy_has_no_connection_to_the_reused_one(
    engine: Engine, reused: ReusedDatabase, request: pytest.FixtureRequest
) -> None:
    engine.url = reused.open()
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT current_database()")) == reused.name
    settings = request.getfixturevalue("settings")
    database = request.getfixturevalue("database")
    with database.engine.connect() as connection:
        name = connection.scalar(text("SELECT current_database()"))
    assert make_url(settings.database_url.get_secret_value()).database == name != reused.name
