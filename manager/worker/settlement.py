"""Ended harvests become history (UIUC, "Manager Program", 3); writes the row for those that wrote none."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from typing import Any, Final

from sqlalchemy import bindparam, exists, func, select
from sqlalchemy.orm import Session, load_only

from harvester.harvest.checkpoint import is_being_harvested
from harvester.harvest.quarantine import Quarantine
from harvester.harvest.result import columns_of_counts, continue_rows
from harvester.harvest.run_warnings import Note, columns_of, notes_of
from harvester.harvest_plan import Surface, carried
from harvester.models import Harvest, History, Repository
from harvester.repositories import due_after_wait
from harvester.store.deletions import staged_count
from harvester.store.records import RunKey
from harvester.vocabulary import RunStatus
from manager import queue
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.failures import GOOD, has_advanced, note_end, pause_after
from manager.schedules.service import database_now, make_due_again
from manager.worker.claim import ClaimedRun, run_of
from manager.worker.process import last_message
from oai.datestamps import format_datestamp
from oai.errors import ExitCode
from oai.failure_codes import NO_ROOM
from oai.failures import Failure, FailureCode, failure_columns
from oai.sections import ManagerSettings

_LONGEST_NOTE: Final = 500


class Cause(Enum):
    """Why a harvest is over."""

    ENDED = auto()
    """Its process ended by itself."""
    STOPPED = auto()
    """A user stopped the job; it may finish its page."""
    DELETED = auto()
    """The job's row was deleted."""
    KILLED = auto()
    """A user killed the job."""
    PAUSED = auto()
    """A user paused the job; it may finish its page."""
    RESTARTED = auto()
    """It made no progress, and continues in another process."""
    SHUTDOWN = auto()
    """Its worker ended, and the harvest with it."""
    LOST = auto()
    """Its worker disappeared without unregistering."""


_ENDED_BY_US: Final = {
    Cause.STOPPED: (RunStatus.KILLED, FailureCode.PROCESS_STOPPED),
    Cause.PAUSED: (RunStatus.KILLED, FailureCode.PROCESS_PAUSED),
    Cause.DELETED: (RunStatus.KILLED, FailureCode.PROCESS_DELETED),
    Cause.KILLED: (RunStatus.KILLED, FailureCode.PROCESS_KILLED),
    Cause.RESTARTED: (RunStatus.FAILED, FailureCode.PROCESS_RESTARTED),
    Cause.SHUTDOWN: (RunStatus.KILLED, FailureCode.PROCESS_ENDED_WITH_MANAGER),
    Cause.LOST: (RunStatus.LOST, FailureCode.PROCESS_LOST),
}


@dataclass(frozen=True, kw_only=True)
class JobEnd:
    """How a harvest ended."""

    cause: Cause
    exit_code: int | None = None
    """None if unknown, or if the process did not start."""
    stderr: str = ""
    """The end of the process's output."""


def write_cut_off(session: Session, run: ClaimedRun, ending: JobEnd) -> History:
    """Add the row that the harvester did not write, with what it had committed. The caller commits."""
    # Locked, because a harvester that is still alive may be committing a page.
    query = select(Harvest).where(Harvest.job_id == run.job_id).limit(1).with_for_update()
    reached = session.scalars(query).one_or_none()
    status, failure = _failure(run, ending)
    ended = History(
        repository_id=run.repository_id,
        recurring_id=run.recurring_id,
        job_id=run.job_id,
        status=status,
        failure_reason=_reason(failure),
        **failure_columns(failure),
        set_spec=run.set_spec,
        metadata_prefix=run.metadata_prefix,
        harvest_method=run.harvest_method,
        harvest_start_time=run.started,
        host=run.host,
        process_id=run.process_id,
        **({} if reached is None else _reached(session, reached, ending)),
    )
    session.add(ended)
    session.flush()
    continue_rows(session, ended)
    if reached is not None and reached.run_started is not None:
        _claim_errors(session, reached, ended, reached.run_started)
    return ended


