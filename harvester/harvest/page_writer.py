"""Stores a page: determines what changed, writes the files, then the rows, in this order."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.harvest.checkpointer import RunState
from harvester.harvest.mass_change_guard import MassChangeGuard
from harvester.harvest.quota import Quota, Stored
from harvester.harvest.request import HarvestRequest
from harvester.harvest.seen_identifiers import mark
from harvester.harvest.transform import Prepared, RecordBatch
from harvester.store import deletions
from harvester.store.backup import wait_for_backup
from harvester.store.deletions import Tombstone
from harvester.store.files import FileStore
from harvester.store.paths import is_deleted_path, place_files, record_path
from harvester.store.records import (
    KnownRecord,
    RecordRow,
    known_records,
    mark_unchanged,
    of_keys,
    write_records,
)
from harvester.store.versions import VersionKeeper
from harvester.vocabulary import Change, DeletionReason, RecordStatus
from oai.datestamps import is_later
from oai.disk import DiskFloor

_NOT_WRITTEN = frozenset({"unchanged", "restored", "deleted"})
_ROW_CHANGE = {"new": Change.NEW, "updated": Change.UPDATED}
_AGAIN = ("restarts", "second_readings", "taken_up", "halvings", "answers_again")
"""The totals that count lists and answers requested again."""

Known = Mapping[str, KnownRecord]
"""The rows of a page's records, by the hexadecimal digits of their keys."""
Brought = Callable[[Session, Sequence[Prepared]], Collection[str]]
"""Returns the keys of those records that the run has already received."""
_OF_THIS_RUN = text(
    """
    SELECT encode(uuid_send(identifier_key), 'hex'), digest, status FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[])) AND harvest_time >= :run_started
    """
)


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The layout of a repository's files."""

    metadata_prefix: str
    plain: bool
    """Whether this format's files have names without the format."""
    parse_id: bool
    files_per_directory: int

    def path(self, identifier: str) -> str:
        """Return the path of the record's file, as if every folder had room."""
        prefix = "" if self.plain else self.metadata_prefix
        return record_path(identifier, parse_id=self.parse_id, metadata_prefix=prefix)


