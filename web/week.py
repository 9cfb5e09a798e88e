"""A week of due times: what is harvested on which day, told from the schedules."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from itertools import islice, takewhile
from typing import Final
from zoneinfo import ZoneInfo

from manager.due_groups import DueGroup
from manager.frequency import parse_frequency
from oai.errors import UsageError
from web.zones import local, midnight

DAYS: Final = 7
SHOWN: Final = 4
"""Schedules that a cell names, and each plan that runs often."""
_HOURLY: Final = DAYS * 25
"""Runs of a week; what runs oftener stands beside the grid. One day has 25 hours."""


@dataclass(frozen=True, kw_only=True)
class Due:
    """One run to come."""

    moment: datetime
    schedule: int


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
    often: Sequence[DueGroup]
    """Those that run oftener than every hour."""

    @property
    def schedules(self) -> set[int]:
        """The numbers of all that are named."""
        dues = {due.schedule for hour in self.hours for cell in hour.cells for due in cell.dues}
        return dues.union(*(group.first for group in self.often))


def end_of_week(now: datetime) -> datetime:
    """When the last of the reader's seven days ends (UTC)."""
    return midnight(local(now).date() + timedelta(days=DAYS))


def week_of(groups: Iterable[DueGroup], now: datetime) -> Week:
    """The week with the runs that the schedules will have."""
    first = local(now).date()
    days = [first + timedelta(days=count) for count in range(DAYS)]
    end = end_of_week(now)
    found: dict[tuple[int, date], list[tuple[datetime, DueGroup]]] = {}
    often = []
    for group in groups:
        moments = _due_times(group, now, end)
        if len(moments) > _HOURLY:
            often.append(group)
            continue
        for moment in moments:
            on_the_clock = local(moment)
            place = (on_the_clock.hour, on_the_clock.date())
            found.setdefault(place, []).append((moment, group))
    hours = [
        Hour(hour=hour, cells=[_cell(found.get((hour, day), [])) for day in days])
        for hour in sorted({hour for hour, _day in found})
    ]
    return Week(days=days, hours=hours, often=often)


def _cell(runs: Iterable[tuple[datetime, DueGroup]]) -> Cell:
    named = sorted((moment, number) for moment, group in runs for number in group.first)[:SHOWN]
    due = sum(group.schedules for _moment, group in runs)
    return Cell(dues=[Due(moment=moment, schedule=number) for moment, number in named], more=due - len(named))


def _due_times(group: DueGroup, now: datetime, end: datetime) -> list[datetime]:
    if not group.frequency:
        return [group.start] if group.start else []
    try:
        frequency, zone = parse_frequency(group.frequency), ZoneInfo(group.time_zone)
        upcoming = frequency.upcoming(now, start=group.start or now, zone=zone)
        until = min(end, group.end) if group.end else end
        near = takewhile(lambda moment: moment < until, upcoming)
        # One more than is shown in the grid tells that it runs oftener.
        return list(islice(near, _HOURLY + 1))
    except (UsageError, ValueError):
        return []
