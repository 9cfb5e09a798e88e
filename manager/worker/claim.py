"""A worker claims a queued job: the facts of the run and the command line of its harvester process."""

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from sqlalchemy import bindparam, func, select, update
from sqlalchemy.orm import Session, load_only

from harvester.harvest_plan import Surface, carried
from harvester.locks import find_lock, is_locked
from harvester.models import Harvest, Repository
from manager.jobs.reasons import locked_by, maintenance_until
from manager.jobs.rejection import is_valid
from manager.models import Job, JobStatus
from manager.notices.mutes import maintenance_end
from manager.schedules.plan import Continuation, bring_up_to_date
from oai.models import from_row


@dataclass(frozen=True, kw_only=True)
class ClaimedRun:
    """A harvest that a worker has claimed."""

    job_id: int
    repository_id: int
    recurring_id: int | None
    set_spec: str | None
    metadata_prefix: str
    harvest_method: int
    started: datetime
    host: str | None
    process_id: int | None
    arguments: tuple[str, ...]
    """The harvester's command-line arguments."""
    last_history: int | None
    """The newest history row that an earlier run of this job wrote."""


_PAGES: Final = (
    select(Harvest.counts["pages"].as_integer())
    .where(
        Harvest.repository_id == Job.repository_id,
        Harvest.metadata_prefix == Job.metadata_prefix,
        Harvest.set_spec == func.coalesce(Job.set_spec, ""),
    )
    .scalar_subquery()
)
_CANDIDATE: Final = (
    select(
        Job, Repository, func.now(), _PAGES, is_locked(Job.repository_id), maintenance_end(Job.repository_id)
    )
    .join(Repository, Repository.repository_id == Job.repository_id)
    .options(load_only(Repository.base_url, Repository.protocol))
    .where(Job.job_id == bindparam("number"))
    # Of two workers, the second one waits for the lock and no longer finds the job queued.
    .with_for_update(of=Job)
    .execution_options(populate_existing=True)
)
"""A job, locked and reloaded, with what a claim needs to know. Built once, because that takes a while."""


def claim(
    session: Session,
    job_id: int,
    host: str,
    worker_id: int | None = None,
    *,
    overlap: float = 0,
    data: Path | None = None,
) -> ClaimedRun | None:
    """Claim a queued job for this host; None if it is no longer queued or may not run. The caller commits.

    A job is put back if, since it was queued, its repository was locked or a maintenance window began.

    `overlap` is the seconds by which an incremental harvest overlaps the previous one; without the `data`
    folder, no rule of an organisation is found.
    """
    found = session.execute(_CANDIDATE, {"number": job_id}).one_or_none()
    if found is None:
        return None
    # The repository stays in the session, so that the checks do not query it again.
    job, _repository, now, pages, locked, maintained = found
    # Checked again: a rule may have been given to another organisation while the job was queued.
    if job.status != JobStatus.QUEUED or not is_valid(session, job, data):
        return None
    lock = find_lock(session, job.repository_id) if locked else None
    waits = maintenance_until(maintained) if maintained else lock and locked_by(lock)
    if waits:
        job.status, job.waiting = JobStatus.SCHEDULED, waits.as_json()
        session.flush()
        return None
    continuation = bring_up_to_date(session, job, overlap)
    job.status, job.host, job.worker_id, job.started = JobStatus.IN_PROGRESS, host, worker_id, now
    job.process_id = job.waiting = job.stuck_since = None
    job.pages_before = pages or 0
    session.flush()
    return run_of(job, continuation)


def note_process(session: Session, job_id: int, process_id: int) -> None:
    """Store the process id of a claimed job. The caller commits."""
    session.execute(update(Job).where(Job.job_id == job_id).values(process_id=process_id))


def run_of(job: Job, continuation: Continuation | None = None) -> ClaimedRun:
    """Return the facts of a running job; with a `continuation`, the harvester computes its `from`."""
    arguments = tuple(_arguments(job, continuation))
    return from_row(ClaimedRun, job, started=job.started or job.harvest_start_time, arguments=arguments)


def _arguments(job: Job, continuation: Continuation | None) -> list[str]:
    options: dict[str, object] = {
        "repository_id": job.repository_id,
        "job_id": job.job_id,
        "recurring_id": job.recurring_id,
        "harvest_floor": continuation and continuation.floor,
    }
    flags = ["end_with_parent"]
    for one in carried(Surface.JOB, Surface.PROCESS):
        value = getattr(job, one.job_column)
        if one.column == "harvest_from" and continuation is not None:
            continue
        if one.kind is not bool:
            options[one.process] = None if value == "" else value
        elif value != one.stored:
            flags.append(one.process if value is not one.reversed else f"no_{one.process}")
    # The `=` keeps a value that begins with a hyphen from being parsed as an option.
    given = [(name, f"={value}") for name, value in options.items() if value is not None]
    return [f"--{name.replace('_', '-')}{value}" for name, value in (*given, *((flag, "") for flag in flags))]
