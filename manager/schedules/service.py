"""Schedules: add, change, pause, remove, run and list rows of `oai_recurring_job`."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Select, delete, func, select, update
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.harvest_plan import Surface, carried
from harvester.models import Repository
from harvester.repositories import get_repository
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.limits import check_partner, check_run, priority_of
from manager.schedules.plan import check_access, is_begun, read_plan
from oai.errors import UsageError
from oai.owners import owner_of

CHANGEABLE: Final = frozenset({"repository_id", *(one.column for one in carried(Surface.SCHEDULE))})
"""The columns that users set; the others are the manager's."""
MOST_RECORDS: Final = 100_000
RESTING: Final = (RecurringState.PAUSED, RecurringState.SET_ASIDE, RecurringState.SUSPENDED)
"""The states in which a schedule makes no jobs."""


@dataclass(frozen=True, kw_only=True)
class ScheduleView:
    """A schedule as lists show it."""

    schedule: RecurringJob
    repository_name: str
    protocol: str
    state: str
    """new, recurring, one-off, paused, set aside, suspended."""
    next_due: datetime | None
    """When its next job is due (UTC); None without one, and while the schedule makes no jobs."""
    is_retry: bool
    """Whether that job repeats a run that failed."""


def add_schedule(
    session: Session,
    *,
    partner_minutes: float | None = None,
    **columns: Any,  # noqa: ANN401 each column's own type
) -> RecurringJob:
    """Add a schedule as `new_schedule` returns it. The manager makes the first job at its next tick.

    The caller commits.
    """
    schedule = new_schedule(session, partner_minutes=partner_minutes, **columns)
    session.add(schedule)
    session.flush()
    return schedule


def new_schedule(
    session: Session,
    *,
    partner_minutes: float | None = None,
    **columns: Any,  # noqa: ANN401 as above
) -> RecurringJob:
    """Return a schedule with these columns of `oai_recurring_job`, not added; `repository_id` is required.

    The owner is the repository's organisation unless another one is given. `partner_minutes` limits the plan
    of a user who is a partner; None: an administrator asks.

    Raises LimitError for what partners may not ask for; UsageError for an unknown repository or column, a
    frequency, time zone or datestamp that cannot be read, or an end before the start; SelectionError for an
    invalid set or query of the repository.
    """
    _check_names(columns)
    repository_id = columns.get("repository_id")
    repository = None if repository_id is None else session.get(Repository, repository_id)
    if repository is None:
        raise UsageError(f"no repository {repository_id!r}; list repositories with `zatva repository list`")
    given = {name: value for name, value in columns.items() if value is not None}
    organisation = owner_of(session, repository.repository_id)
    defaults = {
        **{one.column: one.stored for one in carried(Surface.SCHEDULE)},
        "owner": organisation.short_name if organisation else None,
        "start_date": database_now(session),
        "metadata_prefix": access_of(repository.protocol).usual_format,
    }
    schedule = RecurringJob(**{**defaults, **given})
    _check_row(repository, schedule, partner_minutes)
    _check_first_run(session, schedule, partner_minutes)
    return schedule


def change_schedule(
    session: Session,
    recurring_id: int,
    *,
    partner_minutes: float | None = None,
    **columns: Any,  # noqa: ANN401 as above
) -> RecurringJob:
    """Change columns of a schedule; its jobs that have not begun are planned again. The caller commits.

    A start of None is now. Raises UsageError as `add_schedule` does; the caller then rolls back.
    """
    _check_names(columns)
    if "start_date" in columns and columns["start_date"] is None:
        columns["start_date"] = database_now(session)
    schedule = _schedule(session, recurring_id)
    before = {name: getattr(schedule, name) for name in columns}
    _set(schedule, columns)
    try:
        _check_row(session.get_one(Repository, schedule.repository_id), schedule, partner_minutes)
    except UsageError:
        _set(schedule, before)
        raise
    if schedule.state != RecurringState.PAUSED:
        schedule.state = RecurringState.NEW
    schedule.explain(None, None)
    schedule.failures = 0
    plan_again(session, schedule)
    _check_first_run(session, schedule, partner_minutes)
    session.flush()
    return schedule