def _reached(session: Session, harvest: Harvest, ending: JobEnd) -> dict[str, Any]:
    """Return the columns that record how far the harvest was when it was cut off."""
    counts = harvest.counts
    records, deleted = counts.get("records", 0), counts.get("deleted", 0)
    # The checkpoint counts deletions that are only applied at the end of the run.
    postponed = min(_staged(session, harvest), deleted)
    return {
        "harvest_id": harvest.harvest_id,
        "run_started": harvest.run_started,
        "verdict": "partial" if records else "failed",
        **columns_of_counts({**counts, "deleted": deleted - postponed, "postponed": postponed}),
        **columns_of([*notes_of(harvest.warnings, harvest.warning_failures), *_last_note(harvest)]),
        "evidence": {
            "end": "cut off",
            "cause": ending.cause.name.lower(),
            "exit_code": ending.exit_code,
            "pages": counts.get("pages", 0),
            "complete_list_size": harvest.complete_list_size,
            "last_progress": format_datestamp(harvest.updated),
            "resumable": harvest.run_parameters is not None,
        },
    }


def _staged(session: Session, harvest: Harvest) -> int:
    if harvest.run_started is None:
        return 0
    return staged_count(session, RunKey(harvest_id=harvest.harvest_id, run_started=harvest.run_started))


def _last_note(harvest: Harvest) -> list[Note]:
    """Return the harvest's last note, unless it is among its warnings."""
    note = harvest.last_error
    if not note or note in harvest.warnings:
        return []
    failure = Failure.from_json(harvest.last_failure)
    return [Note(text=f"last progress before it was interrupted: {note[:_LONGEST_NOTE]}", failure=failure)]


def _claim_errors(session: Session, harvest: Harvest, ended: History, run_started: datetime) -> None:
    """Assign the records that the run rejected to its history row, as the harvester itself does."""
    quarantine = Quarantine(
        repository_id=harvest.repository_id,
        metadata_prefix=harvest.metadata_prefix,
        set_spec=harvest.set_spec,
        run_started=run_started,
        job_id=ended.job_id,
    )
    now = session.execute(select(func.now())).scalar_one()
    quarantine.close(session, history_id=ended.history_id, complete=False, now=now)


def _failure(run: ClaimedRun, ending: JobEnd) -> tuple[RunStatus, Failure]:
    facts: dict[str, object] = {"number": run.process_id, "host": run.host}
    if ending.cause in _ENDED_BY_US:
        status, failed = _ENDED_BY_US[ending.cause]
        return status, Failure(code=failed, facts=facts)
    if message := last_message(ending.stderr):
        facts["said"] = message
    code = ending.exit_code
    if code is None:
        return RunStatus.FAILED, Failure(code=FailureCode.PROCESS_NOT_STARTED, facts=facts)
    if code < 0:
        return RunStatus.FAILED, Failure(code=FailureCode.PROCESS_SIGNALLED, facts={**facts, "signal": -code})
    # A harvest that a repository asked to wait writes its history: without it, the database was busy.
    not_ready = code in (ExitCode.NOT_READY, ExitCode.TRY_LATER)
    exited = FailureCode.PROCESS_NOT_READY if not_ready else FailureCode.PROCESS_EXITED
    return RunStatus.FAILED, Failure(code=exited, facts={**facts, "exit_code": code})


def _reason(failure: Failure) -> str:
    message = failure.facts.get("said")
    return f"{failure.sentence()}; its last message was: {message}" if message else failure.sentence()


_KEPT: Final = ("repository_id", "recurring_id", *(one.job_column for one in carried(Surface.JOB)))
"""The columns that a job's next try takes over."""
WANTED: Final = {
    JobStatus.STOPPING: Cause.STOPPED,
    JobStatus.PAUSING: Cause.PAUSED,
    JobStatus.KILLING: Cause.KILLED,
    JobStatus.RESTARTING: Cause.RESTARTED,
}
"""What the status of a job under way requests."""
_ASKED_FOR: Final = {
    Cause.STOPPED: Failure(code=FailureCode.JOB_STOPPED),
    Cause.PAUSED: Failure(code=FailureCode.JOB_PAUSED),
    Cause.RESTARTED: Failure(code=FailureCode.JOB_RESTARTED),
    Cause.SHUTDOWN: Failure(code=FailureCode.MANAGER_ENDED),
}
"""Why an interrupted harvest was interrupted."""
_AT_FAULT: Final = (Cause.ENDED, Cause.LOST, Cause.RESTARTED)
_WRITTEN: Final = (
    select(History)
    # The others are large, and needed only if the schedule is suspended.
    .options(
        load_only(
            History.status, History.failure_code, History.failure_reason, History.record_count,
            History.harvest_start_time, History.harvest_end_time, History.job_id, History.run_started,
        )
    )
    .where(History.job_id == bindparam("job"), History.history_id > bindparam("last"))
    .order_by(History.status.in_(GOOD).desc(), History.history_id.desc())
    .limit(1)
)  # fmt: skip


