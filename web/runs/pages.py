"""One run: summary, parameters, log, changes and requests; release of held runs."""

import asyncio
import shlex
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.bibliographic.record_view import TitledRecord, titled
from harvester.harvest import approval
from harvester.harvest.approval import HoldKind, HoldState
from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.models import Hold
from harvester.harvest.raw_capture import requests_of
from harvester.harvest.run_warnings import notes_of
from harvester.listing import find_errors
from harvester.models import History, Repository
from harvester.store.changes import ChangeLine, read_changes
from harvester.store.records import RunKey
from harvester.vocabulary import RunStatus
from manager.jobs.runs import next_step, pieces_of, usual_of
from manager.models import RecurringJob
from manager.rule_usage import rules_read
from manager.schedules.rule_changes import with_changed_rules
from oai.database import Database
from oai.errors import ZatvaError
from oai.failures import FailureCode
from oai.settings import Settings
from web.auth.access import Right, asked_for, needs, visible_repositories, who_asks
from web.errors.letter import concerns_repository, letter_about_run, letter_part
from web.imports.sources import IMPORTS
from web.runs.log import Level, Line, as_text, at_least, counts_of, line_of, lines_of
from web.runs.words import evidence_of, shares, summary, warned_of_set
from web.schedules.forms import FURTHER
from web.schedules.rules import rule_paths
from web.site.formats import number
from web.site.i18n import _, error_text, mark
from web.site.keys import SETTINGS, database_of
from web.site.paging import LARGEST_BIGINT, number_in, page_of
from web.site.params import BIG_NUMBER, choice_in
from web.site.plots import run_plots
from web.site.render import confirmation, render

_CHANGES: Final = 200
_REQUESTS: Final = 500
_STARTED_AGAIN: Final = frozenset(
    {
        RunStatus.COMPLETED_WITH_ERRORS,
        RunStatus.FAILED,
        RunStatus.INCOMPLETE,
        RunStatus.KILLED,
        RunStatus.LOST,
    }
)
_FIRST_WARNINGS: Final = 10
_DELETES: Final = mark(
    "Approving deletes these records from the store at once. Later harvests store again those that the "
    "repository still lists."
)
_CHANGES_LATER: Final = mark(
    "Approving changes nothing at once: the next run continues where this one stopped and stores the changes."
)
_MOST_WARNINGS: Final = 1000
"""Maximum number of warnings that a run stores."""


async def show(request: web.Request) -> web.Response:
    """Show the summary."""
    run, shared = await run_page(request)
    database = database_of(request)
    usual = await database.run(usual_of, run)
    hold = await database.run(lambda session: session.get(Hold, run.history_id))
    repository = shared["repository"]
    curl = _curl(repository, run)
    return render(
        request,
        "run.html",
        **shared,
        **(
            await letter_part(
                request, repository.admin_email, lambda: letter_about_run(run, repository, curl)
            )
            if concerns_repository(run)
            else {"letter": "", "mail": None}
        ),
        step=await database.run(next_step, run) if run.status in _STARTED_AGAIN else None,
        schedule_of_set=(await database.run(next_step, run)).recurring_id if warned_of_set(run) else None,
        summary=summary(run, usual, hold),
        shares=shares(run),
        pieces=await database.run(pieces_of, run.history_id),
        hold=hold,
        later=await database.run(approval.later_complete, hold) if hold else 0,
        approving=_(_DELETES if hold and hold.kind == HoldKind.DELETIONS else _CHANGES_LATER),
        sample=await database.run(_sample, run, hold) if hold else [],
        access=access_of(repository.protocol),
        plots=run_plots(run.pace),
        rules_unapplied=await database.run(_unapplied, run),
        warnings=[
            line_of(note, {}) for note in notes_of(run.warnings, run.warning_failures)[:_FIRST_WARNINGS]
        ],
    )


def _unapplied(session: Session, run: History) -> bool:
    """Return whether the run warned of rules that its schedule still does not apply to all records."""
    warned = any(
        note.failure is not None and note.failure.code is FailureCode.RULES_CHANGED
        for note in notes_of(run.warnings, run.warning_failures)
    )
    return warned and run.recurring_id is not None and bool(with_changed_rules(session, [run.recurring_id]))


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
        evidence=evidence_of(run),
    )


async def changes(request: web.Request) -> web.Response:
    """Show the run's changes in the store, in pages."""
    run, shared = await run_page(request)
    since = number_in(request, "since", largest=LARGEST_BIGINT) or 0
    hold = await database_of(request).run(lambda session: session.get(Hold, run.history_id))
    trouble, lines = "", []
    if run.harvest_id is not None and run.run_started is not None:
        key = RunKey(harvest_id=run.harvest_id, run_started=run.run_started)
        try:
            lines = await database_of(request).run(_changes, key, since)
        except ZatvaError as error:
            trouble = error_text(error)
    return render(
        request,
        "run_changes.html",
        **shared,
        page=page_of(lines, lambda line: line.change_id, behind=since, size=_CHANGES),
        trouble=trouble,
        waits=hold is not None and hold.state == HoldState.HELD,
    )


