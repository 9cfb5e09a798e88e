"""Deletions that wait for the end of their run (`oai_held_deletion`): staged, withdrawn, applied."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import RowMapping, text
from sqlalchemy.orm import Session

from harvester.store.backup import wait_for_backup
from harvester.store.files import FileStore, marked_deleted
from harvester.store.paths import deleted_path, without_case_clashes
from harvester.store.records import RecordRow, RunKey, write_records
from harvester.vocabulary import Change, DeletionPolicy, DeletionReason, RecordStatus
from oai.database import Database
from oai.errors import MalformedXmlError


@dataclass(frozen=True, kw_only=True, slots=True)
class DeletedFile:
    """The file of a record being deleted: its path, and the deletion's datestamp."""

    filename: str | None
    datestamp: str


Left = tuple[str | None, bytes | None]
"""Path and SHA-256 of the file that remains."""


def part_with(
    session: Session,
    store: FileStore,
    files: Sequence[DeletedFile],
    *,
    policy: DeletionPolicy,
    repository_id: int,
) -> list[Left]:
    """Treat the files according to the policy, durably; return what their rows are to state.

    Repeating it, because rows were not committed, gives the same result. A file that is not a record is moved
    or kept unchanged. Waits while a backup copies the files; the caller commits.
    """
    wait_for_backup(session)
    if policy is DeletionPolicy.REMOVE:
        store.remove_all([file.filename for file in files if file.filename])
        return [(None, None)] * len(files)
    targets = _targets(session, files, policy, repository_id)
    left: list[Left] = []
    writing: list[tuple[str, bytes]] = []
    for file, target in zip(files, targets, strict=True):
        data = _data(store, file.filename, target)
        marked = None if data is None else _marked(data, file.datestamp, target)
        if marked is not None:
            writing.append((target, marked))
        left.append((None, None) if marked is None else (target, hashlib.sha256(marked).digest()))
    store.write_all(writing)
    kept = set(targets)
    store.remove_all([file.filename for file in files if file.filename and file.filename not in kept])
    return left


def _targets(
    session: Session, files: Sequence[DeletedFile], policy: DeletionPolicy, repository_id: int
) -> list[str]:
    names = [file.filename or "" for file in files]
    if policy is DeletionPolicy.MARK:
        return names
    moving = [deleted_path(name) for name in names if name and name != deleted_path(name)]
    places = iter(without_case_clashes(session, moving, repository_id=repository_id))
    return [next(places) if name and name != deleted_path(name) else name for name in names]


def _data(store: FileStore, filename: str | None, target: str) -> bytes | None:
    """Return the record's bytes, from its path or from where a rolled-back transaction has moved it."""
    if not filename:
        return None
    data = store.read(filename)
    return store.read(target) if data is None and target != filename else data


def _marked(data: bytes, datestamp: str, source: str) -> bytes:
    try:
        return marked_deleted(data, datestamp=datestamp, source=source)
    except (MalformedXmlError, ValueError):
        return data


_TOGETHER = 1000

# Each record by its key: as a join, it could become a scan of all records for each page.
_STAGE = text(
    """
    INSERT INTO oai_held_deletion (harvest_id, run_started, record_id, datestamp, set_specs, reason, digest)
    SELECT :harvest_id, :run_started, record_id, row.datestamp, CAST(row.set_specs AS jsonb), :reason,
           record.digest
    FROM unnest(CAST(:ids AS bigint[]), CAST(:datestamps AS text[]), CAST(:set_specs AS text[]))
        AS row(record_id, datestamp, set_specs)
    CROSS JOIN LATERAL (
        SELECT digest FROM oai_record AS known WHERE known.record_id = row.record_id OFFSET 0
    ) AS record
    ON CONFLICT (harvest_id, run_started, record_id) DO UPDATE
    SET datestamp = excluded.datestamp, set_specs = excluded.set_specs, digest = excluded.digest
    RETURNING xmax = 0
    """
)
OF_FORMAT = """ARRAY(
        SELECT other.harvest_id FROM oai_harvest AS other
        JOIN oai_harvest AS one USING (repository_id, metadata_prefix)
        WHERE one.harvest_id = :harvest_id)"""
