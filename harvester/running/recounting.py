"""Tells the records that a run brought itself from those that it found, where records come again."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.running.preparing import Prepared
from harvester.store import arrays
from harvester.vocabulary import RecordStatus

_OF_THIS_RUN = text(
    """
    SELECT encode(uuid_send(identifier_key), 'hex'), digest, status FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[])) AND harvest_time >= :run_started
    """
)


_WRITTEN = text(
    """
    SELECT encode(uuid_send(identifier_key), 'hex') FROM oai_record
    WHERE repository_id = :repository_id AND metadata_prefix = :prefix
      AND identifier_key = ANY(CAST(:keys AS uuid[])) AND harvest_time >= :run_started
    """
)


def written_before(
    session: Session,
    records: Sequence[Prepared],
    *,
    repository_id: int,
    metadata_prefix: str,
    run_started: datetime,
) -> set[str]:
    """The keys of those of the records whose rows this very run has written."""
    rows = session.scalars(
        _WRITTEN,
        {
            "repository_id": repository_id,
            "prefix": metadata_prefix,
            "keys": arrays.of_keys([record.key for record in records]),
            "run_started": run_started,
        },
    )
    return set(rows)


def brought_before(
    session: Session,
    records: Sequence[Prepared],
    *,
    repository_id: int,
    metadata_prefix: str,
    run_started: datetime,
) -> int:
    """How many of the records this very run has brought as they are now: to it they are not unchanged.

    They were counted as new, updated or deleted when it did.
    """
    rows = session.execute(
        _OF_THIS_RUN,
        {
            "repository_id": repository_id,
            "prefix": metadata_prefix,
            "keys": arrays.of_keys([record.key for record in records]),
            "run_started": run_started,
        },
    )
    known = {key: (digest, status) for key, digest, status in rows}
    return sum(_as_now(record, *known[record.key]) for record in records if record.key in known)


def _as_now(record: Prepared, digest: bytes | None, status: str) -> bool:
    if record.data is None:
        return status == RecordStatus.DELETED
    return status == RecordStatus.ACTIVE and digest == record.digest