@dataclass(frozen=True, kw_only=True)
class Pause:
    """What pausing a schedule changed."""

    changed: bool
    """It was not paused before."""
    jobs_removed: int


def pause_schedule(session: Session, recurring_id: int) -> Pause:
    """Pause a schedule: no job begins until it is resumed; a running one continues. The caller commits."""
    schedule = _schedule(session, recurring_id)
    was_paused, schedule.state = schedule.state == RecurringState.PAUSED, RecurringState.PAUSED
    return Pause(changed=not was_paused, jobs_removed=remove_waiting_jobs(session, schedule))


def remove_waiting_jobs(session: Session, schedule: RecurringJob) -> int:
    """Remove the jobs of a schedule that no worker has taken; return their number. The caller commits."""
    now = database_now(session)
    jobs = _waiting_jobs(session, schedule)
    for job in jobs:
        _remove_job(session, schedule, job, now)
    return len(jobs)


def make_due_again(schedule: RecurringJob) -> None:
    """Let a one-off whose harvest gets no further try now be harvested when it is resumed."""
    if not schedule.frequency:
        schedule.last_due = None


def resume_schedule(session: Session, recurring_id: int) -> bool:
    """Let a schedule that is paused, rejected or suspended make jobs again. The caller commits.

    Returns whether it was one of these.
    """
    schedule = _schedule(session, recurring_id)
    rests = schedule.state in RESTING
    if rests:
        schedule.state = RecurringState.NEW
        schedule.explain(None, None)
        schedule.failures = 0
    return rests


def remove_schedule(session: Session, recurring_id: int) -> None:
    """Remove a schedule and its planned jobs; a running harvest continues. The caller commits."""
    schedule = _schedule(session, recurring_id)
    planned = (JobStatus.SCHEDULED, JobStatus.QUEUED, JobStatus.PAUSED, JobStatus.SET_ASIDE)
    session.execute(delete(Job).where(Job.recurring_id == recurring_id, Job.status.in_(planned)))
    session.execute(update(Job).where(Job.recurring_id == recurring_id).values(recurring_id=None))
    session.delete(schedule)
    session.flush()


def run_now(session: Session, recurring_id: int, *, partner_minutes: float | None = None) -> Job:
    """Make a job of a schedule that is due now, in addition to the planned ones. The caller commits.

    Raises LimitError if a partner asks (`partner_minutes`) and another run of the repository is due, under
    way, or was a short while ago.
    """
    schedule = _schedule(session, recurring_id)
    if partner_minutes is not None:
        check_run(session, schedule.repository_id, database_now(session), partner_minutes)
    job = job_of(session, schedule, due=database_now(session))
    session.add(job)
    session.flush()
    return job


def job_of(session: Session, schedule: RecurringJob, *, due: datetime) -> Job:
    """Return a job with the schedule's parameters, not yet added to the session."""
    return Job(
        **_parameters(session, schedule),
        repository_id=schedule.repository_id,
        recurring_id=schedule.id,
        harvest_start_time=due,
    )


def _parameters(session: Session, schedule: RecurringJob) -> dict[str, Any]:
    """Return the parameters of the schedule's jobs, by column.

    An incremental schedule's `harvest_from` is passed to its jobs until one harvest was complete; after that,
    `manager.schedules.plan` computes that of each job.
    """
    begun = schedule.incremental and is_begun(session, schedule.id)
    values = {one.job_column: getattr(schedule, one.column) for one in carried(Surface.SCHEDULE, Surface.JOB)}
    values["priority"] = priority_of(schedule)
    values["harvest_from"] = None if begun else schedule.harvest_from or None
    return {**values, "harvest_to": schedule.harvest_to or None}


