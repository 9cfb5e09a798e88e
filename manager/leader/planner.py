"""Schedules become jobs (UIUC, "Manager Program", 1); missed due times become history rows."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import NOT_RUN, Overlap, RunStatus
from manager.jobs.rejection import reject_schedule
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.failures import LONGEST_PAUSE, pause_after
from manager.schedules.plan import SchedulePlan, check_surroundings, computed_from, read_plan
from manager.schedules.service import database_now, job_of, plan_again, remove_waiting_jobs
from oai.datestamps import format_datestamp
from oai.errors import UsageError, failure_of
from oai.failures import Failure, FailureCode
from oai.sections import ManagerSettings

MOST: Final = 1000
"""The largest number of due times that are counted; a longer gap is recorded as at least this many."""

_ATTEMPTS: Final = 100
"""How many runs of a schedule are compared with its due times: all attempts since the last one."""
_CODES: Final = {RunStatus.SKIPPED: FailureCode.RUN_SKIPPED, RunStatus.MISSED: FailureCode.RUN_MISSED}


@dataclass(frozen=True, kw_only=True)
class _Span:
    """The start and the end of one of the schedule's runs."""

    began: datetime
    ended: datetime


def note_left_out(
    session: Session, schedule: RecurringJob, plan: SchedulePlan, now: datetime, *, due: datetime | None
) -> int:
    """Write the due times since the schedule's last job that have passed; `due` is when its next one is due.

    Returns how many there were, at most `MOST`. The caller commits.
    """
    if schedule.last_due is None:
        return 0
    dues = _between(plan, schedule.last_due, now)
    if due == now:
        # The job itself makes up for the last of them.
        dues = dues[:-1]
    if not dues:
        return 0
    runs = _runs_since(session, schedule.id, schedule.last_due)
    skipped = [each for each in dues if any(run.began <= each <= run.ended for run in runs)]
    # Due times between two runs passed while a retry waited: the schedule skips them without a record.
    missed = [each for each in dues if not runs or not runs[0].began <= each <= runs[-1].ended]
    for status, times in ((RunStatus.MISSED, missed), (RunStatus.SKIPPED, skipped)):
        if times:
            session.add(_row(schedule, status, times, now))
    return len(dues)


def _between(plan: SchedulePlan, begin: datetime, end: datetime) -> list[datetime]:
    """Return the due times after the run at `begin` and not later than `end`; at most `MOST`."""
    found: list[datetime] = []
    following = plan.next_run(begin)
    while following is not None and following <= end and len(found) < MOST:
        found.append(following)
        following = plan.next_run(following)
    return found


def _runs_since(session: Session, recurring_id: int, due: datetime) -> list[_Span]:
    """Return the schedule's runs that ended after a due time, each from the beginning of its job to its end.

    Pauses of the job are included; among more than `_ATTEMPTS` runs, the latest are returned.
    """
    latest = (
        select(History.job_id, History.harvest_start_time, History.harvest_end_time)
        .where(History.recurring_id == recurring_id, History.status.not_in(NOT_RUN))
        .order_by(History.history_id.desc())
        .limit(_ATTEMPTS)
        .subquery()
    )
    began, ended = func.min(latest.c.harvest_start_time), func.max(latest.c.harvest_end_time)
    runs = select(began, ended).group_by(latest.c.job_id).having(ended > due).order_by(began)
    return [_Span(began=row[0], ended=row[1]) for row in session.execute(runs)]


def _row(schedule: RecurringJob, status: RunStatus, times: list[datetime], now: datetime) -> History:
    first, last = format_datestamp(times[0]), format_datestamp(times[-1])
    most = len(times) == MOST
    facts = {"count": len(times), "more": most, "first": first, "last": last}
    failure = Failure(code=_CODES[status], facts=facts)
    when = f"{len(times):,}{' or more' if most else ''} due times, {first} to {last}"
    in_english = Failure(code=failure.code, facts={"times": when if len(times) > 1 else f"due at {first}"})
    return History(
        repository_id=schedule.repository_id,
        recurring_id=schedule.id,
        status=status,
        failure_reason=in_english.sentence(),
        failure_code=failure.code.value,
        failure_facts=facts,
        set_spec=schedule.set_spec,
        metadata_prefix=schedule.metadata_prefix,
        harvest_method=schedule.method,
        harvest_start_time=times[0],
        harvest_end_time=times[-1],
        evidence={"due_times": len(times), "first_due": first, "last_due": last},
        # Already announced: no harvest has ended, so clients that wait for runs, and notices, must not see
        # it.
        announced=now,
    )


logger = logging.getLogger("manager.recurring")


