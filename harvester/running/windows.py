"""The windows of datestamps that a harvest asks for one after the other, and how they are divided.

Wherever a window is divided, the second part begins where the first one ends, both bounds included
(section 2.7.1): a server that keeps fractions of a second, or takes a day as its first second, has records
between two bounds that only touch.
"""

from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from oai.datestamps import format_datestamp, parse_datestamp
from oai.vocabulary import Granularity

_FIRST_SLICED = datetime(1990, 1, 1, tzinfo=UTC)
"""What a repository dates before the Web is one slice."""


class Slice(StrEnum):
    """How long a slice of a harvest is."""

    MONTH = "month"
    DAY = "day"


@dataclass(frozen=True, kw_only=True)
class Window:
    """A list to ask for; bounds are datestamps in the repository's granularity, None is open."""

    from_: str | None = None
    until: str | None = None
    slice: Slice | None = None
    """It is to be cut into slices of this length, each a list of its own."""
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
    length = found.get("slice")
    return Window(**{**found, "slice": Slice(length) if length else None})


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


def next_slice(window: Window, calendar: Calendar) -> tuple[Window, Window | None]:
    """The first slice of a window that is to be sliced, and what is left of it.

    The first slice keeps the window's open beginning, for earliestDatestamp may be wrong, and the last one
    its open end, for records change while we harvest.
    """
    first, last = calendar.bounds(window)
    length = window.slice or Slice.MONTH
    end = _end_of_slice(max(first, _FIRST_SLICED), length)
    if calendar.write(end) == calendar.write(first):
        # It is the bound that the slice before ended with.
        end = _end_of_slice(end + timedelta(seconds=1), length)
    if end >= last:
        return replace(window, slice=None), None
    bound = calendar.write(end)
    return replace(window, slice=None, until=bound), replace(window, from_=bound)


def halves(window: Window, calendar: Calendar) -> tuple[Window, Window] | None:
    """The window in two; None where it is as short as it can be asked for."""
    first, last = calendar.bounds(window)
    steps = (last - first) // calendar.grain
    if steps < 2:  # noqa: PLR2004 in two grains both halves would be as long as the whole
        return None
    middle = calendar.write(first + calendar.grain * (steps // 2))
    halved = replace(window, halvings=window.halvings + 1, taken_up=False, first_from=None)
    return replace(halved, until=middle), replace(halved, from_=middle)


def _end_of_slice(moment: datetime, length: Slice) -> datetime:
    """The last second of the month or the day."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if length is Slice.MONTH:
        # Any month is over 31 days after its first one; the day is set back to the next month's first.
        following = (day.replace(day=1) + timedelta(days=31)).replace(day=1)
    else:
        following = day + timedelta(days=1)
    return following - timedelta(seconds=1)
