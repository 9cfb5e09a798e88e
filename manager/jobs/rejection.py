"""Jobs that cannot be run are rejected: before they are queued, and again when a worker takes them."""

import logging
from pathlib import Path

from sqlalchemy.orm import Session

from manager.models import Job, JobStatus
from manager.notices.announcements import notify
from manager.notices.models import Occasion
from manager.schedules.plan import check_job

logger = logging.getLogger("manager.launching")


def is_valid(session: Session, job: Job, data: Path | None) -> bool:
    """Return whether the job can be run; otherwise reject it with the reason. The caller commits."""
    wrong = check_job(session, job, data)
    if wrong is None:
        return True
    job.status = JobStatus.SET_ASIDE
    job.waiting = wrong.as_json()
    logger.warning("job %d rejected: %s", job.job_id, wrong.facts["text"])
    notify(
        session,
        Occasion.SET_ASIDE,
        repository_id=job.repository_id,
        recurring_id=job.recurring_id,
        job_id=job.job_id,
        reason=wrong.facts["text"],
    )
    return False
