"""`zatva database backup` and `restore`: the database by `pg_dump`, record files and raw answers."""

import contextlib
import itertools
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, text
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
from oai.console import checked_output, counted, first_of
from oai.database import Database, open_database
from oai.errors import ExitCode, UsageError
from oai.migrations import PREVIOUS_SCHEMA
from oai.output_files import UNFINISHED
from oai.settings import Settings
from zatva.dumps import lacking_rights, restore_dump, write_dump

_TOLD: Final = 20
"""Files with a fault that are named."""
_FOLDERS: Final = text("SELECT base_dir FROM oai_repository")
_IS_STANDBY: Final = text("SELECT pg_is_in_recovery()")
_HAS_PREVIOUS: Final = text(f"SELECT to_regclass('{PREVIOUS_SCHEMA}.oai_repository') IS NOT NULL")
_PREVIOUS_FOLDERS: Final = text(f"SELECT base_dir FROM {PREVIOUS_SCHEMA}.oai_repository")  # noqa: S608 ours
_HAS_DOCUMENTS: Final = text("SELECT EXISTS (SELECT FROM document)")
_WHAT_HARVESTERS_HAVE: Final = (
    "take-downs, access rules and documents are those of the backup: before you start the provider, repeat "
    "the take-downs and rules made since then; index again what was indexed since then, and ask harvesters "
    "to harvest everything, because restored documents have their old datestamps"
)
_Both = tuple[Copied, RawAnswers]
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
            write_dump(database, file)
            copied = None
        else:
            copied = _backup_both(invocation, database, file)
        with database.engine.connect() as connection:
            if lacking := lacking_rights(connection):
                invocation.console.note(lacking)
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
        protects = folder is not None and not invocation.arguments.overwrite_files
        restore_dump(
            database, file, lambda tables: _protect(tables, invocation.settings) if protects else None
        )
        with database.engine.connect() as connection:
            revision = migrations.current(connection)
            if connection.execute(_HAS_DOCUMENTS).scalar():
                invocation.console.note(_WHAT_HARVESTERS_HAVE)
        try:
            copied = None if folder is None else _restore_store(invocation, database, folder)
        except BaseException:
            invocation.console.note(
                f"the database is restored from {file}, but not all files of {folder} are; run the command "
                "again with --force"
            )
            raise
    words = f"database: restored from {file}, at {revision}{_words(copied)}"
    invocation.console.result({"file": file, "current": revision, **_fields(copied)}, words)
    return _exit_code(copied)


def _backup_both(invocation: Invocation, database: Database, file: Path) -> _Both:
    """Write the dump and the folder of record files and raw answers, of one snapshot."""
    folder = invocation.arguments.store.absolute()
    if folder.exists():
        raise UsageError(f"{folder} already exists; give the name of a new folder")
    part = checked_output(folder).with_name(f"{folder.name}{UNFINISHED}")
    if part.exists():
        raise UsageError(f"{part} is left of a backup that was killed; remove it, then run the command again")
    with database.engine.connect() as connection:
        if connection.scalar(_IS_STANDBY):  # Advisory locks exist on one server only.
            raise UsageError(
                "harvests do not wait for a backup with --store that is taken from a standby, so it would "
                "lack files; set database_url to the primary server, or leave out --store"
            )
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
        write_dump(database, file, f"--snapshot={snapshot.name}")
        part.rename(folder)
        undone.pop_all()
    return copied, raw


def _restore_store(invocation: Invocation, database: Database, folder: Path) -> _Both:
    with database.session() as session, invocation.console.progress("record files") as advance:
        stores = _stores(session, invocation.settings)
        backed_up = StoreBackup(folder, stores, on_fault=_noting_faults(invocation), on_progress=advance)
        raw = restore_raw_answers(session, _raw_folders(stores, invocation.settings), folder)
        return backed_up.restore(session), raw


def _protect(connection: Connection, settings: Settings) -> None:
    """Raise UsageError if a folder whose files would be replaced may be that of another installation."""
    found = set(connection.scalars(_FOLDERS))
    if connection.scalar(_HAS_PREVIOUS):
        found -= set(connection.scalars(_PREVIOUS_FOLDERS))
    ours = (settings.data.absolute(), settings.store.absolute())
    used = [path for path in sorted(found) if Path(path).is_absolute() and _is_used(Path(path), ours)]
    if used:
        raise UsageError(
            f"the backup has record files for {first_of(used)}, outside the data "
            "folder, where files exist that the replaced database does not have: another installation may "
            "use them. Nothing has changed. To replace these files, add --overwrite-files; to try a backup, "
            "leave out --store"
        )


def _is_used(folder: Path, ours: Iterable[Path]) -> bool:
    outside = not any(folder.is_relative_to(own) for own in ours)
    return outside and folder.is_dir() and next(folder.iterdir(), None) is not None


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


def _refuse(database: Database, *, force: bool) -> None:
    """Raise UsageError if data would be lost without --force, or if other programs use the database."""
    with database.engine.connect() as connection:
        migrations.current(connection)  # refuses a role that uses another schema
        found = migrations.occupants(connection)
        unfinished = migrations.unfinished_restore(connection)
        others = connection.scalar(_OTHERS)
    if (found or unfinished) and not force:
        schema = "public" if found else PREVIOUS_SCHEMA
        raise UsageError(
            f"the schema {schema} already has {found or 'tables'}; restore into an empty database, or, to "
            "drop them and replace them with the backup, use --force"
        )
    if others:
        raise UsageError(
            f"{others} other connections of Zatva use the database; stop the provider, manager, "
            "dashboard and harvests first"
        )
