"""The manager's first function: schedules become jobs (UIUC, "Manager Program", 1).

A new schedule (state 0) gets its first job; a recurring one that has no job any more, because the last one
has ended or was deleted, gets the next. Runs that were missed meanwhile are made up for by one. A schedule
whose runs fail gets its next job later and later.
"""

import logging
from datetime import datetime, timedelta

from sqlalchemy import and_, exists, or_, select
from sqlalchemy.orm import Session

from harvester.vocabulary import Overlap
from manager.failures import pause_after
from manager.left_out import note_left_out
from manager.models import Job, RecurringJob, RecurringState
from manager.notices.announcing import tell
from manager.notices.models import Occasion
from manager.plans import Plan, check_surroundings, read_plan
from manager.schedules import database_now, drop_planned_jobs, job_of
from oai.errors import UsageError, failure_of
from oai.failures import Failure, FailureCode
from oai.sections import ManagerSettings

logger = logging.getLogger(__name__)


def wanting(session: Session) -> list[int]:
    """The ids of schedules that want a job: new ones, and recurring ones without a job."""
    new = RecurringJob.state == RecurringState.NEW
    idle = and_(
        RecurringJob.state == RecurringState.RECURRING,
        RecurringJob.state_reason.is_(None),
        ~exists().where(Job.recurring_id == RecurringJob.id),
    )
    return list(session.scalars(select(RecurringJob.id).where(or_(new, idle)).order_by(RecurringJob.id)))


def make_job(session: Session, recurring_id: int, settings: ManagerSettings) -> int | None:
    """Make the next job of a schedule that wants one; give its id. The caller commits.

    A row that makes no sense is set aside with the reason, to be put right and set to state 0 again.
    """
    schedule = session.get(RecurringJob, recurring_id, with_for_update=True)
    if schedule is None or not _wants(session, schedule):
        return None
    if schedule.state == RecurringState.NEW:
        drop_planned_jobs(session, schedule)
    now = database_now(session)
    try:
        plan = read_plan(schedule)
        check_surroundings(session, schedule)
        due = _next_due(schedule, plan, now, pause_after(schedule.failures, settings))
        # A person who planned it anew knows what passed meanwhile.
        if schedule.state == RecurringState.RECURRING:
            note_left_out(session, schedule, plan, now, due=due)
    except (UsageError, ArithmeticError) as error:
        # A time beyond the year 9999 is an ArithmeticError.
        _set_aside(session, schedule, error)
        return None
    return _job_due(session, schedule, plan, due)


def _set_aside(session: Session, schedule: RecurringJob, error: Exception) -> None:
    reason = str(error)
    schedule.state = RecurringState.SET_ASIDE
    failure = failure_of(error) if isinstance(error, UsageError) else None
    schedule.explain(failure or Failure(code=FailureCode.REQUEST_INVALID), reason)
    logger.warning("schedule %d rejected: %s", schedule.id, reason)
    tell(
        session,
        Occasion.SET_ASIDE,
        repository_id=schedule.repository_id,
        recurring_id=schedule.id,
        reason=reason,
    )


def _job_due(session: Session, schedule: RecurringJob, plan: Plan, due: datetime | None) -> int | None:
    """Add the job that is due then, and give its id; None where no more is due."""
    schedule.state = RecurringState.ONE_OFF if plan.frequency is None else RecurringState.RECURRING
    if due is None:
        over = Failure(code=FailureCode.SCHEDULE_OVER, facts={"end": str(schedule.end_date)})
        schedule.explain(over, over.sentence())
        return None
    schedule.explain(None, None)
    schedule.last_due = due
    job = job_of(session, schedule, due=due)
    session.add(job)
    session.flush()
    return job.job_id


def _wants(session: Session, schedule: RecurringJob) -> bool:
    """Whether it wants a job still, now that its row is locked."""
    if schedule.state == RecurringState.RECURRING:
        return not session.scalar(select(exists().where(Job.recurring_id == schedule.id)))
    return schedule.state == RecurringState.NEW


def _next_due(schedule: RecurringJob, plan: Plan, now: datetime, pause: timedelta) -> datetime | None:
    if plan.frequency is not None and schedule.last_due is not None:
        if pause:
            return plan.next_after(max(now + pause, schedule.last_due))
        following = plan.next_after(schedule.last_due)
        missed = following is not None and following <= now
        if missed and schedule.overlap == Overlap.QUEUE and not plan.is_over(now):
            return now
        return plan.next_after(now) if missed else following
    first = plan.first()
    if first is None or plan.is_over(now):
        return None
    return max(first, now)
