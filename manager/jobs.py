"""Jobs and history as people see them: listed with their state in words, removed."""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import Session

from harvester.models import Harvest, History, Repository
from manager.models import Job, JobStatus
from manager.schedules import database_now
from oai.errors import UsageError

_WAITS = "waiting "
"""How the harvester's note begins when the repository has asked it to wait."""

_UNDER_WAY = (JobStatus.IN_PROGRESS, JobStatus.STOPPING)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a running harvest is."""

    pages: int
    records: int
    complete_list_size: int | None
    """As the repository told it, where it did."""
    rate: float
    """Records a second since the run began."""
    seconds_left: float | None
    """Where size and rate are known."""
    errors: int
    """Records that were refused."""
    last_progress: datetime
    """When the last page was committed (UTC)."""
    last_error: str | None


@dataclass(frozen=True, kw_only=True)
class JobView:
    """A job as lists show it. Times are UTC."""

    job_id: int
    repository_id: int
    repository_name: str
    recurring_id: int | None
    set_spec: str | None
    metadata_prefix: str
    harvest_method: int
    harvest_from: str | None
    harvest_to: str | None
    state: str
    """queued, starting, running, waiting (the repository asked for it), stopping."""
    reason: str | None
    """Why it is queued or waiting."""
    due: datetime
    started: datetime | None
    host: str | None
    process_id: int | None
    attempt: int
    """How many times it has vanished before."""
    progress: Progress | None


@dataclass(frozen=True, kw_only=True)
class HistoryView:
    """A harvest that has ended, as lists show it."""

    history: History
    repository_name: str


def list_jobs(session: Session, repository_id: int | None = None) -> list[JobView]:
    """All jobs, or those of one repository: the running ones first, then by the time they are due."""
    query = (
        select(Job, _repository_name(), Harvest)
        .join(Repository, Repository.repository_id == Job.repository_id)
        .outerjoin(Harvest, Harvest.job_id == Job.job_id)
        .order_by(Job.status.in_(_UNDER_WAY).desc(), Job.harvest_start_time, Job.job_id)
    )
    if repository_id is not None:
        query = query.where(Job.repository_id == repository_id)
    now = database_now(session)
    before: dict[int, list[int]] = defaultdict(list)
    views = []
    for job, repository_name, harvest in session.execute(query):
        views.append(_view(job, repository_name, harvest, before[job.repository_id], now))
        if job.status != JobStatus.SCHEDULED:
            before[job.repository_id].append(job.job_id)
    return views


def remove_job(session: Session, job_id: int) -> bool:
    """Remove a job that has not begun, and give True; mark one that runs, and give False. The caller commits.

    The manager ends the process of a marked job, writes its history, and removes it. Raises UsageError where
    there is no such job.
    """
    waiting = (JobStatus.SCHEDULED, JobStatus.QUEUED)
    if session.scalar(delete(Job).where(Job.job_id == job_id, Job.status.in_(waiting)).returning(Job.job_id)):
        return True
    marked = update(Job).where(Job.job_id == job_id).values(status=JobStatus.STOPPING).returning(Job.job_id)
    if session.scalar(marked) is None:
        raise UsageError(f"job {job_id}: there is none of that number; see `zatva job list`")
    return False


def list_history(
    session: Session, repository_id: int | None = None, limit: int = 50, before: int | None = None
) -> list[HistoryView]:
    """Up to `limit` ended harvests, the newest first; `before` is the last page's last `history_id`."""
    query = (
        select(History, _repository_name())
        .join(Repository, Repository.repository_id == History.repository_id)
        .order_by(History.history_id.desc())
        .limit(limit)
    )
    if repository_id is not None:
        query = query.where(History.repository_id == repository_id)
    if before is not None:
        query = query.where(History.history_id < before)
    return [HistoryView(history=history, repository_name=name) for history, name in session.execute(query)]


def remove_history(session: Session, history_id: int) -> None:
    """Remove a row of the history; raises UsageError where there is none. The caller commits."""
    gone = delete(History).where(History.history_id == history_id).returning(History.history_id)
    if session.scalar(gone) is None:
        raise UsageError(f"history {history_id}: there is none of that number; see `zatva job history`")


def _repository_name() -> Any:  # noqa: ANN401 an SQL expression
    return func.coalesce(Repository.repository_name, Repository.base_url)


def _view(
    job: Job, repository_name: str, harvest: Harvest | None, before: list[int], now: datetime
) -> JobView:
    state, reason = _state(job, harvest, before, now)
    return JobView(
        job_id=job.job_id,
        repository_id=job.repository_id,
        repository_name=repository_name,
        recurring_id=job.recurring_id,
        set_spec=job.set_spec,
        metadata_prefix=job.metadata_prefix,
        harvest_method=job.harvest_method,
        harvest_from=job.harvest_from,
        harvest_to=job.harvest_to,
        state=state,
        reason=reason,
        due=job.harvest_start_time,
        started=job.started,
        host=job.host,
        process_id=job.process_id,
        attempt=job.attempt,
        progress=None if harvest is None else _progress(harvest, now),
    )


def _state(job: Job, harvest: Harvest | None, before: list[int], now: datetime) -> tuple[str, str | None]:
    """The state word, and for a job that waits the reason; `before` are its repository's jobs ahead of it."""
    if job.status == JobStatus.STOPPING:
        return "stopping", None
    if job.status == JobStatus.IN_PROGRESS:
        return _state_under_way(job, harvest)
    if job.status == JobStatus.SCHEDULED:
        due = f"due at {job.harvest_start_time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}"
        return "queued", due if job.harvest_start_time > now else "waiting for the manager"
    if before:
        return "queued", f"one harvest per repository: job {before[-1]} comes first"
    return "queued", "waiting for a worker"


def _state_under_way(job: Job, harvest: Harvest | None) -> tuple[str, str | None]:
    if job.process_id is None:
        return "starting", None
    said = (harvest.last_error if harvest is not None else None) or ""
    if said.startswith(_WAITS):
        return "waiting", said.removeprefix(_WAITS)
    return "running", None


def _progress(harvest: Harvest, now: datetime) -> Progress:
    counts, size = harvest.counts, harvest.complete_list_size
    records = counts.get("records", 0)
    seconds = (now - harvest.run_started).total_seconds() if harvest.run_started is not None else 0
    rate = records / seconds if seconds > 0 else 0.0
    return Progress(
        pages=counts.get("pages", 0),
        records=records,
        complete_list_size=size,
        rate=rate,
        seconds_left=max(size - records, 0) / rate if size is not None and rate > 0 else None,
        errors=counts.get("invalid", 0),
        last_progress=harvest.updated,
        last_error=harvest.last_error,
    )
