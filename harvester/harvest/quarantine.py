"""Unreadable records and answers, kept in `oai_quarantine` with their raw bytes; the caller commits."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.harvest.models import WITHOUT_BYTES, Quarantined
from harvester.harvest.request import HarvestRequest
from harvester.harvest.transform import Refusal
from harvester.store.paths import identifier_key
from oai.errors import UsageError
from oai.failures import FailureCode, failure_columns

_MOST_BYTES = 1_000_000


@dataclass(kw_only=True)
class Quarantine:
    """The quarantine as one run sees it; created by `open_quarantine`."""

    repository_id: int
    metadata_prefix: str
    set_spec: str
    run_started: datetime
    job_id: int | None
    occupied: bool = False
    """Whether there are entries that a readable record could resolve."""

    def note(
        self, session: Session, keys: Sequence[str], refusals: Sequence[Refusal], *, now: datetime
    ) -> None:
        """Record a page: the records that were read, and the parts that were refused."""
        if self.occupied:
            self.release(session, keys, now=now)
        self.add(session, refusals, now=now)

    def add(self, session: Session, refusals: Sequence[Refusal], *, now: datetime) -> None:
        """Store the refused parts; entries that exist already are updated."""
        latest = {refusal.key(): refusal for refusal in refusals}
        rows = [self._row(key, refusal, now) for key, refusal in latest.items()]
        if not rows:
            return
        self.occupied = True
        statement = insert(Quarantined)
        renewed = {
            name: statement.excluded[name]
            for name in rows[0]
            if name not in {"repository_id", "metadata_prefix", "fault_key"}
        }
        # The unique key keeps one row per fault: a fault that occurs again updates its row.
        session.execute(
            statement.on_conflict_do_update(
                index_elements=["repository_id", "metadata_prefix", "fault_key"],
                set_={**renewed, "resolved": None, "history_id": None},
            ),
            rows,
        )

    def release(self, session: Session, keys: Sequence[str], *, now: datetime) -> None:
        """Resolve the entries of records that were read successfully, given by the digits of their keys."""
        if keys:
            session.execute(
                update(Quarantined)
                .where(*_of(self), Quarantined.identifier_key.in_([uuid.UUID(hex=key) for key in keys]))
                .values(resolved=now)
            )

    def close(self, session: Session, *, history_id: int, complete: bool, now: datetime) -> None:
        """End the run: set its history row; if it received everything, resolve entries it did not meet."""
        session.execute(
            update(Quarantined)
            .where(*_of(self), Quarantined.last_run == self.run_started)
            .values(history_id=history_id)
        )
        if complete:
            session.execute(
                update(Quarantined)
                .where(
                    *_of(self),
                    Quarantined.set_spec == self.set_spec,
                    Quarantined.last_run < self.run_started,
                )
                .values(resolved=now)
            )

    def prune(self, session: Session, *, keep_days: float) -> None:
        """Remove the entries of its format that were resolved more than so many days ago."""
        # Not those of all repositories: no index leads to resolved entries.
        of_format = (
            Quarantined.repository_id == self.repository_id,
            Quarantined.metadata_prefix == self.metadata_prefix,
        )
        old = Quarantined.resolved < func.now() - timedelta(days=keep_days)
        resolved = delete(Quarantined).where(*of_format, old)
        session.execute(resolved, execution_options={"synchronize_session": False})

    def _row(self, key: uuid.UUID, refusal: Refusal, now: datetime) -> dict[str, object]:
        identifier = _storable(refusal.identifier) if refusal.identifier is not None else None
        return {
            "repository_id": self.repository_id,
            "metadata_prefix": self.metadata_prefix,
            "set_spec": self.set_spec,
            "fault_key": key,
            "identifier": identifier,
            "identifier_key": identifier_key(refusal.identifier) if refusal.identifier is not None else None,
            "reason": _storable(refusal.reason),
            **failure_columns(refusal.failure),
            "url": _storable(refusal.url),
            "byte_offset": refusal.offset,
            "raw": refusal.raw[:_MOST_BYTES],
            "raw_size": len(refusal.raw) if refusal.size is None else refusal.size,
            "last_seen": now,
            "last_run": self.run_started,
            "job_id": self.job_id,
        }


def open_quarantine(session: Session, request: HarvestRequest, *, run_started: datetime) -> Quarantine:
    """Return the quarantine for a run that begins or resumes."""
    quarantine = Quarantine(
        repository_id=request.repository_id,
        metadata_prefix=request.metadata_prefix,
        set_spec=request.set_spec,
        run_started=run_started,
        job_id=request.job_id,
    )
    quarantine.occupied = bool(session.scalar(select(exists().where(*_of(quarantine)))))
    return quarantine


def quarantined(
    session: Session, *, history_id: int | None = None, repository_id: int | None = None, all_: bool = False
) -> Sequence[Quarantined]:
    """Return entries without their bytes, newest first; resolved ones only with `all_`.

    Those of one run or of one repository, if given.
    """
    newest = (Quarantined.last_seen.desc(), Quarantined.quarantine_id.desc())
    query = select(Quarantined).options(WITHOUT_BYTES).order_by(*newest)
    if history_id is not None:
        query = query.where(Quarantined.history_id == history_id)
    if repository_id is not None:
        query = query.where(Quarantined.repository_id == repository_id)
    if not all_:
        query = query.where(Quarantined.resolved.is_(None))
    return session.scalars(query).all()


@dataclass(frozen=True, kw_only=True)
class UnreadParts:
    """What of a repository cannot be read at present, for its administrators, without the bytes."""

    records: int
    latest: Sequence[Quarantined]
    """The latest of these records, newest first."""
    unlisted: Quarantined | None
    """The latest date range that could not be listed."""


def unread_parts(session: Session, repository_id: int, *, most: int) -> UnreadParts:
    """Return what of a repository cannot be read, with at most so many records."""
    is_range = func.coalesce(Quarantined.failure_code, "") == FailureCode.LIST_PARTLY_READ
    is_open = (Quarantined.repository_id == repository_id, Quarantined.resolved.is_(None))
    count = select(func.count()).select_from(Quarantined).where(*is_open, ~is_range)
    newest = (Quarantined.last_seen.desc(), Quarantined.quarantine_id.desc())
    found = select(Quarantined).options(WITHOUT_BYTES).where(*is_open).order_by(*newest)
    return UnreadParts(
        records=session.scalars(count).one(),
        latest=session.scalars(found.where(~is_range).limit(most)).all(),
        unlisted=session.scalars(found.where(is_range).limit(1)).first(),
    )


def get_quarantined(session: Session, quarantine_id: int) -> Quarantined:
    """Return the entry. Raises UsageError if there is no entry with that number."""
    found = session.get(Quarantined, quarantine_id)
    if found is None:
        raise UsageError(f"no rejected record {quarantine_id}; list rejected records with `zatva job errors`")
    return found


def _of(quarantine: Quarantine) -> tuple[ColumnElement[bool], ...]:
    return (
        Quarantined.repository_id == quarantine.repository_id,
        Quarantined.metadata_prefix == quarantine.metadata_prefix,
        Quarantined.resolved.is_(None),
    )


def _storable(text: str) -> str:
    """Return the text without characters that PostgreSQL cannot store."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", errors="replace").decode()
