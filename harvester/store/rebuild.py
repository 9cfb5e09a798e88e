"""Rebuilds a repository's rows from its files, because each file contains its record's header."""

import hashlib
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain, islice
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.reading.answers import Header
from harvester.store.atomic_files import ENDING
from harvester.store.diff import FileRow, compare, file_rows, is_same_file, readable, walk
from harvester.store.files import read_header
from harvester.store.paths import identifier_digits, is_deleted_path, note_folders, prefix_of
from harvester.store.records import KnownRecord, RecordRow, known_records, write_records
from harvester.vocabulary import Change, DeletionReason, RecordStatus
from oai.database import Database, make_statistics
from oai.datestamps import format_datestamp
from oai.errors import MalformedXmlError, UsageError

_TOGETHER = 1000

_SETS = text(
    """
    SELECT record_id, array_agg(set_spec) FROM oai_set_mapping
    WHERE record_id = ANY(CAST(:ids AS bigint[])) GROUP BY record_id
    """
)
_FORGET = text(
    """
    DELETE FROM oai_record WHERE record_id = ANY(CAST(:ids AS bigint[])) AND status = 'active'
      AND filename = ANY(CAST(:names AS text[]))
    """
)
_UNNAME = text(
    """
    UPDATE oai_record SET filename = NULL, digest = NULL
    WHERE record_id = ANY(CAST(:ids AS bigint[])) AND filename = ANY(CAST(:names AS text[]))
    """
)
# The next full harvest then finds the record changed, and writes its file again.
_DOUBT = text(
    """
    UPDATE oai_record SET digest = NULL
    WHERE record_id = ANY(CAST(:ids AS bigint[])) AND filename = ANY(CAST(:names AS text[]))
    """
)
_FROM_THE_START = text(
    """
    UPDATE oai_harvest
    SET watermark = NULL, restarts = restarts OR watermark IS NOT NULL,
        resumption_token = NULL, run_parameters = NULL, run_state = '{}'
    WHERE repository_id = :repository_id
    """
)
# The change feed, from which imports after harvests read what changed, lists none of the rows written here.
_COMPARE_ALL = text(
    """
    UPDATE bibliographic_import SET feed_mark = NULL
    WHERE repository_id = :repository_id AND feed_mark IS NOT NULL
    """
)


@dataclass(kw_only=True)
class Rebuilt:
    """The results so far."""

    files: int = 0
    """Record files."""
    kept: int = 0
    """Rows that were already correct."""
    added: int = 0
    changed: int = 0
    """Rows that differed from their files."""
    dropped: int = 0
    """Rows of active records whose files are missing, or now belong to another record."""
    refused: int = 0
    """Files that are not (or no longer) a record, cannot be read, or are a second file of a record."""
    doubted: int = 0
    """Rows that lost their digest because their files are no longer records."""

    @property
    def needs_full_harvest(self) -> bool:
        """Whether the next harvest has to request all records, since newer ones may have been lost."""
        return bool(self.changed or self.dropped or self.refused)

    @property
    def needs_whole_import(self) -> bool:
        """Whether the next bibliographic import has to compare all records."""
        return bool(self.added or self.changed or self.dropped or self.doubted)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Found:
    path: str
    header: Header
    prefix: str
    digest: bytes
    size: int
    key: str


def files_below(
    folder: Path,
    *,
    on_folder: Callable[[bytes, int], None] = lambda _folder, _files: None,
    skip: Collection[str] = (),
) -> Iterator[bytes]:
    """Return the paths of all files, as `walk` does.

    Raises UsageError if the folder does not exist or has no file, because then the disk is more likely not
    mounted than the store empty.
    """
    paths = walk(os.fspath(folder), on_folder=on_folder, skip=skip)
    first = next(paths, None)
    if first is None:
        raise UsageError(f"{folder}: no files found; check that the store is in its place")
    return chain((first,), paths)


