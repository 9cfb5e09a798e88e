"""A week of due times: what is harvested on which day, told from the schedules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from manager.frequency import parse_frequency
from manager.schedules import ScheduleView
from oai.errors import UsageError
from web.zones import local, midnight

DAYS: Final = 7
_HOURLY: Final = DAYS * 25
"""Runs of a week; what runs oftener stands beside the grid. One day has 25 hours."""
_ACTIVE: Final = frozenset({"new", "recurring", "one-off"})


@dataclass(frozen=True, kw_only=True)
class Due:
    """One run to come."""

    moment: datetime
    view: ScheduleView


@dataclass(frozen=True, kw_only=True)
class Cell:
    """What is due in an hour of a day, in its order; `more` is how many are left out."""

    dues: Sequence[Due] = ()
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class Hour:
    """An hour of the day with a cell for each day of the week."""

    hour: int
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Week:
    """The next seven of the reader's days by hours; hours in which nothing is due are left out."""

    days: Sequence[date]
    hours: Sequence[Hour]
    often: Sequence[ScheduleView]
    """Those that run oftener than every hour."""


def week_of(views: Iterable[ScheduleView], now: datetime, *, shown: int = 5) -> Week:
    """The week with the runs that the active schedules will have, up to `shown` of them in a cell."""
    first = local(now).date()
    days = [first + timedelta(days=count) for count in range(DAYS)]
    end = midnight(first + timedelta(days=DAYS))
    found: dict[tuple[int, date], list[Due]] = {}
    often = []
    for view in views:
        moments = _due_times(view, now, end)
        if len(moments) > _HOURLY:
            often.append(view)
            continue
        for moment in moments:
            on_the_clock = local(moment)
            place = (on_the_clock.hour, on_the_clock.date())
            found.setdefault(place, []).append(Due(moment=moment, view=view))
    hours = [
        Hour(hour=hour, cells=[_cell(found.get((hour, day), []), shown) for day in days])
        for hour in sorted({hour for hour, _day in found})
    ]
    return Week(days=days, hours=hours, often=often)


def _cell(dues: list[Due], shown: int) -> Cell:
    dues.sort(key=lambda due: (due.moment, due.view.schedule.id))
    return Cell(dues=dues[:shown], more=max(len(dues) - shown, 0))


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
        # One more than is shown in the grid tells that it runs oftener.
        return list(islice(near, _HOURLY + 1))
    except (UsageError, ValueError):
        return []
