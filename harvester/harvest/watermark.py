"""The watermark: the date from which the next harvest requests changes, less an overlap."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from oai.datestamps import format_datestamp, in_utc, parse_datestamp, read_moment

_MIDNIGHT: Final = "T00:00:00Z"
"""The time of a date that was given without one."""
_PLAUSIBLE: Final = "1970"
"""Clocks without a battery start in this year; earlier dates are not those of a clock."""
_CLOCK_TOLERANCE: Final = 60
"""Seconds by which the lag may grow without effect, because producing an answer takes time."""
_WORTH_A_WARNING: Final = 1800
"""Seconds from which a slow answer is no explanation."""


def watermark(response_date: str | None, run_started: datetime) -> str | None:
    """Return the responseDate as a UTC datestamp, rounded down to the second; None if it is not a date.

    A date later than the start of the run is replaced by it. Without a date, the next run begins where this
    one did. `run_started` is by our clock, with a time zone.
    """
    try:
        moment = in_utc(read_moment(response_date or ""))
    except ValueError:
        return None
    # Some servers call their local time UTC, or their clock is wrong: changes until it is as late must not
    # be missed. A date that is too early only repeats records.
    return format_datestamp(min(moment, run_started))


def lag_of(response_date: str | None, now: datetime) -> float | None:
    """Return how many seconds a responseDate is before `now`; None if it is not the time of a clock."""
    date = watermark(response_date, now)
    if date is None or date.endswith(_MIDNIGHT) or date < _PLAUSIBLE:
        return None
    return (now - parse_datestamp(date).moment).total_seconds()


@dataclass(frozen=True, kw_only=True)
class CompleteHarvest:
    """What the complete harvests of a format and set have received."""

    watermark: str | None = None
    """When the last one began, by the repository's clock; None before the first, and if it `restarts`."""
    complete_from: str | None = None
    """The datestamp from which they requested records; None for all records."""
    restarts: bool = False
    """Whether what they received is to be requested again, because records may have been lost since."""

    def since(self, floor: str | None) -> str | None:
        """Return the watermark if only later changes are missing of the records since `floor` (None: all)."""
        if self.watermark is None or self.complete_from is None:
            return self.watermark
        begun = parse_datestamp(self.complete_from).moment
        return self.watermark if floor and parse_datestamp(floor).moment >= begun else None

    def is_within(self, from_: str | None) -> bool:
        """Return whether a harvest from `from_` (None: of all records) requests again all that they received.

        False if they received all records, and `from_` is a date.
        """
        if from_ is None or self.complete_from is None:
            return from_ is None
        return parse_datestamp(from_).moment <= parse_datestamp(self.complete_from).moment

    def lower_bound(self, floor: str | None) -> str | None:
        """Return from where to request records if it is not the watermark; None for all records."""
        if not self.restarts or floor is None:
            return floor
        return _earliest([floor, self.complete_from])

    def extended(self, watermark: str, from_: str | None) -> "CompleteHarvest":
        """Return it after a complete harvest from `from_`, which left that watermark.

        `from_` is not after the present watermark, or there is none (`HarvestRequest.covers`).
        """
        first = from_ if self.watermark is None else _earliest([from_, self.complete_from])
        return CompleteHarvest(watermark=watermark, complete_from=first)


def _earliest(bounds: Sequence[str | None]) -> str | None:
    """Return the first of the bounds that are equal to or before all others; None if one is open."""
    dated = [bound for bound in bounds if bound is not None]
    return min(dated, key=lambda bound: parse_datestamp(bound).moment) if len(dated) == len(bounds) else None


@dataclass(frozen=True, kw_only=True)
class NextWatermark:
    """The watermark after a run that has received everything it requested.

    If the repository's clock was set back since the last watermark, changes may be dated before the `from` of
    this run. The new watermark is then earlier, so that the next run requests them.
    """

    response_date: str | None
    started: datetime
    received_lag: float | None
    """Lag of the responseDate when it was received; None if an earlier process received it."""
    last: str | None
    """The watermark before the run; None if the run had no `from`."""
    last_lag: float | None

    @property
    def date(self) -> str | None:
        """The date of the run's first answer; None if there is none."""
        return watermark(self.response_date, self.started)

    @property
    def lag(self) -> float | None:
        """Seconds by which the date was behind our clock; None if unknown."""
        return lag_of(self.response_date, self.started) if self.received_lag is None else self.received_lag

    @property
    def fallen(self) -> float:
        """Seconds by which the repository's clock fell behind since the last watermark; 0 if harmless.

        It is harmless if the clock stands still, because changes have the date of its answers.
        """
        if self.last is None or self.lag is None or self.last_lag is None or self.date == self.last:
            return 0
        fallen = self.lag - self.last_lag
        return fallen if fallen > _CLOCK_TOLERANCE else 0

    @property
    def value(self) -> str | None:
        """The watermark to store: the date, or an earlier one if the clock fell behind."""
        if self.last is None or not self.fallen:
            return self.date
        return format_datestamp(parse_datestamp(self.last).moment - timedelta(seconds=self.fallen))

    def warning(self) -> str | None:
        """Return what is wrong with the date; None if nothing is."""
        if self.date is None:
            return (
                f"the responseDate {self.response_date or ''!r} cannot be read, so the next harvest"
                " starts where this one started"
            )
        if self.fallen < _WORTH_A_WARNING:
            return None
        return (
            f"the repository's clock fell {self.fallen:,.0f} seconds behind since the last complete harvest; "
            f"the next one requests what changed meanwhile, from {self.value}: run it soon"
        )
