"""Formatting of numbers, sizes, times and durations for people."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal

from babel import Locale
from babel.core import get_global
from babel.dates import format_date, format_skeleton, format_time, format_timedelta
from babel.numbers import format_decimal, format_percent
from markupsafe import Markup, escape

from manager.jobs.reasons import WaitReason, in_words
from oai.datestamps import parse_datestamp, utc_now
from oai.languages import conventions
from oai.vocabulary import Granularity
from web.site.i18n import _, language
from web.site.zones import here, local

_CODE: Final = re.compile(r"`([^`]+)`")
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_KILO: Final = 1000
_CLOCK: Final = "%Y-%m-%d %H:%M:%S"
_ISO: Final = "%Y-%m-%dT%H:%M:%SZ"
_A_MINUTE: Final = timedelta(minutes=1)
_WEEK: Final = timedelta(days=7)
_DIFFERENCE: Final = timedelta(seconds=5)
_SHORT_CODES: Final[Mapping[str, str]] = get_global("language_aliases")
"""Two-letter codes by three-letter ones: `cs` by `cze` and `ces`."""
_TIMES: Final = frozenset({"at", "since", "until"})
"""Facts of reasons that are times."""


def number(value: int) -> str:
    """Return the number with the separators of the reader's language."""
    return format_decimal(value, locale=locale())


def coded(text: str) -> Markup:
    """Return the text as HTML, in which what stands between backticks is code."""
    # As plain text: what is substituted into Markup would be escaped. Code, and what other programs say, is
    # in English.
    return Markup(_CODE.sub(r'<code lang="en" translate="no">\1</code>', str(escape(text))))  # noqa: S704 escaped here


def decimal(value: float) -> str:
    """Return a number with at most one decimal place, as the reader's language writes it."""
    return format_decimal(value, format="#,##0.#", locale=locale())


def percent(share: float) -> str:
    """Return a share, of which 1 is the whole, in percent as the reader's language writes it."""
    return format_percent(share, locale=locale())


def language_name(code: str) -> str:
    """Return the name of a language in the reader's language; the ISO 639 code if CLDR has no name."""
    return str(locale().languages.get(_SHORT_CODES.get(code, code), code))


def some(value: int) -> Markup | str:
    """Return the number; a dash for zero, so that columns show where there is something.

    Where each row is a card, the style sheet leaves such a line out.
    """
    return number(value) if value else Markup('<span class="zero">–</span>')  # noqa: RUF001 en dash intended


def moment(value: datetime | None) -> Markup | str:
    """Return a `<time>` element such as "3 min ago" or "in 2 hr", with the exact time in its tooltip.

    The script keeps it up to date. A time more than a week away is a date.
    """
    if value is None:
        return _("never")
    return _element(value, ago(value, utc_now()), relative=True)


def is_past(value: datetime) -> bool:
    """Return whether the time has come, as far as the clocks of machines agree."""
    return value - utc_now() <= _DIFFERENCE


def ago(value: datetime, now: datetime) -> str:
    """Return how long ago or until when, as words; the date if that is more than a week."""
    distance = value - now
    if abs(distance) >= _WEEK:
        return format_date(local(value), "medium", locale=locale())
    if abs(distance) < _A_MINUTE:
        # Clocks of machines differ by seconds, and what has happened is not announced.
        return _("just now") if distance <= _DIFFERENCE else _("in a moment")
    return format_timedelta(
        distance, granularity="minute", threshold=1, add_direction=True, format="short", locale=locale()
    )


def lasting(value: timedelta) -> str:
    """Return a length of time in words, such as "4 hours"."""
    return format_timedelta(value, granularity="hour", threshold=0.99, format="long", locale=locale())


def harvest_name(repository: str, metadata_prefix: str, set_spec: str | None) -> str:
    """Return a harvest in words: the name of its repository, the prefix and, if any, the set."""
    return " · ".join(filter(None, (repository, metadata_prefix, set_spec)))


def elapsed(value: datetime) -> Markup:
    """Return a `<time>` element with the time that has passed since, which the script counts on."""
    passed = duration((utc_now() - value).total_seconds())
    return Markup('<time datetime="{}" data-elapsed>{}</time>').format(
        f"{value.astimezone(UTC):{_ISO}}", passed
    )


