"""How figures, sizes, times and durations are written for people."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from manager.reasons import Reason, in_words
from oai.datestamps import parse_datestamp
from web.words import _
from web.zones import here, local

_THIN_SPACE: Final = "\u202f"
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_KIBI: Final = 1024
_CLOCK: Final = "%Y-%m-%d %H:%M:%S"
_TIMES: Final = frozenset({"at", "since", "until"})
"""The facts of reasons that are times."""


def number(value: int) -> str:
    """The number with its thousands set apart by narrow blanks that never break."""
    return f"{value:,}".replace(",", _THIN_SPACE)


def moment(value: datetime | None) -> Markup | str:
    """A `<time>` element on the reader's clock to the second, with UTC in its tooltip where that differs."""
    if value is None:
        return _("never")
    utc, shown = value.astimezone(UTC), clock(value)
    told = f"{utc:{_CLOCK}} UTC"
    title = Markup("") if shown == told else Markup(' title="{}"').format(told)
    return Markup('<time datetime="{}"{}>{}</time>').format(utc.strftime("%Y-%m-%dT%H:%M:%SZ"), title, shown)


def hour(value: datetime) -> Markup:
    """A `<time>` element with hour and minute on the reader's clock, and the whole moment in its tooltip."""
    utc = value.astimezone(UTC)
    # A week has hundreds of them, and nothing in a time is to be escaped.
    return Markup(  # noqa: S704 see above
        f'<time datetime="{utc:%Y-%m-%dT%H:%M:%SZ}" title="{utc:{_CLOCK}} UTC">{local(value):%H:%M}</time>'
    )


def clock(value: datetime) -> str:
    """The moment on the reader's clock; the zone is named in UTC and in the hour that autumn repeats."""
    shown = local(value)
    twice = shown.replace(fold=1 - shown.fold).utcoffset() != shown.utcoffset()
    return f"{shown:{_CLOCK}} {shown:%Z}" if twice or here().key == "UTC" else f"{shown:{_CLOCK}}"


def duration(seconds: float) -> str:
    """A length of time: `45 s`, `2:30 min`, `1:05 h`, `3 d 4 h`."""
    whole = max(0, round(seconds))
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02d} min"
    if whole < _DAY:
        return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02d} h"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def reason(value: Reason) -> str:
    """Why a job waits, in the reader's language and on the reader's clock."""
    facts = {name: on_the_clock(fact) if name in _TIMES else fact for name, fact in value.facts.items()}
    return in_words(replace(value, facts=facts), _)


def on_the_clock(fact: object) -> object:
    """A datestamp on the reader's clock; anything else as it is, for a row written by hand may hold it."""
    try:
        return clock(parse_datestamp(str(fact)).moment)
    except ValueError:
        return fact


def size(count: int) -> str:
    """A number of bytes with a binary unit and three figures at most."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < _KIBI:
            break
        value, unit = value / _KIBI, larger
    digits = 0 if unit == "B" or value >= 10 else 1  # noqa: PLR2004 two figures are enough
    return f"{value:.{digits}f} {unit}"
