"""The windows of datestamps that a harvest asks for one after the other, and how they are divided.

Wherever a window is divided, the second part begins where the first one ends, both bounds included
(section 2.7.1): a server that keeps fractions of a second, or takes a day as its first second, has records
between two bounds that only touch.

A window that is to be sliced is cut into years first, these into months, and these into days where days are
wanted: what holds nothing is then left out as a whole, and need not be asked for day by day.
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
"""What a repository dates before the Web is one slice."""
_FEW: Final = 3
"""So many shorter spans are asked for without asking first whether anything is in them all."""


class Span(StrEnum):
    """A stretch of the calendar."""

    YEAR = "year"
    MONTH = "month"
    DAY = "day"


_SHORTER: Final = {None: Span.YEAR, Span.YEAR: Span.MONTH, Span.MONTH: Span.DAY}
_LENGTHS: Final = {Span.MONTH: timedelta(days=31), Span.DAY: timedelta(days=1)}


@dataclass(frozen=True, kw_only=True)
class Window:
    """A list to ask for; bounds are datestamps in the repository's granularity, None is open."""

    from_: str | None = None
    until: str | None = None
    slice: Slice | None = None
    """It is to be cut into slices of this length, each a list of its own."""
    span: Span | None = None
    """One to be sliced is no longer than this; None: it may be any length."""
    unsounded: bool = False
    """Before it is cut, it is to be asked whether anything is in it."""
    one_by_one: bool = False
    """Its records are to be fetched one by one, for a page of them cannot be read."""
    halvings: int = 0
    """How often it was divided around a page that cannot be read."""
    put_off: bool = False
    """It is the last to be asked for: looking for its bad records took too many requests."""
    first_from: str | None = None
    """Where the list began before it was taken up again from a later datestamp."""
    taken_up: bool = False
    """Whether it was."""

    @property
    def in_seconds(self) -> bool:
        """Whether a bound is finer than a day."""
        return any("T" in bound for bound in (self.from_, self.until) if bound)

    def in_days(self) -> "Window":
        """The window with bounds of whole days."""
        from_, until, first = (
            bound and bound.partition("T")[0] for bound in (self.from_, self.until, self.first_from)
        )
        return replace(self, from_=from_, until=until, first_from=first)

    def as_json(self) -> dict[str, Any]:
        """For the checkpoint; what says nothing is left out."""
        return {name: value for name, value in asdict(self).items() if value}

    def in_words(self) -> str:
        """For messages: `from … until …`."""
        bounds = [f"{name} {value}" for name, value in (("from", self.from_), ("until", self.until)) if value]
        return " ".join(bounds) or "all datestamps"


def window_from_json(found: dict[str, Any]) -> Window:
    """A window out of the checkpoint."""
    length, span = found.get("slice"), found.get("span")
    kinds = {"slice": Slice(length) if length else None, "span": Span(span) if span else None}
    return Window(**{**found, **kinds})


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """How a repository tells time: its granularity, and between which moments its records lie (UTC)."""

    granularity: str | None
    earliest: datetime
    latest: datetime

    @property
    def grain(self) -> timedelta:
        """The shortest window that can be asked for."""
        return timedelta(seconds=1) if self.granularity == Granularity.SECOND else timedelta(days=1)

    def write(self, moment: datetime) -> str:
        """The moment as the repository takes it."""
        fine = self.granularity == Granularity.SECOND
        return format_datestamp(moment, Granularity.SECOND if fine else Granularity.DAY)

    def bounds(self, window: Window) -> tuple[datetime, datetime]:
        """The window's first and last moment, those of the repository where it is open."""
        first = parse_datestamp(window.from_).moment if window.from_ else self.earliest
        last = parse_datestamp(window.until).moment if window.until else self.latest
        return first, last


def calendar(granularity: str | None, earliest: str | None, now: datetime) -> Calendar:
    """A calendar from what Identify says; an earliestDatestamp that is none counts as the Web's beginning."""
    try:
        first = parse_datestamp(earliest or "").moment
    except ValueError:
        first = _FIRST_SLICED
    return Calendar(granularity=granularity, earliest=min(first, now), latest=now)


def next_piece(window: Window, calendar: Calendar) -> tuple[Window, Window | None]:
    """The first piece of a window that is to be sliced, and what is left of it.

    A piece is the next shorter span of the calendar; one as long as a slice is not to be cut any further.
    The first piece keeps the window's open beginning, for earliestDatestamp may be wrong, and the last one
    its open end, for records change while we harvest.
    """
    window = replace(window, unsounded=False)
    first, last = calendar.bounds(window)
    span = _SHORTER[window.span]
    end = _end_of(max(first, _FIRST_SLICED), span)
    if calendar.write(end) == calendar.write(first):
        # It is the bound that the piece before ended with.
        end = _end_of(end + timedelta(seconds=1), span)
    if end >= last:
        return _piece(window, span, last - first), None
    bound = calendar.write(end)
    return _piece(replace(window, until=bound), span, end - first), replace(window, from_=bound)


def first_request(window: Window, calendar: Calendar) -> Window:
    """What is asked for first of a window: itself, or a piece of it if it is to be sliced."""
    while window.slice is not None and not window.unsounded:
        window, _ = next_piece(window, calendar)
    return window


def slices(window: Window, calendar: Calendar) -> Iterator[Window]:
    """All slices of a window, as if something were in each; itself if it is not to be sliced."""
    rest = [window]
    while rest:
        window = rest.pop()
        if window.slice is None:
            yield window
        else:
            piece, left = next_piece(window, calendar)
            rest += [piece] if left is None else [left, piece]


def _piece(window: Window, span: Span, length: timedelta) -> Window:
    if window.slice is None or span.value == window.slice.value:
        return replace(window, slice=None, span=None)
    return replace(window, span=span, unsounded=length > _LENGTHS[_SHORTER[span]] * _FEW)


def halves(window: Window, calendar: Calendar) -> tuple[Window, Window] | None:
    """The window in two; None where it is as short as it can be asked for."""
    first, last = calendar.bounds(window)
    steps = (last - first) // calendar.grain
    if steps < 2:  # noqa: PLR2004 in two grains both halves would be as long as the whole
        return None
    middle = calendar.write(first + calendar.grain * (steps // 2))
    halved = replace(window, halvings=window.halvings + 1, taken_up=False, first_from=None)
    return replace(halved, until=middle), replace(halved, from_=middle)


def _end_of(moment: datetime, span: Span) -> datetime:
    """The last second of the year, the month or the day."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    match span:
        case Span.YEAR:
            following = day.replace(year=day.year + 1, month=1, day=1)
        case Span.MONTH:
            # Any month is over 31 days after its first one; the day is set back to the next month's first.
            following = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
        case Span.DAY:
            following = day + timedelta(days=1)
    return following - timedelta(seconds=1)