def exact(value: datetime | None) -> Markup | str:
    """Return a `<time>` element with date, hour and minute in the reader's zone."""
    return _("never") if value is None else _element(value, clock(value))


def second(value: datetime | None) -> Markup | str:
    """Return a `<time>` element to the second, for lists of what happened one after the other."""
    return _("never") if value is None else _element(value, clock(value, "medium"))


def hour(value: datetime) -> Markup:
    """Return a `<time>` element with hour and minute in the reader's zone."""
    return _element(value, f"{local(value):%H:%M}")


def clock(value: datetime, length: Literal["short", "medium"] = "short") -> str:
    """Return date and time in the reader's zone; names the zone for the repeated hour in autumn.

    `short` ends with the minute, `medium` with the second.
    """
    shown = local(value)
    twice = shown.replace(fold=1 - shown.fold).utcoffset() != shown.utcoffset()
    time = format_time(shown, length, locale=locale())
    return f"{day(shown)} {time}{f' {shown:%Z}' if twice else ''}"


def _element(value: datetime, text: str, *, relative: bool = False) -> Markup:
    utc = value.astimezone(UTC)
    title = f"{clock(value, 'medium')} {local(value):%Z}" + (
        "" if here().key == "UTC" else f" ({utc:{_CLOCK}} UTC)"
    )
    # Printed pages show the time instead of the distance.
    printed = Markup(' data-relative="{}"').format(clock(value)) if relative else ""
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(f"{utc:{_ISO}}", title, printed, text)


def day(value: date) -> str:
    """Return a day as the reader's language writes it: `26. 11. 2026`."""
    return format_date(value, "medium", locale=locale())


def datestamp(text: str | None) -> Markup | str:
    """Return a `<time>` element for a datestamp of OAI-PMH; what is none, as it is; a dash for nothing."""
    try:
        found = parse_datestamp(text or "")
        if found.granularity is Granularity.DAY:
            return Markup('<time datetime="{}" title="{}">{}</time>').format(text, text, day(found.moment))
        return second(found.moment)
    except (ValueError, OverflowError):  # the first day of the calendar is in no zone west of Greenwich
        return text or "–"  # noqa: RUF001 en dash intended


def month(value: date) -> str:
    """Return a month as the reader's language writes it: `listopad 2026`."""
    return format_skeleton("yMMMM", value, locale=locale())


def short_day(value: date) -> str:
    """Return a day without the year: `26. 11.`."""
    return format_skeleton("MMMd", value, locale=locale())


def locale() -> Locale:
    """Return the conventions of the reader's language."""
    return conventions(language.get())


def duration(seconds: float) -> str:
    """Return a duration: `45 s`, `2:30 min`, `1:05 h`, `3 d 4 h`."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02d} min"
    if whole < _DAY:
        return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d} h"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def reason(value: WaitReason) -> str:
    """Return why a job waits, in the reader's language and time zone."""
    facts = {name: on_the_clock(fact) if name in _TIMES else fact for name, fact in value.facts.items()}
    return in_words(replace(value, facts=facts), _)


def on_the_clock(fact: object) -> object:
    """Return a datestamp in the reader's time zone; other facts unchanged, as manual rows may contain any."""
    try:
        return clock(parse_datestamp(str(fact)).moment)
    except (ValueError, OverflowError):
        return fact


def size(count: int) -> str:
    """Return a number of bytes with a decimal unit, as limits have it, and at most three digits: `1.5 GB`."""
    value, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB", "PB"):
        if value < _KILO:
            break
        value, unit = value / _KILO, larger
    digits = "0" if unit == "B" or value >= 10 else "0.0"  # noqa: PLR2004 two digits suffice
    return f"{format_decimal(value, format=digits, locale=locale())}\u00a0{unit}"


@dataclass(frozen=True, kw_only=True)
class Look:
    """The name of an icon in `icons.py` and of a tone in `style.css`."""

    icon: str
    tone: str


_UNKNOWN: Final = Look(icon="dot", tone="neutral")

