"""One run: summary, parameters, log, changes and requests; release of held runs."""

import asyncio
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.harvest import approval
from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.models import Hold, Quarantined
from harvester.harvest.raw_capture import requests_of
from harvester.harvest.run_warnings import Note, notes_of
from harvester.listing import find_errors
from harvester.models import History, Repository
from harvester.store.changes import ChangeLine, read_changes
from harvester.store.records import RunKey
from manager.jobs.runs import pieces_of, usual_of
from manager.models import RecurringJob
from manager.rule_usage import rules_read
from oai.database import Database
from oai.datestamps import format_datestamp
from oai.errors import ZatvaError
from oai.settings import Settings
from web.auth.access import Right, asked_for, needs, visible_repositories, who_asks
from web.runs.words import shares, summary
from web.schedules.forms import FURTHER
from web.schedules.rules import rule_paths
from web.site.i18n import _, told
from web.site.keys import SETTINGS, database_of
from web.site.plots import course
from web.site.render import render

_NUMBER: Final = r"{id:[1-9][0-9]{0,17}}"
_CHANGES: Final = 200
_REQUESTS: Final = 500
_FIRST_WARNINGS: Final = 10
_MOST_WARNINGS: Final = 1000
"""Maximum number of warnings that a run stores."""


class Level(StrEnum):
    """Severity of a log line, worst first."""

    ERROR = "error"
    """A record, or all of them, could not be harvested."""
    WARNING = "warning"
    """An anomaly without loss of data."""
    INFO = "info"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A log line; `at` is set for the first and last line, `error` (its id) for a quarantined record."""

    level: Level
    text: str
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


def _line(note: Note, kept: Mapping[str, int]) -> Line:
    """Return a warning as a line; a rejection is an error with its quarantined record, if still stored."""
    key = note.failure.facts.get("fault_key") if note.failure is not None else None
    level = Level.WARNING if key is None else Level.ERROR
    return Line(level=level, text=note.text, error=kept.get(str(key)))


def _one_line(text: str) -> str:
    return " ".join(text.splitlines())


async def show(request: web.Request) -> web.Response:
    """Show the summary."""
    run, shared = await run_page(request)
    database = database_of(request)
    usual = await database.run(usual_of, run)
    hold = await database.run(lambda session: session.get(Hold, run.history_id))
    pace = [tuple(sample) for sample in run.pace]
    seconds = [(one[0], max(one[2] - before[2], 0), one[0] - before[0]) for before, one in pairwise(pace)]
    return render(
        request,
        "run.html",
        **shared,
        usual=usual,
        summary=summary(run, usual),
        shares=shares(run),
        pieces=await database.run(pieces_of, run.history_id),
        hold=hold,
        pace=pace,
        records_plot=course(
            [(one[0], one[1]) for one in pace], label=_("Records during the run"), unit=_("records")
        ),
        response_plot=course(
            [(at, 1000 * spent / asked) for at, asked, spent in seconds if asked],
            label=_("Milliseconds per request during the run"),
            unit=_("ms per request"),
        ),
        first_warnings=_FIRST_WARNINGS,
    )


async def log(request: web.Request) -> web.Response:
    """Show the log from the severity in the query string on."""
    run, shared = await run_page(request)
    lines, level = await _log_of(request, run), _level(request)
    return render(
        request,
        "run_log.html",
        **shared,
        lines=at_least(lines, level),
        level=level,
        counts=counts_of(lines),
        most=_MOST_WARNINGS,
    )


async def log_file(request: web.Request) -> web.Response:
    """Download the same log as text."""
    run, shared = await run_page(request)
    lines = at_least(await _log_of(request, run), _level(request))
    return web.Response(
        text=f"run {run.history_id} of {shared['name']}\n{as_text(lines)}",
        headers={"Content-Disposition": f'attachment; filename="zatva-run-{run.history_id}.txt"'},
    )


async def parameters(request: web.Request) -> web.Response:
    """Show the harvest's parameters and the details of its outcome."""
    run, shared = await run_page(request)
    number = run.recurring_id
    schedule = None
    if number is not None:
        schedule = await database_of(request).run(lambda session: session.get(RecurringJob, number))
    return render(
        request,
        "run_parameters.html",
        **shared,
        schedule=schedule,
        rule_files=rule_paths(request, schedule) if schedule else {},
        further=FURTHER,
        rules=await database_of(request).run(rules_read, run, among=visible_repositories(who_asks(request))),
        curl=_curl(shared["repository"], run),
    )


