"""The facts that identify a capture, its URL and its time, from any kind of source."""

import re
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Final

from provider.holdings.sets import host_of

# By-products of crawlers, and files of the machine that wrote the archive (Perma.cc, warcit): none has an
# address that a client can request.
_LEFT_SCHEMES: Final = frozenset({"metadata", "filedesc", "file"})
# Without `//`, a URL of these is broken; one of any other scheme (`dns:`, `urn:`) has no host.
_WITH_HOST: Final = frozenset({"http", "https", "ftp"})
_LONGEST_HOST: Final = 253

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_WARC_SECOND = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_WARC_DATE = re.compile(
    r"([0-9]{4})(?:-([0-9]{2})(?:-([0-9]{2})(?:T([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,9}))?)?Z)?)?)?"
)
_ARC_DATE = re.compile(r"([0-9]{10,18})[A-Za-z]{0,9}")
_ARC_DIGITS: Final = 14
_LEAP_SECOND = re.compile(r"(T[0-9]{2}:59:|^[0-9]{10}59)60")
_WITH_OFFSET = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2,3})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?"
    r"([+-])([0-9]{2}):?([0-9]{2})"
)


class RefusedError(Exception):
    """A record or line is complete, but a fact in it is impossible."""


def scheme_left(target: str) -> str | None:
    """Return the scheme of a target that is not a document; None if it is one (or is not a URL at all)."""
    scheme = _SCHEME.match(_without_brackets(target))
    name = scheme[1].lower() if scheme else ""
    if scheme and (name in _LEFT_SCHEMES or not (scheme[2] or name in _WITH_HOST)):
        return name
    return None


def _without_brackets(target: str) -> str:
    """Return the target without the `<` and `>` that wget writes around it, as WARC 1.0 seems to require."""
    target = target.strip(" ")
    return target[1:-1] if target.startswith("<") and target.endswith(">") else target


def address_of(target: str) -> tuple[str, str]:
    """Return the URL and its host; raises RefusedError if there is none.

    A blank becomes `%20`: old crawlers left blanks, and a URL must not contain them.
    """
    url = _without_brackets(target).replace(" ", "%20")
    if not _SCHEME.match(url) or _CONTROL.search(url):
        raise RefusedError(f"{target[:200]!r} is not a URL")
    host = host_of(url)
    if host is None or len(host) > _LONGEST_HOST:
        raise RefusedError(f"URL {target[:200]!r} has no valid host name")
    return url, host


def capture_time(text: str, *, is_arc: bool = False) -> tuple[datetime, bool]:
    """Return a capture time (UTC) of WARC or ARC, and whether it had to be adjusted to be one.

    Missing parts of a WARC date default to their first value: month 1. Dates of other forms than the
    formats require are adjusted, if what they mean is certain:

    - ARC: 10 to 18 digits, also followed by letters, are cut or padded to 14, and month or day 00 becomes
      01, as the Internet Archive's CDX-Writer and Wayback do.
    - WARC: a time with an offset is converted to UTC; in ClueWeb09 (`2009-03-65T08:43:19-0800`) the day is
      that of the year.
    - A leap second (`23:59:60`) becomes the second before it.

    Raises RefusedError if it is not a valid time.
    """
    try:
        if is_arc:
            return _arc_time(text)
        if _WARC_SECOND.fullmatch(text):
            return datetime.fromisoformat(text), False
        found = _WARC_DATE.fullmatch(text)
        return (_time_with_offset(text), True) if found is None else (_warc_time(*found.groups()), False)
    except (ValueError, OverflowError):
        before = _LEAP_SECOND.sub(r"\g<1>59", text)
        if before != text:
            return capture_time(before, is_arc=is_arc)[0], True
        raise RefusedError(f"{text[:40]!r} is not a valid capture time") from None


def _arc_time(text: str) -> tuple[datetime, bool]:
    found = _ARC_DATE.fullmatch(text)
    if found is None:
        raise ValueError(text)
    digits = found[1][:_ARC_DIGITS].ljust(_ARC_DIGITS, "0")
    if digits[4:6] == "00":
        digits = f"{digits[:4]}01{digits[6:]}"
    if digits[6:8] == "00":
        digits = f"{digits[:6]}01{digits[8:]}"
    return datetime.fromisoformat(f"{digits[:8]}T{digits[8:]}Z"), digits != text


def _warc_time(
    year: str, month: str, day: str, hour: str, minute: str, second: str, fraction: str
) -> datetime:
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


def _time_with_offset(text: str) -> datetime:
    found = _WITH_OFFSET.fullmatch(text)
    if found is None:
        raise ValueError(text)
    year, month, day, *time, sign, hours, minutes = found.groups()
    # A day of the year from February on is never a valid day of the month it is in.
    in_year = date(int(year), 1, 1) + timedelta(days=int(day) - 1)
    if in_year.month == int(month):
        day = str(in_year.day)
    offset = timezone((-1 if sign == "-" else 1) * timedelta(hours=int(hours), minutes=int(minutes)))
    return _warc_time(year, month, day, *time).replace(tzinfo=offset).astimezone(UTC)
