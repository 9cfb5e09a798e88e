"""Copies of record files as a snapshot of the database names them, and their way back into the store.

A harvest overwrites and removes files before it commits the rows. While a backup copies, such harvests wait,
and those that only add files continue: so each row of the snapshot finds its file. Nothing overwrites or
removes files of raw answers, which are copied with them.
"""

import errno
import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from sqlalchemy import Connection, select, text
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.store.diff import FileRow, compare, file_rows, readable, walk
from harvester.store.files import FileStore
from oai.database import Database
from oai.output_files import complete_file, named

_log = logging.getLogger(__name__)
_KEY: Final = {"class": 0x5A53, "id": 0}  # "ZS": separates it from other advisory locks
_TRY_SHARED: Final = text("SELECT pg_try_advisory_xact_lock_shared(:class, :id)")
_SHARED: Final = text("SELECT pg_advisory_xact_lock_shared(:class, :id)")
_ALONE: Final = text("SELECT pg_advisory_lock(:class, :id)")
_RELEASE: Final = text("SELECT pg_advisory_unlock_all()")
# Copying and dumping may take longer than the time limits that a role or database has. Older servers do not
# know all of them.
_UNLIMITED: Final = text("""
SELECT set_config(name, '0', :in_transaction) FROM pg_settings WHERE name IN (
    'statement_timeout', 'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout'
)
""")
_AS_BEFORE: Final = text("RESET ALL")
_WAIT: Final = text("SET LOCAL statement_timeout = 0")
_WAITED: Final = text("SET LOCAL statement_timeout TO DEFAULT")
_IS_COPYING: Final = text("""
SELECT EXISTS (
    SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = :class AND objid = :id AND objsubid = 2
        AND mode = 'ExclusiveLock' AND granted
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
)
""")
_AT_ONCE: Final = 200
_RAW: Final = "raw"
"""Subfolder of a backup with the raw answers."""
_NO_LINK: Final = frozenset({errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP})


def wait_for_backup(session: Session) -> None:
    """Wait while a backup copies record files; until the transaction ends, none begins to.

    Called before files that rows name are overwritten or removed.
    """
    if not session.scalar(_TRY_SHARED, _KEY):
        _log.info("waiting until a backup has copied the record files")
        session.execute(_WAIT)
        session.execute(_SHARED, _KEY)
        session.execute(_WAITED)


def is_copying(session: Session) -> bool:
    """Return whether a backup copies record files, for which those who change files wait."""
    return bool(session.scalar(_IS_COPYING, _KEY))


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """One state of the database, and the record files that its rows name."""

    session: Session
    name: str
    """For other connections (PostgreSQL's `SET TRANSACTION SNAPSHOT`), until the block ends."""
    holding: Connection

    def release(self) -> None:
        """Let harvests overwrite and remove files again; repeating it does nothing."""
        self.holding.execute(_RELEASE)


@contextmanager
def unchanging_files(database: Database) -> Iterator[Snapshot]:
    """Yield a snapshot whose files nothing overwrites or removes until it is released."""
    with (
        database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as holding,
        Session(database.engine.execution_options(isolation_level="REPEATABLE READ")) as session,
    ):
        # The lock comes first: who held it has committed when the snapshot is taken.
        holding.execute(_UNLIMITED, {"in_transaction": False})
        try:
            holding.execute(_ALONE, _KEY)
            session.execute(_UNLIMITED, {"in_transaction": True})
            name = session.execute(text("SELECT pg_export_snapshot()")).scalar_one()
            yield Snapshot(session=session, name=name, holding=holding)
        finally:
            # Not left to the end of the connection, which returns to the pool with its locks.
            holding.execute(_RELEASE)
            holding.execute(_AS_BEFORE)


class FileFault(StrEnum):
    """What is wrong with a file of a backup."""

    MISSING = "missing"
    ALTERED = "altered"
    """It is not the file that its row states."""
    STRAY = "stray"
    """No row names it."""


OnFault = Callable[[FileFault, str], None]
"""Called with each fault and the path of the file."""


@dataclass(kw_only=True)
class Copied:
    """The number of files, by what became of them."""

    files: int = 0
    """Files that are as their rows state."""
    faults: dict[FileFault, int] = field(default_factory=lambda: dict.fromkeys(FileFault, 0))

    @property
    def whole(self) -> bool:
        """Whether all files are as the rows state, and there are no others."""
        return not any(self.faults.values())