def plan_again(session: Session, schedule: RecurringJob) -> None:
    """Fit the jobs of a changed schedule to its row, except those that a worker has taken.

    Runs that are due get its parameters; runs that it plans for another time now are removed.
    """
    now = database_now(session)
    due_now = bool(schedule.frequency) and schedule.start_date <= now <= (schedule.end_date or now)
    for job in _waiting_jobs(session, schedule):
        if job.harvest_start_time > now or (_is_planned(schedule, job, now) and not due_now):
            _remove_job(session, schedule, job, now)
        else:
            for name, value in _parameters(session, schedule).items():
                setattr(job, name, value)


def _waiting_jobs(session: Session, schedule: RecurringJob) -> Sequence[Job]:
    """Return the schedule's jobs that no worker has taken, locked: none takes them before the commit."""
    # The sum prevents the use of the index of due jobs: without statistics, PostgreSQL rates it as equal
    # to the index by schedule, although it would read the jobs of every schedule.
    waits = (Job.status + 0).in_((JobStatus.SCHEDULED, JobStatus.QUEUED))
    found = select(Job).where(Job.recurring_id == schedule.id, waits).order_by(Job.job_id).with_for_update()
    return session.scalars(found.execution_options(populate_existing=True)).all()


def _is_planned(schedule: RecurringJob, job: Job, now: datetime) -> bool:
    """Return whether the manager made the job; no user asked for it in addition to the plan."""
    return job.harvest_start_time > now or job.harvest_start_time == schedule.last_due or job.attempt > 0


def _remove_job(session: Session, schedule: RecurringJob, job: Job, now: datetime) -> None:
    if schedule.last_due is not None and _is_planned(schedule, job, now):
        # Without its only job, which may have been a retry, a one-off has to be planned again.
        schedule.last_due = min(schedule.last_due, now) if schedule.frequency else None
    session.delete(job)


def database_now(session: Session) -> datetime:
    """Return the current time of the database's clock, which all machines share (UTC)."""
    return session.execute(select(func.now())).scalar_one().astimezone(UTC)


def _schedule(session: Session, recurring_id: int, *, lock: bool = True) -> RecurringJob:
    schedule = session.get(RecurringJob, recurring_id, with_for_update=lock or None)
    if schedule is None:
        raise UsageError(f"no schedule {recurring_id}; list schedules with `zatva schedule list`")
    return schedule


def _check_row(repository: Repository, schedule: RecurringJob, partner_minutes: float | None) -> None:
    plan = read_plan(schedule)
    check_access(repository, schedule)
    if partner_minutes is not None:
        check_partner(schedule, plan, partner_minutes)


def _check_first_run(session: Session, schedule: RecurringJob, partner_minutes: float | None) -> None:
    now, last_due = database_now(session), schedule.last_due
    first = read_plan(schedule).first(since=now) if partner_minutes is not None else None
    if partner_minutes is None or first is None:
        return
    # The planner keeps the distance to earlier runs of a frequency; a one-off runs again after a change.
    if last_due is None or (not schedule.frequency and last_due < first):
        due = max(first, now)
        check_run(session, schedule.repository_id, due, partner_minutes, besides=schedule.id or 0)


def _set(schedule: RecurringJob, columns: dict[str, Any]) -> None:
    for name, value in columns.items():
        setattr(schedule, name, value)


def _check_names(columns: dict[str, Any]) -> None:
    unknown = sorted(columns.keys() - CHANGEABLE)
    if unknown:
        raise UsageError(
            f"schedule: unknown column {unknown[0]!r}; the columns are {', '.join(sorted(CHANGEABLE))}"
        )


