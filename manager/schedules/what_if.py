"""What a plan would mean before it is saved: length, requests, clashes, and when the server is quickest.

Everything rests on the history of the repository; without one, nothing is guessed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from itertools import islice, pairwise, takewhile
from statistics import median
from typing import Final
from zoneinfo import ZoneInfo

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import Verdict
from manager.leader.admission import host_of
from manager.models import RecurringJob, RecurringState
from manager.schedules.frequency import parse_frequency
from manager.schedules.plan import read_plan
from oai.errors import UsageError

_LIKE_IT: Final = 10
"""Runs on which the usual figures rest."""
_WEEK: Final = timedelta(days=7)
_UNKNOWN: Final = timedelta(minutes=30)
"""The length of a run of which nothing is known, when clashes are looked for."""
_MOST_TIMES: Final = 200
_MOST_SCHEDULES: Final = 200
_MOST_CLASHES: Final = 5
_MONTHS: Final = timedelta(days=90)
_LEAST_REQUESTS: Final = 20
"""Requests of an hour of the day, below which its speed is not known."""
_LEAST_HOURS: Final = 3


@dataclass(frozen=True, kw_only=True)
class RunSize:
    """How much a run takes."""

    seconds: float
    records: int
    requests: int


@dataclass(frozen=True, kw_only=True)
class Clash:
    """Another schedule that is due while this one runs."""

    recurring_id: int
    repository_name: str
    metadata_prefix: str
    at: datetime
    """Its first due time (UTC) that clashes."""
    same_repository: bool
    """One of both waits then; on the same host, both may run, up to `manager.per_host`."""


@dataclass(frozen=True, kw_only=True)
class WhatIf:
    """What a plan would mean."""

    runs: int
    """Complete runs of the same format and set on which the sizes rest, at most ten."""
    usual: RunSize | None
    """The median of the runs."""
    largest: RunSize | None
    """The run with most records, if that is far more than usual."""
    clashes: Sequence[Clash]
    """At the due times looked at, the first of each schedule."""
    hours: Mapping[int, float]
    """Seconds for each request, by the hour of the day in the plan's time zone, as far as known."""

    @property
    def quickest(self) -> int | None:
        """The hour in which the server answers most quickly; None if too few hours are known."""
        if len(self.hours) < _LEAST_HOURS:
            return None
        return min(self.hours, key=lambda hour: self.hours[hour])


def what_if(
    session: Session,
    repository_id: int,
    metadata_prefix: str,
    set_spec: str | None,
    dues: Sequence[datetime],
    zone: tzinfo,
    *,
    schedule: int | None = None,
    among: Select[int] | None = None,
) -> WhatIf:
    """Return what a plan with these due times (UTC) would mean.

    `schedule` is left out of its clashes, as are schedules of repositories that are not `among` those given.
    """
    runs = _runs(session, repository_id, metadata_prefix, set_spec)
    sizes = [_size(run) for run in runs]
    usual = _median(sizes)
    largest = max(sizes, key=lambda size: size.records, default=None)
    length = timedelta(seconds=usual.seconds) if usual else _UNKNOWN
    return WhatIf(
        runs=len(runs),
        usual=usual,
        largest=largest if usual and largest and largest.records > 2 * usual.records else None,
        clashes=_clashes(
            session,
            host_of(session.get_one(Repository, repository_id).base_url),
            [(due, due + length) for due in dues],
            repository_id=repository_id,
            schedule=schedule,
            among=among,
        ),
        hours=_hours(session, repository_id, zone),
    )


def clashes_of_new(
    session: Session, base_url: str, dues: Sequence[datetime], *, among: Select[int] | None = None
) -> list[Clash]:
    """Return the clashes of a plan with these due times (UTC) of a repository that is not added yet."""
    return _clashes(session, host_of(base_url), [(due, due + _UNKNOWN) for due in dues], among=among)


def forecast(
    session: Session, schedule: RecurringJob, *, now: datetime, partner_minutes: float
) -> tuple[list[datetime], WhatIf]:
    """Return the due times (UTC) of a schedule in the coming week, and what it would mean.

    If there are none in that week, the first later one is returned. The schedule need not have been added.

    Raises UsageError if the schedule cannot be read.
    """
    plan = read_plan(schedule, partner_minutes=partner_minutes)
    since = schedule.date_added if schedule.id else now
    dues = due_times(plan.runs(since=since), now) or list(islice(plan.runs(since=since), 1))
    found = what_if(
        session,
        schedule.repository_id,
        schedule.metadata_prefix,
        schedule.set_spec,
        dues,
        plan.zone,
        schedule=schedule.id,
    )
    return dues, found


