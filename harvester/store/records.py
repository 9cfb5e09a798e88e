"""The rows of harvested records, read and written a page at a time; the caller commits."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.models import Change, RecordStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownRecord:
    """What the table has of a record that a page brings again."""

    record_id: int
    filename: str | None
    digest: bytes | None
    status: str
    datestamp: str


@dataclass(frozen=True, kw_only=True, slots=True)
class RecordRow:
    """A record as its row is to be."""

    key: uuid.UUID
    identifier: str
    filename: str | None
    datestamp: str
    status: RecordStatus
    change: Change
    digest: bytes | None
    set_specs: tuple[str, ...]


_KNOWN = text(
    """
    SELECT identifier_key, record_id, filename, digest, status, datestamp
    FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[]))
    """
)
_TAKEN = text(
    """
    SELECT lower(filename) FROM oai_record
    WHERE repository_id = :repository_id AND filename IS NOT NULL
      AND md5(lower(filename)) = ANY(SELECT md5(name) FROM unnest(CAST(:names AS text[])) AS name)
    """
)
_WRITE = text(
    """
    INSERT INTO oai_record AS known (repository_id, metadata_prefix, identifier_key, identifier, filename,
                                     datestamp, status, update_flag, digest, harvest_time)
    SELECT :repository_id, :prefix, row.*, :now
    FROM unnest(CAST(:keys AS uuid[]), CAST(:identifiers AS text[]), CAST(:filenames AS text[]),
                CAST(:datestamps AS text[]), CAST(:statuses AS text[]), CAST(:changes AS text[]),
                CAST(:digests AS bytea[])) AS row
    ON CONFLICT (repository_id, metadata_prefix, identifier_key) DO UPDATE
    SET filename = excluded.filename, datestamp = excluded.datestamp, status = excluded.status,
        update_flag = excluded.update_flag, digest = excluded.digest, harvest_time = excluded.harvest_time
    RETURNING record_id, identifier_key
    """
)
_UNCHANGED = text(
    """
    UPDATE oai_record SET update_flag = 'unchanged'
    WHERE record_id = ANY(CAST(:ids AS bigint[])) AND update_flag <> 'unchanged'
      AND harvest_time < :run_started
    """
)
_FORGET_SETS = text("DELETE FROM oai_set_mapping WHERE record_id = ANY(CAST(:ids AS bigint[]))")
_WRITE_SETS = text(
    """
    INSERT INTO oai_set_mapping (record_id, set_spec)
    SELECT * FROM unnest(CAST(:ids AS bigint[]), CAST(:set_specs AS text[]))
    """
)


def known_records(
    session: Session, *, repository_id: int, metadata_prefix: str, keys: Sequence[uuid.UUID]
) -> dict[uuid.UUID, KnownRecord]:
    """The rows of those records that the table has already, by identifier key."""
    rows = session.execute(
        _KNOWN, {"repository_id": repository_id, "prefix": metadata_prefix, "keys": list(keys)}
    )
    return {
        key: KnownRecord(
            record_id=record_id, filename=filename, digest=digest, status=status, datestamp=datestamp
        )
        for key, record_id, filename, digest, status, datestamp in rows
    }


def taken_names(session: Session, *, repository_id: int, names: Sequence[str]) -> set[str]:
    """Those of the names (in lower case) that some record's file of the repository has."""
    rows = session.execute(_TAKEN, {"repository_id": repository_id, "names": list(names)})
    return set(rows.scalars())


def write_records(
    session: Session,
    rows: Sequence[RecordRow],
    *,
    repository_id: int,
    metadata_prefix: str,
    now: datetime,
    known: Mapping[uuid.UUID, KnownRecord],
) -> None:
    """Insert or update the rows, with their sets. No two rows may have the same key."""
    if not rows:
        return
    written = session.execute(
        _WRITE,
        {
            "repository_id": repository_id,
            "prefix": metadata_prefix,
            "now": now,
            "keys": [row.key for row in rows],
            "identifiers": [row.identifier for row in rows],
            "filenames": [row.filename for row in rows],
            "datestamps": [row.datestamp for row in rows],
            "statuses": [row.status.value for row in rows],
            "changes": [row.change.value for row in rows],
            "digests": [row.digest for row in rows],
        },
    )
    ids = {key: record_id for record_id, key in written}
    again = [ids[row.key] for row in rows if row.key in known]
    if again:
        session.execute(_FORGET_SETS, {"ids": again})
    pairs = [(ids[row.key], spec) for row in rows for spec in dict.fromkeys(row.set_specs)]
    if pairs:
        session.execute(
            _WRITE_SETS, {"ids": [pair[0] for pair in pairs], "set_specs": [pair[1] for pair in pairs]}
        )


def mark_unchanged(session: Session, record_ids: Sequence[int], *, run_started: datetime) -> None:
    """Flag records that came again as they were, unless this run itself brought them."""
    if record_ids:
        session.execute(_UNCHANGED, {"ids": list(record_ids), "run_started": run_started})
