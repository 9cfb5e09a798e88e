"""The facts that identify a capture, its URL and its time, from any kind of source."""

import re
from datetime import UTC, datetime
from typing import Final

from provider.holdings.sets import host_of

# By-products of crawlers and name look-ups, which have no address that a client can request.
_LEFT_SCHEMES: Final = frozenset({"metadata", "filedesc"})
_LONGEST_HOST: Final = 253

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WARC_SECOND = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_WARC_DATE = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?Z)?)?)?"
)
_ARC_DATE = re.compile(r"([0-9]{4})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})([0-9]{2})()")


class RefusedError(Exception):
    """A record or line is complete, but a fact in it is impossible."""


def scheme_left(target: str) -> str | None:
    """Return the scheme of a target that is not a document; None if it is one (or is not a URL at all)."""
    scheme = _SCHEME.match(target)
    if scheme and (not scheme[2] or scheme[1].lower() in _LEFT_SCHEMES):
        return scheme[1].lower()
    return None


def address_of(target: str) -> tuple[str, str]:
    """Return the URL and its host; raises RefusedError if there is none.

    A blank becomes `%20`: old crawlers left blanks, and a URL must not contain them.
    """
    url = target.strip(" ").removeprefix("<").removesuffix(">").replace(" ", "%20")
    if not _SCHEME.match(url) or _CONTROL.search(url):
        raise RefusedError(f"{target[:200]!r} is not a URL")
    host = host_of(url)
    if host is None or len(host) > _LONGEST_HOST:
        raise RefusedError(f"URL {target[:200]!r} has no valid host name")
    return url, host


def capture_time(text: str, *, is_arc: bool = False) -> datetime:
    """Parse a capture time (UTC) of WARC or ARC; missing parts default to their first value: month 1.

    Raises RefusedError if it is not a valid time.
    """
    if _WARC_SECOND.fullmatch(text) and not is_arc:
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            raise _impossible_date(text) from None
    pattern = _ARC_DATE if is_arc else _WARC_DATE
    found = pattern.fullmatch(text)
    if found is None:
        raise _impossible_date(text)
    try:
        year, month, day, hour, minute, second, fraction = found.groups()
        return datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            int((fraction or "").ljust(6, "0")[:6]),
            tzinfo=UTC,
        )
    except ValueError:
        raise _impossible_date(text) from None


def _impossible_date(text: str) -> RefusedError:
    return RefusedError(f"{text[:40]!r} is not a valid capture time")
