"""A week of due times: what is harvested on which day, told from the schedules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import takewhile
from typing import Final
from zoneinfo import ZoneInfo

from manager.frequency import parse_frequency
from manager.schedules import ScheduleView
from oai.errors import UsageError

DAYS: Final = 7
_MOST_A_SCHEDULE: Final = 50
_ACTIVE: Final = frozenset({"new", "recurring", "one-off"})


@dataclass(frozen=True, kw_only=True)
class Due:
    """One run to come."""

    moment: datetime
    view: ScheduleView


@dataclass(frozen=True, kw_only=True)
class WeekDay:
    """A day and its runs, in their order; `more` is how many are left out."""

    day: date
    dues: Sequence[Due]
    more: int


def week_of(views: Iterable[ScheduleView], now: datetime, *, shown: int = 40) -> list[WeekDay]:
    """The next seven days (of UTC), with the runs that the active schedules will have."""
    end = now + timedelta(days=DAYS)
    found: dict[date, list[Due]] = {now.date() + timedelta(days=count): [] for count in range(DAYS)}
    for view in views:
        for moment in _due_times(view, now, end):
            found.setdefault(moment.date(), []).append(Due(moment=moment, view=view))
    days = []
    for day, dues in sorted(found.items()):
        dues.sort(key=lambda due: (due.moment, due.view.schedule.id))
        days.append(WeekDay(day=day, dues=dues[:shown], more=max(len(dues) - shown, 0)))
    return days[:DAYS]


def _due_times(view: ScheduleView, now: datetime, end: datetime) -> list[datetime]:
    schedule = view.schedule
    if view.state not in _ACTIVE:
        return []
    if not schedule.frequency:
        return [view.next_due] if view.next_due and now <= view.next_due < end else []
    try:
        frequency, zone = parse_frequency(schedule.frequency), ZoneInfo(schedule.time_zone)
        upcoming = frequency.upcoming(now, start=schedule.start_date, zone=zone)
        until = min(end, schedule.end_date) if schedule.end_date else end
        near = takewhile(lambda moment: moment < until, upcoming)
        return [moment for moment, _ in zip(near, range(_MOST_A_SCHEDULE), strict=False)]
    except (UsageError, ValueError):
        return []
