"""Tells the records that a run brought itself from those that it found, where records come again."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.running.marks import mark
from harvester.running.parameters import HarvestRequest
from harvester.running.preparing import Batch, Prepared
from harvester.running.state import RunState
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


@dataclass(kw_only=True)
class ReturnedRecords:
    """Which records the run at hand has brought before; it asks the rows, then the list's marks."""

    request: HarvestRequest
    run_started: datetime
    state: RunState
    _searches_left: int = 200
    """So many more times the list's marks are gone over although none of what is looked for is among them."""

    def keys(self, session: Session, records: Sequence[Prepared]) -> set[str]:
        """The keys of those of the records that this run has brought before: it wrote or listed them."""
        keys = written_before(
            session,
            records,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
            run_started=self.run_started,
        )
        others = {mark(record.header.identifier): record.key for record in records if record.key not in keys}
        if others and self._searches_left:
            listed = set(others).intersection(self.state.progress.watch.marks)
            # To go over the marks takes a while where they are millions, and a repository that was set back
            # has older datestamps on every page.
            self._searches_left -= not listed
            keys |= {others[one] for one in listed}
        names = [record.header.identifier for record in records if record.key in keys]
        self.state.first_outdated = self.state.first_outdated or next(iter(names), None)
        return keys

    def count_unchanged(self, session: Session, batch: Batch) -> int:
        """How many of the batch's records this run has brought as they are, before a list began again."""
        totals = self.state.progress.totals
        if not any(totals[name] for name in ("restarts", "taken_up", "halvings", "answers_again")):
            return 0
        return brought_before(
            session,
            batch.records,
            repository_id=self.request.repository_id,
            metadata_prefix=self.request.metadata_prefix,
            run_started=self.run_started,
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
