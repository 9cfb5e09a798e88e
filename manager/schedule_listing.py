"""Schedules page by page, and one of them, as lists show them."""

from typing import Any

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules import ScheduleView
from oai.errors import UsageError


def find_schedules(
    session: Session,
    *,
    limit: int | None = None,
    after: int = 0,
    repository_id: int | None = None,
    among: Select[int] | None = None,
) -> list[ScheduleView]:
    """Schedules by number, behind the one numbered `after`; `among` selects the repositories that count."""
    query = _views().where(RecurringJob.id > after)
    if repository_id is not None:
        query = query.where(RecurringJob.repository_id == repository_id)
    if among is not None:
        query = query.where(RecurringJob.repository_id.in_(among))
    return [_view(*row) for row in session.execute(query.order_by(RecurringJob.id).limit(limit))]


def find_view(session: Session, recurring_id: int) -> ScheduleView:
    """One schedule. Raises UsageError where there is none of that number."""
    row = session.execute(_views().where(RecurringJob.id == recurring_id)).one_or_none()
    if row is None:
        raise UsageError(f"no schedule {recurring_id}; list schedules with `zatva schedule list`")
    return _view(*row)


def _views() -> Any:  # noqa: ANN401 an SQL expression
    planned = Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED))
    next_due = (
        select(func.min(Job.harvest_start_time))
        .where(Job.recurring_id == RecurringJob.id, planned)
        .scalar_subquery()
    )
    name = func.coalesce(Repository.repository_name, Repository.base_url)
    return select(RecurringJob, name, Repository.protocol, next_due).join(
        Repository, Repository.repository_id == RecurringJob.repository_id
    )


def _view(schedule: RecurringJob, name: str, protocol: str, due: Any) -> ScheduleView:  # noqa: ANN401 a column's value
    word = RecurringState(schedule.state).name.lower().replace("_", " ").replace("one off", "one-off")
    return ScheduleView(schedule=schedule, repository_name=name, protocol=protocol, state=word, next_due=due)