async def changes(request: web.Request) -> web.Response:
    """Show the run's changes in the store, in pages."""
    run, shared = await run_page(request)
    since = _digits(request.query.get("since", ""))
    trouble, lines = "", []
    if run.harvest_id is not None and run.run_started is not None:
        key = RunKey(harvest_id=run.harvest_id, run_started=run.run_started)
        try:
            lines = await database_of(request).run(_changes, key, since)
        except ZatvaError as error:
            trouble = told(error)
    return render(
        request,
        "run_changes.html",
        **shared,
        lines=lines[:_CHANGES],
        trouble=trouble,
        next=lines[_CHANGES - 1].change_id if len(lines) > _CHANGES else None,
        first=not since,
    )


async def requests(request: web.Request) -> web.Response:
    """Show the run's requests, if its raw responses were stored."""
    run, shared = await run_page(request)
    settings = request.config_dict[SETTINGS]
    file = settings.data / run.raw_path if run.raw_path else None
    found = await asyncio.to_thread(_kept_requests, file)
    return render(request, "run_requests.html", **shared, kept=found, more=len(found or ()) == _REQUESTS)


@needs(Right.HARVEST)
async def release(request: web.Request) -> web.Response:
    """Release a held run."""
    run, _shared = await run_page(request)
    settings = request.config_dict[SETTINGS]
    await database_of(request).run_apart(_release, settings, run)
    raise web.HTTPSeeOther(f"/runs/{run.history_id}?done=run-released")


async def run_page(request: web.Request) -> tuple[History, dict[str, Any]]:
    """Return the run in the path, and what each of its pages shows."""
    _who, run = await asked_for(request, History)
    _again, repository = await asked_for(request, Repository, run.repository_id)
    name = repository.repository_name or repository.base_url
    return run, {"run": run, "repository": repository, "name": name}


async def _log_of(request: web.Request, run: History) -> list[Line]:
    errors = await database_of(request).run(
        find_errors, limit=_MOST_WARNINGS, run=run.history_id, resolved=True
    )
    return lines_of(run, errors)


def _level(request: web.Request) -> Level:
    text = request.query.get("level", "")
    return Level(text) if text in set(Level) else Level.INFO


def _changes(session: Session, key: RunKey, since: int) -> list[ChangeLine]:
    lines = read_changes(session, since=since, run=key)
    return [line for line, _place in zip(lines, range(_CHANGES + 1), strict=False)]


def _release(database: Database, settings: Settings, run: History) -> None:
    with only_harvest(database, run.repository_id):
        approval.release(database, settings, run.history_id)


def _kept_requests(file: Path | None) -> list[Any] | None:
    if file is None or not file.is_file():
        return None
    return requests_of(file, limit=_REQUESTS)


def _curl(repository: Repository, run: History) -> str:
    verb = "ListIdentifiers" if run.harvest_method else "ListRecords"
    parts = [("verb", verb), ("metadataPrefix", run.metadata_prefix or "oai_dc"), ("set", run.set_spec or "")]
    arguments = " ".join(
        f"--data-urlencode {shlex.quote(f'{name}={value}')}" for name, value in parts if value
    )
    return f"curl --compressed --get {arguments} {shlex.quote(repository.base_url)}"


def _digits(text: str) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 18 else 0  # noqa: PLR2004 as in _NUMBER


ROUTES = (
    web.get(f"/runs/{_NUMBER}", show),
    web.get(f"/runs/{_NUMBER}/log", log),
    web.get(f"/runs/{_NUMBER}/log.txt", log_file),
    web.get(f"/runs/{_NUMBER}/parameters", parameters),
    web.get(f"/runs/{_NUMBER}/changes", changes),
    web.get(f"/runs/{_NUMBER}/requests", requests),
    web.post(f"/runs/{_NUMBER}/release", release),
)
