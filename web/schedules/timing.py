"""When a schedule runs, as people choose it (kind, weekdays, day, time), and as a sentence.

The stored form is the frequency of `manager.schedules.frequency`; one of another kind is for experts.
"""

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from babel.dates import get_day_names
from babel.lists import format_list

from manager.schedules.frequency import WEEKDAYS, parse_zone
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.site.formats import locale
from web.site.i18n import _, mark, ngettext
from web.site.paging import as_number
from web.site.zones import local

NO_WEEKDAY: Final = "weekly on no day"
"""The frequency of a form without a weekday; its validation asks for one."""
NO_TIME: Final = "daily at no time"
"""The frequency of a form whose time is missing or cannot be read; its validation asks for one."""
_SATURDAY: Final = 5
_MINUTE: Final = timedelta(minutes=1)
_MINUTES_OF_DAY: Final = 24 * 60
_NIGHT: Final = (60, 5 * 60)
"""Minutes of the day between which repositories are harvested unless the user chooses another time."""
_LAST_DAY: Final = 28
"""The last day that each month has."""
_AT: Final = r"(?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2})"
_CRON: Final = r"(?P<minute>[0-9]{1,2}) (?P<hour>[0-9]{1,2})"
_ON: Final = (
    mark("on Monday"), mark("on Tuesday"), mark("on Wednesday"), mark("on Thursday"), mark("on Friday"),
    mark("on Saturday"), mark("on Sunday"),
)  # fmt: skip