@dataclass(frozen=True, kw_only=True)
class PageWriter:
    """Stores a run's pages, one after the other."""

    store: FileStore
    repository_id: int
    layout: Layout
    guard: MassChangeGuard
    floor: DiskFloor
    quota: Quota | None
    versions: VersionKeeper
    brought: Brought = lambda _session, _records: ()
    """Finds the records that the run has already received; called for those with an older datestamp."""

    def take(self, session: Session, batch: RecordBatch, *, now: datetime) -> Counter[str]:
        """Start writing the page's files, and write its rows. Deletions wait for the end of the run.

        The caller waits until the files are durable, and then commits.

        Return the number of records by outcome: new, updated, unchanged, deleted, tombstones (deletions of
        records that were never stored), and outdated (this run has received a newer version); in addition,
        staged_again: how many of the unchanged ones are deletions that this run has already staged. Raises
        HeldRunError if the run would change too many records, and DiskFullError if they have no room; nothing
        is written then.
        """
        known = self._known(session, batch)
        outdated = self._outdated(session, batch, known)
        batch = batch.without(outdated)
        effects = {record.key: effect_of(record, known.get(record.key)) for record in batch.records}
        self._check_space(batch.records, known, effects)
        updated = [record for record in batch.records if effects[record.key] == "updated"]
        self.guard.check_updates(session, len(updated), [record.header.identifier for record in updated])
        self.guard.note_seen(session, [known[key].record_id for key in batch.passed_over if key in known])
        same = self._mark_same(session, batch, known, effects)
        others = [record for record in batch.records if effects[record.key] != "unchanged"]
        changed = [record for record in others if effects[record.key] not in _NOT_WRITTEN]
        paths = self._paths(session, changed, known)
        files, leaving = _files(others, known, paths)
        if leaving or any(record.key in known for record in others):
            wait_for_backup(session)
        # Before the files are overwritten.
        self.versions.keep(session, self.store, [known[record.key] for record in updated])
        self.store.begin(files, leaving)
        rows = [_row(one, paths.get(one.key), effects[one.key], known.get(one.key)) for one in changed]
        written = write_records(
            session,
            rows,
            repository_id=self.repository_id,
            metadata_prefix=self.layout.metadata_prefix,
            now=now,
            feed_run=self.guard.run if self.guard.target.writes_feed else None,
        )
        self.guard.note_alive(session, [*written, *same])
        return self._with_deletions(session, others, known, effects, _counts(effects, len(outdated)))

    def _check_space(self, records: Sequence[Prepared], known: Known, effects: Mapping[str, str]) -> None:
        self.floor.check()
        if self.quota is None:
            return
        growth = sum(
            len(record.data) - _replaced(effects[record.key], known.get(record.key), len(record.data))
            for record in records
            if record.data is not None and effects[record.key] in {"new", "updated"}
        )
        self.quota.check(Stored(sum(effect == "new" for effect in effects.values()), growth))

    def _known(self, session: Session, batch: RecordBatch) -> dict[str, KnownRecord]:
        """Return the rows of the page's records, and of filtered ones if the guard notes those."""
        keys = [record.key for record in batch.records]
        noted = self.guard.finds_disappeared or self.guard.any_staged
        passed_over = batch.passed_over if noted else ()
        return known_records(
            session,
            repository_id=self.repository_id,
            metadata_prefix=self.layout.metadata_prefix,
            keys=[*keys, *passed_over],
        )

    def _outdated(self, session: Session, batch: RecordBatch, known: Known) -> set[str]:
        """Return the keys of records of which this run already received a newer version or deletion.

        A record with an older datestamp than the stored one does not count if this run has not received it
        before: its repository may have been set back.
        """
        again = [record for record in batch.records if record.key in known]
        older = [
            record
            for record in again
            if not record.header.undated
            and (before := known[record.key].datestamp) != record.header.datestamp
            and is_later(before, record.header.datestamp)
        ]
        outdated = set(self.brought(session, older)) if older else set()
        if self.guard.any_staged and again:
            # Staged deletions are not in the rows yet; a record that is active again would revoke them.
            numbers = [known[record.key].record_id for record in again]
            staged = deletions.staged_datestamps(session, self.guard.run, numbers)
            outdated |= {
                record.key
                for record in again
                if (earlier := staged.get(known[record.key].record_id)) is not None
                and is_later(earlier, record.header.datestamp)
            }
        return outdated

    def _with_deletions(
        self,
        session: Session,
        records: Sequence[Prepared],
        known: Known,
        effects: Mapping[str, str],
        counts: Counter[str],
    ) -> Counter[str]:
        """Stage the deletions, and return the counts with them; repeated deletions count as unchanged."""
        tombstones = [
            Tombstone(
                record_id=known[record.key].record_id,
                datestamp=record.header.datestamp,
                set_specs=record.header.set_specs,
            )
            for record in records
            if effects[record.key] == "deleted"
        ]
        if tombstones:
            counts["deleted"] = self.guard.stage(session, tombstones)
            counts["staged_again"] = len(tombstones) - counts["deleted"]
            counts["unchanged"] += counts["staged_again"]
        return counts

    def _mark_same(
        self, session: Session, batch: RecordBatch, known: Known, effects: dict[str, str]
    ) -> Sequence[int]:
        """Flag the unchanged records, and return their ids; those whose file is missing are restored.

        The files are checked while the database works.
        """
        here = {
            filename: record.key
            for record in batch.records
            if record.data is not None
            and effects[record.key] == "unchanged"
            and (filename := known[record.key].filename) is not None
        }
        missing = self.store.missing(list(here))
        same = [known[key].record_id for key, effect in effects.items() if effect == "unchanged"]
        mark_unchanged(session, same, run_started=self.guard.run.run_started)
        for filename in missing.result():
            effects[here[filename]] = "restored"
        return same

    def _paths(self, session: Session, changed: Sequence[Prepared], known: Known) -> dict[str, str]:
        """Return the path of each changed record's file: the present one, or a new one."""
        paths = {}
        homeless = []
        for record in changed:
            filename = known[record.key].filename if record.key in known else None
            if record.data is not None and filename is not None and not is_deleted_path(filename):
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


def _replaced(effect: str, before: KnownRecord | None, size: int) -> int:
    """Return the bytes of the file that the record's new one replaces; taken as equal if not known."""
    if effect == "new" or before is None:
        return 0
    return size if before.size is None else before.size