def _runs(
    session: Session, repository_id: int, metadata_prefix: str, set_spec: str | None
) -> Sequence[History]:
    return session.scalars(
        select(History)
        .where(
            History.repository_id == repository_id,
            History.metadata_prefix == metadata_prefix,
            func.coalesce(History.set_spec, "") == (set_spec or ""),
            History.verdict == Verdict.COMPLETE.value,
            History.continued_by.is_(None),
        )
        .order_by(History.history_id.desc())
        .limit(_LIKE_IT)
    ).all()


def _size(run: History) -> RunSize:
    seconds = (run.harvest_end_time - (run.run_started or run.harvest_start_time)).total_seconds()
    return RunSize(seconds=max(seconds, 0.0), records=run.record_count, requests=run.requests)


def _median(sizes: Sequence[RunSize]) -> RunSize | None:
    if not sizes:
        return None
    return RunSize(
        seconds=median(size.seconds for size in sizes),
        records=round(median(size.records for size in sizes)),
        requests=round(median(size.requests for size in sizes)),
    )


def _clashes(
    session: Session,
    host: str,
    windows: Sequence[tuple[datetime, datetime]],
    *,
    repository_id: int | None = None,
    schedule: int | None = None,
    among: Select[int] | None,
) -> list[Clash]:
    """Return other schedules of the same host that are due in one of the windows, or whose run reaches it."""
    if not windows:
        return []
    rows = session.execute(
        select(RecurringJob, Repository.display_name, Repository.base_url)
        .join(Repository, Repository.repository_id == RecurringJob.repository_id)
        .where(
            RecurringJob.state.in_((RecurringState.NEW, RecurringState.RECURRING)),
            RecurringJob.id != (schedule or 0),
            Repository.base_url.icontains(host, autoescape=True),
            *([] if among is None else [RecurringJob.repository_id.in_(among)]),
        )
        .order_by(RecurringJob.id)
        .limit(_MOST_SCHEDULES)
    )
    found = []
    for other, other_name, base_url in rows:
        at = _first_within(other, windows) if host_of(base_url) == host else None
        if at is not None:
            found.append(
                Clash(
                    recurring_id=other.id,
                    repository_name=other_name,
                    metadata_prefix=other.metadata_prefix,
                    at=at,
                    same_repository=other.repository_id == repository_id,
                )
            )
    return sorted(found, key=lambda clash: (not clash.same_repository, clash.at))[:_MOST_CLASHES]


def _first_within(other: RecurringJob, windows: Sequence[tuple[datetime, datetime]]) -> datetime | None:
    length = timedelta(seconds=other.usual_seconds) if other.usual_seconds else _UNKNOWN
    begin, end = windows[0][0], windows[-1][1]
    try:
        frequency, zone = parse_frequency(other.frequency or ""), ZoneInfo(other.time_zone)
        upcoming = frequency.upcoming(begin - length, start=other.start_date, zone=zone)
        for count, due in enumerate(takewhile(lambda due: due < end, upcoming)):
            if any(due < last and due + length > first for first, last in windows):
                return due
            if count > _MOST_TIMES:
                break
    except (UsageError, ValueError, KeyError):
        return None  # a row that is invalid as written makes no jobs
    return None


def due_times(moments: Iterable[datetime], now: datetime) -> list[datetime]:
    """Return the due times of the coming week, at most 200."""
    return list(islice(takewhile(lambda moment: moment < now + _WEEK, moments), _MOST_TIMES))


def _hours(session: Session, repository_id: int, zone: tzinfo) -> dict[int, float]:
    rows = session.execute(
        select(History.harvest_start_time, History.pace)
        .where(
            History.repository_id == repository_id,
            History.pace != [],
            History.harvest_end_time > func.now() - _MONTHS,
        )
        .order_by(History.history_id.desc())
        .limit(_MOST_TIMES)
    )
    spent: dict[int, float] = defaultdict(float)
    asked: dict[int, float] = defaultdict(float)
    for began, pace in rows:
        for before, after in pairwise(pace):
            hour = (began + timedelta(seconds=after[0])).astimezone(zone).hour
            spent[hour] += max(after[0] - before[0], 0)
            asked[hour] += max(after[2] - before[2], 0)
    return {hour: spent[hour] / asked[hour] for hour in sorted(asked) if asked[hour] >= _LEAST_REQUESTS}
