"""The manager's third function: harvests that have ended become history (UIUC, "Manager Program", 3).

The harvester writes its own history row. Where it could not, because it vanished or was killed, the row is
written here, and what was cut off gets another job, later and later with each try. The worker in whose hands
a harvest is settles it; the leading manager settles those that are in nobody's hands any more.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum, auto

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import Harvest, History, Repository, RunStatus
from manager import processes, queue
from manager.launching import Run, run_of
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.plans import read_plan
from manager.schedules import database_now
from oai.errors import ExitCode, UsageError
from oai.sections import ManagerSettings

_COUNTS = ("new", "updated", "unchanged", "deleted", "filtered", "invalid")
_PARAMETERS = (
    "repository_id", "recurring_id", "set_spec", "metadata_prefix", "harvest_method", "harvest_from",
    "harvest_to", "incremental", "filter_file_path", "validation", "normalize_file_path", "parse_id",
    "files_per_dir",
)  # fmt: skip


class Cause(Enum):
    """Why a harvest is over."""

    ENDED = auto()
    """Its process ended, for a reason of its own."""
    STOPPED = auto()
    """Somebody deleted the job."""
    SHUTDOWN = auto()
    """Its worker ended, and the harvest with it."""
    LOST = auto()
    """Its worker is gone without a word."""


@dataclass(frozen=True, kw_only=True)
class Ending:
    """How a harvest came to its end."""

    cause: Cause
    exit_code: int | None = None
    """None where nobody knows it, or the process did not even start."""
    said: str = ""
    """The last that the process said."""


def settle(session: Session, run: Run, ending: Ending, settings: ManagerSettings) -> None:
    """Give an ended harvest its history row, remove its job, and make another where it was cut off.

    Settling twice does no harm. The caller commits.
    """
    job = session.get(Job, run.job_id, with_for_update=True, populate_existing=True)
    if job is not None and job.status == JobStatus.STOPPING:
        ending = Ending(cause=Cause.STOPPED, exit_code=ending.exit_code, said=ending.said)
    newest = select(History.status).where(History.job_id == run.job_id).order_by(History.history_id.desc())
    written = session.scalar(newest.limit(1))
    if written is None and session.get(Repository, run.repository_id) is not None:
        session.add(_history(session, run, ending))
    if job is None:
        return
    again = _another_try(session, job, ending, written, settings)
    if again is not None:
        session.add(again)
    session.delete(job)
    session.flush()


def settle_lost(session: Session, job_id: int, settings: ManagerSettings) -> None:
    """Settle a job whose worker is gone; one that had not begun is queued anew. The caller commits."""
    job = session.get(Job, job_id, with_for_update=True)
    if job is None:
        return
    if job.status == JobStatus.QUEUED:
        job.status = JobStatus.SCHEDULED
    elif job.status in (JobStatus.IN_PROGRESS, JobStatus.STOPPING):
        settle(session, run_of(job), Ending(cause=Cause.LOST), settings)


def settle_orphans(session: Session, settings: ManagerSettings) -> None:
    """Settle the jobs that run, or are queued, without the queue's knowing. The caller commits.

    A harvester that was started by other means, and of which a job row tells, is left alone while it lives.
    """
    for job_id in queue.orphans(session):
        job = session.get(Job, job_id)
        here = job is not None and job.host in (None, processes.host_name())
        if job is None or not (here and processes.runs_job(job.process_id, job_id)):
            settle_lost(session, job_id, settings)


def _history(session: Session, run: Run, ending: Ending) -> History:
    """The row that the harvester did not write, with the figures that it had reached."""
    progress = session.scalars(select(Harvest).where(Harvest.job_id == run.job_id).limit(1)).one_or_none()
    counts = progress.counts if progress is not None else {}
    status, reason = _in_words(run, ending)
    return History(
        repository_id=run.repository_id,
        recurring_id=run.recurring_id,
        job_id=run.job_id,
        status=status,
        failure_reason=reason,
        set_spec=run.set_spec,
        metadata_prefix=run.metadata_prefix,
        harvest_method=run.harvest_method,
        harvest_start_time=run.started,
        record_count=counts.get("records", 0),
        requests=counts.get("requests", 0),
        bytes=counts.get("bytes", 0),
        host=run.host,
        process_id=run.process_id,
        **{f"{name}_count": counts.get(name, 0) for name in _COUNTS},
    )


def _in_words(run: Run, ending: Ending) -> tuple[RunStatus, str]:
    process = f"process {run.process_id} on host {run.host!r}"
    # PostgreSQL keeps no NUL.
    last_line = ending.said.replace("\0", "").strip().rpartition("\n")[2].strip()
    said = f"; the last it said: {last_line}" if last_line else ""
    match ending.cause:
        case Cause.STOPPED:
            return RunStatus.KILLED, f"the job was deleted, so {process} was ended"
        case Cause.SHUTDOWN:
            return (
                RunStatus.KILLED,
                f"the manager ended, and {process} with it; the harvest goes on with the next one",
            )
        case Cause.LOST:
            return (
                RunStatus.LOST,
                f"{process} is gone, and the worker that ran it, too",
            )
    if ending.exit_code is None:
        return RunStatus.FAILED, f"the harvest could not be started on host {run.host!r}{said}"
    if ending.exit_code < 0:
        return RunStatus.FAILED, f"{process} was ended by signal {-ending.exit_code}{said}"
    return RunStatus.FAILED, f"{process} ended with exit code {ending.exit_code} and wrote no history{said}"


def _another_try(
    session: Session, job: Job, ending: Ending, written: str | None, settings: ManagerSettings
) -> Job | None:
    """The job that goes on where this one was cut off; None where it was not, or tried often enough."""
    cut_off = written in (None, RunStatus.INCOMPLETE)
    now = database_now(session)
    if ending.cause is Cause.SHUTDOWN and cut_off:
        return _copy(job, due=now, attempt=job.attempt)
    vanished = ending.cause is Cause.ENDED and (
        (written is None and ending.exit_code != ExitCode.USAGE) or ending.exit_code == ExitCode.TRY_LATER
    )
    if not vanished and not (ending.cause is Cause.LOST and cut_off):
        return None
    if job.attempt >= settings.retries:
        return None
    due = now + timedelta(minutes=settings.retry_minutes * 2**job.attempt)
    if job.recurring_id is not None:
        schedule = session.get(RecurringJob, job.recurring_id, with_for_update=True)
        if schedule is None or schedule.state == RecurringState.PAUSED:
            return None
        due = _not_after_the_next(schedule, due, now)
    return _copy(job, due=due, attempt=job.attempt + 1)


def _not_after_the_next(schedule: RecurringJob, due: datetime, now: datetime) -> datetime:
    """The time of the schedule's next regular run where that comes sooner; then this is that run."""
    try:
        regular = read_plan(schedule).next_after(now)
    except UsageError:
        return due
    if regular is None or regular > due:
        return due
    schedule.last_due = regular
    return regular


def _copy(job: Job, *, due: datetime, attempt: int) -> Job:
    parameters = {name: getattr(job, name) for name in _PARAMETERS}
    return Job(harvest_start_time=due, attempt=attempt, **parameters)
