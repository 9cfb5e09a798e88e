"""The database is checked, backed up and restored by command, on a real server and as real processes."""

import json
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from io import BytesIO
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from sqlalchemy import func, select, text

from oai import migrations
from oai.database import Database
from oai.settings import Settings
from provider.aggregate.feed import Follower, horizon, is_lost
from provider.indexing.first_load import begin_first_load, finish_first_load
from provider.models import Collection
from tests import commands
from tests.commands import Done
from tests.end_to_end.processes import eventually
from tests.provider.archive import Archive
from zatva.database import unusable_parts
from zatva.dumps import find_program, for_all_servers


def zatva(environment: dict[str, str], *arguments: str | Path) -> Done:
    return commands.zatva(environment, "database", *arguments)


def add_collection(database: Database, set_spec: str) -> None:
    with database.session() as session:
        session.add(Collection(set_spec=set_spec, name=set_spec))
        session.commit()
    database.engine.dispose()


def collections(database: Database) -> int | None:
    with database.session() as session:
        count = session.scalar(select(func.count()).select_from(Collection))
    database.engine.dispose()
    return count


def test_a_restore_brings_back_the_content_at_the_time_of_the_backup(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    add_collection(database, "collection:a")
    done = zatva(environment, "backup", file)
    assert (done.returncode, done.stderr, file.exists()) == (0, "", True)
    assert zatva(environment, "backup", file).returncode == 2
    add_collection(database, "collection:b")
    refused = zatva(environment, "restore", file)
    assert (refused.returncode, "--force" in refused.stderr, collections(database)) == (2, True, 2)
    restored = zatva(environment, "restore", file, "--force")
    assert (restored.returncode, restored.stderr, collections(database)) == (0, "", 1)
    assert zatva(environment, "check").returncode == 0


@pytest.mark.copied_database("a restore replaces the schema")
def test_a_restore_of_an_archive_asks_to_repeat_later_take_downs_and_rules(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    Archive(database, Settings()).add("http://www.example.cz/")
    database.engine.dispose()
    assert zatva(environment, "backup", file).returncode == 0
    restored = zatva(environment, "restore", file, "--force")
    assert restored.returncode == 0
    assert "repeat the take-downs and rules made since then" in restored.stderr


def test_a_restore_of_a_file_that_is_no_backup_changes_nothing(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    add_collection(database, "collection:a")
    (tmp_path / "no.dump").write_bytes(b"no backup at all")
    done = zatva(environment, "restore", tmp_path / "no.dump", "--force")
    assert (done.returncode, "pg_restore" in done.stderr, collections(database)) == (6, True, 1)


def test_a_dump_of_another_program_is_refused(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    add_collection(database, "collection:a")
    with psycopg.connect(libpq(database), autocommit=True) as connection:
        connection.execute("CREATE SCHEMA other CREATE TABLE seeds (url text)")
        dump = ["--format=custom", "--schema=other", f"--file={tmp_path / 'other.dump'}"]
        subprocess.run([find_program("pg_dump"), libpq(database), *dump], check=True)
        connection.execute("DROP SCHEMA other CASCADE")
    done = zatva(environment, "restore", tmp_path / "other.dump", "--force")
    assert (done.returncode, "of another program" in done.stderr, collections(database)) == (2, True, 1)


def test_a_restore_omits_a_setting_unknown_to_older_servers_and_changes_no_data() -> None:
    newer, encoding = b"SET transaction_timeout = 0;\n", b"SET client_encoding = 'UTF8';\n"
    data = b"COPY public.host (name) FROM stdin;\n" + newer + b"\\.\n"
    script = b"--\nSET lock_timeout = 0;\n" + newer + encoding + data
    read = b"".join(for_all_servers(BytesIO(script)))
    assert read == b"--\nSET lock_timeout = 0;\n" + encoding + data


@pytest.mark.copied_database("schemas and views are made")
def test_other_schemas_are_neither_restored_nor_removed(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    with database.engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA reports CREATE TABLE kept (one int)"))
        connection.execute(text("INSERT INTO reports.kept VALUES (1)"))
        connection.execute(text("CREATE VIEW reports.counted AS SELECT count(*) FROM public.collection"))
    database.engine.dispose()
    assert zatva(environment, "backup", file).returncode == 0
    refused = zatva(environment, "restore", file, "--force")
    assert (refused.returncode, "reports.counted" in refused.stderr) == (2, True)
    with database.engine.begin() as connection:
        connection.execute(text("DROP VIEW reports.counted"))
    database.engine.dispose()
    assert zatva(environment, "restore", file, "--force").returncode == 0
    with database.engine.connect() as connection:
        assert connection.scalar(text("SELECT one FROM reports.kept")) == 1
        usage = text("SELECT has_schema_privilege('pg_monitor', 'public', 'usage')")
        assert connection.scalar(usage) is True
    database.engine.dispose()


@pytest.mark.copied_database("a restore replaces the schema")
def test_a_restore_that_is_killed_before_its_end_changes_nothing(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = backed_up_before_b(database, environment, tmp_path)
    with psycopg.connect(libpq(database)) as blocking:
        blocking.execute("LOCK TABLE pg_namespace IN SHARE MODE")
        kill_restore(environment, database, file)
    wait_for_others(database)
    assert collections(database) == 2
    assert zatva(environment, "check").returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.copied_database("a restore replaces the schema")
def test_a_restore_that_is_stopped_while_it_builds_indexes_commits_nothing(
    database: Database, environment: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text(_WAITING_INDEX))
    file = backed_up_before_b(database, environment, tmp_path)
    with psycopg.connect(libpq(database)) as blocking:
        blocking.execute("SELECT pg_advisory_xact_lock(1, 1)")
        kill_restore(environment, database, file, number=number)
    wait_for_others(database)
    assert collections(database) == 2
    assert zatva(environment, "check").returncode == 0


_WAITING_INDEX = """
CREATE FUNCTION public.wait_a_moment(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS
    'BEGIN PERFORM pg_advisory_xact_lock_shared(1, 1); RETURN value; END';
CREATE INDEX zz_last ON public.collection (public.wait_a_moment(set_spec));
"""
"""Its build waits while another transaction has the lock."""


@pytest.mark.copied_database("a restore replaces the schema")
def test_a_restore_that_is_killed_at_its_end_is_reported_and_can_be_repeated(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = backed_up_before_b(database, environment, tmp_path)
    with psycopg.connect(libpq(database)) as blocking:
        blocking.execute("LOCK TABLE collection IN ACCESS SHARE MODE")
        kill_restore(environment, database, file)
    wait_for_others(database)
    assert collections(database) == 1
    found = zatva(environment, "check")
    assert (found.returncode, "a restore did not end" in found.stdout) == (6, True)
    assert "a restore did not end" in commands.zatva(environment, "doctor").stdout
    assert zatva(environment, "backup", tmp_path / "next.dump").returncode == 0
    # Either of the two schemas may have work that the other one lacks.
    repeated = zatva(environment, "restore", file, "--force")
    assert (repeated.returncode, "a restore did not end" in repeated.stderr) == (6, True)
    assert collections(database) == 1
    with database.engine.begin() as connection:
        previous = "SELECT count(*) FROM zatva_before_restore.collection"
        assert connection.scalar(text(previous)) == 2
        # As a version that used a transaction for each statement left it.
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    database.engine.dispose()
    assert "a restore did not end" in zatva(environment, "upgrade").stderr
    assert zatva(environment, "restore", file).returncode == 2
    assert zatva(environment, "restore", tmp_path / "next.dump", "--force").returncode == 0
    assert (collections(database), zatva(environment, "check").returncode) == (1, 0)


_FEED = """
INSERT INTO oai_change (transaction_id, repository_id, harvest_id, run_started, identifier, metadata_prefix,
    change, datestamp)
SELECT coalesce(:transaction_id, CAST(CAST(pg_current_xact_id() AS text) AS bigint)), 1, 1, now(),
    :identifier, 'oai_dc', 'new', '2024-01-01'
"""
_OTHER_SERVER = 2**40
"""A transaction number that this server has not reached."""


def add_changes(database: Database, **transactions: int | None) -> None:
    """Add lines to the change feed: an identifier, and the transaction's number unless it is this one's."""
    with database.engine.begin() as connection:
        for identifier, number in transactions.items():
            connection.execute(text(_FEED), {"identifier": identifier, "transaction_id": number})
    database.engine.dispose()


def changes(environment: dict[str, str], since: int) -> list[str]:
    found = commands.results(environment, "job", "changes", "--since", str(since))
    return [line["identifier"] for line in found]


@pytest.mark.copied_database("a restore replaces the schema")
def test_feed_readers_miss_nothing_after_a_move_to_lower_transaction_numbers(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    # The reader has read one line of the first transaction, and the aggregate both.
    add_changes(database, read=2, unread=2, later=_OTHER_SERVER + 1, early=_OTHER_SERVER)
    with database.engine.begin() as connection:
        connection.execute(text("INSERT INTO aggregate_feed VALUES (1, 2, 2, now())"))
    database.engine.dispose()
    back_up_and_restore(environment, file)
    assert changes(environment, 1) == ["unread", "early", "later"]
    assert changes(environment, 0) == ["read", "unread", "early", "later"]
    add_changes(database, new=None)
    assert changes(environment, 1) == ["unread", "early", "later", "new"]
    with database.session() as session:
        follower = Follower(session=session, horizon=horizon(session), together=10)
        assert not is_lost(session, timedelta(days=30))
        assert follower.any_lines()
        place = text(
            "SELECT identifier FROM oai_change JOIN aggregate_feed USING (transaction_id, change_id)"
        )
        assert session.scalar(place) == "unread"
    database.engine.dispose()


@pytest.mark.copied_database("a restore replaces the schema")
def test_an_import_compares_all_records_after_a_move_to_another_server(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    mark = text("SELECT feed_mark FROM bibliographic_import")
    with database.engine.begin() as connection:
        connection.execute(text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://o/', 'o')"))
        connection.execute(text(_IMPORT))
    database.engine.dispose()
    back_up_and_restore(environment, file)
    with database.engine.begin() as connection:
        assert connection.scalar(mark) == 1, "on the same server, the numbers are still valid"
    add_changes(database, unread=_OTHER_SERVER)
    file.unlink()
    back_up_and_restore(environment, file)
    with database.engine.begin() as connection:
        assert connection.scalar(mark) is None
    database.engine.dispose()


_IMPORT = """
INSERT INTO bibliographic_import (repository_id, metadata_prefix, started_by, feed_mark)
VALUES (1, 'oai_dc', 'manual', 1)
"""


def back_up_and_restore(environment: dict[str, str], file: Path) -> None:
    assert zatva(environment, "backup", file).returncode == 0
    assert zatva(environment, "restore", file, "--force").returncode == 0


@pytest.mark.copied_database("a restore replaces the schema")
def test_a_feed_position_beyond_the_backup_is_refused_after_its_restore(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    add_changes(database, kept=None)
    assert zatva(environment, "backup", file).returncode == 0
    add_changes(database, lost=None)
    assert zatva(environment, "restore", file, "--force").returncode == 0
    add_changes(database, first=None, second=None)
    assert changes(environment, 1) == ["first", "second"]
    refused = commands.zatva(environment, "job", "changes", "--since", "2")
    assert (refused.returncode, "change 2 is no longer kept" in refused.stderr) == (2, True)


@pytest.mark.copied_database("a restore replaces the schema")
def test_a_restore_that_is_killed_at_its_end_reuses_no_numbers_of_changes(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    add_changes(database, kept=_OTHER_SERVER)
    assert zatva(environment, "backup", file).returncode == 0
    add_changes(database, lost=None)
    with psycopg.connect(libpq(database)) as blocking:
        blocking.execute("LOCK TABLE oai_repository IN ACCESS EXCLUSIVE MODE")
        kill_restore(environment, database, file, "--store", tmp_path)
    wait_for_others(database)
    with database.engine.begin() as connection:
        connection.execute(text(f"DROP SCHEMA {migrations.PREVIOUS_SCHEMA} CASCADE"))
    add_changes(database, first=None, second=None)
    assert changes(environment, 1) == ["first", "second"]
    assert commands.zatva(environment, "job", "changes", "--since", "2").returncode == 2


@pytest.mark.copied_database("a restore replaces the schema")
def test_a_restore_whose_files_cannot_be_written_reports_the_restored_database(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('http://o/', 'o')"))
    database.engine.dispose()
    assert zatva(environment, "backup", tmp_path / "zatva.dump").returncode == 0
    raw = tmp_path / "files" / "raw" / "1"
    raw.mkdir(parents=True)
    (raw / "1.jsonl").touch()
    data = Path(environment["ZATVA_DATA"])
    data.mkdir(exist_ok=True)
    (data / "raw").touch()  # where a folder should be
    done = zatva(environment, "restore", tmp_path / "zatva.dump", "--store", tmp_path / "files", "--force")
    assert done.returncode == 1
    assert "the database is restored" in done.stderr
    assert f"{data / 'raw'}" in done.stderr


def backed_up_before_b(database: Database, environment: dict[str, str], folder: Path) -> Path:
    """Return a backup with the collection a; the database also has b."""
    file = folder / "zatva.dump"
    add_collection(database, "collection:a")
    assert zatva(environment, "backup", file).returncode == 0
    add_collection(database, "collection:b")
    return file


def kill_restore(
    environment: dict[str, str],
    database: Database,
    *words: str | Path,
    number: signal.Signals = signal.SIGKILL,
) -> None:
    """Stop a restore as soon as one of its statements waits for a lock."""
    process = commands.Process(environment, "database", "restore", *words, "--force")
    while others(database, "wait_event_type = 'Lock'") == 0:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    process.wait()


def others(database: Database, condition: str) -> int:
    """Return how many connections to the database, without those of this process, meet the condition."""
    with psycopg.connect(libpq(database)) as connection:
        found = connection.execute(
            sql.SQL(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND {}"
            ).format(sql.SQL(condition))
        ).fetchone()
    return 0 if found is None else found[0]


def wait_for_others(database: Database) -> None:
    while others(database, "true"):
        time.sleep(0.02)


def libpq(database: Database) -> str:
    return make_conninfo(**database.parameters)


def test_a_restore_is_refused_while_others_are_connected(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "any.dump").touch()
    with database.engine.connect():
        done = zatva(environment, "restore", tmp_path / "any.dump", "--force")
    assert (done.returncode, "other connections" in done.stderr) == (2, True)


def test_an_upgrade_of_a_database_that_cannot_be_reached_says_so(environment: dict[str, str]) -> None:
    address = "postgresql://zatva:s3cret@127.0.0.1:9/zatva"
    done = zatva({**environment, "ZATVA_DATABASE_URL": address}, "upgrade")
    assert done.returncode == 6
    assert done.stderr.startswith(
        "zatva: database postgresql://zatva:***@127.0.0.1:9/zatva: connection failed"
    )
    assert "Connection refused" in done.stderr


def test_a_check_shows_the_address_without_its_password(
    database: Database, environment: dict[str, str]
) -> None:
    url = database.url.set(password="s3cret").render_as_string(hide_password=False)
    done = zatva({**environment, "ZATVA_DATABASE_URL": url}, "check", "--json")
    shown = conninfo_to_dict(json.loads(done.stdout)["address"])
    assert (shown["dbname"], "password" in shown) == (database.url.database, False)


def test_a_check_reports_unfinished_loads_disabled_triggers_and_old_tables(
    database: Database, environment: dict[str, str]
) -> None:
    assert zatva(environment, "check").stdout.startswith("database: ok, at ")
    with database.engine.begin() as connection:
        connection.execute(text("INSERT INTO first_load VALUES ('ix_document_url', 'CREATE INDEX')"))
    done = zatva(environment, "check")
    assert (done.returncode, "first load" in done.stdout) == (6, True)
    with database.engine.begin() as connection:
        connection.execute(text("ALTER TABLE oai_record DISABLE TRIGGER check_repository"))
    assert "ALTER TABLE oai_record ENABLE TRIGGER check_repository" in zatva(environment, "check").stdout
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    assert "run `zatva database upgrade`" in zatva(environment, "check").stdout


@pytest.mark.copied_database("tables are dropped")
def test_a_check_names_what_is_missing_from_the_tables_and_accepts_additions(
    database: Database, environment: dict[str, str]
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE of_others (url text)"))
        connection.execute(text("CREATE INDEX of_others_too ON oai_change (identifier)"))
    database.engine.dispose()
    begin_first_load(database)
    (line,) = zatva(environment, "check").stdout.splitlines()
    assert line.startswith("a first load was interrupted")
    finish_first_load(database, lambda _: None)
    database.engine.dispose()
    assert zatva(environment, "check").stdout.startswith("database: ok, at ")
    with database.engine.begin() as connection:
        connection.execute(text("DROP TABLE oai_repository_lock, first_load"))
        connection.execute(text("ALTER TABLE oai_change DROP COLUMN filename"))
        connection.execute(text("DROP INDEX ix_oai_change_run"))
    database.engine.dispose()
    done = zatva(environment, "check")
    assert done.returncode == 6
    assert {line.partition(" is missing: ")[0] for line in done.stdout.splitlines()} == {
        "table first_load",
        "table oai_repository_lock",
        "column filename of oai_change",
        "index ix_oai_change_run of oai_change",
    }
    upgraded = zatva(environment, "upgrade")
    assert (upgraded.returncode, set(upgraded.stdout.splitlines()[1:])) == (6, set(done.stdout.splitlines()))
    found = {one["check"]: one for one in commands.results(environment, "doctor", expect=6)}
    assert found["tables"]["advice"] == "4 parts missing; run `zatva database check`"


@pytest.mark.copied_database("tables and triggers are changed")
def test_a_check_names_missing_triggers_parts_of_the_queue_and_changed_columns(
    database: Database, environment: dict[str, str]
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("DROP TRIGGER check_repository ON oai_record"))
        connection.execute(text("DROP FUNCTION procrastinate_fetch_job_v2 CASCADE"))
        connection.execute(text("DROP FUNCTION procrastinate_unlink_periodic_defers_v1 CASCADE"))
        connection.execute(text("DROP TABLE procrastinate_events CASCADE"))
        connection.execute(text("ALTER TABLE arc ALTER name DROP NOT NULL, ALTER size TYPE integer"))
        connection.execute(text("ALTER TABLE arc ALTER name SET DEFAULT ''"))
        connection.execute(text("ALTER TABLE mimetype DROP COLUMN listed CASCADE"))
        generated = "listed boolean NOT NULL GENERATED ALWAYS AS (true) STORED"
        connection.execute(text(f"ALTER TABLE mimetype ADD {generated}"))
    database.engine.dispose()
    done = zatva(environment, "check")
    assert (done.returncode, done.stderr) == (6, "")
    assert [line.partition(" is missing: ")[0] for line in done.stdout.splitlines()] == [
        "NOT NULL of arc.name",
        "type BIGINT of arc.size",
        "function procrastinate_fetch_job_v2",
        "function procrastinate_unlink_periodic_defers_v1",
        "table procrastinate_events",
        "trigger check_repository of oai_record",
        "trigger note_whether_listed of mimetype",
        "trigger procrastinate_trigger_delete_jobs_v1 of procrastinate_jobs",
    ]


@pytest.mark.copied_database("the catalogue is changed")
def test_the_doctor_shows_what_a_check_finds_unusable(
    database: Database, environment: dict[str, str]
) -> None:
    name = database.url.database
    invalid = "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_oai_change_run'::regclass"
    with database.engine.begin() as connection:
        connection.execute(text(invalid))
        connection.execute(text("ALTER TABLE oai_record DISABLE TRIGGER check_repository"))
        connection.execute(text(f"ALTER DATABASE {name} SET default_transaction_read_only = on"))
    database.engine.dispose()
    faults = [line.partition(": ") for line in zatva(environment, "check").stdout.splitlines()]
    assert [found for found, _, _ in faults] == [
        "transactions are read-only",
        "index ix_oai_change_run is not valid",
        "trigger check_repository of oai_record is disabled",
    ]
    shown = [one for one in commands.results(environment, "doctor", expect=6) if not one["well"]]
    assert [(one["found"], one["advice"]) for one in shown] == [(fault[0], fault[2]) for fault in faults]


@pytest.mark.copied_database("an index is built")
def test_an_index_that_is_being_built_is_not_invalid(database: Database) -> None:
    build = text("CREATE INDEX CONCURRENTLY slowly ON oai_change (identifier)")
    begun = text("SELECT pid FROM pg_stat_progress_create_index WHERE index_relid = to_regclass('slowly')")

    def built() -> None:
        with database.engine.connect() as connection:
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(build)

    with ThreadPoolExecutor(1) as others, database.engine.connect() as writer:
        writer.execute(text("LOCK TABLE oai_change IN ROW EXCLUSIVE MODE"))
        building = others.submit(built)
        with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            eventually(lambda: connection.scalar(begun), "the build")
            assert unusable_parts(connection) == []
        writer.rollback()
        building.result()


def test_tables_whose_version_is_missing_are_not_created_again(
    database: Database, environment: dict[str, str]
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("DELETE FROM alembic_version"))
    remedy = f"INSERT INTO alembic_version VALUES ('{migrations.head()}')"  # noqa: S608 our own
    for words in (["database", "check"], ["doctor"], ["database", "upgrade"], ["job", "history"]):
        done = commands.zatva(environment, *words)
        assert (done.returncode, remedy in done.stdout + done.stderr) == (6, True), words
    with database.engine.begin() as connection:
        connection.execute(text(remedy))
    assert zatva(environment, "check").returncode == 0


_OTHER_PROGRAMS = """
DROP SCHEMA public CASCADE; CREATE SCHEMA public;
CREATE TABLE alembic_version (version_num text);
INSERT INTO alembic_version VALUES ('0a1b2c3d4e5f');
CREATE TABLE seeds (seed_id serial PRIMARY KEY);
INSERT INTO seeds DEFAULT VALUES;
"""
"""Makes the database one of another program, which uses Alembic, too."""


@pytest.mark.copied_database("tables are dropped")
def test_a_database_of_another_program_is_refused(database: Database, environment: dict[str, str]) -> None:
    execute(database, _OTHER_PROGRAMS)
    found = "the schema public has tables, views or sequences of another program (alembic_version, seeds)"
    of_database = [["database", name] for name in ("current", "check", "upgrade")]
    for words in (*of_database, ["database", "current", "--json"], ["doctor"], ["job", "history"], ["init"]):
        done = commands.zatva(environment, *words)
        assert done.returncode == 6, words
        said = done.stdout + done.stderr
        assert found in said, words
        assert "set database_url to it" in said, words
    assert tables(database) == ["alembic_version", "seeds"]


@pytest.mark.copied_database("tables are dropped")
@pytest.mark.parametrize(
    "made", ["TABLE seeds (url text)", "VIEW seeds AS SELECT 1 AS url", "SEQUENCE seeds"]
)
def test_a_new_installation_does_not_begin_beside_others_tables(
    database: Database, environment: dict[str, str], made: str
) -> None:
    execute(database, f"DROP SCHEMA public CASCADE; CREATE SCHEMA public; CREATE {made}")
    refused = zatva(environment, "upgrade")
    assert (refused.returncode, "of another program (seeds)" in refused.stderr) == (6, True)
    assert "schema public has tables" in commands.zatva(environment, "doctor").stdout


@pytest.mark.copied_database("tables are dropped")
def test_only_with_force_does_a_restore_replace_what_is_in_the_schema(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    assert zatva(environment, "backup", file).returncode == 0
    for change, whose in (
        ("DROP TABLE alembic_version", "Zatva (access_list, aggregate_count, "),
        (_OTHER_PROGRAMS, "another program (alembic_version, seeds)"),
    ):
        execute(database, change)
        before = tables(database)
        refused = zatva(environment, "restore", file)
        expected = f"zatva: the schema public already has tables, views or sequences of {whose}"
        assert refused.returncode == 2
        assert refused.stderr.startswith(expected)
        assert "restore into an empty database" in refused.stderr
        assert tables(database) == before
    assert zatva(environment, "restore", file, "--force").returncode == 0
    assert zatva(environment, "check").returncode == 0


@pytest.mark.copied_database("tables are dropped")
def test_an_empty_schema_needs_no_force_for_a_restore(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    file = tmp_path / "zatva.dump"
    assert zatva(environment, "backup", file).returncode == 0
    execute(database, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    assert zatva(environment, "restore", file).returncode == 0
    assert zatva(environment, "check").returncode == 0


def execute(database: Database, statements: str) -> None:
    with psycopg.connect(libpq(database)) as connection:
        connection.execute(statements.encode())


def tables(database: Database) -> list[str]:
    with psycopg.connect(libpq(database)) as connection:
        query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1"
        return [name for (name,) in connection.execute(query)]


@pytest.mark.copied_database("an index is dropped")
def test_a_check_of_an_upgraded_archive_says_how_its_url_keys_are_completed(
    database: Database, environment: dict[str, str]
) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE url_key_fill SET finished = NULL"))
        connection.execute(text("DROP INDEX ix_document_url_key"))
    database.engine.dispose()
    remedy = "run `zatva provider reindex-keys` to complete the URL keys"
    done = zatva(environment, "check")
    assert (done.returncode, done.stdout) == (6, f"documents lack URL keys: {remedy}\n")
    found = {one["check"]: one for one in commands.results(environment, "doctor", expect=6)}
    assert (found["URL keys"]["advice"], found["tables"]["well"]) == (remedy, True)
    assert commands.zatva(environment, "provider", "reindex-keys").returncode == 0
    assert zatva(environment, "check").returncode == 0
