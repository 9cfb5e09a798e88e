"""Where the next harvest begins: dates of answers, compared with our clock."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from oai.datestamps import format_datestamp, parse_datestamp, read_moment

_MIDNIGHT: Final = "T00:00:00Z"
"""The time of a date that was given without one."""
_PLAUSIBLE: Final = "1970"
"""The year in which clocks without a battery begin; earlier dates are no time of a clock."""
_CLOCK_TOLERANCE: Final = 60
"""Seconds by which an answer may be dated further behind without effect: to produce it takes time."""
_WORTH_A_WARNING: Final = 1800
"""Above it, they are no slow answer."""


def watermark(response_date: str | None, run_started: datetime) -> str | None:
    """Return the responseDate as a UTC datestamp, rounded down to the second; None if it is not a date.

    A date later than the start of the run is replaced by it. Without a date, the next run begins where this
    one did. `run_started` is by our clock, with a time zone.
    """
    try:
        moment = read_moment(response_date or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    # Some servers call their local time UTC, or their clock is wrong: changes until it is as late must not
    # be missed. A date that is too early only repeats records.
    return format_datestamp(min(moment, run_started))


def lag(response_date: str | None, now: datetime) -> float | None:
    """Return the seconds by which a responseDate is before `now`; None if it is no time of a clock."""
    date = watermark(response_date, now)
    if date is None or date.endswith(_MIDNIGHT) or date < _PLAUSIBLE:
        return None
    return (now - parse_datestamp(date).moment).total_seconds()


@dataclass(frozen=True, kw_only=True)
class NextWatermark:
    """Where the next harvest begins, after a run that has received everything.

    What changed since the repository's clock was set back is dated earlier by as much than this run may have
    requested. The next one does.
    """

    response_date: str | None
    started: datetime
    received_lag: float | None
    """The responseDate's lag when it was received; None if an earlier process received it."""
    last: str | None
    """The watermark from which the run began; None if it requested everything."""
    last_lag: float | None

    @property
    def date(self) -> str | None:
        """The date of the run's first answer; None if there is none."""
        return watermark(self.response_date, self.started)

    @property
    def lag(self) -> float | None:
        """Seconds by which that was behind our clock; None if unknown."""
        return lag(self.response_date, self.started) if self.received_lag is None else self.received_lag

    @property
    def fell(self) -> float:
        """Seconds by which the repository's clock fell behind since the last watermark, if it matters.

        For a clock that stands still it does not: what changes has the date of its answers.
        """
        if self.last is None or self.lag is None or self.last_lag is None or self.date == self.last:
            return 0
        fell = self.lag - self.last_lag
        return fell if fell > _CLOCK_TOLERANCE else 0

    @property
    def begins(self) -> str | None:
        """The watermark to store: earlier than the date if the clock fell behind."""
        if self.last is None or not self.fell:
            return self.date
        return format_datestamp(parse_datestamp(self.last).moment - timedelta(seconds=self.fell))

    def warning(self) -> str | None:
        """Return what is wrong with the date, if anything is."""
        if self.date is None:
            return (
                f"the responseDate {self.response_date or ''!r} cannot be read, so the next harvest"
                " starts where this one started"
            )
        if self.fell < _WORTH_A_WARNING:
            return None
        return (
            f"the repository's clock fell {self.fell:,.0f} seconds behind since the last complete harvest; "
            f"the next one requests what changed meanwhile, from {self.begins}: run it soon"
        )
