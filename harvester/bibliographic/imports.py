"""The rows of imports: begin, count, end and list them; one import of a repository at a time."""

import contextlib
import os
import socket
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import func, select, text, update
from sqlalchemy.orm import Session

from harvester.bibliographic.models import Import, Omission
from harvester.models import Record
from harvester.vocabulary import RunStatus
from oai.database import Database
from oai.errors import TryLaterError
from oai.failures import Failure, FailureCode, failure_columns
from oai.models import from_row

_IMPORT_LOST: Final = Failure(code=FailureCode.IMPORT_LOST)
_CLASS: Final = 0x5A42  # "ZB": separates these advisory locks from those of other programs
RUNNING: Final = "running"
LOST: Final = "lost"
_DONE: Final = (RunStatus.COMPLETED, RunStatus.COMPLETED_WITH_ERRORS, RunStatus.NO_CHANGES)
COUNTS: Final = ("seen", "new", "updated", "unchanged", "deleted", "filtered", "refused")
"""The counts; the column names are these with `_count`."""
_HELD = text(
    """
    SELECT objid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
       AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) AND classid = :class
    """
)
_PRUNE = text(
    """
    DELETE FROM bibliographic_import WHERE import_id IN (
        SELECT import_id FROM bibliographic_import AS old
        WHERE ended < now() - CAST(:days AS float8) * interval '1 day'
          AND EXISTS (
              SELECT FROM bibliographic_import AS newer
              WHERE newer.repository_id = old.repository_id AND newer.import_id > old.import_id
                AND (newer.whole OR NOT old.whole) AND (newer.state = ANY(:done) OR old.state <> ALL(:done)))
        ORDER BY import_id LIMIT :most)
    """
)
_TOTAL = text("SELECT count(*) FROM bibliographic_record WHERE repository_id = :id")


class ImportBusyError(TryLaterError):
    """Another process is importing the repository's records."""


@dataclass(frozen=True, kw_only=True)
class ImportFacts:
    """A running or ended import; counts and times as in `bibliographic_import`."""

    import_id: int
    repository_id: int
    metadata_prefix: str | None
    state: str
    started_by: str
    started: datetime
    ended: datetime | None
    expected: int | None
    seen: int
    new: int
    updated: int
    unchanged: int
    deleted: int
    filtered: int
    refused: int
    total: int | None
    failure_reason: str | None
    failure_code: str | None
    failure_facts: Mapping[str, Any] | None
    host: str | None
    process_id: int | None

    @property
    def failure(self) -> Failure | None:
        """Return why it failed or was cut off."""
        return Failure.stored(self.failure_code, self.failure_facts)


@contextlib.contextmanager
def only_import(database: Database, repository_id: int) -> Iterator[None]:
    """Hold the repository's import lock for the block; the server releases it however this process ends.

    Raises ImportBusyError if another process holds it.
    """
    key = {"class": _CLASS, "id": repository_id}
    # A session-level lock on a separate connection: it outlasts the import's transactions, and the server
    # releases it if the connection is lost.
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        if not connection.execute(text("SELECT pg_try_advisory_lock(:class, :id)"), key).scalar_one():
            raise ImportBusyError(
                f"the records of repository {repository_id} are already being imported; see `zatva "
                "import status`"
            )
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:class, :id)"), key)


def begin_import(
    session: Session, repository_id: int, *, started_by: str, metadata_prefix: str | None, **columns: object
) -> int:
    """Add the row of a new import and return its id; earlier rows still marked as running become lost."""
    # Safe, because the caller holds the repository's import lock: no other process can still be running one
    # of these imports.
    session.execute(
        update(Import)
        .where(Import.repository_id == repository_id, Import.state == RUNNING)
        .values(
            state=LOST,
            ended=Import.updated,
            failure_reason=_IMPORT_LOST.sentence(),
            **failure_columns(_IMPORT_LOST),
        )
    )
    row = Import(
        repository_id=repository_id,
        started_by=started_by,
        metadata_prefix=metadata_prefix,
        host=socket.gethostname(),
        process_id=os.getpid(),
        **columns,
    )
    session.add(row)
    session.flush()
    return row.import_id


def last_complete(
    session: Session, repository_id: int, metadata_prefix: str, basis: str, *, whole_within: timedelta
) -> int | None:
    """Return the feed mark of the last import, if nothing that it or earlier ones should have read is left.

    None if it was interrupted or made with another basis, or if no import compared all records recently.
    """
    whole = (
        select(Import.import_id)
        .where(
            Import.repository_id == repository_id,
            Import.whole,
            Import.state.in_(_DONE),
            Import.started > func.now() - whole_within,
        )
        .exists()
    )
    rows = select(Import).where(Import.repository_id == repository_id).order_by(Import.import_id.desc())
    last = session.scalar(rows.where(whole).limit(1))
    if last is None or last.state not in _DONE:
        return None
    return last.feed_mark if (last.metadata_prefix, last.basis) == (metadata_prefix, basis) else None


