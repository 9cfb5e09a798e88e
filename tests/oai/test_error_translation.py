"""Full disks and lost databases end a command with a message instead of a traceback."""

import errno
import logging
import os
import pickle
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import OperationalError

from oai.cli import Invocation, add_command, run
from oai.command_parser import CommandParser
from oai.database import Database, open_database, place
from oai.error_translation import as_zatva_error
from oai.errors import ExitCode, TryLaterError, ZatvaError
from oai.failures import Failure, FailureCode
from oai.settings import Settings

FULL = 'could not extend file "base/1/2": No space left on device'
RAISE = "DO $$ BEGIN RAISE EXCEPTION USING ERRCODE = '{}', MESSAGE = '{}'; END $$"


@pytest.fixture(scope="module")
def settings(shared_settings: Settings) -> Settings:
    """Use one database for all tests, because their commands write nothing."""
    return shared_settings


@pytest.fixture(autouse=True)
def _as_if_alone(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The test's database in the settings, and the test runner's own signals and logging afterwards."""
    assert settings.database_url is not None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZATVA_DATA", str(settings.data))
    monkeypatch.setenv("ZATVA_DATABASE_URL", settings.database_url.get_secret_value())
    handler, logged = signal.getsignal(signal.SIGTERM), logging.root.handlers[:]
    yield
    signal.signal(signal.SIGTERM, handler)
    logging.root.handlers[:] = logged


def command(handler: str, *words: str) -> int:
    parser = CommandParser(prog="zatva")
    thing = add_command(
        parser.add_subparsers(required=True), "thing", help="do it", handler=f"{__name__}:{handler}"
    )
    thing.add_argument("statements", nargs="*")
    return run(parser, ["thing", *words])


def executes(invocation: Invocation) -> int:
    with open_database(invocation.settings) as database, database.session() as session:
        for statement in invocation.arguments.statements:
            session.execute(text(statement), {"secret": "of a reader"} if ":secret" in statement else {})
        session.commit()
    return ExitCode.DONE


def loses_its_connection(invocation: Invocation) -> int:
    with open_database(invocation.settings) as database, database.session() as session:
        number = session.scalar(text("SELECT pg_backend_pid()"))
        with psycopg.connect(database.conninfo) as other:
            other.execute("SELECT pg_terminate_backend(%s, 10000)", [number])
        session.execute(text("SELECT 1"))
    return ExitCode.DONE


def fills_a_device(_: Invocation) -> int:
    Path("/dev/full").write_text("no room", encoding="utf-8")
    return ExitCode.DONE


def finds_no_room(invocation: Invocation) -> int:
    raise OSError(122, os.strerror(122), str(invocation.settings.data / "store"))


def fails_in_one_of_several_tasks(_: Invocation) -> int:
    raise ExceptionGroup("tasks", [ExceptionGroup("tasks", [ZatvaError("the port is taken")])])


def test_a_full_disk_of_the_database_is_reported_with_its_address_and_advice(
    capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    code = command("executes", RAISE.format("53100", FULL))
    assert code == ExitCode.NOT_READY
    assert capsys.readouterr().err == (
        f"zatva: database {place(settings)}: {FULL}; free space on the database's disk, then run "
        "the command again\n"
    )


def test_errors_do_not_show_the_password(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    address = os.environ["ZATVA_DATABASE_URL"]
    scheme, _, rest = address.partition("://")
    user, _, host = rest.rpartition("@")
    monkeypatch.setenv("ZATVA_DATABASE_URL", f"{scheme}://{user.partition(':')[0]}:s3cret@{host}")
    command("executes", RAISE.format("53100", FULL))
    stderr = capsys.readouterr().err
    assert ("s3cret" in stderr, ":***@" in stderr) == (False, True)


def test_the_traceback_with_the_statement_is_printed_with_verbose(capsys: pytest.CaptureFixture[str]) -> None:
    statement = RAISE.format("53100", FULL)
    command("executes", "-v", statement)
    stderr = capsys.readouterr().err
    assert "Traceback" in stderr
    assert f"[SQL: {statement}]" in stderr


def test_a_limit_of_the_server_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    code = command(
        "executes", "SET work_mem = '64kB'", "SET temp_file_limit = 0",
        "SELECT count(*) FROM (SELECT n FROM generate_series(1, 200000) AS n ORDER BY n DESC) AS sorted",
    )  # fmt: skip
    stderr = capsys.readouterr().err
    assert code == ExitCode.NOT_READY
    assert (
        'temporary file size exceeds "temp_file_limit" (0kB); give the server the resource that it lacks'
        in stderr
    )


def test_a_lost_connection_to_the_database_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    assert command("loses_its_connection") == ExitCode.NOT_READY
    stderr = capsys.readouterr().err
    assert "terminating connection due to administrator command; check that the server is running" in stderr
    assert len(stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("state", "code"),
    [
        ("08006", ExitCode.NOT_READY),
        ("23505", ExitCode.TRY_LATER),
        ("53300", ExitCode.TRY_LATER),
        ("40P01", ExitCode.TRY_LATER),
        ("57014", ExitCode.TRY_LATER),
        ("57P03", ExitCode.NOT_READY),
        ("57P05", ExitCode.NOT_READY),
        ("25P03", ExitCode.NOT_READY),
        ("25P04", ExitCode.NOT_READY),
        ("25006", ExitCode.NOT_READY),
        ("42501", ExitCode.NOT_READY),
        ("58030", ExitCode.NOT_READY),
        ("XX001", ExitCode.NOT_READY),
        ("22012", ExitCode.FAULT),
        ("54000", ExitCode.FAULT),
        ("ZZ999", ExitCode.FAULT),
    ],
)
def test_the_exit_code_depends_on_the_sqlstate(
    capsys: pytest.CaptureFixture[str], state: str, code: ExitCode
) -> None:
    assert command("executes", RAISE.format(state, "no luck")) == code
    assert ": no luck; " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (psycopg.errors.ProgramLimitExceeded, FailureCode.INTERNAL_ERROR),
        (psycopg.errors.UntranslatableCharacter, FailureCode.INTERNAL_ERROR),
        (psycopg.errors.AdminShutdown, FailureCode.DATABASE),
    ],
)
def test_an_unstorable_value_is_an_internal_error_and_not_a_database_failure(
    error: type[psycopg.Error], code: FailureCode
) -> None:
    found = as_zatva_error(error("no luck"))
    assert found is not None
    assert found.failure is not None
    assert found.failure.code == code


@pytest.mark.parametrize(
    "message",
    [
        "too many clients already",
        'too many connections for role "zatva"',
        'too many connections for database "zatva"',
        "remaining connection slots are reserved for roles with the SUPERUSER attribute",
    ],
)
def test_a_refused_connection_names_the_limit_of_connections(message: str) -> None:
    found = as_zatva_error(psycopg.OperationalError(f"connection failed: 127.0.0.1: FATAL:  {message}"))
    assert isinstance(found, TryLaterError)
    assert f"{message}; all connections are in use: " in str(found)


def test_an_internal_error_shows_no_values_and_names_the_option_verbose(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code = command("executes", "SELECT CAST(:secret AS text) COLLATE nonsense")
    stderr = capsys.readouterr().err
    assert code == ExitCode.FAULT
    assert "run the command again with --verbose" in stderr
    assert ("of a reader" in stderr, "SELECT" in stderr) == (False, False)


def test_a_full_disk_of_files_is_reported(capsys: pytest.CaptureFixture[str], settings: Settings) -> None:
    assert command("fills_a_device") == ExitCode.FAULT
    stderr = capsys.readouterr().err
    assert "No space left on device; free some space or inodes (`df -i`) there" in stderr
    assert str(settings.data) in stderr


def test_an_exceeded_disk_quota_is_reported_with_the_file(
    capsys: pytest.CaptureFixture[str], settings: Settings
) -> None:
    assert command("finds_no_room") == ExitCode.FAULT
    assert capsys.readouterr().err.startswith(
        f"zatva: {settings.data}/store: Disk quota exceeded; free some space"
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_failed_copy_is_reported_with_its_target(number: int) -> None:
    refused = OSError(number, os.strerror(number), "source", None, "copy")
    assert str(as_zatva_error(refused)).startswith(f"copy: {os.strerror(number)}; ")


def test_an_error_in_a_group_of_tasks_is_reported_without_the_group(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command("fails_in_one_of_several_tasks") == ExitCode.FAULT
    assert capsys.readouterr().err == "zatva: the port is taken\n"


@pytest.mark.parametrize(
    ("number", "advice"),
    [
        (errno.EACCES, "grant access to the user who runs this command, or give another path"),
        (errno.EPERM, "grant access to the user who runs this command, or give another path"),
        (errno.EROFS, "make the file system writable, or give another path"),
        (errno.ENOTDIR, "part of this path is a file, not a folder"),
        (errno.EISDIR, "this is a folder, not a file"),
        (errno.EEXIST, "the name is already taken"),
        (errno.ENAMETOOLONG, "give a shorter path"),
        (errno.ELOOP, "its symbolic links form a loop"),
        (errno.EIO, "check the disk and the system log"),
        (errno.ESTALE, "check the network drive and its server, mount it again if necessary"),
        (errno.ENOTCONN, "check the network drive and its server, mount it again if necessary"),
    ],
)
def test_an_unusable_path_is_reported_with_advice(number: int, advice: str) -> None:
    error = OSError(number, os.strerror(number), "/srv/records")
    found = as_zatva_error(error)
    assert type(found) is ZatvaError
    assert str(found).startswith(f"/srv/records: {os.strerror(number)}; {advice}")
    assert str(found).endswith("then run the command again")


def needs_a_temporary_file(_: Invocation) -> int:
    with tempfile.TemporaryFile():
        return ExitCode.DONE


def test_a_missing_folder_for_temporary_files_is_reported(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> NoReturn:
        raise FileNotFoundError(errno.ENOENT, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", refuse)
    assert command("needs_a_temporary_file") == ExitCode.FAULT
    assert "no folder for temporary files is writable or has space; set TMPDIR" in capsys.readouterr().err
    assert command("fills_a_device") == ExitCode.FAULT
    assert "No space left on device; free some space" in capsys.readouterr().err


def needs_its_folder(_: Invocation) -> int:
    Path("here").absolute()
    return ExitCode.DONE


def test_a_removed_working_folder_is_reported(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    assert command("needs_its_folder") == ExitCode.FAULT
    assert "the current folder no longer exists; change to another one" in capsys.readouterr().err


def test_a_path_of_bytes_is_shown_as_text() -> None:
    error = PermissionError(errno.EACCES, "Permission denied", b"/srv/\xc5\xbelu\xc5\xa5")
    assert str(as_zatva_error(error)).startswith("/srv/žluť: Permission denied; ")


def test_unexpected_exceptions_are_not_translated() -> None:
    assert as_zatva_error(RuntimeError("a fault")) is None
    assert as_zatva_error(PermissionError(errno.EPERM, "Operation not permitted")) is None
    assert as_zatva_error(FileNotFoundError(2, "No such file or directory", "gone")) is None


def test_without_settings_a_database_error_shows_no_address(database: Database) -> None:
    with database.session() as session, pytest.raises(OperationalError) as raised:
        session.execute(text(RAISE.format("53100", FULL)))
    found = as_zatva_error(raised.value)
    assert found is not None
    assert str(found).startswith("database: could not extend file")
    assert found.failure == Failure(code=FailureCode.DISK_FULL)


def test_a_pickled_error_of_another_process_is_translated_alike(database: Database) -> None:
    with database.session() as session, pytest.raises(OperationalError) as raised:
        session.execute(text(RAISE.format("53100", FULL)))
    carried = pickle.loads(pickle.dumps(raised.value))  # noqa: S301 our own
    assert str(as_zatva_error(carried)) == str(as_zatva_error(raised.value))


def test_the_embedded_database_is_shown_by_its_folder(tmp_path: Path) -> None:
    assert "postgres" in place(Settings(data=tmp_path, database_url=None))


@pytest.mark.parametrize(
    "error",
    [
        psycopg.errors.ProtocolViolation("query_wait_timeout"),
        psycopg.OperationalError("connection failed: FATAL:  query_wait_timeout"),
    ],
)
def test_a_full_pool_of_pgbouncer_is_reported_with_the_setting_to_raise(error: psycopg.Error) -> None:
    found = as_zatva_error(error)
    assert found is not None
    assert (found.exit_code, "raise default_pool_size" in str(found)) == (ExitCode.NOT_READY, True)


def test_the_address_is_shown_without_the_driver_and_the_password() -> None:
    settings = Settings(database_url="postgresql+psycopg://zatva:secret@db.example/zatva")
    assert place(settings) == "postgresql://zatva:***@db.example/zatva"


def test_a_temporarily_read_only_server_is_handled_as_unavailable(
    settings: Settings,
) -> None:
    with open_database(settings) as database, database.session() as session:
        session.execute(text("SET TRANSACTION READ ONLY"))
        with pytest.raises(OperationalError, match="read-only") as raised:
            session.execute(text("CREATE TABLE x ()"))
        assert session.connection().invalidated
        assert raised.value.connection_invalidated
    found = as_zatva_error(raised.value)
    assert found is not None
    assert found.exit_code is ExitCode.NOT_READY


def test_a_transaction_that_was_open_for_too_long_is_handled_as_unavailable(settings: Settings) -> None:
    with open_database(settings) as database, database.session() as session:
        session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 1"))
        process = session.scalar(text("SELECT pg_backend_pid()"))
        with psycopg.connect(database.conninfo, autocommit=True) as other:
            while other.execute("SELECT FROM pg_stat_activity WHERE pid = %s", [process]).fetchone():
                time.sleep(0.01)
        with pytest.raises(OperationalError, match="idle-in-transaction") as raised:
            session.execute(text("SELECT 1"))
        assert raised.value.connection_invalidated