@dataclass(frozen=True, kw_only=True)
class Rebuilder:
    """Corrects one repository's rows according to its files. No harvest of it may run meanwhile.

    `plain_prefix` is the format of files without a format in their names. Files altered by a person are
    trusted: run `store verify` first.
    """

    database: Database
    repository_id: int
    folder: Path
    plain_prefix: str
    skip: Collection[str] = ()
    """Folders below that belong to other repositories."""
    on_refused: Callable[[str, str], None] = lambda _path, _reason: None
    """Called with path and reason."""
    on_progress: Callable[[int], None] = lambda _files: None
    _folders: dict[str, int] = field(default_factory=dict)

    def run(self) -> Rebuilt:
        """Process all files; commits by itself, in pieces, and may be repeated at any time.

        Raises UsageError as `files_below` does.
        """
        rebuilt = Rebuilt()
        paths = files_below(self.folder, on_folder=self._note_folder, skip=self.skip)
        with self.database.session() as reading, self.database.session() as session:
            rows = file_rows(reading, self.repository_id)
            pairs = compare(rows, paths)
            while batch := list(islice(pairs, _TOGETHER)):
                make_statistics(self.database.engine, "oai_record", "oai_set_mapping")
                self._take(session, batch, rebuilt)
                gone = [row for row, path in batch if row is not None and path is None]
                # On a case-insensitive system, the file may exist under another spelling.
                self._let_go(session, [row for row in gone if not self._is_there(row.filename)], rebuilt)
                self._save_folders(session)
                if rebuilt.needs_whole_import:
                    session.execute(_COMPARE_ALL, {"repository_id": self.repository_id})
                session.commit()
                self.on_progress(rebuilt.files)
            self._save_folders(session)
            if rebuilt.needs_full_harvest:
                session.execute(_FROM_THE_START, {"repository_id": self.repository_id})
            session.commit()
        return rebuilt

    def _note_folder(self, folder: bytes, files: int) -> None:
        name = os.fsdecode(folder)
        if files and not is_deleted_path(f"{name}/"):
            self._folders[name] = files

    def _save_folders(self, session: Session) -> None:
        note_folders(session, self._folders, repository_id=self.repository_id)
        self._folders.clear()

    def _take(
        self, session: Session, pairs: Sequence[tuple[FileRow | None, bytes | None]], rebuilt: Rebuilt
    ) -> None:
        """Write the rows of the existing files, whatever the rows with their names state."""
        by_prefix: dict[str, list[_Found]] = {}
        spoilt = []
        others = []
        for row, path in pairs:
            if path is None:
                continue
            try:
                found = self._read(path, rebuilt)
            except OSError as error:
                # Says nothing about the file's bytes, so its row stays as it is.
                self._refuse(readable(path), str(error), rebuilt)
                continue
            if found is not None:
                by_prefix.setdefault(found.prefix, []).append(found)
            if row is not None and found is None:
                spoilt.append(row)
            elif row is not None and found is not None and row.identifier != found.header.identifier:
                others.append(row)
        if spoilt:
            doubted = session.execute(_DOUBT, _named(spoilt))
            rebuilt.doubted += doubted.rowcount  # type: ignore[attr-defined]  # present for an UPDATE
        self._let_go(session, others, rebuilt)
        for prefix, found_there in by_prefix.items():
            self._write(session, prefix, found_there, rebuilt)

    def _read(self, path: bytes, rebuilt: Rebuilt) -> _Found | None:
        """Return what the file contains; None if that is not a record. Raises OSError."""
        name = readable(path)
        if path.endswith(ENDING.encode()):
            return None
        try:
            file = self.folder / os.fsdecode(path)
            data = file.read_bytes()
            header = _dated(read_header(data, source=name), file)
            prefix = prefix_of(os.fsdecode(path)) or self.plain_prefix
        except MalformedXmlError as error:
            self._refuse(name, error.reason, rebuilt)
            return None
        except ValueError as error:
            self._refuse(name, str(error), rebuilt)
            return None
        rebuilt.files += 1
        return _Found(
            path=name,
            header=header,
            prefix=prefix,
            digest=hashlib.sha256(data).digest(),
            size=len(data),
            key=identifier_digits(header.identifier),
        )

    def _write(self, session: Session, prefix: str, found: Sequence[_Found], rebuilt: Rebuilt) -> None:
        keys = [one.key for one in found]
        known = known_records(session, repository_id=self.repository_id, metadata_prefix=prefix, keys=keys)
        ids = [row.record_id for row in known.values()]
        sets = {record_id: specs for record_id, specs in session.execute(_SETS, {"ids": ids})}  # noqa: C416 a row is no pair to mypy
        rows: dict[str, RecordRow] = {}
        for listed in found:
            row = known.get(listed.key)
            before = rows[listed.key].filename if listed.key in rows else row.filename if row else None
            one = self._as_named(listed, before)
            if before not in {None, one.path} and self._is_there(before):
                self._refuse(
                    one.path, f"a second file of {one.header.identifier!r}, in addition to {before}", rebuilt
                )
            elif row is not None and _is_right(row, set(sets.get(row.record_id, ())), one):
                rebuilt.kept += 1
            else:
                rows[one.key] = _row(one, row.record_id if row else None)
        rebuilt.added += sum(key not in known for key in rows)
        rebuilt.changed += sum(key in known for key in rows)
        write_records(
            session,
            list(rows.values()),
            repository_id=self.repository_id,
            metadata_prefix=prefix,
            now=datetime.now(UTC),
            feed_run=None,
        )

    def _let_go(self, session: Session, gone: Sequence[FileRow], rebuilt: Rebuilt) -> None:
        """Drop the rows of active records whose files are missing; keep the rows of deleted records."""
        if gone:
            dropped = session.execute(_FORGET, _named(gone))
            rebuilt.dropped += dropped.rowcount  # type: ignore[attr-defined]  # present for a DELETE
            session.execute(_UNNAME, _named(gone))

    def _as_named(self, found: _Found, name: str | None) -> _Found:
        """Return the file as its record names it, on some systems in another case."""
        if name is None or not is_same_file(self.folder, name, os.fsencode(found.path)):
            return found
        return replace(found, path=name)

    def _is_there(self, name: str | None) -> bool:
        return name is not None and (self.folder / name).exists()

    def _refuse(self, name: str, reason: str, rebuilt: Rebuilt) -> None:
        rebuilt.refused += 1
        self.on_refused(name, reason)


