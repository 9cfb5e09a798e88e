"""A harvest's row in `oai_harvest`, and the lock that admits one harvest of a repository at a time."""

import contextlib
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Row, case, cast, func, select, text, update
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from harvester.harvest import seen_identifiers
from harvester.harvest.plan import RunPlan, SavedState
from harvester.harvest.request import HarvestRequest
from harvester.harvest.run_warnings import Note, columns_of, notes_of
from harvester.harvest.seen_identifiers import Marks, no_marks
from harvester.harvest.watermark import CompleteHarvest, watermark
from harvester.locks import check_unlocked
from harvester.models import Harvest, History
from harvester.reading.errors import RepositoryBusyError
from harvester.vocabulary import Verdict
from oai.database import Database


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The state in which a run begins: empty, or as the interrupted run before it left off."""

    harvest_id: int
    counts: Mapping[str, int]
    state: Mapping[str, Any]
    marks: Marks
    """Marks of the current list."""
    warnings: Sequence[Note]
    complete: CompleteHarvest
    watermark_lag: float | None
    response_date: str | None
    complete_list_size: int | None
    run_started: datetime
    finds_disappeared: bool
    """Whether the run notes the records it sees, to find disappeared ones; decided when it began."""
    disappeared: int | None
    """Number of records found to have disappeared; None before the run has looked for them."""
    lost: str | None
    """The process that ran the harvest before and ended without writing an outcome."""


def find(session: Session, request: HarvestRequest) -> Harvest | None:
    """Return the harvest's row; None before its first run."""
    return session.scalars(select(Harvest).filter_by(**_key(request))).one_or_none()


def saved_state(session: Session, row: Harvest | None) -> SavedState:
    """Return what the row says of the last run, without changing it."""
    if row is None:
        return SavedState()
    return SavedState(
        complete=_complete(row),
        undated=_undated(session, row),
        token=row.resumption_token or "",
        parameters=row.run_parameters or {},
        state=row.run_state,
        counts=row.counts,
    )


def _complete(row: Harvest) -> CompleteHarvest:
    return CompleteHarvest(watermark=row.watermark, complete_from=row.complete_from, restarts=row.restarts)


def _undated(session: Session, row: Harvest) -> str | None:
    """Return the last run's responseDate if it is unreadable although a run was complete, else None."""
    if row.watermark is not None or watermark(row.run_response_date, datetime.now(UTC)) is not None:
        return None
    complete = select(History.history_id).filter_by(harvest_id=row.harvest_id, verdict=Verdict.COMPLETE.value)
    found = session.execute(select(complete.exists())).scalar_one()
    return (row.run_response_date or "") if found else None


def begin(
    session: Session,
    request: HarvestRequest,
    plan: RunPlan,
    found: Harvest | None,
    *,
    now: datetime,
    finds_disappeared: bool,
) -> Checkpoint:
    """Record the run that begins as planned in the harvest's row; insert it if none was found.

    `finds_disappeared` is whether a run that begins now should find disappeared records. A resumed run does
    so only if it did from its beginning: otherwise what it saw before was not noted, and those records would
    be deleted.
    """
    row = found or _inserted(session, request)
    lost, unfinished = _lost(row), bool(row.run_parameters)
    begun = None if plan.resumes else {"kind": request.kind(), "from": plan.from_, "looks": finds_disappeared}
    if request.replay is not None and lost is not None:
        # The rows that a killed replay wrote are those of its repetition (`superseded`).
        now = row.run_started or now
    row = record_start(session, row.harvest_id, begun, job_id=request.job_id, now=now)
    if unfinished and not plan.resumes:
        seen_identifiers.forget(session, row.harvest_id)
    return Checkpoint(
        harvest_id=row.harvest_id,
        counts=dict(row.counts),
        state=dict(row.run_state),
        marks=seen_identifiers.kept(session, row.harvest_id) if plan.resumes else no_marks(),
        warnings=notes_of(row.warnings, row.warning_failures),
        complete=_complete(row),
        watermark_lag=row.watermark_lag,
        response_date=row.run_response_date,
        complete_list_size=row.complete_list_size,
        run_started=row.run_started or now,
        # Runs begun by earlier versions did not record whether they noted what they saw.
        finds_disappeared=finds_disappeared and bool((row.run_parameters or {}).get("looks")),
        disappeared=(row.run_parameters or {}).get("disappeared"),
        lost=lost,
    )


def record_start(
    session: Session, harvest_id: int, begun: Mapping[str, Any] | None, *, job_id: int | None, now: datetime
) -> Harvest:
    """Record that this process runs the harvest, and return its row.

    `begun` are the parameters of a run that begins now; None for one that is resumed.
    """
    values: dict[str, Any] = {"job_id": job_id, "process_id": os.getpid(), "host": socket.gethostname()}
    values |= dict.fromkeys(("last_error", "last_failure", "records_per_second", "estimated_end"))
    if begun is not None:
        values |= {"run_parameters": begun, "run_started": now, "resumption_token": None, **columns_of([])}
        values |= {"counts": {}, "run_state": {}, "complete_list_size": None, "run_response_date": None}
    change = (
        update(Harvest)
        .where(Harvest.harvest_id == harvest_id)
        .values(**values, pace=[], last_sign=func.clock_timestamp())
        .returning(Harvest)
    )
    options = {"synchronize_session": False, "populate_existing": True}
    return session.scalars(change, execution_options=options).one()