def without_job(session: Session) -> list[int]:
    """Return the ids of schedules that need a job: new ones, and recurring ones without a job."""
    new = RecurringJob.state == RecurringState.NEW
    idle = and_(
        RecurringJob.state == RecurringState.RECURRING,
        RecurringJob.state_reason.is_(None),
        ~exists().where(Job.recurring_id == RecurringJob.id),
    )
    return list(session.scalars(select(RecurringJob.id).where(or_(new, idle)).order_by(RecurringJob.id)))


def remove_jobs_of_paused(session: Session) -> None:
    """Remove the planned jobs and retries of schedules that were paused by SQL. The caller commits."""
    waits = Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED))
    # Other jobs of a paused schedule are those that a user asked for, or resumed, since.
    planned = and_(
        or_(Job.attempt > 0, Job.harvest_start_time == RecurringJob.last_due), Job.last_history.is_(None)
    )
    paused = select(RecurringJob).where(
        RecurringJob.state == RecurringState.PAUSED,
        exists().where(Job.recurring_id == RecurringJob.id, waits, planned),
    )
    for schedule in session.scalars(paused.order_by(RecurringJob.id).with_for_update()).all():
        removed = remove_waiting_jobs(session, schedule)
        logger.info("schedule %d is paused; jobs removed: %d", schedule.id, removed)


def replan_after_wrong_clock(session: Session, settings: ManagerSettings) -> Sequence[int]:
    """Let schedules that ran while the database's clock was ahead be planned again; return their ids.

    Without this, they would stand still until the clock has caught up. So would retries and repositories that
    asked to wait: these may be harvested at once. Jobs that users postponed stay. The caller commits.
    """
    now = database_now(session)
    _end_waits(session, now)
    ran_ahead = select(History.recurring_id).where(History.harvest_end_time > now)
    doubtful = select(RecurringJob).where(
        RecurringJob.state == RecurringState.RECURRING,
        RecurringJob.last_due > now,
        RecurringJob.id.in_(ran_ahead.where(History.recurring_id.is_not(None))),
    )
    wrong = [
        schedule
        for schedule in session.scalars(doubtful.order_by(RecurringJob.id).with_for_update())
        if _is_too_late(schedule, settings, now)
    ]
    for schedule in wrong:
        planned = and_(Job.recurring_id == schedule.id, Job.harvest_start_time == schedule.last_due)
        session.execute(delete(Job).where(planned, Job.status == JobStatus.SCHEDULED, Job.attempt == 0))
        schedule.last_due = now
    session.flush()
    return [schedule.id for schedule in wrong]


def _is_too_late(schedule: RecurringJob, settings: ManagerSettings, now: datetime) -> bool:
    """Return whether the schedule is planned later than it would be from now on."""
    try:
        plan = read_plan(schedule, partner_minutes=settings.partner_minutes)
        due = plan.next_run(now, not_before=now + pause_after(schedule.failures, settings))
    except (UsageError, ArithmeticError):
        # Its next job rejects it, and says why.
        return False
    return due is not None and schedule.last_due is not None and schedule.last_due > due


def _end_waits(session: Session, now: datetime) -> None:
    """End the waits of repositories and retries that begin with a run that ended in the future."""
    unsynchronised = {"synchronize_session": False}

    def follows_such_a_run(waiting: type[Repository | Job], until: Any) -> ColumnElement[bool]:  # noqa: ANN401 column
        of_it = History.repository_id == waiting.repository_id
        ran_ahead = exists().where(of_it, History.harvest_end_time > now, History.harvest_end_time <= until)
        return and_(until > now + LONGEST_PAUSE, ran_ahead)

    asked = update(Repository).where(follows_such_a_run(Repository, Repository.not_before))
    session.execute(asked.values(not_before=None), execution_options=unsynchronised)
    retries = update(Job).where(
        Job.status == JobStatus.SCHEDULED, Job.attempt > 0, follows_such_a_run(Job, Job.harvest_start_time)
    )
    session.execute(retries.values(harvest_start_time=now), execution_options=unsynchronised)