def _named(rows: Sequence[FileRow]) -> dict[str, list[object]]:
    """Return which rows to change, by number and file, because a row may have another file by now."""
    return {"ids": [row.record_id for row in rows], "names": [row.filename for row in rows]}


def _dated(header: Header, file: Path) -> Header:
    """Return the header; without a datestamp it gets the file's modification time, when it was received."""
    if not header.undated:
        return header
    written = datetime.fromtimestamp(file.stat().st_mtime, UTC)
    return replace(header, datestamp=format_datestamp(written))


def _is_right(row: KnownRecord, sets: set[str], found: _Found) -> bool:
    """Return whether the row agrees with its file; for a deletion, the row may have a later date."""
    same = row.filename == found.path and row.digest == found.digest and row.status == _status(found)
    deleted = found.header.deleted
    return same and (
        deleted
        or (
            row.size == found.size
            and (found.header.undated or row.datestamp == found.header.datestamp)
            and sets == {*found.header.set_specs}
        )
    )


def _row(found: _Found, record_id: int | None) -> RecordRow:
    deleted = found.header.deleted
    return RecordRow(
        record_id=record_id,
        key=found.key,
        identifier=found.header.identifier,
        filename=found.path,
        datestamp=found.header.datestamp,
        status=_status(found),
        change=Change.DELETED if deleted else Change.NEW,
        digest=found.digest,
        set_specs=found.header.set_specs,
        reason=DeletionReason.TOMBSTONE if deleted else None,
        size=None if deleted else found.size,
    )


def _status(found: _Found) -> RecordStatus:
    return RecordStatus.DELETED if found.header.deleted else RecordStatus.ACTIVE