def effect_of(record: Prepared, known: KnownRecord | None) -> str:
    """Return what becomes of a record, given its row."""
    if record.data is None:
        if known is None:
            return "tombstones"
        if known.status == RecordStatus.ACTIVE:
            return "deleted"
        # A deletion without a datestamp has that of the answer, which is another one in each run.
        same = record.header.undated or known.datestamp == record.header.datestamp
        return "unchanged" if same else "tombstones"
    if known is None or known.filename is None or known.status == RecordStatus.DELETED:
        return "new"
    return "unchanged" if known.digest == record.digest else "updated"


def _counts(effects: Mapping[str, str], outdated: int) -> Counter[str]:
    counts = Counter(effects.values())
    counts["unchanged"] += counts.pop("restored", 0)
    counts["outdated"] = outdated
    return counts


def _files(
    records: Sequence[Prepared], known: Known, paths: Mapping[str, str]
) -> tuple[list[tuple[str, bytes]], list[str]]:
    """Return the files to write, and the files that they replace at other paths."""
    files = []
    leaving = []
    for record in records:
        before = known[record.key].filename if record.key in known else None
        path = paths.get(record.key) or before
        if path is None or record.data is None:
            continue
        files.append((path, record.data))
        if before is not None and before != path:
            leaving.append(before)
    return files, leaving


def _row(record: Prepared, path: str | None, effect: str, before: KnownRecord | None) -> RecordRow:
    header = record.header
    record_id = before.record_id if before else None
    if record.data is None:
        return RecordRow(
            record_id=record_id,
            key=record.key,
            identifier=header.identifier,
            filename=before.filename if before else path,
            datestamp=header.datestamp,
            status=RecordStatus.DELETED,
            change=Change.DELETED,
            digest=before.digest if before else record.digest,
            set_specs=header.set_specs,
            reason=DeletionReason.TOMBSTONE,
        )
    return RecordRow(
        record_id=record_id,
        key=record.key,
        identifier=header.identifier,
        filename=path,
        datestamp=header.datestamp,
        status=RecordStatus.ACTIVE,
        change=_ROW_CHANGE[effect],
        digest=record.digest,
        set_specs=header.set_specs,
        size=len(record.data),
    )


@dataclass(kw_only=True)
class ReturnedRecords:
    """Finds records that the current run has already received, in their rows and in the list's marks."""

    request: HarvestRequest
    run_started: datetime
    state: RunState
    _searches_left: int = 200
    """Number of further fruitless searches through the list's marks before they are no longer searched."""

    @property
    def expected(self) -> bool:
        """Whether a list or an answer was requested again, so that pages have records of earlier ones."""
        totals = self.state.progress.totals
        return any(totals[name] for name in _AGAIN)

    def keys(self, session: Session, records: Sequence[Prepared]) -> set[str]:
        """Return the keys of the records that this run has already received: it wrote or listed them."""
        keys = set(self._written(session, records))
        others = {mark(record.header.identifier): record.key for record in records if record.key not in keys}
        if others and self._searches_left:
            listed = set(others).intersection(self.state.progress.watch.marks)
            # Searching millions of marks takes a while, and a repository that was set back has older
            # datestamps on every page.
            self._searches_left -= not listed
            keys |= {others[one] for one in listed}
        names = [record.header.identifier for record in records if record.key in keys]
        self.state.first_outdated = self.state.first_outdated or next(iter(names), None)
        return keys

    def count_unchanged(self, session: Session, batch: RecordBatch) -> int:
        """Return how many of the batch's records this run has already stored as they are.

        They were counted as new, updated or deleted then, so they must not count as unchanged now.
        """
        if not self.expected:
            return 0
        known = self._written(session, batch.records)
        return sum(_as_now(record, *known[record.key]) for record in batch.records if record.key in known)

    def _written(self, session: Session, records: Sequence[Prepared]) -> dict[str, tuple[bytes | None, str]]:
        """Return digest and status of those of the records' rows that this run has written, by key."""
        values = {
            "repository_id": self.request.repository_id,
            "prefix": self.request.metadata_prefix,
            "keys": of_keys([record.key for record in records]),
            "run_started": self.run_started,
        }
        rows = session.execute(_OF_THIS_RUN, values)
        return {key: (digest, status) for key, digest, status in rows}


def _as_now(record: Prepared, digest: bytes | None, status: str) -> bool:
    if record.data is None:
        return status == RecordStatus.DELETED
    return status == RecordStatus.ACTIVE and digest == record.digest