def make_job(
    session: Session,
    recurring_id: int,
    settings: ManagerSettings,
    *,
    overlap: float = 0,
    data: Path | None = None,
) -> int | None:
    """Create the next job of a schedule that needs one and return its id. The caller commits.

    `overlap` is the seconds by which its harvest overlaps the previous one; without the `data` folder, no
    rule of an organisation is found. A row that cannot be read is rejected with the reason; it has to be
    corrected and set to state 0 again.
    """
    # Locked until the commit, so that a user's change of the schedule cannot interleave with its next job.
    schedule = session.get(RecurringJob, recurring_id, with_for_update=True)
    if schedule is None or not _wants(session, schedule):
        return None
    if schedule.state == RecurringState.NEW:
        plan_again(session, schedule)
    now = database_now(session)
    try:
        plan = read_plan(schedule, partner_minutes=settings.partner_minutes)
        check_surroundings(session, schedule, data)
        if plan.frequency is not None and _has_due_job(session, schedule):
            # Changed while a due run waits: the next one is planned after its end, as always.
            schedule.state = RecurringState.RECURRING
            schedule.explain(None, None)
            return None
        due = _next_due(session, schedule, plan, now, pause_after(schedule.failures, settings))
        # For a new or changed schedule, the user who planned it knows which due times have passed.
        if schedule.state == RecurringState.RECURRING:
            note_left_out(session, schedule, plan, now, due=due)
    except (UsageError, ArithmeticError) as error:
        # A time beyond the year 9999 raises ArithmeticError.
        failure = failure_of(error) if isinstance(error, UsageError) else None
        reject_schedule(session, schedule, failure, str(error))
        return None
    return _job_due(session, schedule, plan, due, overlap)


def _job_due(
    session: Session, schedule: RecurringJob, plan: SchedulePlan, due: datetime | None, overlap: float
) -> int | None:
    """Add the job that is due at that time and return its id; None if no further job is due."""
    schedule.state = RecurringState.ONE_OFF if plan.frequency is None else RecurringState.RECURRING
    if due is None and _is_done(schedule, plan):
        schedule.explain(None, None)
        return None
    if due is None:
        over = Failure(code=FailureCode.SCHEDULE_OVER, facts={"end": str(schedule.end_date)})
        schedule.explain(over, over.sentence())
        return None
    schedule.explain(None, None)
    schedule.last_due = due
    job = job_of(session, schedule, due=due)
    # A schedule's lower bound is in the job's row until the schedule has begun (`job_of`).
    floor = schedule.harvest_from or None
    job.harvest_from = job.harvest_from or computed_from(session, job, overlap, floor)
    session.add(job)
    session.flush()
    return job.job_id


def _wants(session: Session, schedule: RecurringJob) -> bool:
    """Return whether the schedule still needs a job, now that its row is locked."""
    if schedule.state == RecurringState.RECURRING:
        return not session.scalar(select(exists().where(Job.recurring_id == schedule.id)))
    return schedule.state == RecurringState.NEW


def next_start(session: Session, recurring_id: int, settings: ManagerSettings) -> datetime | None:
    """Return when the schedule starts its next harvest (UTC), if the one that runs ends now.

    None if it starts none, for example because it is paused or does not repeat.
    """
    schedule = session.get(RecurringJob, recurring_id)
    active = (RecurringState.NEW, RecurringState.RECURRING)
    if schedule is None or not schedule.frequency or schedule.state not in active:
        return None
    waits = Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED))
    planned = select(func.min(Job.harvest_start_time)).where(Job.recurring_id == recurring_id, waits)
    if (due := session.scalar(planned)) is not None:
        return due
    try:
        plan = read_plan(schedule, partner_minutes=settings.partner_minutes)
        pause = pause_after(schedule.failures, settings)
        return _next_due(session, schedule, plan, database_now(session), pause)
    except (UsageError, ArithmeticError):
        return None  # its next job is rejected


def _has_due_job(session: Session, schedule: RecurringJob) -> bool:
    """Return whether a planned run of the schedule, or its retry, is due and waits."""
    planned = or_(Job.attempt > 0, Job.harvest_start_time == schedule.last_due)
    waits = Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED))
    return bool(session.scalar(select(exists().where(Job.recurring_id == schedule.id, planned, waits))))


def _next_due(
    session: Session, schedule: RecurringJob, plan: SchedulePlan, now: datetime, pause: timedelta
) -> datetime | None:
    if plan.frequency is not None and schedule.last_due is not None:
        if pause:
            return plan.next_run(schedule.last_due, not_before=now + pause)
        following = plan.next_run(schedule.last_due)
        missed = following is not None and following <= now
        if not missed:
            return following
        if schedule.overlap == Overlap.QUEUE and not plan.is_over(now):
            # A run that began late has made up for what was due before.
            runs = _runs_since(session, schedule.id, schedule.last_due)
            since = max([schedule.last_due, *(run.began for run in runs)])
            uncovered = plan.next_run(since)
            if uncovered is not None and uncovered <= now:
                return now
        return plan.next_after(now)
    first = plan.first(since=schedule.date_added)
    if first is None or plan.is_over(now) or _is_done(schedule, plan):
        return None
    return max(first, now)


def _is_done(schedule: RecurringJob, plan: SchedulePlan) -> bool:
    """Return whether a one-off has made its only job; another start date makes it due again."""
    first = plan.first() if plan.frequency is None else None
    return first is not None and schedule.last_due is not None and schedule.last_due >= first