async def requests(request: web.Request) -> web.Response:
    """Show the run's requests, if its raw responses were stored."""
    run, shared = await run_page(request)
    settings = request.config_dict[SETTINGS]
    file = settings.data / run.raw_path if run.raw_path else None
    found = await asyncio.to_thread(_kept_requests, file)
    return render(request, "run_requests.html", **shared, kept=found, more=len(found or ()) == _REQUESTS)


@needs(Right.HARVEST)
async def confirm_release(request: web.Request) -> web.Response:
    """Ask for confirmation before a held run is released, and describe the effect."""
    run, shared = await run_page(request)
    hold, _repository = await database_of(request).run(approval.get_hold, run.history_id)
    if hold.kind == HoldKind.DELETIONS:
        title = _("Delete %(count)s records of %(name)s?")
        line, button = _(_DELETES), _("Approve: delete %(count)s records")
    else:
        title = _("Let the next run change records of %(name)s?")
        line, button = _(_CHANGES_LATER), _("Approve: let the next run change them")
    values = {"count": number(hold.would_delete), "name": shared["name"]}
    here = f"/runs/{run.history_id}"
    return confirmation(
        request,
        title % values,
        line,
        steps=[(_("History"), "/runs"), (_("Run %(number)s") % {"number": run.history_id}, here)],
        button=button % values,
    )


@needs(Right.HARVEST)
async def release(request: web.Request) -> web.Response:
    """Release a held run."""
    run, _shared = await run_page(request)
    _hold, _deleted, restarts = await release_run(request, run)
    done = "run-released-all" if restarts else "run-released"
    raise web.HTTPSeeOther(f"/runs/{run.history_id}?done={done}")


async def release_run(request: web.Request, run: History) -> tuple[Hold, int, bool]:
    """Approve a held run, as `approval.release` does, and start the import of what it deleted."""
    hold, deleted, restarts = await database_of(request).run_apart(
        _release, request.config_dict[SETTINGS], run
    )
    if deleted:
        request.config_dict[IMPORTS].follow(run.repository_id, by=who_asks(request).name)
    return hold, deleted, restarts


async def run_page(request: web.Request) -> tuple[History, dict[str, Any]]:
    """Return the run in the path, and what each of its pages shows."""
    run = await asked_for(request, History)
    repository = await asked_for(request, Repository, run.repository_id)
    name = repository.display_name
    return run, {"run": run, "repository": repository, "name": name}


async def _log_of(request: web.Request, run: History) -> list[Line]:
    errors = await database_of(request).run(
        find_errors, limit=_MOST_WARNINGS, run=run.history_id, resolved=True
    )
    return lines_of(run, errors)


def _level(request: web.Request) -> Level:
    return Level(choice_in(request, "level", list(Level)) or Level.INFO)


def _changes(session: Session, key: RunKey, since: int) -> list[ChangeLine]:
    lines = read_changes(session, since=since, run=key)
    return [line for line, _place in zip(lines, range(_CHANGES + 1), strict=False)]


def _sample(session: Session, run: History, hold: Hold) -> list[TitledRecord]:
    return titled(session, run.repository_id, run.metadata_prefix or "", hold.sample)


def _release(database: Database, settings: Settings, run: History) -> tuple[Hold, int, bool]:
    with only_harvest(database, run.repository_id):
        return approval.release(database, settings, run.history_id)


def _kept_requests(file: Path | None) -> list[Any] | None:
    if file is None or not file.is_file():
        return None
    return requests_of(file, limit=_REQUESTS)


def _curl(repository: Repository, run: History) -> str:
    """Return a command that repeats the failed request, or the first one if the failure names no request."""
    url = (run.failure_reason or "").partition(": ")[0]
    if url.startswith(("http://", "https://")) and "?" in url and " " not in url:
        return f"curl --compressed {shlex.quote(url)}"
    verb = "ListIdentifiers" if run.harvest_method else "ListRecords"
    parts = [("verb", verb), ("metadataPrefix", run.metadata_prefix or "oai_dc"), ("set", run.set_spec or "")]
    arguments = " ".join(
        f"--data-urlencode {shlex.quote(f'{name}={value}')}" for name, value in parts if value
    )
    return f"curl --compressed --get {arguments} {shlex.quote(repository.display_url)}"


ROUTES = (
    web.get(f"/runs/{BIG_NUMBER}", show),
    web.get(f"/runs/{BIG_NUMBER}/log", log),
    web.get(f"/runs/{BIG_NUMBER}/log.txt", log_file),
    web.get(f"/runs/{BIG_NUMBER}/parameters", parameters),
    web.get(f"/runs/{BIG_NUMBER}/changes", changes),
    web.get(f"/runs/{BIG_NUMBER}/requests", requests),
    web.get(f"/runs/{BIG_NUMBER}/release", confirm_release),
    web.post(f"/runs/{BIG_NUMBER}/release", release),
)
