"""How far a running harvest is, read from its row of `oai_harvest`."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harvester.models import Harvest
from oai.datestamps import parse_datestamp
from oai.failures import Failure, FailureCode


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a running harvest is."""

    pages: int
    records: int
    complete_list_size: int | None
    """As the repository told it, where it did."""
    rate: float
    """Records a second since the run began, or went on."""
    seconds_left: float | None
    """Where size and rate are known."""
    errors: int
    """Records that were refused."""
    last_progress: datetime
    """When the last page was committed (UTC)."""
    last_error: str | None
    """What the harvest waits for, or warned of last, in technical words."""
    last_failure: Mapping[str, Any] | None
    """The same as `Failure.as_json` has it."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """That the repository has asked the harvester to wait."""

    text: str
    """Until when, and what it said, in technical words."""
    failure: Failure
    until: datetime | None


def progress_of(harvest: Harvest, now: datetime) -> Progress:
    """The progress at that moment."""
    counts, size = harvest.counts, harvest.complete_list_size
    records = counts.get("records", 0)
    rate = harvest.records_per_second
    if rate is None:
        seconds = (now - harvest.run_started).total_seconds() if harvest.run_started is not None else 0
        rate = records / seconds if seconds > 0 else 0.0
    return Progress(
        pages=counts.get("pages", 0),
        records=records,
        complete_list_size=size,
        rate=rate,
        seconds_left=_seconds_left(harvest, records, rate, now),
        errors=counts.get("invalid", 0),
        last_progress=harvest.updated,
        last_error=harvest.last_error,
        last_failure=harvest.last_failure,
    )


def wait_of(harvest: Harvest | None) -> Wait | None:
    """What the repository keeps a harvest waiting for, where it does."""
    failure = Failure.from_json(harvest.last_failure) if harvest is not None else None
    if harvest is None or failure is None or failure.code is not FailureCode.WAITING:
        return None
    try:
        until = parse_datestamp(str(failure.facts.get("until"))).moment
    except ValueError:
        until = None
    text = (harvest.last_error or "").removeprefix("waiting ")
    return Wait(text=text, failure=failure, until=until)


def _seconds_left(harvest: Harvest, records: int, rate: float, now: datetime) -> float | None:
    if harvest.estimated_end is not None:
        return max((harvest.estimated_end - now).total_seconds(), 0)
    size = harvest.complete_list_size
    return max(size - records, 0) / rate if size is not None and rate > 0 else None
