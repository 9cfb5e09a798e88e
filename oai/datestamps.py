"""UTC datestamps in the two granularities of OAI-PMH (specification, section 3.3)."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from oai.vocabulary import Granularity

_DAY = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_NO_SIGNS = str.maketrans("", "", "-:TZ")
_DAY_LENGTH = 10
_LENGTHS = (_DAY_LENGTH, 20)
_SECOND = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})Z")


@dataclass(frozen=True, kw_only=True)
class Datestamp:
    """A datestamp as written: its first moment (UTC) and its granularity."""

    moment: datetime
    granularity: Granularity

    @property
    def last_second(self) -> datetime:
        """The last whole second that this datestamp covers, UTC; for a day, 23:59:59."""
        if self.granularity is Granularity.SECOND:
            return self.moment
        return self.moment + timedelta(days=1, seconds=-1)

    def __str__(self) -> str:
        return format_datestamp(self.moment, self.granularity)


def parse_datestamp(text: str) -> Datestamp:
    """Parse `YYYY-MM-DD` or `YYYY-MM-DDThh:mm:ssZ` exactly.

    Raises ValueError, which states what was found, for digits other than 0 to 9, blanks, single-digit
    parts, fractions, offsets and impossible dates.
    """
    for pattern, granularity in ((_DAY, Granularity.DAY), (_SECOND, Granularity.SECOND)):
        match = pattern.fullmatch(text)
        if match:
            year, month, day, hour, minute, second = (*map(int, match.groups()), 0, 0, 0)[:6]
            try:
                moment = datetime(year, month, day, hour, minute, second, tzinfo=UTC)
            except ValueError as error:
                raise ValueError(f"{text!r} is not a valid date: {error}") from None
            return Datestamp(moment=moment, granularity=granularity)
    raise ValueError(f"{text!r} does not match {Granularity.DAY} or {Granularity.SECOND}")


def read_moment(text: str) -> datetime:
    """Parse a time as servers write it: ISO 8601 with a fraction, an offset, a blank for `T`, a day alone.

    For dates that are useful although they do not follow the protocol, such as the responseDate of
    answers; `parse_datestamp` reads what has to be a datestamp. The result is UTC if the text states its
    zone or is an exact datestamp; otherwise it has no time zone. Raises ValueError.
    """
    try:
        return parse_datestamp(text).moment
    except ValueError:
        moment = datetime.fromisoformat(text.strip().upper())
    try:
        return moment.astimezone(UTC) if moment.tzinfo is not None else moment
    except OverflowError:
        raise ValueError(f"{text!r} is not a valid date") from None


def format_datestamp(moment: datetime, granularity: Granularity = Granularity.SECOND) -> str:
    """Return an aware datetime as a UTC datestamp; fractions of a second are cut off."""
    if moment.tzinfo is not UTC:
        if moment.tzinfo is None:
            raise ValueError(f"{moment!r} has no time zone; datestamps are UTC")
        moment = moment.astimezone(UTC)
    # Six times as fast as strftime, which pads years before 1000 on some systems only.
    text = moment.isoformat()
    return f"{text[:19]}Z" if granularity is Granularity.SECOND else text[:10]


def format_timestamp(moment: datetime) -> str:
    """Return an aware datetime as `YYYYMMDDhhmmss`, UTC; fractions of a second are cut off."""
    return format_datestamp(moment).translate(_NO_SIGNS)


def is_later(one: str, other: str) -> bool:
    """Return whether `one` is later, compared at the coarser granularity; False if either is invalid."""
    if one == other or (len(one) == len(other) in _LENGTHS and one < other):
        return False  # almost always, and forty times as fast
    try:
        moments = [in_utc(read_moment(text)) for text in (one, other)]
    except ValueError:
        return False
    if min(len(one), len(other)) <= _DAY_LENGTH:
        return moments[0].date() > moments[1].date()
    return moments[0] > moments[1]


def in_utc(moment: datetime) -> datetime:
    """Return a time without a time zone as UTC, which the protocol prescribes; others are not changed."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def utc_now() -> datetime:
    """Return the current time, UTC, truncated to whole seconds, the protocol's finest granularity."""
    return datetime.now(UTC).replace(microsecond=0)
