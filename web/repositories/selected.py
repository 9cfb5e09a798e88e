"""Changes of several repositories that are ticked in the list."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.jobs.views import count_under_way
from manager.schedules.of_repository import (
    begin_removal_of_idle,
    pause_schedules,
    resume_schedules,
    run_schedules,
)
from oai.audit import AuditEntry, Subject
from oai.errors import UsageError
from web.auth.access import Right, needs, several_asked_for
from web.auth.audit import change_one, check_undo_of_all, undo_mark
from web.repositories.listing import PAGE, filters_of, list_page
from web.repositories.removals import PAGE_SECONDS, REMOVALS
from web.schedules.forms import partner_minutes
from web.site.i18n import _, error_text, mark
from web.site.keys import database_of
from web.site.paging import LARGEST_BIGINT, as_number, numbers_in
from web.site.render import confirmation, render

_UNDO: Final = "/repositories/selected/resume"
_PAUSED: Final = "paused"
"""Name of the ids of the schedules that a change paused, in the details of its entry in the audit log."""
_MOST_RUNS: Final = 10
"""Runs that begin without a confirmation."""


_Problem = tuple[int, str, str]
"""Number and name of a repository, and why it was not changed; 0 and no name if it is not available."""


def _pause(session: Session, repository_id: int) -> dict[str, object]:
    return {_PAUSED: pause_schedules(session, repository_id)}


@dataclass(frozen=True, kw_only=True)
class _Change:
    work: Callable[[Session, int], object]
    most: int
    """Repositories that are changed without a confirmation."""
    title: str
    button: str
    line: str
    done: str


_CHANGES: Final[Mapping[str, _Change]] = {
    "run": _Change(
        work=run_schedules,
        most=_MOST_RUNS,
        title=mark("Run the harvests of the selected repositories?"),
        button=mark("Run now"),
        line=mark("Each of their schedules that is not paused gets a job that is due now."),
        done="repositories-run",
    ),
    "pause": _Change(work=_pause, most=PAGE, title="", button="", line="", done="repositories-paused"),
    "resume": _Change(
        work=resume_schedules, most=PAGE, title="", button="", line="", done="repositories-resumed"
    ),
    "remove": _Change(
        work=begin_removal_of_idle,
        most=0,
        title=mark("Remove the selected repositories?"),
        button=mark("Remove repositories"),
        line=mark(
            "Their schedules, jobs, history and lists of records are deleted permanently; "
            "the harvested files are kept."
        ),
        done="repositories-removed",
    ),
}


def _handler(name: str) -> Handler:
    @needs(Right.HARVEST)
    async def handle(request: web.Request) -> web.StreamResponse:
        if name == "resume" and "since" in request.query:
            return await _undo_pause(request)
        return await _change(request, _CHANGES[name])

    return handle


async def _change(request: web.Request, change: _Change) -> web.StreamResponse:
    """Change the ticked repositories one by one: a problem with one does not hinder the others."""
    posted, back = await request.post(), f"/repositories?{filters_of(request).query()}"
    numbers = sorted(set(numbers_in(posted, "repository")))
    if not numbers:
        return await list_page(request, _("Select repositories first."))
    try:
        ticked, missing = await several_asked_for(request, Repository, numbers[:PAGE], being_removed=True)
    except web.HTTPNotFound:
        if change.work is begin_removal_of_idle and posted.get("sure") == "yes":  # sent twice
            raise web.HTTPSeeOther(f"/repositories?{filters_of(request).query(done=change.done)}") from None
        raise
    names = {number: row.display_name for number, row in ticked.items()}
    left_out = [*missing.values(), *posted.getall("left_out", [])]
    if len(names) > change.most and posted.get("sure") != "yes":
        return _confirmation(request, change, names, left_out, back)
    results, problems = await _change_each(request, names, _work(request, change))
    notes: dict[str, object] = {"done": change.done}
    if False in results:
        notes["done"] = "repositories-being-removed"
    if change.work is _pause:
        notes |= await _notes_of_pause(request, names, results)
    return _outcome(request, results, [*((0, "", str(problem)) for problem in left_out), *problems], notes)


async def _change_each(
    request: web.Request, names: Mapping[int, str], work: Callable[[int], Awaitable[object]]
) -> tuple[list[object], list[_Problem]]:
    """Return the results of the changes that were made, and why the other ones were not."""
    results, problems = [], []
    for number, name in names.items():
        subject = Subject(kind="repository", number=str(number), name=name)
        try:
            results.append(await change_one(request, subject, partial(work, number)))
        except UsageError as error:
            problems.append((number, name, error_text(error)))
    return results, problems


def _outcome(
    request: web.Request,
    results: Sequence[object],
    problems: Sequence[_Problem],
    notes: Mapping[str, object],
) -> web.Response:
    """Show the problems; without any, lead back to the list."""
    if not problems:
        raise web.HTTPSeeOther(f"/repositories?{filters_of(request).query(**notes)}")
    return render(
        request,
        "repositories_selected.html",
        problems=problems,
        changed=len(results),
        running=notes.get("running", 0),
        undo=notes.get("undo", ""),
        back=f"/repositories?{filters_of(request).query()}",
    )


async def _notes_of_pause(
    request: web.Request, names: Iterable[int], results: Iterable[object]
) -> dict[str, object]:
    """Return how many harvests of the repositories continue, and the address that undoes the pause."""
    changed = any(isinstance(one, Mapping) and one[_PAUSED] for one in results)
    return {
        "running": await database_of(request).run(count_under_way, list(names)),
        "undo": f"{_UNDO}{undo_mark(request)}" if changed else "",
    }


async def _undo_pause(request: web.Request) -> web.StreamResponse:
    """Resume the schedules that one click paused, if they have not been changed since."""
    ids = [as_number(text, largest=LARGEST_BIGINT) for text in request.query["since"].split(",")]
    pauses = await database_of(request).run(_pauses, [one for one in ids[:PAGE] if one is not None])
    if not pauses:
        raise web.HTTPConflict(text=_("It was changed in the meantime, and nothing was undone."))
    found, missing = await several_asked_for(request, Repository, pauses)
    names = {number: row.display_name for number, row in found.items()}

    def resume(session: Session, number: int) -> None:
        paused = (pauses[number].after or {}).get(_PAUSED, [])
        if changed := resume_schedules(session, number, only=paused):  # not yet undone by a double click
            check_undo_of_all(session, pauses[number], changed)

    results, problems = await _change_each(
        request, names, lambda number: database_of(request).run(resume, number)
    )
    problems = [*((0, "", problem) for problem in missing.values()), *problems]
    return _outcome(request, results, problems, {"done": "repositories-pause-undone"})


def _pauses(session: Session, ids: Sequence[int]) -> dict[int, AuditEntry]:
    """Return those of the audit log's entries that pause the schedules of a repository, by repository."""
    entries = select(AuditEntry).where(AuditEntry.audit_id.in_(ids), AuditEntry.action == "repository.pause")
    return {int(entry.object_id): entry for entry in session.scalars(entries) if entry.object_id}


