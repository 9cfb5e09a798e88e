"""User actions on jobs: pause, resume, stop after the current page, kill; each is a compare-and-swap."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import case, func, null, select, update
from sqlalchemy.orm import Session

from manager.models import Job, JobStatus
from oai.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class JobTransition:
    """An action of a user on a job."""

    participle: str
    becomes: Mapping[JobStatus, JobStatus]
    """The status after the action, by the status before; in any other status the action is not possible."""
    retries_now: bool = False
    """Whether it makes a retry due now; the action is then possible for retries alone."""


PAUSE: Final = JobTransition(
    participle="paused",
    becomes={
        JobStatus.SCHEDULED: JobStatus.PAUSED,
        JobStatus.QUEUED: JobStatus.PAUSED,
        JobStatus.IN_PROGRESS: JobStatus.PAUSING,
        JobStatus.RESTARTING: JobStatus.PAUSING,
    },
)
"""A running harvest ends after its current page; the job is kept and continues from there when it is resumed.
"""

RESUME: Final = JobTransition(
    participle="resumed",
    becomes={
        JobStatus.PAUSED: JobStatus.SCHEDULED,
        JobStatus.PAUSING: JobStatus.IN_PROGRESS,
        JobStatus.SET_ASIDE: JobStatus.SCHEDULED,
    },
)
"""A paused job continues, immediately if it is due; a rejected one is checked again."""

STOP: Final = JobTransition(
    participle="stopped",
    becomes=dict.fromkeys(
        (JobStatus.IN_PROGRESS, JobStatus.PAUSING, JobStatus.RESTARTING), JobStatus.STOPPING
    ),
)
"""A running harvest ends after its current page and is over; the schedule's next run continues from there."""

KILL: Final = JobTransition(
    participle="killed",
    becomes=dict.fromkeys(
        (JobStatus.IN_PROGRESS, JobStatus.STOPPING, JobStatus.PAUSING, JobStatus.RESTARTING),
        JobStatus.KILLING,
    ),
)
"""The processes of a running harvest are killed at once; what was committed is kept."""


RUN = JobTransition(participle="run", becomes={JobStatus.SCHEDULED: JobStatus.SCHEDULED}, retries_now=True)
"""A retry does not wait until its pause is over. The due times of schedules are left to `run_now`."""


def change_job(session: Session, job_id: int, change: JobTransition) -> JobStatus:
    """Apply the change to a job, and return its new status. The caller commits.

    Raises UsageError if there is no such job, or if its status does not allow the change.
    """
    # One statement derives the new status from the present one, so that a concurrent change is never
    # overwritten.
    swap = case(*((Job.status == before.value, after.value) for before, after in change.becomes.items()))
    statement = (
        update(Job)
        .where(Job.job_id == job_id, Job.status.in_(change.becomes))
        .values(status=swap, waiting=null())
        .returning(Job.status)
    )
    if change.retries_now:
        statement = statement.where(Job.attempt > 0).values(harvest_start_time=func.now())
    status = session.scalar(statement)
    if status is not None:
        return JobStatus(status)
    present = session.scalar(select(Job.status).where(Job.job_id == job_id))
    if present is None:
        raise UsageError(f"no job {job_id}; list jobs with `zatva job list`")
    word = JobStatus(present).name.lower().replace("_", " ")
    if change.retries_now and present in change.becomes:
        raise UsageError(f"job {job_id} is no retry; run its schedule with `zatva schedule run` instead")
    possible = ", ".join(status.name.lower().replace("_", " ") for status in change.becomes)
    raise UsageError(f"job {job_id} is {word}; only a job that is {possible} can be {change.participle}")
