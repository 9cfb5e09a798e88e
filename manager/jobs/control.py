"""User actions on jobs: pause, resume, stop after the current page, kill; each is a compare-and-swap."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import case, null, select, update
from sqlalchemy.orm import Session

from manager.models import Job, JobStatus
from oai.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Change:
    """An action of a user on a job."""

    participle: str
    becomes: Mapping[JobStatus, JobStatus]
    """The status after the action, by the status before; in any other status the action is not possible."""


PAUSE: Final = Change(
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

RESUME: Final = Change(
    participle="resumed",
    becomes={
        JobStatus.PAUSED: JobStatus.SCHEDULED,
        JobStatus.PAUSING: JobStatus.IN_PROGRESS,
        JobStatus.SET_ASIDE: JobStatus.SCHEDULED,
    },
)
"""A paused job continues, immediately if it is due; a rejected one is checked again."""

STOP: Final = Change(
    participle="stopped",
    becomes=dict.fromkeys(
        (JobStatus.IN_PROGRESS, JobStatus.PAUSING, JobStatus.RESTARTING), JobStatus.STOPPING
    ),
)
"""A running harvest ends after its current page and is over; the schedule's next run continues from there."""

KILL: Final = Change(
    participle="killed",
    becomes=dict.fromkeys(
        (JobStatus.IN_PROGRESS, JobStatus.STOPPING, JobStatus.PAUSING, JobStatus.RESTARTING),
        JobStatus.KILLING,
    ),
)
"""The processes of a running harvest are killed at once; what was committed is kept."""


def change_job(session: Session, job_id: int, change: Change) -> JobStatus:
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
    status = session.scalar(statement)
    if status is not None:
        return JobStatus(status)
    present = session.scalar(select(Job.status).where(Job.job_id == job_id))
    if present is None:
        raise UsageError(f"no job {job_id}; list jobs with `zatva job list`")
    word = JobStatus(present).name.lower().replace("_", " ")
    possible = ", ".join(status.name.lower().replace("_", " ") for status in change.becomes)
    raise UsageError(f"job {job_id} is {word}; only a job that is {possible} can be {change.participle}")
