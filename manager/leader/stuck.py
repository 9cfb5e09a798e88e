"""Detect harvests that make no progress: flag them in their rows and, if so configured, restart them.

A harvest is stuck when it has made no progress for many times as long as its own pages usually take, but
never before a configured minimum. A harvest that waits at the repository's request is not stuck.
"""

import logging
from datetime import datetime, timedelta

from sqlalchemy import ScalarSelect, func, select, update
from sqlalchemy.orm import Session

from harvester.bibliographic.models import Import
from harvester.models import Harvest, History
from harvester.store.backup import is_copying
from manager.jobs.estimates import wait_of
from manager.models import Job, JobStatus
from manager.notices.announcements import notify
from manager.notices.models import Occasion
from manager.schedules.service import database_now
from oai.datestamps import format_datestamp
from oai.sections import ManagerSettings

logger = logging.getLogger("manager.stuck")


def flag_stuck(session: Session, settings: ManagerSettings) -> list[int]:
    """Flag harvests that are newly stuck and return their job ids; unflag those that make progress again.

    None is while a backup copies record files, because harvests wait for that. With
    `manager.stuck_restart`, a flagged harvest is marked to be ended and continued in another process. The
    caller commits.
    """
    if is_copying(session):
        return []
    query = (
        select(Job, Harvest, _last_import(), _end_of_harvest())
        .outerjoin(Harvest, Harvest.job_id == Job.job_id)
        .where(Job.status == JobStatus.IN_PROGRESS, Job.started.is_not(None))
        .order_by(Job.job_id)
    )
    now = database_now(session)
    stuck = []
    for job, harvest, imported, ended in session.execute(query).all():
        last = _last_sign(job, harvest, imported, ended)
        is_stuck = now - last > _allowed_silence(job, harvest, settings)
        if is_stuck and job.stuck_since is None:
            stuck.append(job.job_id)
            _notify(session, job, last)
        if is_stuck is not (job.stuck_since is not None):
            restart = is_stuck and settings.stuck_restart
            _mark(session, job.job_id, since=last if is_stuck else None, restart=restart)
    return stuck


def _notify(session: Session, job: Job, last: datetime) -> None:
    logger.warning("job %d: no progress since %s", job.job_id, last)
    notify(
        session,
        Occasion.STUCK,
        repository_id=job.repository_id,
        recurring_id=job.recurring_id,
        job_id=job.job_id,
        reason=f"no progress since {format_datestamp(last)}",
    )


def _last_import() -> ScalarSelect[datetime]:
    """Select the last progress of the repository's import: it follows the harvest in the same process."""
    imports = select(Import.updated).where(Import.repository_id == Job.repository_id)
    return imports.order_by(Import.import_id.desc()).limit(1).correlate(Job).scalar_subquery()


def _end_of_harvest() -> ScalarSelect[datetime]:
    """Select when the job's harvest ended: its process ends a moment later, or imports the records."""
    return (
        select(func.max(History.harvest_end_time))
        .where(History.job_id == Job.job_id)
        .correlate(Job)
        .scalar_subquery()
    )


def _last_sign(
    job: Job, harvest: Harvest | None, imported: datetime | None, ended: datetime | None
) -> datetime:
    """Return when it last made progress, or the end of a wait that the repository has requested."""
    wait = wait_of(harvest)
    signs = (job.started, harvest.updated if harvest else imported, ended, wait.until if wait else None)
    return max(sign for sign in signs if sign is not None)


def _allowed_silence(job: Job, harvest: Harvest | None, settings: ManagerSettings) -> timedelta:
    least = timedelta(minutes=settings.stuck_minutes)
    if harvest is None or job.started is None:
        return least
    pages = harvest.counts.get("pages", 0)
    # A run that began from the start counts its own pages from zero.
    own_pages = pages - job.pages_before if pages > job.pages_before else pages
    if own_pages <= 0:
        return least
    page_seconds = max((harvest.updated - job.started).total_seconds(), 0) / own_pages
    return max(least, timedelta(seconds=settings.stuck_pages * page_seconds))


def _mark(session: Session, job_id: int, *, since: datetime | None, restart: bool) -> None:
    values: dict[str, object] = {"stuck_since": since}
    if restart:
        values["status"] = JobStatus.RESTARTING
    # Conditional on the status: a job that a user has paused or stopped meanwhile stays as it is.
    session.execute(
        update(Job).where(Job.job_id == job_id, Job.status == JobStatus.IN_PROGRESS).values(**values)
    )