def find_schedules(
    session: Session,
    *,
    limit: int | None = None,
    after: int = 0,
    repository_id: int | None = None,
    among: Select[int] | None = None,
) -> list[ScheduleView]:
    """Return schedules ordered by id, starting after id `after`; `among` selects the repositories."""
    query = _views().where(RecurringJob.id > after)
    if repository_id is not None:
        query = query.where(RecurringJob.repository_id == repository_id)
    if among is not None:
        query = query.where(RecurringJob.repository_id.in_(among))
    return [_view(*row) for row in session.execute(query.order_by(RecurringJob.id).limit(limit))]


def count_schedules(session: Session, repository_id: int) -> int:
    """Return the number of schedules of a repository."""
    found = select(func.count()).where(RecurringJob.repository_id == repository_id)
    return session.scalars(found).one()


def find_view(session: Session, recurring_id: int) -> ScheduleView:
    """Return one schedule. Raises UsageError if there is none with that id."""
    row = session.execute(_views().where(RecurringJob.id == recurring_id)).one_or_none()
    if row is None:
        raise UsageError(f"no schedule {recurring_id}; list schedules with `zatva schedule list`")
    return _view(*row)


def _views() -> Any:  # noqa: ANN401 an SQL expression
    planned = Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED))
    own = select(Job).where(Job.recurring_id == RecurringJob.id, planned).order_by(Job.harvest_start_time)
    next_due, attempt = (
        own.with_only_columns(column).limit(1).scalar_subquery()
        for column in (Job.harvest_start_time, Job.attempt)
    )
    return select(RecurringJob, Repository.display_name, Repository.protocol, next_due, attempt).join(
        Repository, Repository.repository_id == RecurringJob.repository_id
    )


def _view(
    schedule: RecurringJob, name: str, protocol: str, due: datetime | None, attempt: int | None
) -> ScheduleView:
    state = RecurringState(schedule.state)
    # A job that a user asked for in addition is not the schedule's next run.
    due = None if state in RESTING else due
    return ScheduleView(
        schedule=schedule,
        repository_name=name,
        protocol=protocol,
        state=state.word,
        next_due=due,
        is_retry=bool(due and attempt),
    )


def sample_schedule(
    session: Session, recurring_id: int, records: int, *, partner_minutes: float | None = None
) -> Job:
    """Make a job that is due now and ends after that many of the schedule's records. The caller commits.

    Raises UsageError if there is no such schedule, or if the number is not from 1 to 100,000; LimitError as
    `run_now` does.
    """
    schedule = _schedule(session, recurring_id, lock=False)
    _check(records)
    job = job_of(session, schedule, due=database_now(session))
    # A sample must not count as one of the schedule's runs, because it does not show what is complete.
    job.recurring_id = None
    return _added(session, job, records, partner_minutes)


def sample_repository(
    session: Session,
    repository_id: int,
    metadata_prefix: str,
    records: int,
    *,
    set_spec: str | None = None,
    partner_minutes: float | None = None,
) -> Job:
    """Make a job that is due now and ends after that many records of a format. The caller commits.

    Raises UsageError as `sample_schedule` does, and SelectionError for an invalid set or query.
    """
    repository = get_repository(session, repository_id)
    access_of(repository.protocol).check(set_spec)
    _check(records)
    organisation = owner_of(session, repository_id)
    job = Job(
        repository_id=repository_id,
        metadata_prefix=metadata_prefix,
        set_spec=set_spec,
        harvest_start_time=database_now(session),
        owner=organisation.short_name if organisation else None,
    )
    return _added(session, job, records, partner_minutes)


def _check(records: int) -> None:
    if not 1 <= records <= MOST_RECORDS:
        raise UsageError(f"{records} is not a valid number of sample records; give 1 to {MOST_RECORDS:,}")


def _added(session: Session, job: Job, records: int, partner_minutes: float | None) -> Job:
    if partner_minutes is not None:
        check_run(session, job.repository_id, job.harvest_start_time, partner_minutes)
    job.max_records = records
    session.add(job)
    session.flush()
    return job