def mark_of(session: Session, import_id: int) -> int | None:
    """Return the feed mark with which an import began."""
    return session.get_one(Import, import_id).feed_mark


def prune_imports(session: Session, *, keep_days: float, most: int) -> int:
    """Delete the oldest imports that ended more than so many days ago, at most `most`; return how many.

    The last import of each repository, the last complete one, and the last one that compared all records
    stay: the next import depends on them. The caller commits.
    """
    values = {"days": keep_days, "done": list(_DONE), "most": most}
    result: Any = session.execute(_PRUNE, values)
    return int(result.rowcount)


def note_counts(session: Session, import_id: int, counts: Counter[str], **columns: Any) -> None:  # noqa: ANN401 of several types
    """Write the progress of an import."""
    found = {f"{name}_count": counts[name] for name in COUNTS}
    session.execute(
        update(Import)
        .where(Import.import_id == import_id)
        .values(**found, **columns, updated=func.clock_timestamp())
    )


def end_import(
    session: Session,
    import_id: int,
    counts: Counter[str],
    *,
    state: str,
    failure: Failure | None,
    reason: str | None,
) -> None:
    """Write how an import ended; `reason` is the failure in technical words."""
    row = session.get_one(Import, import_id)
    total = session.execute(_TOTAL, {"id": row.repository_id}).scalar_one()
    note_counts(
        session,
        import_id,
        counts,
        state=state,
        total_count=total,
        ended=func.clock_timestamp(),
        failure_reason=reason,
        **failure_columns(failure),
    )


def get_import(session: Session, import_id: int) -> ImportFacts:
    """Return one import."""
    return _facts(session.get_one(Import, import_id, populate_existing=True), _held(session))


def list_imports(
    session: Session, *, repository_id: int | None = None, before: int | None = None, limit: int = 50
) -> list[ImportFacts]:
    """Return imports, newest first; `before` is the id of the last import of the previous page."""
    wanted = select(Import).order_by(Import.import_id.desc()).limit(limit)
    if repository_id is not None:
        wanted = wanted.where(Import.repository_id == repository_id)
    if before is not None:
        wanted = wanted.where(Import.import_id < before)
    return _all(session, session.scalars(wanted).all())


def last_imports(session: Session, repository_ids: Sequence[int]) -> dict[int, ImportFacts]:
    """Return the last import of each repository that had one."""
    newest = (
        select(func.max(Import.import_id))
        .where(Import.repository_id.in_(repository_ids))
        .group_by(Import.repository_id)
    )
    rows = session.scalars(select(Import).where(Import.import_id.in_(newest))).all()
    return {facts.repository_id: facts for facts in _all(session, rows)}


def _all(session: Session, rows: Sequence[Import]) -> list[ImportFacts]:
    held = _held(session)
    return [_facts(row, held) for row in rows]


def _held(session: Session) -> set[int]:
    """Return the repositories whose import lock some process holds."""
    return set(session.scalars(_HELD, {"class": _CLASS}))


def _facts(row: Import, held: set[int]) -> ImportFacts:
    lost = row.state == RUNNING and row.repository_id not in held
    counts = {name: getattr(row, f"{name}_count") for name in (*COUNTS, "total")}
    return from_row(ImportFacts, row, state=LOST if lost else row.state, **counts)


@dataclass(frozen=True, kw_only=True)
class OmissionFacts:
    """A record without a row, or (unreadable) with an outdated one."""

    repository_id: int
    identifier: str
    metadata_prefix: str
    kind: str
    """filtered, refused or unreadable."""
    reason: str


def list_omissions(
    session: Session,
    *,
    repository_id: int | None = None,
    kinds: tuple[str, ...] = ("refused", "unreadable"),
    limit: int = 100,
) -> list[OmissionFacts]:
    """Return records that have no row; those rejected by a filtering set only if `kinds` includes them."""
    wanted = (
        select(Omission, Record.identifier)
        .join(
            Record,
            (Record.repository_id == Omission.repository_id)
            & (Record.metadata_prefix == Omission.metadata_prefix)
            & (Record.identifier_key == Omission.identifier_key),
        )
        .where(Omission.kind.in_(kinds))
        .order_by(Omission.repository_id, Omission.metadata_prefix, Omission.identifier_key)
        .limit(limit)
    )
    if repository_id is not None:
        wanted = wanted.where(Omission.repository_id == repository_id)
    return [
        from_row(OmissionFacts, row, identifier=identifier) for row, identifier in session.execute(wanted)
    ]
