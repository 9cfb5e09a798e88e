"""Schedules with the same due times, listed as groups: a week of 10,000 schedules is a handful of groups."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Final
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Select, case, false, func, literal, null, or_, select
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.frequency import parse_frequency
from manager.schedules.plan import SchedulePlan
from oai.errors import UsageError

_ACTIVE: Final = (RecurringState.NEW, RecurringState.RECURRING, RecurringState.ONE_OFF)
_PLANNED: Final = (JobStatus.SCHEDULED, JobStatus.QUEUED)


@dataclass(frozen=True, kw_only=True)
class DueGroup:
    """Active schedules with the same due times between two moments."""

    frequency: str
    """Empty for schedules that run once."""
    time_zone: str
    start: datetime | None
    """When they begin (UTC), or are due once; None if so long ago that it makes no difference."""
    end: datetime | None
    """When they end (UTC), if that is before the end of the period."""
    floor: timedelta
    """The least time between two runs."""
    schedules: int
    first: tuple[int, ...]
    """The lowest of their ids."""


@dataclass(frozen=True, kw_only=True)
class DueGroups:
    """The listed groups, those with most schedules first, and the number of schedules in the other groups."""

    groups: Sequence[DueGroup]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class ScheduleName:
    """The name of a schedule."""

    repository_id: int
    repository_name: str
    metadata_prefix: str


def due_groups(
    session: Session,
    now: datetime,
    until: datetime,
    *,
    limit: int,
    named: int,
    repository_id: int | None = None,
    among: Select[int] | None = None,
    partner_minutes: float = 0,
) -> DueGroups:
    """Return up to `limit` groups that are due between two moments, with up to `named` ids of each.

    `among` selects the repositories that are included. `partner_minutes` is the floor of schedules that have
    an owner.
    """
    chosen = _chosen(repository_id, among)
    plans = _recurring(now, until).where(*chosen).union_all(_once(now, until).where(*chosen)).subquery()
    keys = (plans.c.frequency, plans.c.time_zone, plans.c.start, plans.c.end, plans.c.owned)
    numbers = func.array_agg(aggregate_order_by(plans.c.id, plans.c.id))
    rows = session.execute(
        select(*keys, func.count(), numbers[1:named], func.sum(func.count()).over())
        .group_by(*keys)
        .order_by(func.count().desc(), func.min(plans.c.id))
        .limit(limit)
    ).all()
    groups = [
        DueGroup(
            frequency=often,
            time_zone=zone,
            start=start,
            end=end,
            floor=timedelta(minutes=partner_minutes if owned else 0),
            schedules=count,
            first=tuple(first),
        )
        for often, zone, start, end, owned, count, first, _all in rows
    ]
    every = int(rows[0][-1]) if rows else 0
    return DueGroups(groups=groups, left_out=every - sum(group.schedules for group in groups))


def due_times(group: DueGroup, now: datetime, end: datetime, *, most: int) -> list[datetime]:
    """Return the first times at which the schedules of a group are due before `end`, at most so many."""
    if not group.frequency:
        return [group.start] if group.start else []
    try:
        plan = SchedulePlan(
            frequency=parse_frequency(group.frequency),
            zone=ZoneInfo(group.time_zone),
            start=group.start or now,
            end=group.end,
            floor=group.floor,
        )
        return list(islice(takewhile(lambda due: due < end, plan.runs(since=now)), most))
    except (UsageError, ValueError):
        return []  # a row that was written by SQL; its page says what is wrong with it


def schedule_names(session: Session, numbers: Collection[int]) -> Mapping[int, ScheduleName]:
    """Return the names of these schedules."""
    rows = session.execute(
        select(
            RecurringJob.id,
            RecurringJob.repository_id,
            Repository.display_name,
            RecurringJob.metadata_prefix,
        )
        .join(Repository, Repository.repository_id == RecurringJob.repository_id)
        .where(RecurringJob.id.in_(numbers))
    )
    return {
        number: ScheduleName(repository_id=repository_id, repository_name=name, metadata_prefix=prefix)
        for number, repository_id, name, prefix in rows
    }


def _chosen(repository_id: int | None, among: Select[int] | None) -> list[ColumnElement[bool]]:
    chosen: list[ColumnElement[bool]] = [RecurringJob.state.in_(_ACTIVE)]
    if repository_id is not None:
        chosen.append(RecurringJob.repository_id == repository_id)
    if among is not None:
        chosen.append(RecurringJob.repository_id.in_(among))
    return chosen


def _recurring(now: datetime, until: datetime) -> Any:  # noqa: ANN401 an SQL expression
    frequency = RecurringJob.frequency
    # Intervals without a time of day count from the start: `every 6 hours`, `weekly`. Cron expressions begin
    # with a digit or a sign.
    by_the_clock = or_(frequency.contains(":"), ~frequency.regexp_match(r"^\s*[a-z]", "i"))
    begun = by_the_clock & (RecurringJob.start_date <= now)
    return select(
        RecurringJob.id,
        frequency.label("frequency"),
        RecurringJob.time_zone.label("time_zone"),
        case((begun, None), else_=RecurringJob.start_date).label("start"),
        case((RecurringJob.end_date < until, RecurringJob.end_date)).label("end"),
        (func.coalesce(RecurringJob.owner, "") != "").label("owned"),
    ).where(frequency != "", RecurringJob.start_date < until)


def _once(now: datetime, until: datetime) -> Any:  # noqa: ANN401 an SQL expression
    """Select the schedules that run once, by the time at which their job is due."""
    due = (
        select(func.min(Job.harvest_start_time))
        .where(Job.recurring_id == RecurringJob.id, Job.status.in_(_PLANNED))
        .scalar_subquery()
    )
    return select(RecurringJob.id, literal(""), RecurringJob.time_zone, due, null(), false()).where(
        func.coalesce(RecurringJob.frequency, "") == "", due >= now, due < until
    )
