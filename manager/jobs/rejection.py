"""Jobs that cannot be run are rejected: before they are queued, and again when a worker takes them.

With the job of a schedule, the schedule is rejected: its next jobs would have the same fault, and lists and
summaries name it until a person has corrected it.
"""

import logging
from pathlib import Path

from sqlalchemy import delete, func
from sqlalchemy.orm import Session

from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.notices.announcements import notify
from manager.notices.models import Occasion
from manager.schedules.plan import check_job
from manager.schedules.service import make_due_again
from oai.failures import Failure, FailureCode

logger = logging.getLogger("manager.launching")


def is_valid(session: Session, job: Job, data: Path | None) -> bool:
    """Return whether the job can be run; otherwise reject it, or its schedule, with the reason.

    The caller commits.
    """
    wrong = check_job(session, job, data)
    if wrong is None:
        return True
    reason = wrong.facts["text"]
    schedule = session.get(RecurringJob, job.recurring_id) if job.recurring_id else None
    if schedule is not None:
        if schedule.state != RecurringState.SET_ASIDE:
            reject_schedule(session, schedule, Failure.from_json(wrong.facts["failure"]), reason)
        make_due_again(schedule)
        session.delete(job)
        session.flush()
        return False
    job.status = JobStatus.SET_ASIDE
    job.waiting = wrong.as_json()
    logger.warning("job %d rejected: %s", job.job_id, reason)
    notify(
        session,
        Occasion.SET_ASIDE,
        repository_id=job.repository_id,
        job_id=job.job_id,
        reason=reason,
        more={"failure": wrong.facts["failure"]},
    )
    return False


def reject_schedule(session: Session, schedule: RecurringJob, failure: Failure | None, reason: str) -> None:
    """Reject a schedule: it makes no jobs until a person has corrected it. The caller commits.

    Its jobs that are not due yet are removed; those that are due are rejected when they are launched.
    """
    later = Job.harvest_start_time > func.now()
    session.execute(
        delete(Job).where(Job.recurring_id == schedule.id, Job.status == JobStatus.SCHEDULED, later)
    )
    schedule.state = RecurringState.SET_ASIDE
    failure = failure or Failure(code=FailureCode.REQUEST_INVALID)
    schedule.explain(failure, reason)
    logger.warning("schedule %d rejected: %s", schedule.id, reason)
    notify(
        session,
        Occasion.SET_ASIDE,
        repository_id=schedule.repository_id,
        recurring_id=schedule.id,
        reason=reason,
        more={"failure": failure.as_json()},
    )