@dataclass(frozen=True)
class StoreBackup:
    """A folder with the record files of all repositories, each in a subfolder named by its number."""

    folder: Path
    stores: Mapping[int, Path]
    """The folders of the repositories in the store."""
    _: KW_ONLY
    on_fault: OnFault
    on_progress: Callable[[int], None] = lambda _files: None
    copied: Copied = field(default_factory=Copied)

    def copy(self, session: Session) -> None:
        """Link the files that the session's rows name, or copy them if the folder is on another file system.

        Files are replaced and never changed in place, so a link keeps the content. Raises OSError.
        """
        done = 0
        for number, store in self.stores.items():
            made: set[Path] = set()
            for row in file_rows(session, number):
                target = self._path(number, row.filename)
                if target.parent not in made:
                    target.parent.mkdir(parents=True, exist_ok=True)
                    made.add(target.parent)
                _link(store / row.filename, target)
                done += 1
                self.on_progress(done)

    def check(self, session: Session) -> Copied:
        """Compare what was copied with the rows; afterwards the backup is on disk."""
        for number in self.stores:
            for row in file_rows(session, number):
                self._check(number, row, _read(self._path(number, row.filename)))
        os.sync()
        return self.copied

    def restore(self, session: Session) -> Copied:
        """Write each file that a row names to the store, unless it is there as the row states.

        Files of the store that no row names stay. Raises OSError.
        """
        for number, store in self.stores.items():
            pairs = compare(file_rows(session, number), walk(os.fspath(self.folder / str(number))))
            with named(store), FileStore(store) as files:
                while batch := list(islice(pairs, _AT_ONCE)):
                    files.write_all([one for row, path in batch for one in self._wanted(number, row, path)])
                    self.on_progress(self.copied.files)
        self._name_unknown()
        return self.copied

    def _wanted(self, number: int, row: FileRow | None, path: bytes | None) -> Iterator[tuple[str, bytes]]:
        """Yield the row's file unless the store has it; note what is wrong with the pair."""
        if row is None:
            self._note(FileFault.STRAY, f"{number}/{readable(path or b'')}")
            return
        there = _read(self.stores[number] / row.filename)
        if there is not None and _is_right(row, there):
            self.copied.files += 1
            return
        data = _read(self._path(number, row.filename)) if path is not None else None
        self._check(number, row, data)
        if data is not None:
            yield row.filename, data

    def _name_unknown(self) -> None:
        """Note what is in the backup beside the folders of the repositories."""
        known = {_RAW, *(str(number) for number in self.stores)}
        for name in sorted(set(os.listdir(self.folder)) - known):  # noqa: PTH208 names are enough
            self._note(FileFault.STRAY, name)

    def _check(self, number: int, row: FileRow, data: bytes | None) -> None:
        if data is None:
            self._note(FileFault.MISSING, f"{number}/{row.filename}")
        elif _is_right(row, data):
            self.copied.files += 1
        else:
            self._note(FileFault.ALTERED, f"{number}/{row.filename}")

    def _note(self, fault: FileFault, path: str) -> None:
        self.copied.faults[fault] += 1
        self.on_fault(fault, path)

    def _path(self, number: int, filename: str) -> Path:
        return self.folder / str(number) / filename


@dataclass(frozen=True, kw_only=True)
class RawAnswers:
    """The number of files of raw answers that a backup has, or that were restored or there already."""

    files: int
    missing: int
    """Files that runs of the database name and that are not there: moved, removed, or on another machine."""


def copy_raw_answers(session: Session, folders: Mapping[int, Path], backup: Path) -> RawAnswers:
    """Link the files of each repository's folder of raw answers into the backup, or copy them.

    A file that no run of the session names yet may still be written: it is copied as far as it goes, which is
    enough to resume the run. Raises OSError.
    """
    for number, folder in folders.items():
        ended = _raw_names(session, number)
        for path in sorted(folder.glob("*")):
            target = backup / _RAW / str(number) / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            if path.name in ended:
                _link(path, target)
            else:
                _copy(path, target)
    return _counted(session, {number: backup / _RAW / str(number) for number in folders})


def restore_raw_answers(session: Session, folders: Mapping[int, Path], backup: Path) -> RawAnswers:
    """Write each file of raw answers to its repository's folder, unless it is there. Raises OSError."""
    for number, folder in folders.items():
        for path in sorted((backup / _RAW / str(number)).glob("*")):
            target = folder / path.name
            # Files only grow: one that is longer has what the copy has.
            if not target.exists() or target.stat().st_size < path.stat().st_size:
                folder.mkdir(parents=True, exist_ok=True)
                with path.open("rb") as copy, complete_file(target) as file:
                    shutil.copyfileobj(copy, file)
    return _counted(session, folders)


def _raw_names(session: Session, number: int) -> set[str]:
    query = select(History.raw_path).where(History.repository_id == number, History.raw_path.is_not(None))
    return {str(path).rpartition("/")[2] for path in session.scalars(query)}


def _counted(session: Session, folders: Mapping[int, Path]) -> RawAnswers:
    present = {number: {path.name for path in folder.glob("*")} for number, folder in folders.items()}
    return RawAnswers(
        files=sum(map(len, present.values())),
        missing=sum(len(_raw_names(session, number) - names) for number, names in present.items()),
    )


def _link(source: Path, target: Path) -> None:
    """Make the target the same file, or a copy; a source that does not exist is left out."""
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        _copy(source, target)


def _copy(source: Path, target: Path) -> None:
    with named(target):
        shutil.copyfile(source, target)


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _is_right(row: FileRow, data: bytes) -> bool:
    """Return whether the bytes are those of the row; one without a digest may have any."""
    return row.digest is None or hashlib.sha256(data).digest() == row.digest
