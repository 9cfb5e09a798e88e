"""One run: its summary in words, what it rests on, its log, changes and requests; held runs released."""

import asyncio
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.listing import find_errors
from harvester.models import History, Repository
from harvester.running import holds
from harvester.running.locks import only_harvest
from harvester.running.models import Hold
from harvester.running.requests_kept import requests_of
from harvester.store.changes import ChangeLine, read_changes
from harvester.store.records import RunKey
from manager.models import RecurringJob
from manager.rule_usage import rules_read
from manager.runs import usual_of
from oai.database import Database
from oai.errors import ZatvaError
from oai.settings import Settings
from web.access import Right, asked_for, needs, visible_repositories, who_asks
from web.keys import SETTINGS
from web.planning import FURTHER
from web.plots.paces import course
from web.rendering import render
from web.run_log import Level, Line, as_text, at_least, counts_of, lines_of
from web.run_words import summary
from web.threads import database_of
from web.words import _, told

_NUMBER: Final = r"{id:[1-9][0-9]{0,17}}"
_CHANGES: Final = 200
_REQUESTS: Final = 500
_FIRST_WARNINGS: Final = 10
_MOST_WARNINGS: Final = 1000
"""As many as a run keeps."""


async def show(request: web.Request) -> web.Response:
    """The summary."""
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
    """The log, as far as its lines are as bad as the address asks for."""
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
    """The same as a text to be kept."""
    run, shared = await run_page(request)
    lines = at_least(await _log_of(request, run), _level(request))
    return web.Response(
        text=f"run {run.history_id} of {shared['name']}\n{as_text(lines)}",
        headers={"Content-Disposition": f'attachment; filename="zatva-run-{run.history_id}.txt"'},
    )


async def parameters(request: web.Request) -> web.Response:
    """What was asked for, and what the outcome rests on."""
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
        further=FURTHER,
        rules=await database_of(request).run(rules_read, run, among=visible_repositories(who_asks(request))),
        curl=_curl(shared["repository"], run),
    )


async def changes(request: web.Request) -> web.Response:
    """What the run changed in the store, page by page."""
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
    """The run's requests, where its raw answers were kept."""
    run, shared = await run_page(request)
    settings = request.config_dict[SETTINGS]
    file = settings.data / run.raw_path if run.raw_path else None
    found = await asyncio.to_thread(_kept_requests, file)
    return render(request, "run_requests.html", **shared, kept=found, more=len(found or ()) == _REQUESTS)


@needs(Right.HARVEST)
async def release(request: web.Request) -> web.Response:
    """Say yes to a held run."""
    run, _shared = await run_page(request)
    settings = request.config_dict[SETTINGS]
    await database_of(request).run_apart(_release, settings, run)
    raise web.HTTPSeeOther(f"/runs/{run.history_id}?done=run-released")


async def run_page(request: web.Request) -> tuple[History, dict[str, Any]]:
    """The run that the address names, and what each of its pages shows."""
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
        holds.release(database, settings, run.history_id)


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