class When(StrEnum):
    """A kind of schedule."""

    BY_HAND = "by-hand"
    HOURLY = "hourly"
    DAILY = "daily"
    WEEKLY = "weekly"
    MONTHLY = "monthly"
    EXPERT = "expert"


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The choices of the form; those that do not belong to the kind have defaults."""

    when: When
    weekdays: tuple[int, ...] = (_SATURDAY,)
    """0 is Monday."""
    day: int = 1
    at: str = "01:00"
    """Hour and minute; empty in a form whose time is missing or cannot be read."""

    @property
    def frequency(self) -> str:
        """Return the frequency; for experts, none is known here."""
        if self.when is When.WEEKLY and not self.weekdays:
            return NO_WEEKDAY
        if not self.at and self.when in {When.DAILY, When.WEEKLY, When.MONTHLY}:
            return NO_TIME
        if self.when is When.WEEKLY and len(self.weekdays) > 1:
            hour, minute = self.at.split(":")
            days = ",".join(str(day + 1) for day in self.weekdays)
            return f"{int(minute)} {int(hour)} * * {days}"
        return {
            When.HOURLY: "hourly",
            When.DAILY: f"daily at {self.at}",
            When.WEEKLY: f"weekly on {WEEKDAYS[self.weekdays[0]] if self.weekdays else ''} at {self.at}",
            When.MONTHLY: f"monthly on {self.day} at {self.at}",
        }.get(self.when, "")

    def moved(self, by: timedelta) -> "Timing | None":
        """Return the timing on a clock that is ahead by whole minutes; None if the form cannot say it."""
        hour, minute = map(int, self.at.split(":"))
        days, minutes = divmod(hour * 60 + minute + by // _MINUTE, _MINUTES_OF_DAY)
        if self.when is When.MONTHLY and days and not 1 <= self.day + days <= _LAST_DAY:
            return None
        weekdays = sorted((day + days) % len(WEEKDAYS) for day in self.weekdays)
        at = f"{minutes // 60:02}:{minutes % 60:02}"
        return replace(self, weekdays=tuple(weekdays), day=self.day + days, at=at)

    def in_words(self) -> str:
        """Return when it runs, as the middle of a sentence."""
        words = {
            When.BY_HAND: _("only by hand"),
            When.HOURLY: _("every hour"),
            When.DAILY: _("every day at %(time)s"),
            When.WEEKLY: _("every week %(days)s at %(time)s"),
            When.MONTHLY: _("every month on day %(day)s at %(time)s"),
        }.get(self.when, "")
        days = format_list([_(_ON[day]) for day in self.weekdays], locale=locale()) if self.weekdays else ""
        return words % {"time": self.at, "day": self.day, "days": days}


def at_night(base_url: str) -> Timing:
    """Return a weekly plan at night, at a minute that the address of the repository chooses.

    Otherwise, the plans of all repositories would be due at the same time, and wait for each other.
    """
    hour, minute = divmod(_NIGHT[0] + zlib.crc32(base_url.encode()) % (_NIGHT[1] - _NIGHT[0]), 60)
    return Timing(when=When.WEEKLY, at=f"{hour:02}:{minute:02}")


def timing_of(frequency: str | None) -> Timing:
    """Return the choices that give this frequency, or those of an expert."""
    text = " ".join((frequency or "").lower().split())
    if not text:
        return Timing(when=When.BY_HAND)
    if text in {"hourly", "every hour", "every 1 hour"}:
        return Timing(when=When.HOURLY)
    for pattern, when in _PATTERNS:
        found = pattern.fullmatch(text)
        if found:
            return _read(found.groupdict(), when)
    return Timing(when=When.EXPERT)


def _read(found: Mapping[str, str], when: When) -> Timing:
    named, numbers = found.get("weekday"), found.get("weekdays")
    days: tuple[int, ...] = (_SATURDAY,)
    if named in WEEKDAYS:
        days = (WEEKDAYS.index(named),)
    elif numbers:
        # Cron counts from Sunday, which is both 0 and 7.
        days = tuple(sorted({(int(number) + 6) % 7 for number in numbers.split(",")}))
    at = f"{int(found['hour']):02}:{found['minute']:0>2}"
    return Timing(when=when, weekdays=days, day=int(found.get("day") or 1), at=at)


def timing_in(values: Mapping[str, Any]) -> Timing:
    """Return the choices in the values of a form, or those that its frequency means."""
    if values.get("when") not in set(When):
        return timing_of(str(values.get("frequency", "")))
    days = tuple(day for day in range(len(WEEKDAYS)) if values.get(f"weekday-{day}"))
    day = as_number(str(values.get("month_day", "")))
    at = re.fullmatch(rf"({_AT})(:[0-9]{{2}})?", str(values.get("at", "01:00")).strip())
    return Timing(
        when=When(values["when"]),
        weekdays=days,
        day=1 if day is None else day,
        at=at[1] if at else "",
    )


def weekday_names() -> list[str]:
    """Return the short names of the days of the week, Monday first."""
    names = get_day_names("abbreviated", locale=locale())
    return [names[day] for day in range(len(WEEKDAYS))]


def often(frequency: str | None) -> str:
    """Return when a schedule with this frequency runs, in words; a cron expression as it is written."""
    return timing_of(frequency).in_words() or _every(frequency or "") or str(frequency)


def often_here(frequency: str | None, zone: str, due: datetime | None = None) -> str:
    """Return when a schedule of that time zone runs, in words and on the reader's clock of its next due time.

    What the form's choices cannot say, such as a cron expression, is followed by the schedule's zone.
    """
    timing, ahead = timing_of(frequency), _ahead(zone, due or utc_now())
    if ahead == timedelta() or timing.when in {When.BY_HAND, When.HOURLY} or _every(frequency or ""):
        return often(frequency)
    moved = timing.moved(ahead) if ahead is not None and timing.when is not When.EXPERT else None
    return moved.in_words() if moved is not None else f"{often(frequency)} ({zone})"


def _ahead(zone: str, moment: datetime) -> timedelta | None:
    """Return how far the reader's clock is ahead of the zone's; None for a zone unknown on this machine."""
    try:
        there = moment.astimezone(parse_zone(zone))
    except UsageError:
        return None
    return local(moment).replace(tzinfo=None) - there.replace(tzinfo=None)


def _every(frequency: str) -> str | None:
    found = _EVERY.fullmatch(" ".join(frequency.lower().split()))
    if found is None:
        return None
    count = int(found["number"] or 1)
    words = {
        "second": ngettext("every second", "every %(count)s seconds", count),
        "minute": ngettext("every minute", "every %(count)s minutes", count),
        "hour": ngettext("every %(count)s hour", "every %(count)s hours", count),
        "day": ngettext("every day", "every %(count)s days", count),
        "week": ngettext("every week", "every %(count)s weeks", count),
    }
    return words[found["unit"]] % {"count": count}


_EVERY: Final = re.compile(r"every (?:(?P<number>[0-9]{1,9}) )?(?P<unit>second|minute|hour|day|week)s?")
_PATTERNS: Final = (
    (re.compile(rf"daily at {_AT}"), When.DAILY),
    (re.compile(rf"weekly on (?P<weekday>{'|'.join(WEEKDAYS)}) at {_AT}"), When.WEEKLY),
    (re.compile(rf"monthly on (?P<day>[0-9]{{1,2}}) at {_AT}"), When.MONTHLY),
    (re.compile(rf"{_CRON} \* \* \*"), When.DAILY),
    (re.compile(rf"{_CRON} \* \* (?P<weekdays>[0-7](?:,[0-7])*)"), When.WEEKLY),
    # Cron leaves out months without the day; "monthly on 31" means their last day.
    (re.compile(rf"{_CRON} (?P<day>0?[1-9]|1[0-9]|2[0-8]) \* \*"), When.MONTHLY),
)