def _inserted(session: Session, request: HarvestRequest) -> Harvest:
    # Another process may insert the same row at this moment; its row is then the one that is read below.
    session.execute(insert(Harvest).values(**_key(request)).on_conflict_do_nothing())
    return session.scalars(select(Harvest).filter_by(**_key(request))).one()


def save(session: Session, harvest_id: int, *, warnings: Sequence[Note] = (), **values: Any) -> None:  # noqa: ANN401 any column's type
    """Save the run's progress in the transaction that stores the page; append `warnings` to the row."""
    if warnings:
        added = columns_of(warnings)
        values["warnings"] = Harvest.warnings.concat(cast(added["warnings"], JSONB))
        # If an earlier version began the run, the failures of its first warnings are missing.
        values["warning_failures"] = Harvest.warning_failures.concat(cast(added["warning_failures"], JSONB))
    _update(session, harvest_id, **values, **_last(warnings[-1] if warnings else None))


_SIGN = text("UPDATE oai_harvest SET last_sign = clock_timestamp() WHERE harvest_id = :harvest_id")


def give_sign(database: Database, harvest_id: int) -> None:
    """Record that the run's process is alive, which is not progress; commits by itself."""
    with database.session() as session:
        session.execute(text("SET LOCAL synchronous_commit = off"))
        session.execute(_SIGN, {"harvest_id": harvest_id})
        session.commit()


def note(session: Session, harvest_id: int, last: Note) -> None:
    """Record what the run is waiting for, or what went wrong."""
    _update(session, harvest_id, **_last(last))


def _last(last: Note | None) -> dict[str, Any]:
    failure = last.failure.as_json() if last is not None and last.failure is not None else None
    return {"last_error": last.text if last else None, "last_failure": failure}


def note_disappeared(session: Session, harvest_id: int, number: int) -> None:
    """Record the number of disappeared records whose deletion the run stages, in the same transaction.

    The transaction also deletes the notes of what the run saw. If the run is killed afterwards it must not
    look again: every record would then count as disappeared.
    """
    found = func.jsonb_build_object("disappeared", number)
    _update(session, harvest_id, run_parameters=Harvest.run_parameters.concat(found))


def end(
    session: Session,
    harvest_id: int,
    *,
    complete: CompleteHarvest | None,
    lag: float | None,
    resumable: bool,
    error: Note | None,
) -> None:
    """Record the end of the run. Unless it is `resumable`, its progress is deleted.

    `complete` replaces what the row says of complete harvests, unless it is None; `lag` is that of its
    watermark.

    A run whose parameters were deleted meanwhile, because the repository has moved, leaves no watermark.
    If another process has begun the harvest again, the row is its own and stays as it is.
    """
    values: dict[str, Any] = {"job_id": None, "process_id": None, "estimated_end": None, **_last(error)}
    if not resumable:
        values |= {"resumption_token": None, "run_parameters": None, "run_state": {}, **columns_of([])}
    if complete is not None:
        values["watermark"] = case((Harvest.run_parameters.is_not(None), complete.watermark))
        values |= {"complete_from": complete.complete_from, "restarts": False}
        values["watermark_lag"] = lag
    if _updated(session, harvest_id, values) and not resumable:
        seen_identifiers.forget(session, harvest_id)


def _key(request: HarvestRequest) -> dict[str, Any]:
    return {
        "repository_id": request.repository_id,
        "metadata_prefix": request.metadata_prefix,
        "set_spec": request.set_spec,
    }


def _lost(row: Harvest) -> str | None:
    """Return the process that left the row unfinished; it has ended, as the caller holds the lock."""
    if row.process_id is None:
        return None
    job = f" for job {row.job_id}" if row.job_id is not None else ""
    reached = f"{row.counts.get('records', 0):,} records in {row.counts.get('pages', 0):,} pages"
    return f"process {row.process_id} on {row.host}{job} ended without an outcome after {reached}"


def _update(session: Session, harvest_id: int, **values: Any) -> None:  # noqa: ANN401 any column's type
    """Change the row of this process's run; raises RepositoryBusyError if another process has begun it again.

    The lock on the repository ends with its connection, which may be lost while this process lives on.
    Nothing that the caller's transaction contains is then stored.
    """
    if not _updated(session, harvest_id, values):
        raise RepositoryBusyError(
            "this process lost a connection to the database, and with it its hold on the repository; another"
            " process has begun the harvest again"
        )