def _work(request: web.Request, change: _Change) -> Callable[[int], Awaitable[object]]:
    if change.work is begin_removal_of_idle:
        return _removal(request)
    limits = {"partner_minutes": partner_minutes(request)} if change.work is run_schedules else {}
    return lambda number: database_of(request).run(change.work, number, **limits)


def _removal(request: web.Request) -> Callable[[int], Awaitable[object]]:
    """Return what removes one repository; all of them together have the time of one page."""
    now = asyncio.get_running_loop().time
    last = now() + PAGE_SECONDS
    return lambda number: request.config_dict[REMOVALS].remove(number, seconds=max(0.0, last - now()))


def _confirmation(
    request: web.Request, change: _Change, names: Mapping[int, str], left_out: Sequence[object], back: str
) -> web.StreamResponse:
    # Those that are not available now may be so when the button is pressed, but the page does not list them.
    kept = [("sure", "yes"), *(("repository", number) for number in names)]
    return confirmation(
        request,
        _(change.title),
        _(change.line),
        *map(str, left_out),
        steps=[(_("Repositories"), "/repositories")],
        button=_(change.button),
        back=back,
        names=list(names.values()),
        kept=[*kept, *(("left_out", problem) for problem in left_out)],
    )


ROUTES = tuple(web.post(f"/repositories/selected/{name}", _handler(name)) for name in _CHANGES)
