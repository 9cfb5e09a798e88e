"""The database that tests share in turn: the changes of a test are undone before the next one."""

import psycopg
import pytest
from psycopg import sql
from sqlalchemy import URL, Engine, make_url, text

from tests.reused_database import ReusedDatabase, reused

__all__ = ["reused"]

_ROW = "INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://a.example/oai', 'a') RETURNING 1"

_MANY = """
INSERT INTO oai_repository (base_url, base_dir)
SELECT n::text, repeat('x', 500) || n FROM generate_series(1, {}) AS n
"""

_OTHER_STATE = (
    "SELECT seqrelid::regclass::text, pg_sequence_last_value(seqrelid) FROM pg_sequence ORDER BY 1",
    """
    SELECT relname, relpages, reltuples, relallvisible, relkind = 'r' AND pg_relation_size(oid) > 100000
    FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1
    """,
    "SELECT count(*) FROM pg_statistic WHERE starelid >= 16384",
)
State = dict[str, object]


@pytest.fixture(scope="module")
def new(maintenance: psycopg.Connection, server_url: URL, template: str) -> State:
    """The state of a new copy."""
    made = ReusedDatabase(maintenance, server_url, template)
    with connected(made) as connection:
        found = state(connection)
    made.close()
    return found


def connected(reused: ReusedDatabase) -> psycopg.Connection:
    url = reused.open().set(drivername="postgresql")
    return psycopg.connect(url.render_as_string(hide_password=False), autocommit=True)


def end(reused: ReusedDatabase) -> None:
    reused.empty(frozenset(), lambda: None)


def test_connections_and_locks_of_a_test_are_ended(reused: ReusedDatabase) -> None:
    with connected(reused) as connection:
        connection.execute("SELECT pg_advisory_lock(1)")
        name = reused.name
        end(reused)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    with connected(reused) as connection:
        assert reused.name == name
        locks = connection.execute("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'").fetchone()
        assert locks == (0,)


def state(connection: psycopg.Connection) -> State:
    """Return all rows, the last values of sequences, and the statistics of the planner."""
    tables = [
        name for (name,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    ]
    rows = sql.SQL("SELECT one::text FROM {} AS one ORDER BY 1")
    found: State = {name: connection.execute(rows.format(sql.Identifier(name))).fetchall() for name in tables}
    for query in _OTHER_STATE:
        found[query] = connection.execute(query.encode()).fetchall()
    return found


@pytest.mark.parametrize(
    "changes",
    [
        [_ROW],
        ["SELECT setval('document_id_seq', 7), nextval('arc_id_seq')"],
        ["UPDATE publication_mark SET moment = moment + interval '1 second'"],
        ["DELETE FROM publication_mark", "TRUNCATE alembic_version"],
        ["INSERT INTO alembic_version VALUES ('more')", "UPDATE url_key_fill SET finished = NULL"],
        [_ROW, "ANALYZE oai_repository, publication_mark"],
        [_ROW, "VACUUM (ANALYZE) oai_repository"],
        [_ROW, "VACUUM oai_repository"],
        [_ROW, "TRUNCATE oai_repository CASCADE"],
        [_MANY.format(300)],
    ],
)
def test_rows_sequences_and_statistics_are_reset_to_those_of_a_new_copy(
    reused: ReusedDatabase, new: State, changes: list[str]
) -> None:
    with connected(reused) as connection:
        name = reused.name
        for change in changes:
            connection.execute(change.encode())
        assert state(connection) != new
        end(reused)
    with connected(reused) as connection:
        assert reused.name == name
        assert state(connection) == new


def test_temporary_tables_of_open_connections_are_emptied(reused: ReusedDatabase) -> None:
    with connected(reused) as connection:
        name = reused.name
        connection.execute("CREATE TEMP TABLE more (id bigint PRIMARY KEY DEFAULT 1)")
        connection.execute("ANALYZE more")
        reused.empty(frozenset({connection.info.backend_pid}), connection.close)
        reused.open()
        assert reused.name == name
        assert connection.execute("SELECT count(*) FROM more").fetchone() == (0,)


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE oai_repository ADD COLUMN more int",
        "ALTER TABLE oai_repository DROP COLUMN repository_name",
        "ALTER TABLE oai_repository RENAME COLUMN repository_name TO more",
        "ALTER TABLE oai_repository ALTER COLUMN base_dir SET DEFAULT 'more'",
        "ALTER TABLE oai_repository ADD CONSTRAINT more CHECK (base_url <> '')",
        "ALTER TABLE oai_repository SET (fillfactor = 50)",
        "CREATE INDEX more ON oai_repository (base_dir)",
        "CREATE TABLE more ()",
        "CREATE SEQUENCE more",
        "CREATE FUNCTION more() RETURNS int LANGUAGE sql RETURN 1",
        "CREATE RULE more AS ON DELETE TO collection DO INSTEAD NOTHING",
        _MANY.format(4000),
        "CREATE SCHEMA more",
        "ALTER TABLE collection DISABLE TRIGGER ALL",
        "ALTER TABLE collection ENABLE ROW LEVEL SECURITY",
    ],
)
def test_changes_of_the_schema_lead_to_a_new_copy(reused: ReusedDatabase, new: State, change: str) -> None:
    with connected(reused) as connection:
        name = reused.name
        connection.execute(change.encode())
    end(reused)
    with connected(reused) as connection:
        assert reused.name != name
        assert state(connection) == new


def test_a_new_copy_is_made_if_the_connection_of_the_old_one_was_ended(reused: ReusedDatabase) -> None:
    with connected(reused) as connection:
        before = reused.name
        connection.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    end(reused)
    with connected(reused):
        assert reused.name != before


def test_a_test_with_its_own_copy_has_no_connection_to_the_shared_one(
    engine: Engine, reused: ReusedDatabase, request: pytest.FixtureRequest
) -> None:
    engine.url = reused.open()
    engine.dispose()  # an earlier test may have left connections to another copy
    with engine.connect() as connection:
        assert connection.scalar(text("SELECT current_database()")) == reused.name
    settings = request.getfixturevalue("settings")
    database = request.getfixturevalue("database")
    with database.engine.connect() as connection:
        name = connection.scalar(text("SELECT current_database()"))
    assert make_url(settings.database_url.get_secret_value()).database == name != reused.name
