"""Migrations create the tables that the models describe, once, also if several processes start."""

import re
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr

import harvester.bibliographic.models
import harvester.harvest.models
import harvester.models
import harvester.rule_lab.models
import harvester.store.models
import manager.models
import manager.notices.models
import provider.aggregate.models
import provider.clients.models
import provider.export.models
import provider.indexing.models
import provider.models
import provider.titles.models
import web.models
from oai import migrations
from oai.database import Database, open_database, open_replica, place
from oai.error_translation import as_zatva_error
from oai.errors import DatabaseNotReadyError
from oai.models import Base
from oai.settings import Settings
from provider.holdings.lookup import Query, find_captures
from provider.holdings.url_key_fill import fill_keys
from provider.holdings.url_key_state import keys_complete

_PARTS = (
    harvester.bibliographic.models,
    harvester.models,
    harvester.rule_lab.models,
    harvester.harvest.models,
    harvester.store.models,
    manager.models,
    manager.notices.models,
    provider.aggregate.models,
    provider.clients.models,
    provider.export.models,
    provider.indexing.models,
    provider.models,
    provider.titles.models,
    web.models,
)


def test_the_migrated_tables_equal_those_of_the_models(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(
            connection,
            opts={
                "include_name": lambda name, kind, _: (
                    not (kind == "table" and name.startswith("procrastinate_"))
                ),
                "compare_server_default": True,
            },
        )
        assert compare_metadata(context, Base.metadata) == []


def test_the_migrated_tables_have_the_check_constraints_of_the_models(database: Database) -> None:
    """The comparison above does not include them."""
    with database.engine.connect() as connection:
        migrated = _checks(connection)
        connection.execute(sa.text("CREATE SCHEMA anew"))
        connection.execute(sa.text("SET LOCAL search_path TO anew"))
        Base.metadata.create_all(connection)
        made = _checks(connection)
        connection.rollback()
    assert migrated == made


def test_the_required_triggers_are_those_that_the_migrations_create(database: Database) -> None:
    query = "SELECT 'trigger ' || tgname || ' of ' || relname FROM pg_trigger, pg_class"
    condition = "tgrelid = pg_class.oid AND NOT tgisinternal AND relname NOT LIKE 'procrastinate%'"
    with database.engine.connect() as connection:
        migrated = connection.scalars(sa.text(f"{query} WHERE {condition}"))
        assert set(migrated) == migrations.TRIGGERS
        assert migrations.missing(connection) == []


def _checks(connection: sa.Connection) -> dict[tuple[str, str], str]:
    """Each CHECK constraint of the current schema by table and name, as PostgreSQL words it."""
    rows = connection.execute(sa.text(_CHECKS))
    return {(row.table_name, row.constraint_name): row.definition for row in rows}


_CHECKS = """
SELECT relation.relname AS table_name, entry.conname AS constraint_name,
    pg_get_constraintdef(entry.oid) AS definition
FROM pg_constraint AS entry JOIN pg_class AS relation ON relation.oid = entry.conrelid
WHERE entry.contype = 'c' AND entry.connamespace = current_schema()::regnamespace
    AND relation.relname NOT LIKE 'procrastinate%'
"""


def test_the_known_head_revision_is_the_newest_migration() -> None:
    assert ScriptDirectory(str(migrations.folder())).get_heads() == [migrations.head()]


def test_upgrading_twice_changes_nothing(database: Database) -> None:
    assert migrations.upgrade(database.engine) == (migrations.head(), migrations.head())


def _places(database: Database, names: list[str]) -> dict[str, int]:
    """The files of the tables, which change when a table is rewritten."""
    with database.engine.connect() as connection:
        query = sa.text("SELECT relname, relfilenode FROM pg_class WHERE relname = ANY(:names)")
        return {name: place for name, place in connection.execute(query, {"names": names})}  # noqa: C416 a row is no pair to mypy


def test_an_upgrade_waits_for_transactions_without_blocking_running_providers(
    settings: Settings,
) -> None:
    """A rewritten table has no rows in an earlier snapshot (PostgreSQL's manual, 13.6)."""
    names = [table.name for table in Base.metadata.sorted_tables if table.name in _READ_BY_PROVIDERS]
    with open_database(settings, check_tables=False) as database, ThreadPoolExecutor(1) as beside:
        _back_to(database, _RELEASED, _OLD_ROWS, _OLD_CHANGE)
        before, columns = _places(database, names), _columns(database, names)
        with database.engine.connect() as reading:
            reading.execute(_READ)
            with pytest.raises(DatabaseNotReadyError, match="revision 0016; transactions of other programs"):
                migrations.upgrade(database.engine, lock_seconds=0)
            upgrading = beside.submit(migrations.upgrade, database.engine)
            for _ in range(3):
                _wait_for_a_lock(database)
                # Would wait behind the upgrade for as long as that waits for the first reader.
                with database.engine.begin() as other:
                    other.execute(sa.text("SET LOCAL statement_timeout = '60s'"))
                    other.execute(_READ)
            assert not upgrading.done()
        assert upgrading.result() == ("0016", migrations.head())
        after = _places(database, names)
        assert columns <= _columns(database, names)
        assert _invalid_indexes(database) == []
    assert len(before) == len(_READ_BY_PROVIDERS)
    assert before == after


def test_an_upgrade_has_no_time_limit_for_statements(database: Database) -> None:
    engine = sa.create_engine(database.url.update_query_dict({"options": "-c statement_timeout=1h"}))
    limits = []

    @sa.event.listens_for(engine, "after_cursor_execute")
    def _note(connection: sa.Connection, _: object, statement: str, *_others: object) -> None:
        if statement.startswith("SELECT pg_advisory_lock"):
            limits.append(connection.scalar(sa.text("SHOW statement_timeout")))

    migrations.upgrade(engine)
    with engine.connect() as connection:
        assert [*limits, connection.scalar(sa.text("SHOW statement_timeout"))] == ["0", "1h"]
    engine.dispose()


def test_only_an_upgrade_of_existing_tables_logs_its_steps(
    settings: Settings, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "oai.migrations")
    with open_database(settings, check_tables=False) as database:
        _back_to(database, "0064")
        migrations.upgrade(database.engine)
        logged = [record.getMessage() for record in caplog.records]
        caplog.clear()
        with database.engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA public CASCADE"))
            connection.execute(sa.text("CREATE SCHEMA public"))
        migrations.upgrade(database.engine)
    assert logged[0] == f"upgrading the tables from 0064 to {migrations.head()}; large ones take minutes"
    assert logged[1:3] == ["tables upgraded from 0064 to 0065", "tables upgraded from 0065 to 0066"]
    assert caplog.records == []


def test_a_migration_reports_the_missing_part_of_a_table(settings: Settings) -> None:
    with open_database(settings, check_tables=False) as database:
        _back_to(database, "0065", "ALTER TABLE bibliographic_import DROP COLUMN failure_facts")
        lacking = 'revision 0065 and lack a part .*: column "failure_facts" does not exist; restore a backup'
        with pytest.raises(DatabaseNotReadyError, match=lacking):
            migrations.upgrade(database.engine)


def _columns(database: Database, names: list[str]) -> set[tuple[str, ...]]:
    with database.engine.connect() as connection:
        query = sa.text(
            "SELECT table_name, column_name, data_type, is_nullable FROM information_schema.columns"
            " WHERE table_name = ANY(:names)"
        )
        return {tuple(row) for row in connection.execute(query, {"names": names})}


def _invalid_indexes(database: Database) -> Sequence[str]:
    """Return the indexes whose concurrent build was not completed."""
    with database.engine.connect() as connection:
        query = "SELECT indexrelid::regclass::text FROM pg_index WHERE NOT indisvalid"
        return connection.scalars(sa.text(query)).all()


def _wait_for_a_lock(database: Database) -> None:
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        while not connection.scalar(_WAITS):
            pass


_RELEASED = "0012"
"""Of version 0bc97c7, whose provider serves while all later migrations run: docs/how-to/upgrade.md."""
_READ_BY_PROVIDERS = frozenset(
    {"arc", "collection", "document", "document_collection", "document_month", "domain", "mimetype"}
)
_READ = sa.text("SELECT count(*) FROM document")
_WAITS = sa.text("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND relation = 'document'::regclass)")


def test_several_threads_may_open_an_empty_database_at_once(settings: Settings) -> None:
    with open_database(settings, check_tables=False) as database:
        with database.engine.begin() as connection:
            connection.execute(sa.text("DROP SCHEMA public CASCADE"))
            connection.execute(sa.text("CREATE SCHEMA public"))
        faults: list[BaseException] = []

        def open_it() -> None:
            try:
                with open_database(settings):
                    pass
            except BaseException as fault:  # noqa: BLE001 whatever it is, the test shows it
                faults.append(fault)

        threads = [threading.Thread(target=open_it) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert faults == []
        assert migrations.upgrade(database.engine)[0] == migrations.head()


def test_an_upgraded_archive_is_counted_by_month_and_searched_until_it_has_keys(
    settings: Settings,
) -> None:
    with open_database(settings, check_tables=False) as database:
        _back_to(database, "0001", _OLD_ROWS)
        assert migrations.upgrade(database.engine) == ("0001", migrations.head())
        with database.engine.connect() as connection:
            months = connection.execute(sa.text("SELECT month::text, documents FROM document_month")).all()
            access = connection.scalar(sa.text("SELECT access FROM document"))
        assert [tuple(row) for row in months] == [("2024-02-01", 1)]
        assert access == "open"
        query = Query(url="http://A.example", limit=1)
        with database.session() as session:
            assert not keys_complete(session)
            assert session.scalar(sa.text("SELECT to_regclass('ix_document_url_key')")) is None
            assert len(find_captures(session, query).found) == 1
        assert fill_keys(database, lambda *_: None) == 1
        with database.session() as session:
            assert keys_complete(session)
            assert len(find_captures(session, query).found) == 1


def test_an_upgrade_counts_unlisted_documents_and_confirms_addresses_in_rules(
    settings: Settings,
) -> None:
    with open_database(settings, check_tables=False) as database:
        _back_to(database, "0024", _OLD_RULES, _UNLISTED_ROWS)
        migrations.upgrade(database.engine)
        with database.session() as session:
            found = {
                row.set_spec: (row.unlisted, row.listed)
                for tree in ("domain", "mimetype", "collection")
                for row in session.execute(sa.text(f"SELECT set_spec, unlisted, listed FROM {tree}"))  # noqa: S608
            }
            rows = session.execute(
                sa.text("SELECT address, confirmed IS NOT NULL FROM notice_address ORDER BY address")
            ).all()
            keys = session.execute(sa.text("SELECT signing_key, next_key FROM notice_rule")).all()
    assert found == {
        "domain:test": (2, True),
        "domain:test:secret": (2, False),
        "mimetype:text": (2, True),
        "mimetype:text:html": (2, True),
        "collection:secret": (2, False),
    }
    assert [tuple(row) for row in rows] == [("ann@a.example", True), ("bob@a.example", True)]
    assert {tuple(row) for row in keys} == {(None, None)}


def _rows_after_upgrade(
    settings: Settings, revision: str, inserted: str, query: str
) -> list[tuple[object, ...]]:
    with open_database(settings, check_tables=False) as database:
        _back_to(database, revision, inserted)
        migrations.upgrade(database.engine)
        with database.engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]


def test_credentials_are_removed_from_copies_of_base_urls_after_an_upgrade(settings: Settings) -> None:
    rows = _rows_after_upgrade(
        settings,
        "0062",
        _ROWS_WITH_CREDENTIALS,
        "SELECT a.object_name, a.before, a.after, n.facts, r.examination, r.repository_name, r.base_url"
        " FROM web_audit a, notice n, oai_repository r",
    )
    url = "http://a.example/oai?to=x@y.example"
    assert rows == [
        (
            url,
            {"base_url": url, "admin_email": "x@y.example"},
            None,
            {"base_url": url, "failing": [{"repository_name": url}], "failure": "Not http://d.example"},
            {"base_url": url},
            url,
            'http://me:s"c@a.example/oai?to=x@y.example',
        )
    ]


def test_credentials_are_removed_from_the_failures_of_runs_after_an_upgrade(settings: Settings) -> None:
    (row,) = _rows_after_upgrade(
        settings,
        "0065",
        _FAILURES_WITH_CREDENTIALS,
        "SELECT h.failure_reason, h.failure_facts, h.warnings, v.last_error, v.last_failure, j.state_reason,"
        " j.state_failure, q.reason, r.base_url"
        " FROM oai_history h, oai_harvest v, oai_recurring_job j, oai_quarantine q, oai_repository r",
    )
    sentence = "GET http://a.example/oai?to=x@y.example failed, write to x@y.example"
    fact = {"url": "http://a.example/oai", "text": sentence}
    assert row == (
        sentence, fact, [sentence, "two\nlines"], sentence, fact, sentence, fact, sentence,
        'http://me:s"c@a.example/oai',
    )  # fmt: skip


def test_active_takedowns_of_directories_cover_front_pages_after_an_upgrade(
    settings: Settings,
) -> None:
    """Take-downs of hosts, of URLs and of arguments stay unchanged, as do ended ones."""
    ranges, unsettled = _upgraded_takedowns(settings, "0063", _OLD_TAKEDOWNS)
    assert ranges == [
        (1, "cz,a)/blog/", False, True),
        (1, "cz,b)/", False, True),
        (1, "cz,c)/x?u=/", False, True),
        (2, "cz,b)/b)/", False, False),
        (2, "cz,d:8080)/", False, True),
        (2, "cz,e)/page", True, True),
        (1, "cz,a)/blog", True, True),
        (1, "cz,a)/blog?", False, True),
        (2, "cz,b)/b)", True, False),
        (2, "cz,b)/b)?", False, False),
    ]
    assert unsettled == [1, 2]


def test_active_takedowns_of_all_arguments_cover_session_ids_after_an_upgrade(settings: Settings) -> None:
    """Take-downs of directories and of single arguments stay unchanged, as do ended ones."""
    ranges, unsettled = _upgraded_takedowns(settings, "0064", _TAKEDOWNS_OF_ARGUMENTS)
    assert ranges == [
        (1, "cz,a)/page?", False, True),
        (1, "cz,b)/?", False, True),
        (1, "cz,c)/x?u=?", False, True),
        (2, "cz,d)/blog", True, True),
        (2, "cz,d)/blog?", False, True),
        (2, "cz,e)/page?", True, True),
        (1, "cz,a)/page", True, True),
        (1, "cz,b)/", True, True),
    ]
    assert unsettled == [1]


def _upgraded_takedowns(settings: Settings, revision: str, rows: str) -> tuple[list[object], list[int]]:
    """Return the ranges in force, added ones last, and the numbers of the take-downs to apply again.

    A range is a number, a beginning, whether it is one key, and whether it is outermost.
    """
    with open_database(settings, check_tables=False) as database:
        _back_to(database, revision, rows)
        migrations.upgrade(database.engine)
        with database.session() as session:
            ranges = session.execute(
                sa.text("SELECT takedown_id, rtrim(high, chr(1114111)), low = high, outermost"
                        " FROM takedown_range WHERE active ORDER BY range_id > 7, takedown_id, low")
            ).all()  # fmt: skip
            unsettled = session.scalars(
                sa.text("SELECT takedown_id FROM takedown WHERE unsettled IS NOT NULL ORDER BY takedown_id")
            ).all()
    return [tuple(row) for row in ranges], list(unsettled)


_OLD_TAKEDOWNS = """
WITH t AS (
    INSERT INTO takedown (targets, reason, requester) SELECT '{x}', 'r', 'q' FROM generate_series(1, 3)
)
INSERT INTO takedown_range (takedown_id, low, high, active, outermost)
SELECT number, low, CASE WHEN low LIKE '%/' THEN low || chr(1114111) ELSE low END, number < 3,
    low NOT LIKE 'cz,b)/_%'
FROM (VALUES (1, 'cz,a)/blog/'), (1, 'cz,b)/'), (1, 'cz,c)/x?u=/'), (2, 'cz,b)/b)/'), (2, 'cz,d:8080)/'),
    (2, 'cz,e)/page'), (3, 'cz,f)/over/')) AS given (number, low)
"""

_TAKEDOWNS_OF_ARGUMENTS = """
WITH t AS (
    INSERT INTO takedown (targets, reason, requester) SELECT '{x}', 'r', 'q' FROM generate_series(1, 3)
)
INSERT INTO takedown_range (takedown_id, low, high, active, outermost)
SELECT number, low, low || ending, number < 3, number < 3
FROM (VALUES (1, 'cz,a)/page?', chr(1114111)), (1, 'cz,b)/?', chr(1114111)), (1, 'cz,c)/x?u=?', chr(1114111)),
    (2, 'cz,d)/blog', ''), (2, 'cz,d)/blog?', chr(1114111)), (2, 'cz,e)/page?', ''),
    (3, 'cz,f)/over?', chr(1114111))) AS given (number, low, ending)
"""

_ROWS_WITH_CREDENTIALS = """
WITH url AS (SELECT 'http://me:s"c@a.example/oai?to=x@y.example' AS url),
a AS (INSERT INTO web_audit (action, object_name, before)
      SELECT 'repository.edit', url, jsonb_build_object('base_url', url, 'admin_email', 'x@y.example')
      FROM url),
n AS (INSERT INTO notice (occasion, channel, target, facts)
      SELECT 'fails', 'webhook', 'https://a.example/', jsonb_build_object('base_url', url, 'failing',
          jsonb_build_array(jsonb_build_object('repository_name', url)), 'failure', 'Not http://b:c@d.example')
      FROM url)
INSERT INTO oai_repository (base_url, base_dir, repository_name, examination)
SELECT url, 'a', url, jsonb_build_object('base_url', url) FROM url
"""


_FAILURES_WITH_CREDENTIALS = """
WITH said AS (
    SELECT base AS url, 'GET ' || base || '?to=x@y.example failed, write to x@y.example' AS text
    FROM (VALUES ('http://me:s"c@a.example/oai')) AS given (base)
),
facts AS (SELECT text, url, jsonb_build_object('url', url, 'text', text) AS fact FROM said),
r AS (INSERT INTO oai_repository (base_url, base_dir) SELECT url, 'a' FROM said RETURNING repository_id),
h AS (INSERT INTO oai_history (repository_id, harvest_start_time, status, failure_reason, failure_facts,
          warnings)
      SELECT repository_id, now(), 'failed', text, fact, jsonb_build_array(text, E'two\\nlines')
      FROM r, facts),
v AS (INSERT INTO oai_harvest (repository_id, metadata_prefix, last_error, last_failure)
      SELECT repository_id, 'oai_dc', text, fact FROM r, facts),
j AS (INSERT INTO oai_recurring_job (repository_id, state_reason, state_failure)
      SELECT repository_id, text, fact FROM r, facts)
INSERT INTO oai_quarantine (repository_id, metadata_prefix, reason, url, raw, raw_size, last_run, fault_key)
SELECT repository_id, 'oai_dc', text, '', '', 0, now(), gen_random_uuid() FROM r, facts
"""


_OLD_RULES = """
WITH o AS (INSERT INTO web_organisation (short_name, name) VALUES ('a', 'A') RETURNING organisation_id),
r AS (INSERT INTO oai_repository (base_url, base_dir)
      VALUES ('http://a.example', 'a'), ('http://b.example', 'b') RETURNING repository_id, base_dir),
w AS (INSERT INTO web_repository_owner SELECT r.repository_id, o.organisation_id FROM r, o
      WHERE r.base_dir = 'a')
INSERT INTO notice_rule (repository_id, channel, target)
SELECT r.repository_id, rule.channel, rule.target FROM r JOIN (VALUES
    ('a', 'mail', 'Ann@a.example, bob@a.example'), ('a', 'mail', 'ann@a.example'),
    ('a', 'webhook', 'https://a.example/'), ('b', 'mail', 'chief@b.example')
) AS rule (base_dir, channel, target) ON rule.base_dir = r.base_dir
"""

_UNLISTED_ROWS = """
INSERT INTO arc (path, name, size, modified) VALUES ('/a.warc', 'a.warc', 1, now());
INSERT INTO mimetype (set_spec, name, documents) VALUES ('mimetype:text', 'text', 3);
INSERT INTO mimetype (parent_id, set_spec, name, documents) VALUES (1, 'mimetype:text:html', 'text/html', 3);
INSERT INTO domain (set_spec, name, level, documents) VALUES ('domain:test', 'test', 1, 3);
INSERT INTO domain (parent_id, set_spec, name, level, documents)
VALUES (1, 'domain:test:secret', 'secret.test', 2, 2);
INSERT INTO collection (set_spec, name, documents) VALUES ('collection:secret', 'secret', 2);
INSERT INTO document (key, arc_id, "offset", url, archived, datestamp, tld_id, domain_id, host_id,
    mime_major_id, mime_id, record_type)
SELECT gen_random_uuid(), 1, n, 'http://secret.test/', now(), '9999-12-31T23:59:59Z', 1, 2, 2, 1, 2, 'x'
FROM generate_series(1, 2) AS n;
INSERT INTO document_collection (document_id, collection_id, datestamp, direct)
SELECT id, 1, datestamp, true FROM document
"""

_OLD_ROWS = """
WITH a AS (INSERT INTO arc (path, name, size, modified) VALUES ('/a.warc', 'a.warc', 1, now()) RETURNING id),
m AS (INSERT INTO mimetype (set_spec, name) VALUES ('mimetype:text', 'text') RETURNING id)
INSERT INTO document
    (key, arc_id, "offset", length, url, archived, datestamp, mime_major_id, mime_id, record_type)
SELECT gen_random_uuid(), a.id, 0, 1, 'http://a.example/', '2024-02-29T23:59:59Z', now(), m.id, m.id, 'x'
FROM a, m
"""

_OLD_CHANGE = """
INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier, metadata_prefix,
    change, datestamp)
VALUES (1, 1, 1, now(), 'oai:a:1', 'oai_dc', 'new', '2024-01-01')
"""


def _back_to(database: Database, revision: str, *rows: str) -> None:
    """Change the database to the tables of an earlier version with only these rows."""
    with database.engine.connect() as connection:
        connection.execute(sa.text("DROP SCHEMA public CASCADE"))
        connection.execute(sa.text("CREATE SCHEMA public"))
        config = Config()
        config.set_main_option("script_location", str(migrations.folder()))
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        for statement in rows:
            connection.execute(sa.text(statement))
        connection.commit()


@pytest.mark.parametrize(("revision", "words"), [("0000", "zatva database upgrade"), ("9999", "newer")])
def test_tables_of_another_version_are_refused(
    settings: Settings, database: Database, revision: str, words: str
) -> None:
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :r"), {"r": revision})
    with pytest.raises(DatabaseNotReadyError, match=words), open_database(settings):
        pass


def test_an_unreachable_server_is_reported_without_its_password() -> None:
    settings = Settings(database_url="postgresql://u:hidden@127.0.0.1:1/none")
    with pytest.raises(sa.exc.OperationalError) as caught, open_database(settings):
        pass
    said = str(as_zatva_error(caught.value, settings))
    assert "127.0.0.1:1/none: connection" in said
    assert "check that the server is running and reachable, and user, password and database" in said
    assert "hidden" not in said


@pytest.mark.parametrize(
    ("hosts", "tried"),
    [
        ("127.0.0.1:1,127.0.0.1:2", [("127.0.0.1", "1"), ("127.0.0.1", "2")]),
        ("127.0.0.1:1,127.0.0.2", [("127.0.0.1", "1"), ("127.0.0.2", "5432")]),
        ("127.0.0.1,127.0.0.2:1", [("127.0.0.1", "5432"), ("127.0.0.2", "1")]),
    ],
)
@pytest.mark.parametrize("user", ["", "u@", "u:hidden,hidden/@"])
def test_several_hosts_may_have_ports_as_in_libpq(
    user: str, hosts: str, tried: list[tuple[str, str]]
) -> None:
    settings = Settings(database_url=f"postgresql://{user}{hosts}/none?connect_timeout=2")
    with pytest.raises(sa.exc.OperationalError) as caught, open_database(settings):
        pass
    said = str(caught.value.orig)
    assert re.findall(r"^- .* at \"(.+)\", port (\d+) failed", said, re.MULTILINE) == tried
    assert "hidden" not in said + place(settings)


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [
        ("u:p%40w@%2Frun%2Fpostgresql/none", "/run/postgresql", None),
        ("u@%2frun%2fpostgresql:5433/none", "/run/postgresql", "5433"),
        ("%2Frun%2Fpostgresql", "/run/postgresql", None),
        ("u@%2Frun%2Fa,%2Frun%2Fb/none?sslmode=disable", "/run/a,/run/b", ","),
        ("u@%2Frun%2Fa:5433,db2.example/none", "/run/a,db2.example", "5433,"),
        ("u@/none?host=/run/postgresql", "/run/postgresql", None),
    ],
)
def test_the_host_may_be_the_folder_of_a_socket_as_in_libpq(
    address: str, host: str, port: str | None
) -> None:
    with open_replica(f"postgresql://{address}", pool_size=1, statement_seconds=1) as database:
        found = conninfo_to_dict(database.conninfo)
    assert (found["host"], found.get("port")) == (host, port)
    assert ("user" in found, found.get("password")) == (
        "u" in address[:2],
        "p@w" if "%40" in address else None,
    )


