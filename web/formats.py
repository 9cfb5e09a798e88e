"""How figures, sizes, times and durations are written for people."""

from datetime import UTC, datetime
from typing import Final

from markupsafe import Markup

from manager.reasons import Reason, in_words
from web.words import _

_THIN_SPACE: Final = "\u202f"
_MINUTE: Final = 60
_HOUR: Final = 3600
_DAY: Final = 86400
_KIBI: Final = 1024


def number(value: int) -> str:
    """The number with its thousands set apart by narrow blanks that never break."""
    return f"{value:,}".replace(",", _THIN_SPACE)


def moment(value: datetime | None) -> Markup | str:
    """A `<time>` element in UTC to the second; the page's script shows it in the reader's zone."""
    if value is None:
        return _("never")
    utc = value.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        utc.strftime("%Y-%m-%dT%H:%M:%SZ"), utc.strftime("%Y-%m-%d %H:%M:%S")
    )


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
    """Why a job waits, in the reader's language."""
    return in_words(value, _)


def size(count: int) -> str:
    """A number of bytes with a binary unit and three figures at most."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if value < _KIBI:
            break
        value, unit = value / _KIBI, larger
    digits = 0 if unit == "B" or value >= 10 else 1  # noqa: PLR2004 two figures are enough
    return f"{value:.{digits}f} {unit}"
