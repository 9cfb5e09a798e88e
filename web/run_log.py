"""A run's log: when it began and ended, what it warned of and what it refused, each line with its level."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from harvester.models import History
from harvester.running.models import Quarantined
from harvester.running.notes import Note, notes_of
from oai.datestamps import format_datestamp
from web.words import _


class Level(StrEnum):
    """How bad a line is, the worst first."""

    ERROR = "error"
    """A record, or all of them, did not come."""
    WARNING = "warning"
    """Something was odd, and cost nothing."""
    INFO = "info"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line; `at` is known of the first and the last one, `error` (an entry's number) of what is kept."""

    level: Level
    text: str
    at: datetime | None = None
    error: int | None = None


def lines_of(run: History, errors: Iterable[Quarantined]) -> list[Line]:
    """The whole log; `errors` are what is kept of the run's refusals."""
    kept = {error.fault_key.hex: error.quarantine_id for error in errors}
    begun = _("The harvest started: %(format)s of %(set)s.") % {
        "format": run.metadata_prefix or "?",
        "set": run.set_spec or _("the whole repository"),
    }
    lines = [Line(level=Level.INFO, text=begun, at=run.harvest_start_time)]
    lines += [_line(note, kept) for note in notes_of(run.warnings, run.warning_failures)]
    if run.failure_reason:
        lines.append(Line(level=Level.ERROR, text=run.failure_reason))
    ended = _("Ended: %(status)s; records processed: %(records)s, requests: %(requests)s.") % {
        "status": _(run.status),
        "records": f"{run.record_count:,}",
        "requests": f"{run.requests:,}",
    }
    return [*lines, Line(level=Level.INFO, text=ended, at=run.harvest_end_time)]


def at_least(lines: Iterable[Line], level: Level) -> list[Line]:
    """The lines of that level, and the worse ones."""
    order = list(Level)
    return [line for line in lines if order.index(line.level) <= order.index(level)]


def as_text(lines: Iterable[Line]) -> str:
    """For a file: a line each, its level first; times are UTC."""
    return "".join(
        f"{line.level.upper():7} {format_datestamp(line.at) + ' ' if line.at else ''}{_one_line(line.text)}\n"
        for line in lines
    )


def counts_of(lines: Sequence[Line]) -> dict[Level, int]:
    """How many lines each level lets through."""
    return {level: len(at_least(lines, level)) for level in Level}


def _line(note: Note, kept: Mapping[str, int]) -> Line:
    """A warning; one of something that was refused is an error, with its entry where that is kept still."""
    key = note.failure.facts.get("fault_key") if note.failure is not None else None
    level = Level.WARNING if key is None else Level.ERROR
    return Line(level=level, text=note.text, error=kept.get(str(key)))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())
