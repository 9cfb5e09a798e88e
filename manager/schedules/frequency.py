"""How often a schedule is due: interval and calendar words and cron expressions, in a time zone.

Intervals of seconds, minutes and hours are counted in elapsed time from the schedule's start. Frequencies in
days follow local time: in the night when clocks go forward, a time that does not exist moves to the first one
that does; in the night when clocks go back, a time that occurs twice counts once. Cron expressions whose
minutes or hours begin with an asterisk follow the clock, as those of Debian's cron do.
"""

import calendar
import itertools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from oai.errors import Phrase, UsageError

WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
ALLOWED: Final = Phrase(
    "`every 30 minutes`, `every 6 hours`, `every 2 days`, `hourly`, `daily`, `weekly`, `monthly`, "
    "`daily at 02:30`, `weekly on monday at 02:30`, `monthly on 1 at 02:30`, or a cron "
    "expression with five fields such as `30 2 * * 1-5`"
)
_CRON_FAULTS: Final = {
    "bad minute": Phrase("bad minute"),
    "bad hour": Phrase("bad hour"),
    "bad day-of-month": Phrase("bad day-of-month"),
    "bad month": Phrase("bad month"),
    "bad day-of-week": Phrase("bad day-of-week"),
}
"""Texts of cronsim's errors, in lower case."""
_UNITS: Final = {"second": 1, "minute": 60, "hour": 3600}
_DAYS: Final = {"day": 1, "week": 7}
_MOST_SHOWN: Final = 100
"""Characters of a frequency that a message quotes."""
_MOST_DAYS: Final = 3660
_INSTANT: Final = timedelta(microseconds=1)
_MINUTE: Final = timedelta(minutes=1)
_CRON_FIELDS: Final = 5
_SAFE_DAY: Final = 28


class Frequency(ABC):
    """When a schedule is due, repeatedly."""

    @abstractmethod
    def next_after(self, moment: datetime, *, start: datetime, zone: tzinfo) -> datetime:
        """Return the first due time (UTC) after `moment` and not before `start`.

        `zone` is that of local time.
        """

    def first(self, *, start: datetime, zone: tzinfo, since: datetime | None = None) -> datetime:
        """Return the first due time (UTC) at or after `start`, and not before `since`."""
        return self.next_after(max(start, since or start) - _INSTANT, start=start, zone=zone)

    def upcoming(self, moment: datetime, *, start: datetime, zone: tzinfo) -> Iterator[datetime]:
        """Yield the due times (UTC) later than `moment`, in order."""
        while True:
            moment = self.next_after(moment, start=start, zone=zone)
            yield moment


