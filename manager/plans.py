"""A schedule's row, read and checked: when it is due, and whether its parameters make sense."""

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Final

from manager.frequency import Frequency, parse_frequency, parse_zone
from manager.models import RecurringJob
from oai.datestamps import parse_datestamp
from oai.errors import UsageError

_YEARS: Final = range(1970, 9000)
_CHOICES: Final = {"method": (0, 1), "validation": (0, 1, 2)}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """When a schedule is due."""

    frequency: Frequency | None
    """None for a one-off."""
    zone: tzinfo
    start: datetime
    end: datetime | None

    def next_after(self, moment: datetime) -> datetime | None:
        """The first due time (UTC) later than `moment`; None for a one-off and after the end."""
        if self.frequency is None:
            return None
        return self._unless_over(self.frequency.next_after(moment, start=self.start, zone=self.zone))

    def first(self) -> datetime | None:
        """The first due time of all (UTC); None where the end comes before it."""
        if self.frequency is None:
            return self._unless_over(self.start)
        return self._unless_over(self.frequency.first(start=self.start, zone=self.zone))

    def _unless_over(self, due: datetime) -> datetime | None:
        return None if self.end is not None and due > self.end else due


def read_plan(schedule: RecurringJob) -> Plan:
    """Read a row's plan and check its parameters; raises UsageError that says what is wrong with it."""
    _check_dates(schedule)
    for name, allowed in _CHOICES.items():
        if getattr(schedule, name) not in allowed:
            raise UsageError(
                f"{name} {getattr(schedule, name)!r}: allowed are {', '.join(map(str, allowed))}"
            )
    if schedule.files_per_dir is not None and schedule.files_per_dir < 1:
        raise UsageError(f"files_per_dir {schedule.files_per_dir!r}: give 1 or more")
    text = (schedule.frequency or "").strip()
    return Plan(
        frequency=parse_frequency(text) if text else None,
        zone=parse_zone(schedule.time_zone),
        start=schedule.start_date,
        end=schedule.end_date,
    )


def _check_dates(schedule: RecurringJob) -> None:
    for name in ("harvest_from", "harvest_to"):
        value = getattr(schedule, name)
        try:
            parse_datestamp(value or "1970-01-01")
        except ValueError as error:
            raise UsageError(f"{name}: {error}") from None
    for name in ("start_date", "end_date"):
        value = getattr(schedule, name)
        if value is not None and (value.tzinfo is None or value.year not in _YEARS):
            raise UsageError(f"{name} {value}: give a time with its zone, in the years 1970 to 8999")
    if schedule.end_date is not None and schedule.end_date < schedule.start_date:
        raise UsageError(f"end_date {schedule.end_date} is before start_date {schedule.start_date}")