def _updated(session: Session, harvest_id: int, values: Mapping[str, Any]) -> bool:
    """Return whether the row still belongs to this process, and was changed."""
    ours = (Harvest.process_id == os.getpid()) & (Harvest.host == socket.gethostname())
    changed = update(Harvest).where(Harvest.harvest_id == harvest_id, ours)
    changed = changed.values(**values, updated=func.now()).returning(Harvest.harvest_id)
    return session.execute(changed, execution_options={"synchronize_session": False}).first() is not None


_CLASS = 0x5A52  # "ZR": separates our keys from other advisory locks
BUSY_WAIT: Final = "3s"
"""How long a harvest waits for another one of its repository to end."""
_TAKE = text("SELECT pg_advisory_lock(:class, :id) FROM set_config('lock_timeout', :wait, false)")
_TAKE_UNTIL_COMMIT = text(
    "SELECT pg_advisory_xact_lock(:class, :id) FROM set_config('lock_timeout', :wait, true)"
)
_HOLDER = text(
    """
    SELECT process_id, host FROM oai_harvest
    WHERE repository_id = :id AND process_id IS NOT NULL ORDER BY updated DESC LIMIT 1
    """
)


_HELD = text(
    """
    SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                   AND classid = :class AND objid = :id)
    """
)


def is_held(database: Database, repository_id: int) -> bool:
    """Return whether a process currently holds the repository."""
    with database.session() as session:
        return is_being_harvested(session, repository_id)


def is_being_harvested(session: Session, repository_id: int) -> bool:
    """Return whether a process, on any machine, currently holds the repository."""
    return bool(session.execute(_HELD, {"class": _CLASS, "id": repository_id}).scalar_one())


def end_silent(session: Session, job_id: int, *, seconds: float) -> bool:
    """End the database connections of the job's harvest if it is silent for so long; return whether it was.

    A process that hangs keeps its repository locked, and what its open transaction has written, as long as
    its machine runs. Nothing shows which connections belong to one process, so an open transaction is ended
    if it comes from the same address and has been idle for so long.
    """
    found = {"class": _CLASS, "job_id": job_id, "seconds": seconds}
    return bool(session.execute(_END_SILENT, found).all())


_END_SILENT = text(
    """
    SELECT pg_terminate_backend(activity.pid, 1000)
    FROM oai_harvest AS harvest
    JOIN pg_locks AS held ON locktype = 'advisory' AND granted AND objsubid = 2 AND classid = :class
        AND objid = harvest.repository_id
        AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    JOIN pg_stat_activity AS holder ON holder.pid = held.pid
    JOIN pg_stat_activity AS activity ON activity.datname = holder.datname
        AND activity.application_name = holder.application_name
        AND activity.client_addr IS NOT DISTINCT FROM holder.client_addr
        AND activity.state_change < clock_timestamp() - make_interval(secs => :seconds)
    WHERE harvest.job_id = :job_id AND harvest.process_id IS NOT NULL
        AND harvest.last_sign < clock_timestamp() - make_interval(secs => :seconds)
        AND (activity.pid = holder.pid OR activity.state LIKE 'idle in transaction%')
    """
)


@contextlib.contextmanager
def only_harvest(database: Database, repository_id: int) -> Iterator[None]:
    """Hold the repository for the block; PostgreSQL releases it however this process ends.

    Raises RepositoryBusyError if another process still holds it after three seconds, or if it is locked.
    """
    key = {"class": _CLASS, "id": repository_id}
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        try:
            # A session-level lock: it outlasts the run's many transactions, and ends with this connection
            # at the latest.
            connection.execute(_TAKE, {**key, "wait": BUSY_WAIT})
        except OperationalError:
            holder = connection.execute(_HOLDER, {"id": repository_id}).first()
            raise _busy(repository_id, holder) from None
        try:
            # Read only now: an indexer that inserts its lock later sees that the repository is held.
            check_unlocked(connection, repository_id)
            yield
        finally:
            try:
                connection.execute(text("SELECT pg_advisory_unlock(:class, :id)"), key)
                connection.execute(text("RESET lock_timeout"))
            except OperationalError:
                connection.invalidate()  # the server releases the lock of a connection that has ended


def hold_until_commit(session: Session, repository_id: int) -> None:
    """Hold the repository until the transaction ends, which may wait for row locks no longer than this does.

    Raises RepositoryBusyError, after a rollback, if another process still holds it after three seconds.
    """
    try:
        session.execute(_TAKE_UNTIL_COMMIT, {"class": _CLASS, "id": repository_id, "wait": BUSY_WAIT})
    except OperationalError:
        session.rollback()
        holder = session.execute(_HOLDER, {"id": repository_id}).first()
        raise _busy(repository_id, holder) from None


def _busy(repository_id: int, holder: Row[Any] | None) -> RepositoryBusyError:
    if holder is None:
        return RepositoryBusyError(
            "repository %(number)s is being harvested; try again when that harvest has ended",
            number=repository_id,
        )
    return RepositoryBusyError(
        "repository %(number)s is being harvested by process %(process)s on %(host)s; try again "
        "when that harvest has ended",
        number=repository_id,
        process=holder.process_id,
        host=holder.host,
    )