_LOOKS: Final[Mapping[str, Look]] = {
    "planned": Look(icon="clock", tone="neutral"),
    "queued": Look(icon="clock", tone="neutral"),
    "starting": Look(icon="play", tone="active"),
    "running": Look(icon="play", tone="active"),
    "waiting": Look(icon="hourglass", tone="caution"),
    "pausing": Look(icon="pause", tone="neutral"),
    "paused": Look(icon="pause", tone="neutral"),
    "stopping": Look(icon="stop", tone="caution"),
    "restarting": Look(icon="repeat", tone="caution"),
    "completed": Look(icon="check", tone="good"),
    "completed with errors": Look(icon="warning", tone="caution"),
    "no changes": Look(icon="equals", tone="good"),
    "incomplete": Look(icon="half", tone="caution"),
    "held": Look(icon="hand", tone="caution"),
    "failed": Look(icon="cross", tone="bad"),
    "killed": Look(icon="stop", tone="bad"),
    "lost": Look(icon="cross", tone="bad"),
    "missed": Look(icon="warning", tone="caution"),
    "skipped (overlap)": Look(icon="skip", tone="neutral"),
    # Schedules.
    "scheduled": Look(icon="clock", tone="neutral"),
    "new": Look(icon="dot", tone="neutral"),
    "recurring": Look(icon="repeat", tone="good"),
    "one-off": Look(icon="once", tone="neutral"),
    "set aside": Look(icon="warning", tone="bad"),
    "suspended": Look(icon="warning", tone="bad"),
    # Log lines.
    "error": Look(icon="cross", tone="bad"),
    "warning": Look(icon="warning", tone="caution"),
    "info": Look(icon="dot", tone="neutral"),
    # Diagnostics.
    "good": Look(icon="check", tone="good"),
    "odd": Look(icon="warning", tone="caution"),
    "bad": Look(icon="cross", tone="bad"),
    "unknown": Look(icon="dot", tone="neutral"),
    # Messages.
    "on its way": Look(icon="play", tone="active"),
    "sent": Look(icon="check", tone="good"),
    "given up": Look(icon="cross", tone="bad"),
    "unsure": Look(icon="warning", tone="caution"),
    "muted": Look(icon="stop", tone="neutral"),
    "in a report": Look(icon="dot", tone="neutral"),
    # Users, tokens and workers.
    "active": Look(icon="check", tone="good"),
    "invited": Look(icon="clock", tone="neutral"),
    "disabled": Look(icon="stop", tone="bad"),
    "expired": Look(icon="clock", tone="neutral"),
    "revoked": Look(icon="stop", tone="bad"),
    "on": Look(icon="check", tone="good"),
    "off": Look(icon="dot", tone="neutral"),
    "needed": Look(icon="warning", tone="caution"),
    "draining": Look(icon="hourglass", tone="caution"),
    # Documents and collections.
    "open": Look(icon="check", tone="good"),
    "reading room": Look(icon="person", tone="caution"),
    "embargo": Look(icon="hourglass", tone="caution"),
    "withheld": Look(icon="stop", tone="bad"),
    "hidden": Look(icon="stop", tone="bad"),
    # Files prepared for download.
    "ready": Look(icon="check", tone="good"),
    "removed": Look(icon="bin", tone="neutral"),
    # Titles.
    "listed": Look(icon="check", tone="good"),
    "not public": Look(icon="stop", tone="neutral"),
    "gone": Look(icon="bin", tone="neutral"),
    "no captures": Look(icon="dot", tone="caution"),
    # Indexed files, harvested lists, self-tests.
    "done": Look(icon="check", tone="good"),
    "under way": Look(icon="play", tone="active"),
    "finished": Look(icon="check", tone="good"),
    "abandoned": Look(icon="half", tone="caution"),
    "passed": Look(icon="check", tone="good"),
    "not applicable": Look(icon="dot", tone="neutral"),
    "could not be done": Look(icon="warning", tone="caution"),
    # Verdicts.
    "complete": Look(icon="check", tone="good"),
    "partial": Look(icon="half", tone="caution"),
}


def look_of(state: str) -> Look:
    """Return how the state is shown; an unknown word is shown neutrally."""
    return _LOOKS.get(state, _UNKNOWN)
