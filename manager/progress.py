"""How far a running harvest is, read from its row of `oai_harvest`."""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from harvester.models import Harvest
from oai.datestamps import parse_datestamp

_WAITS: Final = re.compile(r"waiting (?P<text>until (?P<until>\S+): .*|.*)", re.DOTALL)
"""How the harvester's note begins when the repository has asked it to wait."""


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


@dataclass(frozen=True, kw_only=True)
class Wait:
    """That the repository has asked the harvester to wait."""

    text: str
    """Until when, and what it said."""
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
    )


def wait_of(harvest: Harvest | None) -> Wait | None:
    """What the repository keeps a harvest waiting for, where it does."""
    found = _WAITS.fullmatch((harvest.last_error if harvest is not None else None) or "")
    if found is None:
        return None
    try:
        until = parse_datestamp(found["until"] or "").moment
    except ValueError:
        until = None
    return Wait(text=found["text"], until=until)


def _seconds_left(harvest: Harvest, records: int, rate: float, now: datetime) -> float | None:
    if harvest.estimated_end is not None:
        return max((harvest.estimated_end - now).total_seconds(), 0)
    size = harvest.complete_list_size
    return max(size - records, 0) / rate if size is not None and rate > 0 else None
