"""The datestamp windows that a harvest requests one after the other, and how they are divided.

When a window is divided, the second part begins where the first one ends, with both bounds included (section
2.7.1): a server that stores fractions of a second, or treats a day as its first second, has records between
two bounds that only touch.

A window to be sliced is first cut into years, these into months, and these into days if days are requested:
an empty year or month is then skipped as a whole, and need not be requested day by day.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from harvester.vocabulary import Slice
from oai.datestamps import format_datestamp, parse_datestamp
from oai.vocabulary import Granularity

_FIRST_SLICED = datetime(1990, 1, 1, tzinfo=UTC)
"""Everything that a repository dates before the Web forms one slice."""
_LOCAL_DAYS: Final = 86_400.0
"""Seconds by which lists in days begin earlier: a local day may be the day before that of UTC."""
_FEW: Final = 3
"""Up to this number of shorter spans are requested without first checking that their span is not empty."""


class Span(StrEnum):
    """A span of the calendar."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"


_SHORTER: Final = {None: Span.YEAR, Span.YEAR: Span.MONTH, Span.MONTH: Span.DAY}
_LENGTHS: Final = {Span.MONTH: timedelta(days=31), Span.DAY: timedelta(days=1)}


@dataclass(frozen=True, kw_only=True)
class Window:
    """A list to request; bounds are datestamps in the repository's granularity, None is open."""

    from_: str | None = None
    until: str | None = None
    slice: Slice | None = None
    """Cut the window into slices of this length, each a list of its own."""
    span: Span | None = None
    """Maximum span of a window to be sliced; None if it may have any length."""
    unsounded: bool = False
    """Before it is cut, check whether it contains any records."""
    one_by_one: bool = False
    """Fetch its records one by one, because a page of them cannot be read."""
    halvings: int = 0
    """Number of times it was divided around an unreadable page."""
    put_off: bool = False
    """Request it last: searching it for bad records took too many requests."""
    first_from: str | None = None
    """Where the list began before it was continued from a later datestamp."""
    taken_up: bool = False
    """Whether it was continued from a later datestamp."""
    second_reading: bool = False
    """Whether it is requested a second time, because its list changed while it was read."""

    @property
    def in_seconds(self) -> bool:
        """Whether a bound is finer than a day."""
        return any("T" in bound for bound in (self.from_, self.until) if bound)

    def in_days(self, overlap: float) -> "Window":
        """Return the window with bounds of whole days; its beginning is moved `overlap` seconds back."""
        from_, first = (bound and _day_of(bound, overlap) for bound in (self.from_, self.first_from))
        return replace(self, from_=from_, until=self.until and self.until[:10], first_from=first)

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value for the checkpoint, without empty fields."""
        return {name: value for name, value in asdict(self).items() if value}

    def in_words(self) -> str:
        """Return the text for messages: `from … until …`."""
        bounds = [f"{name} {value}" for name, value in (("from", self.from_), ("until", self.until)) if value]
        return " ".join(bounds) or "all datestamps"


def window_from_json(found: dict[str, Any]) -> Window:
    """Return a window from the checkpoint's JSON."""
    length, span = found.get("slice"), found.get("span")
    kinds = {"slice": Slice(length) if length else None, "span": Span(span) if span else None}
    return Window(**{**found, **kinds})


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """A repository's granularity, and the range of its records' datestamps (UTC)."""

    granularity: str | None
    earliest: datetime
    latest: datetime

    @property
    def resolution(self) -> timedelta:
        """The shortest window that can be requested."""
        return timedelta(seconds=1) if self.granularity == Granularity.SECOND else timedelta(days=1)

    def write(self, moment: datetime) -> str:
        """Return the moment in the repository's granularity."""
        fine = self.granularity == Granularity.SECOND
        return format_datestamp(moment, Granularity.SECOND if fine else Granularity.DAY)

    def bounds(self, window: Window) -> tuple[datetime, datetime]:
        """Return the window's first and last moment; open bounds are those of the repository."""
        first = parse_datestamp(window.from_).moment if window.from_ else self.earliest
        last = parse_datestamp(window.until).moment if window.until else self.latest
        return first, last

    def may_begin_openly(self, window: Window) -> bool:
        """Return whether all records from earliestDatestamp are requested, with an earlier `from`.

        A slice is not: without its beginning, each one would be all the earlier ones.
        """
        bounded = window.from_ is not None and window.until is None
        return bounded and self.bounds(window)[0] < self.earliest


def least_overlap(granularity: str | None) -> float:
    """Return how many seconds before the watermark a harvest must begin to receive all later changes.

    A repository of day granularity may date records by its local day: a change after the watermark then has
    the date of the day before in UTC.
    """
    return 0.0 if granularity == Granularity.SECOND else _LOCAL_DAYS


