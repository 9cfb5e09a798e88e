"""Log lines of runs, and of harvests in progress."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from harvester.harvest.models import Quarantined
from harvester.harvest.run_warnings import Note, notes_of
from harvester.models import History
from oai.datestamps import format_datestamp
from oai.failures import Failure
from web.site.i18n import _


class Level(StrEnum):
    """Severity of a log line, worst first."""

    ERROR = "error"
    """A record, or all of them, could not be harvested."""
    WARNING = "warning"
    """An anomaly without loss of data."""
    INFO = "info"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A log line; `at` is not known of warnings, `error` is the id of a quarantined record.

    The text of warnings and errors is technical, in English; pages explain it by the failure.
    """

    level: Level
    text: str
    failure: Failure | None = None
    at: datetime | None = None
    error: int | None = None


def lines_of(run: History, errors: Iterable[Quarantined]) -> list[Line]:
    """Return the whole log; `errors` are the run's quarantined records."""
    kept = {error.fault_key.hex: error.quarantine_id for error in errors}
    begun = _("The harvest started: %(format)s of %(set)s.") % {
        "format": run.metadata_prefix or "?",
        "set": run.set_spec or _("the whole repository"),
    }
    lines = [Line(level=Level.INFO, text=begun, at=run.harvest_start_time)]
    lines += [line_of(note, kept) for note in notes_of(run.warnings, run.warning_failures)]
    if run.failure_reason:
        failed = Line(
            level=Level.ERROR, text=run.failure_reason, failure=run.failure, at=run.harvest_end_time
        )
        lines.append(failed)
    ended = _("Ended: %(status)s; records processed: %(records)s, requests: %(requests)s.") % {
        "status": _(run.status),
        "records": f"{run.record_count:,}",
        "requests": f"{run.requests:,}",
    }
    return [*lines, Line(level=Level.INFO, text=ended, at=run.harvest_end_time)]


def at_least(lines: Iterable[Line], level: Level) -> list[Line]:
    """Return the lines of that level or worse."""
    order = list(Level)
    return [line for line in lines if order.index(line.level) <= order.index(level)]


def as_text(lines: Iterable[Line]) -> str:
    """Return the lines as text, each with its level first; times are UTC."""
    return "".join(
        f"{line.level.upper():7} {format_datestamp(line.at) + ' ' if line.at else ''}{_one_line(line.text)}\n"
        for line in lines
    )


def counts_of(lines: Sequence[Line]) -> dict[Level, int]:
    """Return the number of lines that each level shows."""
    return {level: len(at_least(lines, level)) for level in Level}


def line_of(note: Note, kept: Mapping[str, int]) -> Line:
    """Return a warning as a line; a rejection is an error with its quarantined record, if still stored."""
    key = note.failure.facts.get("fault_key") if note.failure is not None else None
    level = Level.WARNING if key is None else Level.ERROR
    return Line(level=level, text=note.text, failure=note.failure, error=kept.get(str(key)))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