def test_a_database_opens_over_the_folder_of_its_socket(database: Database, settings: Settings) -> None:
    given = conninfo_to_dict(database.conninfo)
    folder = quote(str(given["host"]), safe="")
    address = f"postgresql://{given['user']}@{folder}:{given.get('port', 5432)}/{given['dbname']}"
    named = settings.model_copy(update={"database_url": SecretStr(address)})
    with open_database(named) as opened, opened.session() as session:
        assert session.scalar(sa.text("SELECT current_database()")) == given["dbname"]
    assert place(named).startswith(f"postgresql://{given['user']}@/{given['dbname']}?host={folder}")


@pytest.mark.parametrize("host", ["127.0.0.1:abc", "[::1", "127.0.0.1:"])
def test_an_address_with_an_invalid_port_is_refused_without_showing_its_password(host: str) -> None:
    settings = Settings(database_url=f"postgresql://u:hidden@{host}/none")
    for use in (lambda: open_database(settings).__enter__(), lambda: place(settings)):
        with pytest.raises(DatabaseNotReadyError, match="database_url: not a valid address") as caught:
            use()
        assert "hidden" not in str(caught.value)


@pytest.mark.parametrize("password", ["Geheim@Wort", "Geheim@Wort/x", "@"])
def test_an_unescaped_at_sign_in_a_password_is_refused(password: str) -> None:
    settings = Settings(database_url=f"postgresql://u:{password}@127.0.0.1:1/none")
    with pytest.raises(DatabaseNotReadyError, match="as %40") as caught:
        place(settings)
    assert "Wort" not in str(caught.value)


def test_another_kind_of_database_is_refused() -> None:
    settings = Settings(database_url="sqlite:///x.db")
    with pytest.raises(DatabaseNotReadyError, match="not supported"), open_database(settings):
        pass
