"""What people do with jobs: pause and resume, stop after the page, kill; each a compare-and-swap."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sqlalchemy import case, null, select, update
from sqlalchemy.orm import Session

from manager.models import Job, JobStatus
from oai.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Change:
    """Something that people do with jobs."""

    participle: str
    becomes: Mapping[JobStatus, JobStatus]
    """What a job becomes that is in one of these; in the others it cannot be done."""


PAUSE: Final = Change(
    participle="paused",
    becomes={
        JobStatus.SCHEDULED: JobStatus.PAUSED,
        JobStatus.QUEUED: JobStatus.PAUSED,
        JobStatus.IN_PROGRESS: JobStatus.PAUSING,
        JobStatus.RESTARTING: JobStatus.PAUSING,
    },
)
"""A running harvest ends after its page; the job stays, and goes on from there when it is resumed."""

RESUME: Final = Change(
    participle="resumed",
    becomes={
        JobStatus.PAUSED: JobStatus.SCHEDULED,
        JobStatus.PAUSING: JobStatus.IN_PROGRESS,
        JobStatus.SET_ASIDE: JobStatus.SCHEDULED,
    },
)
"""A paused job goes on, at once where it is due; one that was set aside is looked at anew."""

STOP: Final = Change(
    participle="stopped",
    becomes=dict.fromkeys(
        (JobStatus.IN_PROGRESS, JobStatus.PAUSING, JobStatus.RESTARTING), JobStatus.STOPPING
    ),
)
"""A running harvest ends after its page and is over; the schedule's next run goes on from there."""

KILL: Final = Change(
    participle="killed",
    becomes=dict.fromkeys(
        (JobStatus.IN_PROGRESS, JobStatus.STOPPING, JobStatus.PAUSING, JobStatus.RESTARTING),
        JobStatus.KILLING,
    ),
)
"""A running harvest's processes are ended at once; what was committed is kept."""


def change_job(session: Session, job_id: int, change: Change) -> JobStatus:
    """Do that with a job, and give what it has become. The caller commits.

    Raises UsageError where there is no such job, or it is in a state in which that cannot be done.
    """
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
