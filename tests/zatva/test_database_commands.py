"""The database is checked, backed up and restored by command, on a real server and as real processes."""

from pathlib import Path

from sqlalchemy import func, select, text

from oai.database import Database
from provider.models import Collection
from tests import commands
from tests.commands import Done


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


def test_a_backup_brings_back_what_was_there_then(
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


def test_a_file_that_is_no_backup_leaves_everything_as_it_was(
    database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    add_collection(database, "collection:a")
    (tmp_path / "no.dump").write_bytes(b"no backup at all")
    done = zatva(environment, "restore", tmp_path / "no.dump", "--force")
    assert (done.returncode, "pg_restore" in done.stderr, collections(database)) == (6, True, 1)


def test_nothing_is_restored_under_others_who_are_at_work(
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


def test_what_a_change_has_left_half_done_is_told(database: Database, environment: dict[str, str]) -> None:
    assert zatva(environment, "check").stdout.startswith("database: well, at ")
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