"""The harvests of the same repository and format: they store the same records."""
# If the run began before the other one found the deletion, its list may be the older one.
_UNSTAGE = text(
    f"""
    DELETE FROM oai_held_deletion
    WHERE harvest_id = ANY({OF_FORMAT}) AND record_id = ANY(CAST(:ids AS bigint[]))
      AND (:earlier AND run_started < :run_started
           OR :own AND harvest_id = :harvest_id AND run_started = :run_started)
    """  # noqa: S608 built from constants only
)
_KEEP = text(
    f"""
    UPDATE oai_held_deletion AS gone SET digest = record.digest FROM oai_record AS record
    WHERE gone.harvest_id = ANY({OF_FORMAT}) AND gone.record_id = ANY(CAST(:ids AS bigint[]))
      AND record.record_id = gone.record_id AND gone.run_started <> :run_started
    """  # noqa: S608 built from constants only
)
_STAGED = text(
    """
    SELECT record_id, datestamp FROM oai_held_deletion
    WHERE harvest_id = :harvest_id AND run_started = :run_started
      AND record_id = ANY(CAST(:ids AS bigint[]))
    """
)
# Deletions that are unconfirmed wait for the next full harvest: the list may only have skipped the records.
_STALE = text(
    """
    DELETE FROM oai_held_deletion
    WHERE harvest_id = :harvest_id AND run_started <> :run_started AND reason <> 'unconfirmed'
      AND run_started NOT IN (SELECT run_started FROM oai_hold
                              WHERE harvest_id = :harvest_id AND state = 'held')
    """
)
_FORGET = text(
    """
    DELETE FROM oai_held_deletion
    WHERE harvest_id = :harvest_id AND run_started = :run_started AND reason <> 'unconfirmed'
    """
)
_FORGET_UNCONFIRMED = text(
    """
    DELETE FROM oai_held_deletion
    WHERE harvest_id = :harvest_id AND run_started <> :run_started AND reason = 'unconfirmed'
    """
)
_LIVING = """
    FROM oai_held_deletion AS gone JOIN oai_record AS record USING (record_id)
    WHERE gone.harvest_id = :harvest_id AND gone.run_started = :run_started
      AND gone.reason <> 'unconfirmed'
      AND record.status = 'active' AND record.digest IS NOT DISTINCT FROM gone.digest
    """
