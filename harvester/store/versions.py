"""Replaced versions of records: kept when a run changes them, listed, and pruned with the change feed."""

import hashlib
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import ColumnElement, delete, func, insert, select
from sqlalchemy.orm import Session

from harvester.models import History, Record
from harvester.store.files import FileStore
from harvester.store.models import RecordVersion
from harvester.store.records import KnownRecord, RunKey

_LARGEST: Final = 4 * 1024**2
"""Bytes of a file above which its versions are not kept."""
_PRUNED_AT_ONCE: Final = 10_000
"""As many as changes: both are pruned in one transaction."""
_MOST_LISTED: Final = 20


@dataclass(kw_only=True)
class VersionKeeper:
    """Keeps the versions that a run replaces."""

    run: RunKey
    left: int
    """Further versions that the run may keep: a run may change a whole repository."""

    def keep(self, session: Session, store: FileStore, replaced: Iterable[KnownRecord]) -> None:
        """Copy the files of these records into rows, before they are overwritten. The caller commits.

        A file that is not the one that was stored is no version: it was altered, or an interrupted run has
        overwritten it already.
        """
        rows: list[dict[str, object]] = []
        for known in replaced:
            if len(rows) >= self.left:
                break
            data = store.read(known.filename) if known.filename and (known.size or 0) <= _LARGEST else None
            if data is None or hashlib.sha256(data).digest() != known.digest:
                continue
            rows.append(
                {
                    "record_id": known.record_id,
                    **self.run.parameters,
                    "datestamp": known.datestamp,
                    "size": len(data),
                    "content": zlib.compress(data),
                }
            )
        self.left -= len(rows)
        if rows:
            session.execute(insert(RecordVersion), rows)


@dataclass(frozen=True, kw_only=True)
class ListedVersion:
    """A version of a record."""

    version_id: int | None
    """None for the present version."""
    datestamp: str
    size: int | None
    moment: datetime
    """When the present version was stored, or when the version was replaced."""
    run: History | None
    """The run that did so, if it has ended and is still kept."""


def list_versions(session: Session, record: Record) -> list[ListedVersion]:
    """Return the versions that are kept, the present one first."""
    rows = session.scalars(
        select(RecordVersion)
        .where(RecordVersion.record_id == record.record_id)
        .order_by(RecordVersion.version_id.desc())
        .limit(_MOST_LISTED)
    ).all()
    during = (
        History.metadata_prefix == record.metadata_prefix,
        func.coalesce(History.run_started, History.harvest_start_time) <= record.harvest_time,
        History.harvest_end_time >= record.harvest_time,
    )
    present = ListedVersion(
        version_id=None,
        datestamp=record.datestamp,
        size=record.size,
        moment=record.harvest_time,
        # A run's start has whole seconds, so that the next one may seem to have begun before it.
        run=_run(session, record, *during, order=History.history_id.asc()),
    )
    return [present, *(_replaced(session, record, row) for row in rows)]


def _replaced(session: Session, record: Record, row: RecordVersion) -> ListedVersion:
    by = (History.harvest_id == row.harvest_id, History.run_started == row.run_started)
    return ListedVersion(
        version_id=row.version_id,
        datestamp=row.datestamp,
        size=row.size,
        moment=row.replaced,
        run=_run(session, record, *by, order=History.history_id.desc()),
    )


def _run(
    session: Session, record: Record, *conditions: ColumnElement[bool], order: ColumnElement[int]
) -> History | None:
    runs = select(History).where(History.repository_id == record.repository_id, *conditions)
    return session.scalar(runs.order_by(order).limit(1))


def version_content(session: Session, record_id: int, version_id: int) -> bytes | None:
    """Return the bytes of a replaced version's file; None if it is not kept."""
    content = session.scalar(
        select(RecordVersion.content).where(
            RecordVersion.record_id == record_id, RecordVersion.version_id == version_id
        )
    )
    return None if content is None else zlib.decompress(content)


def prune_versions(session: Session, before: datetime) -> int:
    """Delete some of the versions replaced before that time; return their number. The caller commits."""
    old = select(RecordVersion.version_id).where(RecordVersion.replaced < before).limit(_PRUNED_AT_ONCE)
    gone = session.execute(
        delete(RecordVersion).where(RecordVersion.version_id.in_(old)).returning(RecordVersion.version_id)
    )
    return len(gone.all())