@dataclass(frozen=True, kw_only=True)
class Elapsed(Frequency):
    """Every so many seconds, counted from the start."""

    step: timedelta

    def next_after(self, moment: datetime, *, start: datetime, zone: tzinfo) -> datetime:
        """See Frequency; the zone does not matter to elapsed time."""
        del zone
        start = start.astimezone(UTC)
        if moment < start:
            return start
        return start + ((moment - start) // self.step + 1) * self.step


@dataclass(frozen=True, kw_only=True)
class Days(Frequency):
    """Every so many days, counted from the start, at the start's time of day."""

    days: int

    def next_after(self, moment: datetime, *, start: datetime, zone: tzinfo) -> datetime:
        """See Frequency."""
        begin = start.astimezone(zone)
        passed = (moment.astimezone(zone).date() - begin.date()).days
        return _first_later(
            moment,
            start,
            count_from=passed // self.days - 1,
            due=lambda count: _on_wall_clock(
                begin.date() + timedelta(days=count * self.days), begin.time(), zone
            ),
        )


@dataclass(frozen=True, kw_only=True)
class Months(Frequency):
    """Every month, by default on the start's day and time; on the last day of a month without that day."""

    day: int | None = None
    at: time | None = None

    def next_after(self, moment: datetime, *, start: datetime, zone: tzinfo) -> datetime:
        """See Frequency."""
        begin = start.astimezone(zone)
        at = begin.time() if self.at is None else self.at
        until = moment.astimezone(zone)

        def due(count: int) -> datetime:
            year, month = divmod(begin.year * 12 + begin.month - 1 + count, 12)
            last = calendar.monthrange(year, month + 1)[1]
            return _on_wall_clock(date(year, month + 1, min(self.day or begin.day, last)), at, zone)

        passed = (until.year - begin.year) * 12 + until.month - begin.month
        return _first_later(moment, start, count_from=passed - 1, due=due)


@dataclass(frozen=True, kw_only=True)
class Cron(Frequency):
    """A cron expression of five fields, read as Debian's cron reads it."""

    expression: str

    def next_after(self, moment: datetime, *, start: datetime, zone: tzinfo) -> datetime:
        """See Frequency. Raises UsageError if the expression has no due time within fifty years."""
        moment = max(moment, start - _INSTANT)
        for due in CronSim(self.expression, moment.astimezone(zone)):
            # In the hour that occurs twice, cronsim returns the first occurrence even when called during the
            # second.
            if due > moment:
                return due.astimezone(UTC)
        raise UsageError(
            "frequency %(text)s: never occurs; write %(allowed)s",
            text=_shown(self.expression),
            allowed=ALLOWED,
        )


def _shown(text: str) -> str:
    """Return the text quoted for a message; of a long one, its beginning and its length."""
    more = f" ({len(text):,} characters)" if len(text) > _MOST_SHOWN else ""
    return f"{_cut(text)!r}{more}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…"


def parse_frequency(text: str) -> Frequency:
    """Parse a frequency; case and additional blanks are ignored.

    Raises UsageError with what was found and what is allowed. Empty text is refused as well: a one-off has no
    frequency.
    """
    words = " ".join(text.lower().split())
    for pattern, make in _WORDS:
        match = pattern.fullmatch(words)
        if match:
            try:
                return make(match)
            except UsageError as error:
                raise UsageError(
                    "frequency %(text)s: %(fault)s; write %(allowed)s",
                    text=_shown(text),
                    fault=error,
                    allowed=ALLOWED,
                ) from None
    if len(words.split()) == _CRON_FIELDS:
        return _cron(text)
    raise UsageError(
        "frequency %(text)s: not recognized; write %(allowed)s", text=_shown(text), allowed=ALLOWED
    )


def parse_zone(name: str) -> ZoneInfo:
    """Return the IANA time zone with that name; raises UsageError if there is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise UsageError(
            "unknown time zone %(name)s; write a name such as `Europe/Prague` or `UTC`", name=repr(name)
        ) from None


def _cron(text: str) -> Cron:
    expression = " ".join(text.split())
    try:
        comes = next(CronSim(expression, datetime.now(UTC)), None)
    except CronSimError as error:
        raise UsageError(
            "frequency %(text)s: %(fault)s; write %(allowed)s",
            text=_shown(text),
            fault=_CRON_FAULTS.get(str(error).lower(), _cut(str(error).lower())),
            allowed=ALLOWED,
        ) from None
    if comes is None:
        raise UsageError(
            "frequency %(text)s: never occurs; write %(allowed)s", text=_shown(text), allowed=ALLOWED
        )
    return Cron(expression=expression)


def _first_later(
    moment: datetime, start: datetime, *, count_from: int, due: Callable[[int], datetime]
) -> datetime:
    for count in itertools.count(max(count_from, 0)):
        candidate = due(count)
        if candidate > moment and candidate >= start:
            return candidate
    raise AssertionError  # unreachable: the counter is infinite


def _on_wall_clock(day: date, at: time, zone: tzinfo) -> datetime:
    """Return the moment (UTC) of a local time: the first of two, or the next one if it does not exist."""
    shown = datetime.combine(day, at.replace(fold=0))
    while True:
        moment = shown.replace(tzinfo=zone).astimezone(UTC)
        if moment.astimezone(zone).replace(tzinfo=None) == shown:
            return moment
        shown = shown.replace(second=0, microsecond=0) + _MINUTE


def _every(match: re.Match[str]) -> Frequency:
    number, unit = int(match["number"] or 1), match["unit"]
    days = number * _DAYS[unit] if unit in _DAYS else number * _UNITS[unit] / 86_400
    if not 0 < days <= _MOST_DAYS:
        raise UsageError(
            "%(given)s is not between 1 second and %(most)s days", given=_shown(match[0]), most=_MOST_DAYS
        )
    return Days(days=int(days)) if unit in _DAYS else Elapsed(step=timedelta(seconds=number * _UNITS[unit]))


def _time(match: re.Match[str]) -> time:
    hour, minute = int(match["hour"]), int(match["minute"])
    try:
        return time(hour, minute)
    except ValueError:
        raise UsageError("%(time)s is not a valid time", time=f"{hour}:{minute:02}") from None


def _daily(match: re.Match[str]) -> Frequency:
    at = _time(match)
    return Cron(expression=f"{at.minute} {at.hour} * * *")


def _weekly(match: re.Match[str]) -> Frequency:
    at = _time(match)
    if match["weekday"] not in WEEKDAYS:
        raise UsageError("%(word)s is not a day of the week", word=repr(match["weekday"]))
    return Cron(expression=f"{at.minute} {at.hour} * * {WEEKDAYS.index(match['weekday']) + 1}")


def _monthly(match: re.Match[str]) -> Frequency:
    at, day = _time(match), int(match["day"])
    if not 1 <= day <= calendar.monthrange(2000, 1)[1]:
        raise UsageError("%(day)s is not a day of the month", day=day)
    if day <= _SAFE_DAY:
        return Cron(expression=f"{at.minute} {at.hour} {day} * *")
    return Months(day=day, at=at)


_AT: Final = r" at (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
_WORDS: Final[tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Frequency]], ...]] = (
    (re.compile(r"every (?:(?P<number>[0-9]{1,9}) )?(?P<unit>second|minute|hour|day|week)s?"), _every),
    (re.compile(r"hourly"), lambda _: Elapsed(step=timedelta(hours=1))),
    (re.compile(r"daily"), lambda _: Days(days=1)),
    (re.compile(r"weekly"), lambda _: Days(days=7)),
    (re.compile(r"monthly"), lambda _: Months()),
    (re.compile(rf"daily{_AT}"), _daily),
    (re.compile(rf"weekly on (?P<weekday>[a-z]+){_AT}"), _weekly),
    (re.compile(rf"monthly on (?P<day>[0-9]{{1,2}}){_AT}"), _monthly),
)
