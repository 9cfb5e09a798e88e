"""One page's way into the store: what changed, then the files, then the rows (STO-4's order)."""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from harvester.models import Change, RecordStatus
from harvester.running.preparing import Batch, Prepared
from harvester.store.directories import place_files
from harvester.store.files import FileStore
from harvester.store.paths import record_path
from harvester.store.records import KnownRecord, RecordRow, known_records, mark_unchanged, write_records

_ROW_CHANGE = {"new": Change.NEW, "updated": Change.UPDATED}

Known = Mapping[uuid.UUID, KnownRecord]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a repository's files are laid out."""

    metadata_prefix: str
    plain: bool
    """Whether this format's files carry the plain names."""
    parse_id: bool
    files_per_directory: int

    def path(self, identifier: str) -> str:
        """Where the record's file would be with endless room."""
        prefix = "" if self.plain else self.metadata_prefix
        return record_path(identifier, parse_id=self.parse_id, metadata_prefix=prefix)


@dataclass(frozen=True, kw_only=True)
class Intake:
    """Takes a run's pages in, one after the other."""

    store: FileStore
    repository_id: int
    layout: Layout
    run_started: datetime

    def take(self, session: Session, batch: Batch, *, now: datetime) -> Counter[str]:
        """Write the page's files, then its rows; the caller commits.

        Gives the number of records by what became of them: new, updated, unchanged, deleted, and tombstones
        (deletions of records that were never here).
        """
        prefix = self.layout.metadata_prefix
        keys = [record.key for record in batch.records]
        known = known_records(session, repository_id=self.repository_id, metadata_prefix=prefix, keys=keys)
        fates = {record.key: self._fate(record, known.get(record.key)) for record in batch.records}
        changed = [record for record in batch.records if fates[record.key] not in {"unchanged", "restored"}]
        paths = self._paths(session, changed, known)
        self._write_files(batch, known, fates, paths)
        rows = [_row(record, paths.get(record.key), fates[record.key]) for record in changed]
        write_records(
            session, rows, repository_id=self.repository_id, metadata_prefix=prefix, now=now, known=known
        )
        same = [known[key].record_id for key, fate in fates.items() if fate in {"unchanged", "restored"}]
        mark_unchanged(session, same, run_started=self.run_started)
        counts = Counter(fates.values())
        counts["unchanged"] += counts.pop("restored", 0)
        return counts

    def _fate(self, record: Prepared, known: KnownRecord | None) -> str:
        """What becomes of a record, given what the table has of it."""
        if record.data is None:
            if known is None:
                return "tombstones"
            if known.status == RecordStatus.ACTIVE:
                return "deleted"
            return "unchanged" if known.datestamp == record.header.datestamp else "tombstones"
        if known is None or known.filename is None or known.status == RecordStatus.DELETED:
            return "new"
        if known.digest != record.digest:
            return "updated"
        return "unchanged" if self.store.exists(known.filename) else "restored"

    def _paths(self, session: Session, changed: Sequence[Prepared], known: Known) -> dict[uuid.UUID, str]:
        """The path of each changed record's file: where it is already, else a new place."""
        paths = {}
        homeless = []
        for record in changed:
            filename = known[record.key].filename if record.key in known else None
            if record.data is not None and filename is not None:
                paths[record.key] = filename
            elif record.data is not None:
                homeless.append(record)
        if homeless:
            places = place_files(
                session,
                [self.layout.path(record.header.identifier) for record in homeless],
                repository_id=self.repository_id,
                files_per_directory=self.layout.files_per_directory,
            )
            paths.update({record.key: path for record, path in zip(homeless, places, strict=True)})
        return paths

    def _write_files(
        self, batch: Batch, known: Known, fates: Mapping[uuid.UUID, str], paths: Mapping[uuid.UUID, str]
    ) -> None:
        files = []
        leaving = []
        for record in batch.records:
            fate = fates[record.key]
            path = paths.get(record.key) or (known[record.key].filename if record.key in known else None)
            if path is None:
                continue
            if fate == "deleted":
                leaving.append(path)
            elif record.data is not None and fate != "unchanged":
                files.append((path, record.data))
        if files:
            self.store.write_all(files)
        if leaving:
            self.store.remove_all(leaving)


def _row(record: Prepared, path: str | None, fate: str) -> RecordRow:
    gone = record.data is None
    return RecordRow(
        key=record.key,
        identifier=record.header.identifier,
        filename=path,
        datestamp=record.header.datestamp,
        status=RecordStatus.DELETED if gone else RecordStatus.ACTIVE,
        change=Change.DELETED if gone else _ROW_CHANGE[fate],
        digest=record.digest,
        set_specs=record.header.set_specs,
    )