_ANY = text(
    f"SELECT EXISTS (SELECT FROM oai_held_deletion WHERE harvest_id = ANY({OF_FORMAT}))"  # noqa: S608 as above
)
_DISAPPEARED = text(
    f"SELECT EXISTS (SELECT {_LIVING} AND gone.reason = '{DeletionReason.DISAPPEARED.value}')"
)
_COUNT = text(f"SELECT count(*) {_LIVING}")
_SAMPLE = text(f"SELECT record.identifier {_LIVING} ORDER BY record_id LIMIT :most")
# Continues after a record's number: otherwise each batch would scan the deletions applied before.
_NEXT = text(
    """
    SELECT gone.record_id, gone.datestamp, gone.set_specs, gone.reason, record.identifier_key,
           record.identifier, record.filename, record.digest, record.record_id IS NOT NULL AS living
    FROM (SELECT * FROM oai_held_deletion
          WHERE harvest_id = :harvest_id AND run_started = :run_started AND record_id > :after
            AND reason <> 'unconfirmed'
          ORDER BY record_id LIMIT :most) AS gone
    LEFT JOIN LATERAL (
        SELECT * FROM oai_record AS record
        WHERE record.record_id = gone.record_id AND record.status = 'active'
          AND record.digest IS NOT DISTINCT FROM gone.digest
        OFFSET 0
    ) AS record ON true
    ORDER BY gone.record_id
    """
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tombstone:
    """A deletion of a stored record: `set_specs` are the tombstone's."""

    record_id: int
    datestamp: str
    set_specs: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class DeletionTarget:
    """Where the files and rows of deleted records are, and what becomes of them."""

    repository_id: int
    metadata_prefix: str
    folder: Path
    policy: DeletionPolicy
    writes_feed: bool
    """Whether the deletions are written to the change feed."""


def stage(session: Session, run: RunKey, tombstones: Sequence[Tombstone]) -> int:
    """Stage deletions that the run found; return the number of new ones. The caller commits."""
    if not tombstones:
        return 0
    latest = {tombstone.record_id: tombstone for tombstone in tombstones}
    fresh = session.execute(
        _STAGE,
        {
            **run.parameters,
            "ids": list(latest),
            "datestamps": [tombstone.datestamp for tombstone in latest.values()],
            "set_specs": [json.dumps(list(tombstone.set_specs)) for tombstone in latest.values()],
            "reason": DeletionReason.TOMBSTONE.value,
        },
    )
    return sum(fresh.scalars())


def unstage(
    session: Session, run: RunKey, record_ids: Sequence[int], *, own: bool = True, earlier: bool = True
) -> None:
    """Withdraw deletions of the records, because the run received them. The caller commits.

    They are the run's `own` ones, and those of `earlier` runs of all harvests of the repository and format.
    """
    values = {**run.parameters, "ids": list(record_ids), "own": own, "earlier": earlier}
    session.execute(_UNSTAGE, values)


def keep_staged(session: Session, run: RunKey, record_ids: Sequence[int]) -> None:
    """Keep deletions that earlier runs staged although this run rewrote the records. The caller commits."""
    session.execute(_KEEP, {**run.parameters, "ids": list(record_ids)})


def staged_datestamps(session: Session, run: RunKey, record_ids: Sequence[int]) -> dict[int, str]:
    """Return the datestamps of the deletions staged by the run, by record."""
    rows = session.execute(_STAGED, {**run.parameters, "ids": list(record_ids)})
    return {row.record_id: row.datestamp for row in rows}


def any_staged(session: Session, run: RunKey) -> bool:
    """Return whether deletions wait, of the run or of any harvest of the same repository and format."""
    return bool(session.execute(_ANY, {"harvest_id": run.harvest_id}).scalar_one())


def any_disappeared(session: Session, run: RunKey) -> bool:
    """Return whether the run waits to delete records that the repository did not report as deleted."""
    return bool(session.execute(_DISAPPEARED, run.parameters).scalar_one())


def staged_count(session: Session, run: RunKey) -> int:
    """Return the number of waiting deletions of the run."""
    return int(session.execute(_COUNT, run.parameters).scalar_one())


def staged_sample(session: Session, run: RunKey, *, most: int) -> list[str]:
    """Return some identifiers of records that wait to be deleted."""
    return list(session.execute(_SAMPLE, {**run.parameters, "most": most}).scalars())


def forget_stale(session: Session, run: RunKey) -> None:
    """Drop the deletions of earlier runs, unless they await an approval or the next full harvest.

    The caller commits.
    """
    session.execute(_STALE, run.parameters)


def forget(session: Session, run: RunKey) -> None:
    """Drop the run's deletions, except those that are to be confirmed. The caller commits."""
    session.execute(_FORGET, run.parameters)


def forget_unconfirmed(session: Session, run: RunKey) -> None:
    """Drop the deletions that the run was to confirm, because it has looked for them. The caller commits."""
    session.execute(_FORGET_UNCONFIRMED, run.parameters)


def apply_staged(
    database: Database,
    run: RunKey,
    target: DeletionTarget,
    *,
    count: Callable[[Session, int], None] = lambda _session, _number: None,
) -> int:
    """Delete the records that the run has staged; return their number. Commits by itself, in pieces.

    `count` notes the number of records that a piece deletes, in the same transaction. Records that have
    changed since they were staged are kept. The caller ensures that no harvest of the repository is running.
    """
    applied = after = 0
    with database.session() as session, FileStore(target.folder) as store:
        while staged := _next(session, run, after):
            rows = [row for row in staged if row["living"]]
            if rows:
                _delete(session, store, rows, run, target)
                count(session, len(rows))
            unstage(session, run, [row["record_id"] for row in rows])
            session.commit()
            applied += len(rows)
            after = staged[-1]["record_id"]
        forget(session, run)
        session.commit()
    return applied


def _next(session: Session, run: RunKey, after: int) -> Sequence[RowMapping]:
    """Return the run's next deletions, including those of records that have changed since."""
    return session.execute(_NEXT, {**run.parameters, "after": after, "most": _TOGETHER}).mappings().all()


def _delete(
    session: Session, store: FileStore, rows: Sequence[RowMapping], run: RunKey, target: DeletionTarget
) -> None:
    files = [DeletedFile(filename=row["filename"], datestamp=row["datestamp"]) for row in rows]
    # Files before rows: if the commit fails, the same step can be repeated (see `part_with`).
    left = part_with(session, store, files, policy=target.policy, repository_id=target.repository_id)
    write_records(
        session,
        [_row(row, what) for row, what in zip(rows, left, strict=True)],
        repository_id=target.repository_id,
        metadata_prefix=target.metadata_prefix,
        now=datetime.now(UTC),
        feed_run=run if target.writes_feed else None,
    )


def _row(row: RowMapping, left: Left) -> RecordRow:
    filename, digest = left
    return RecordRow(
        record_id=row["record_id"],
        key=row["identifier_key"].hex,
        identifier=row["identifier"],
        filename=filename,
        datestamp=row["datestamp"],
        status=RecordStatus.DELETED,
        change=Change.DELETED,
        digest=digest,
        set_specs=None if row["set_specs"] is None else tuple(row["set_specs"]),
        reason=DeletionReason(row["reason"]),
    )