def settle(session: Session, run: ClaimedRun, ending: JobEnd, settings: ManagerSettings) -> int | None:
    """Write an ended harvest's history row, and remove its job, or keep the job if it was paused.

    Returns the row's number. If the harvest was cut off, another job is made. Settling twice has no effect
    the second time. The caller commits.
    """
    # Locked and reloaded, so that of the worker and the leader, which may both settle it, the second one
    # finds the job removed or its row written.
    job = session.get(Job, run.job_id, with_for_update=True, populate_existing=True)
    if job is not None and job.status in WANTED:
        ending = replace(ending, cause=WANTED[JobStatus(job.status)])
    written = _written(session, run)
    ended = written
    if ended is None and session.get(Repository, run.repository_id) is not None:
        ended = write_cut_off(session, run, ending)
    if job is None or ended is None:
        if written is not None and written.status in GOOD:
            # The leader counted it as lost, with what it had stored until then.
            continue_rows(session, written)
            _withdraw(session, run, written, settings)
        elif written is not None and ending.cause is Cause.DELETED:
            _name_cause(written, _why_deleted(session, run))
        return ended.history_id if ended else None
    if written is not None:
        _name_cause(written, _ASKED_FOR.get(ending.cause))
    if ending.cause is Cause.PAUSED and ended.status not in GOOD:
        _put_by(job, ended)
    else:
        _close(session, job, ending, ended, written=written is not None, settings=settings)
    session.flush()
    return ended.history_id


def _name_cause(written: History, failure: Failure | None) -> None:
    """Write why the harvest was interrupted; the harvester itself knows only that it was."""
    if failure is not None and written.status == RunStatus.INCOMPLETE:
        written.failure_reason, written.failure_code = failure.sentence(), failure.code.value
        written.failure_facts = dict(failure.facts)


def _why_deleted(session: Session, run: ClaimedRun) -> Failure:
    """Return why the run's job was deleted: a user stopped it, or its worker was considered lost."""
    lost = exists().where(History.job_id == run.job_id, History.status == RunStatus.LOST)
    if session.scalar(select(lost)):
        return _failure(run, JobEnd(cause=Cause.LOST))[1]
    return Failure(code=FailureCode.JOB_STOPPED)


def settle_lost(session: Session, job_id: int, settings: ManagerSettings) -> None:
    """Settle a job whose worker is lost; one that had not begun is queued again. The caller commits."""
    # Locked and reloaded: the status is judged after any worker that claims the job now has committed.
    job = session.get(Job, job_id, with_for_update=True, populate_existing=True)
    if job is None:
        return
    if job.status == JobStatus.QUEUED:
        job.status = JobStatus.SCHEDULED
    elif job.status == JobStatus.IN_PROGRESS or job.status in WANTED:
        settle(session, run_of(job), JobEnd(cause=Cause.LOST), settings)


def settle_orphans(session: Session, settings: ManagerSettings) -> None:
    """Settle the jobs that are running or queued without a task in the queue. The caller commits.

    While a process harvests the repository, its jobs are left alone: it may be the process of one of them,
    which outlives its worker until its page is finished, and none could begin before its end.
    """
    for job_id in queue.orphans(session):
        job = session.get(Job, job_id)
        if job is not None and not is_being_harvested(session, job.repository_id):
            settle_lost(session, job_id, settings)


def _written(session: Session, run: ClaimedRun) -> History | None:
    """Return the row that the harvester wrote itself, if it could.

    It may have written a second one, of a failure, if the connection was lost while the first was committed.
    """
    parameters = {"job": run.job_id, "last": run.last_history or 0}
    return session.scalars(_WRITTEN, parameters).one_or_none()


