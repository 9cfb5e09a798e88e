"""The languages of pages and letters, how each writes times, and the one that a browser asks for."""

import math
from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Final

from babel import Locale
from babel.dates import format_date, format_time

LANGUAGES: Final[Mapping[str, str]] = {"en": "English", "cs": "Čeština", "sk": "Slovenčina"}
"""Language codes with each language's own name."""
SOURCE: Final = "en"
"""The language of texts in the code, and of readers whose languages are not supported."""


@cache
def conventions(code: str) -> Locale:
    """Return how numbers and times are written in one of `LANGUAGES`.

    English times are those of Europe: 24 hours, the day before the month.
    """
    return Locale.parse("en_GB" if code == SOURCE else code)


def minute_in_utc(moment: datetime, code: str) -> str:
    """Return day and time in UTC, for letters, whose readers may be anywhere: `26. 11. 2026 9:05 UTC`."""
    return f"{minute(moment, code, UTC)} UTC"


def minute(moment: datetime, code: str, zone: tzinfo) -> str:
    """Return day and time in that zone, without its name: `26. 11. 2026 9:05`."""
    shown, locale = moment.astimezone(zone), conventions(code)
    return f"{format_date(shown, 'medium', locale)} {format_time(shown, 'short', locale=locale)}"


def weights(header: str) -> dict[str, float]:
    """Return the weight of each value, in lower case, of an Accept header (RFC 9110, section 12.4.2).

    A weight that is not a finite number is 0.

    >>> weights("cs, en;q=0.5, text/html;level=1;q=x")
    {'cs': 1.0, 'en': 0.5, 'text/html': 0.0}
    """
    found = {}
    for part in header.lower().split(","):
        value, *parameters = part.split(";")
        named = dict(piece.replace(" ", "").split("=", 1) for piece in parameters if "=" in piece)
        try:
            weight = float(named.get("q", "1"))
        except ValueError:
            weight = 0.0
        found[value.strip()] = weight if math.isfinite(weight) else 0.0
    return found


def accepted(header: str) -> str:
    """Return the best supported language for an Accept-Language header (RFC 9110, 12.5.4), or English."""
    best, found = 0.0, SOURCE
    for name, weight in weights(header).items():
        code = name.partition("-")[0]
        if code in LANGUAGES and weight > best:
            best, found = weight, code
    return found
