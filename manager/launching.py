"""The manager's second function: due jobs start (UIUC, "Manager Program", 2).

The leading manager hands due jobs to the queue; the worker that takes one claims it. Each step is a
compare-and-swap on the job's status, so that nobody starts a job twice, nor one that was deleted meanwhile.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from manager import queue
from manager.models import Job, JobStatus

_AT_ONCE: Final = 500


@dataclass(frozen=True, kw_only=True)
class Run:
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
    """What the harvester is told on its command line."""


def launch_due(session: Session) -> list[int]:
    """Queue the jobs that are due, the longest due first; give their ids. The caller commits."""
    due = (
        select(Job.job_id)
        .where(Job.status == JobStatus.SCHEDULED, Job.harvest_start_time <= func.now())
        .order_by(Job.harvest_start_time, Job.job_id)
        .limit(_AT_ONCE)
        .with_for_update(skip_locked=True)
    )
    launched = []
    for job_id in session.scalars(due).all():
        queued = (
            update(Job)
            .where(Job.job_id == job_id, Job.status == JobStatus.SCHEDULED)
            .values(status=JobStatus.QUEUED)
            .returning(Job.repository_id)
        )
        repository_id = session.scalar(queued)
        if repository_id is not None:
            queue.defer(session, job_id, repository_id)
            launched.append(job_id)
    return launched


def claim(session: Session, job_id: int, host: str) -> Run | None:
    """Take a queued job for this host; None when it is not queued any more. The caller commits."""
    taken = (
        update(Job)
        .where(Job.job_id == job_id, Job.status == JobStatus.QUEUED)
        .values(status=JobStatus.IN_PROGRESS, host=host, process_id=None, started=func.now())
        .returning(Job)
    )
    job = session.scalars(taken).one_or_none()
    return None if job is None else run_of(job)


def note_process(session: Session, job_id: int, process_id: int) -> None:
    """Write down which process runs a claimed job. The caller commits."""
    session.execute(update(Job).where(Job.job_id == job_id).values(process_id=process_id))


def run_of(job: Job) -> Run:
    """The facts of a job that runs."""
    return Run(
        job_id=job.job_id,
        repository_id=job.repository_id,
        recurring_id=job.recurring_id,
        set_spec=job.set_spec,
        metadata_prefix=job.metadata_prefix,
        harvest_method=job.harvest_method,
        started=job.started or job.harvest_start_time,
        host=job.host,
        process_id=job.process_id,
        arguments=tuple(_arguments(job)),
    )


def _arguments(job: Job) -> list[str]:
    options: dict[str, object] = {
        "--repository-id": job.repository_id,
        "--job-id": job.job_id,
        "--recurring-id": job.recurring_id,
        "--method": job.harvest_method,
        "--set-spec": job.set_spec or None,
        "--harvest-from": job.harvest_from or None,
        "--harvest-to": job.harvest_to or None,
        "--metadata-prefix": job.metadata_prefix,
        "--filter-file": job.filter_file_path or None,
        "--normalize-file": job.normalize_file_path or None,
        "--validation": job.validation,
        "--files-per-dir": job.files_per_dir,
    }
    # With `=`, a value that begins with a hyphen is a value still.
    arguments = [f"{name}={value}" for name, value in options.items() if value is not None]
    arguments.append("--parse-id" if job.parse_id else "--no-parse-id")
    if not job.incremental:
        arguments.append("--full")
    return [*arguments, "--end-with-parent"]