def _withdraw(session: Session, run: ClaimedRun, written: History, settings: ManagerSettings) -> None:
    """Withdraw the retry of a harvest that was believed lost with its worker but has ended well."""
    again = session.scalars(
        select(Job)
        .where(
            Job.repository_id == run.repository_id,
            Job.recurring_id.is_not_distinct_from(run.recurring_id),
            Job.metadata_prefix == run.metadata_prefix,
            Job.set_spec.is_not_distinct_from(run.set_spec),
            Job.attempt > 0,
            Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED)),
        )
        .with_for_update(skip_locked=True)
    ).first()
    if again is None:
        return
    session.delete(again)
    if run.recurring_id is not None:
        note_end(session, run.recurring_id, written, settings)
    session.flush()


def _put_by(job: Job, ended: History) -> None:
    """Keep a paused job; one that was resumed before the process ended continues at once."""
    job.status = JobStatus.SCHEDULED if job.status == JobStatus.IN_PROGRESS else JobStatus.PAUSED
    job.process_id = job.host = job.started = job.worker_id = job.stuck_since = None
    job.last_history = ended.history_id


def _close(
    session: Session, job: Job, ending: JobEnd, ended: History, *, written: bool, settings: ManagerSettings
) -> None:
    """Remove the job, count its end for its schedule, and make another job if it was cut off."""
    schedule = None
    if job.recurring_id is not None and ending.cause in _AT_FAULT:
        schedule = note_end(session, job.recurring_id, ended, settings)
    # A harvest that lost the database, and could write so after all, is no further than one that could not.
    # One that was killed after it had ended well was importing its records, which the next try completes.
    import_killed = ended.status in GOOD and (ending.exit_code or 0) < 0
    conclusive = written and ended.failure_code != FailureCode.DATABASE.value and not import_killed
    status = ended.status if conclusive else None
    again = _another_try(session, job, schedule, ending, status, settings, ended=ended)
    if again is not None:
        session.add(again)
    session.delete(job)


def _another_try(
    session: Session,
    job: Job,
    schedule: RecurringJob | None,
    ending: JobEnd,
    written: str | None,
    settings: ManagerSettings,
    *,
    ended: History,
) -> Job | None:
    """Return the job that continues a cut-off one; None if it was not cut off or has no retries left.

    One that had no room is tried until it has; its pauses then no longer grow. The retries of one that has
    advanced until the repository asked to wait are counted from there.
    """
    cut_off = written in (None, RunStatus.INCOMPLETE)
    if ending.cause is Cause.SHUTDOWN and cut_off:
        return _copy(job, due=database_now(session), attempt=job.attempt)
    vanished = ending.cause is Cause.ENDED and (
        (written is None and ending.exit_code != ExitCode.USAGE) or ending.exit_code == ExitCode.TRY_LATER
    )
    if not vanished and not (ending.cause in (Cause.LOST, Cause.RESTARTED) and cut_off):
        return None
    tries = 0 if has_advanced(ended) else job.attempt
    if tries >= settings.retries and ended.failure_code not in NO_ROOM:
        return None
    attempt = min(tries + 1, max(settings.retries, 1))
    # The repository is not the cause of a lost worker, so the first retry need not wait, except for a
    # process that has outlived its worker.
    at_once = ending.cause is Cause.LOST and not is_being_harvested(session, job.repository_id)
    pause = pause_after(attempt - at_once, settings)
    if job.recurring_id is not None:
        if schedule is not None and schedule.state == RecurringState.PAUSED:
            make_due_again(schedule)
        if schedule is None or schedule.state in (RecurringState.PAUSED, RecurringState.SUSPENDED):
            return None
        # Earlier due times of the schedule are skipped, because they would fail in the same way.
        pause = max(pause, pause_after(schedule.failures, settings))
    due = due_after_wait(session, job.repository_id, database_now(session) + pause)
    return _copy(job, due=due, attempt=attempt)


def _copy(job: Job, *, due: datetime, attempt: int) -> Job:
    parameters = {name: getattr(job, name) for name in _KEPT}
    return Job(harvest_start_time=due, attempt=attempt, **parameters)
