"""Changes of several repositories that are ticked in the list."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from sqlalchemy.orm import Session

from harvester.models import Repository
from manager.schedules.of_repository import (
    begin_removal_of_idle,
    pause_schedules,
    resume_schedules,
    run_schedules,
)
from oai.audit import Subject
from oai.errors import UsageError
from web.auth.access import Right, needs, several_asked_for
from web.auth.audit import change_one
from web.repositories.listing import PAGE, filters_of, list_page
from web.repositories.removals import PAGE_SECONDS, REMOVALS
from web.schedules.forms import partner_minutes
from web.site.i18n import _, error_text, mark
from web.site.keys import database_of
from web.site.paging import numbers_in
from web.site.render import confirmation, render

_MOST_RUNS: Final = 10
"""Runs that begin without a confirmation."""


@dataclass(frozen=True, kw_only=True)
class _Change:
    work: Callable[[Session, int], None]
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
        title=mark("Run the selected repositories?"),
        button=mark("Run now"),
        line=mark("Each of their schedules that is not paused gets a job that is due now."),
        done="repositories-run",
    ),
    "pause": _Change(
        work=pause_schedules, most=PAGE, title="", button="", line="", done="repositories-paused"
    ),
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
    problems = [(0, "", problem) for problem in left_out]
    work, done = _work(request, change), change.done
    for number, name in names.items():
        subject = Subject(kind="repository", number=str(number), name=name)
        try:
            if await change_one(request, subject, partial(work, number)) is False:
                done = "repositories-being-removed"
        except UsageError as error:
            problems.append((number, name, error_text(error)))
    if problems:
        changed = len(names) + len(left_out) - len(problems)
        return render(request, "repositories_selected.html", problems=problems, changed=changed, back=back)
    raise web.HTTPSeeOther(f"/repositories?{filters_of(request).query(done=done)}")


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