def earlier(moment: datetime, seconds: float) -> datetime:
    """Return the moment so many seconds earlier; unchanged if that is before the year 1."""
    try:
        return moment - timedelta(seconds=seconds)
    except OverflowError:
        return moment


def calendar(granularity: str | None, earliest: str | None, now: datetime) -> Calendar:
    """Return the calendar that Identify describes; a bad earliestDatestamp counts as the Web's beginning."""
    try:
        first = parse_datestamp(earliest or "").moment
    except ValueError:
        first = _FIRST_SLICED
    return Calendar(granularity=granularity, earliest=min(first, now), latest=now)


def next_piece(window: Window, calendar: Calendar) -> tuple[Window, Window | None]:
    """Return the first piece of a window to be sliced, and the rest of the window.

    A piece is the next shorter calendar span; a piece as long as a slice is not cut further. The first piece
    keeps the window's open beginning, because earliestDatestamp may be wrong, and the last one its open end,
    because records change during the harvest.
    """
    window = replace(window, unsounded=False)
    first, last = calendar.bounds(window)
    span = _SHORTER[window.span]
    end = _end_of(max(first, _FIRST_SLICED), span)
    if calendar.write(end) == calendar.write(first):
        # This is the bound at which the previous piece ended.
        end = _end_of(end + timedelta(seconds=1), span)
    if end >= last:
        return _piece(window, span, last - first), None
    bound = calendar.write(end)
    return _piece(replace(window, until=bound), span, end - first), replace(window, from_=bound)


def first_request(window: Window, calendar: Calendar) -> Window:
    """Return what is requested first: the window, or its first piece if it is to be sliced."""
    while window.slice is not None and not window.unsounded:
        window, _ = next_piece(window, calendar)
    return window


def slices(window: Window, calendar: Calendar) -> Iterator[Window]:
    """Yield all slices of a window as if none were empty; the window itself if it is not to be sliced."""
    rest = [window]
    while rest:
        window = rest.pop()
        if window.slice is None:
            yield window
        else:
            piece, left = next_piece(window, calendar)
            rest += [piece] if left is None else [left, piece]


def _day_of(bound: str, overlap: float) -> str:
    """Return the day of a bound in seconds, less the overlap; a bound in days stays as it is."""
    if "T" not in bound:
        return bound
    return format_datestamp(earlier(parse_datestamp(bound).moment, overlap), Granularity.DAY)


def _piece(window: Window, span: Span, length: timedelta) -> Window:
    if window.slice is None or span.value == window.slice.value:
        return replace(window, slice=None, span=None)
    return replace(window, span=span, unsounded=length > _LENGTHS[_SHORTER[span]] * _FEW)


def halves(window: Window, calendar: Calendar) -> tuple[Window, Window] | None:
    """Return the window divided in the middle; None if it is too short for that."""
    middle = _middle(*calendar.bounds(window), calendar.resolution)
    return None if middle is None else _divided(window, calendar.write(middle))


def parts_by_datestamps(
    window: Window, calendar: Calendar, first: datetime, last: datetime
) -> tuple[Window, Window] | None:
    """Return the window divided between the first and the last datestamp of some of its records.

    If these are too near to each other, it is divided after or before them. None if it is too short for that.
    """
    begin, end = calendar.bounds(window)
    step = calendar.resolution
    middle = _middle(max(begin, first), min(end, last), step)
    if middle is None and last + step < end:
        middle = last + step
    if middle is None and begin < first - step:
        middle = first - step
    return halves(window, calendar) if middle is None else _divided(window, calendar.write(middle))


def _middle(first: datetime, last: datetime, step: timedelta) -> datetime | None:
    steps = (last - first) // step
    # Within two steps, both halves would be as long as the whole.
    return None if steps < 2 else first + step * (steps // 2)  # noqa: PLR2004


def _divided(window: Window, at: str) -> tuple[Window, Window]:
    divided = replace(window, halvings=window.halvings + 1, taken_up=False, first_from=None)
    return replace(divided, until=at), replace(divided, from_=at)


def _end_of(moment: datetime, span: Span) -> datetime:
    """Return the last second of the year, the month or the day."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match span:
        case Span.YEAR:
            following = day.replace(year=day.year + 1, month=1, day=1)
        case Span.MONTH:
            # 31 days after its first day, any month is over; the date is then set to the first of the next
            # month.
            following = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
        case Span.DAY:
            following = day + timedelta(days=1)
    return following - timedelta(seconds=1)
