"""History (UIUC tab 3): every harvest that has ended, and each one in full."""

from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.repositories import list_repositories
from manager.jobs import HistoryView, list_history, remove_history
from web.access import administrators_only
from web.lookups import chosen_repository, repository_of
from web.rendering import render
from web.threads import database_of
from web.words import _

_PAGE: Final = 25
_NUMBER: Final = r"{id:[1-9][0-9]{0,17}}"
_DIGITS: Final = 18


async def listing(request: web.Request) -> web.Response:
    """The newest runs, of one repository or all; `before` leads to older ones."""
    database = database_of(request)
    repository_id = chosen_repository(request)
    before = _before(request)
    details = await repository_of(request, repository_id) if repository_id is not None else None
    # One more than is shown tells whether there are older ones.
    runs = await database.run(list_history, repository_id, _PAGE + 1, before)
    return render(
        request,
        "runs.html",
        runs=runs[:_PAGE],
        older=runs[_PAGE - 1].history.history_id if len(runs) > _PAGE else None,
        newest=before is None,
        details=details,
        repositories=await database.run(list_repositories),
    )


async def show(request: web.Request) -> web.Response:
    """One run in full."""
    view = await _run_of(request)
    return render(request, "run.html", run=view.history, name=view.repository_name)


@administrators_only
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask before an entry goes."""
    view = await _run_of(request)
    run = view.history
    return render(
        request,
        "confirm.html",
        title=_("Remove run %(number)s of %(name)s from the history?")
        % {"number": run.history_id, "name": view.repository_name},
        steps=[(_("Overview"), "/"), (_("History"), "/runs")],
        lines=[_("Only this entry goes. The records that the run harvested are kept.")],
        button=_("Remove the entry"),
        back=f"/runs/{run.history_id}",
    )


async def remove(request: web.Request) -> web.Response:
    """Remove the entry."""
    view = await _run_of(request)
    await database_of(request).run(remove_history, view.history.history_id)
    raise web.HTTPSeeOther("/runs?done=run-removed")


async def _run_of(request: web.Request) -> HistoryView:
    number = int(request.match_info["id"])
    view = await database_of(request).run(_find, number)
    if view is None:
        raise web.HTTPNotFound(
            text=_("There is no run %(number)s in the history; it may have been removed.")
            % {"number": number}
        )
    return view


def _find(session: Session, history_id: int) -> HistoryView | None:
    run = session.get(History, history_id)
    if run is None:
        return None
    repository = session.get_one(Repository, run.repository_id)
    return HistoryView(history=run, repository_name=repository.repository_name or repository.base_url)


def _before(request: web.Request) -> int | None:
    text = request.query.get("before", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


ROUTES = (
    web.get("/runs", listing),
    web.get(f"/runs/{_NUMBER}", show),
    web.get(f"/runs/{_NUMBER}/remove", confirm_removal),
    web.post(f"/runs/{_NUMBER}/remove", remove),
)
