"""History (UIUC tab 3): every harvest that has ended, as list, timeline and calendar; exported; deleted."""

import csv
import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime, time, timedelta
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.listing import find_repositories
from harvester.models import History, Repository, RunStatus
from manager.jobs import HistoryView, remove_history
from manager.runs import Choice, days_of, find_runs
from oai.datestamps import format_datestamp, utc_now
from web.access import Right, asked_for, needs, visible_repositories, who_asks
from web.calendar_days import YEAR_DAYS, day_link, first_day
from web.plots.days import heat_map
from web.plots.spans import Span, timeline
from web.rendering import render
from web.run_lists import TROUBLE, Filters, before_of, filters_of
from web.states import look_of
from web.threads import database_of
from web.words import _

_PAGE: Final = 25
_TIMELINE_DAYS: Final = 7
_TIMELINE_RUNS: Final = 500
_EXPORTED_AT_ONCE: Final = 1000
_MOST_EXPORTED: Final = 100_000
_CHOICES: Final = 1000
_COLUMNS: Final = (
    "history_id", "repository_id", "metadata_prefix", "set_spec", "harvest_start_time", "harvest_end_time",
    "status", "verdict", "failure_reason", "record_count", "new_count", "updated_count", "unchanged_count",
    "deleted_count", "filtered_count", "invalid_count", "requests", "bytes", "job_id", "recurring_id", "host",
)  # fmt: skip


async def listing(request: web.Request) -> web.Response:
    """The runs that the filters choose: the newest first, a week's timeline, or a year's calendar."""
    filters = filters_of(request)
    view = request.query.get("view", "")
    if filters.repository is not None:
        await asked_for(request, Repository, filters.repository)
    database = database_of(request)
    shared: dict[str, Any] = {
        "filters": filters,
        "view": view if view in {"timeline", "calendar"} else "",
        "repositories": await database.run(
            find_repositories, limit=_CHOICES, among=visible_repositories(who_asks(request))
        ),
        "statuses": [TROUBLE, *RunStatus],
        "trouble": TROUBLE,
    }
    if view == "calendar":
        return render(request, "runs_calendar.html", **shared, **await _calendar(request, filters))
    if view == "timeline":
        return render(request, "runs_timeline.html", **shared, **await _timeline(request, filters))
    before = before_of(request)
    # One more than is shown tells whether there are older ones.
    runs = await database.run(find_runs, filters.choice(request), limit=_PAGE + 1, before=before)
    return render(
        request,
        "runs.html",
        **shared,
        runs=runs[:_PAGE],
        older=runs[_PAGE - 1].history.history_id if len(runs) > _PAGE else None,
        newest=before is None,
    )


async def export(request: web.Request) -> web.StreamResponse:
    """The runs that the filters choose, as CSV or JSON lines of one array, up to 100,000 of them."""
    kind = request.match_info["kind"]
    filters = filters_of(request)
    if filters.repository is not None:
        await asked_for(request, Repository, filters.repository)
    choice = filters.choice(request)
    types = {"csv": "text/csv", "json": "application/json"}
    response = web.StreamResponse(
        headers={
            "Content-Type": f"{types[kind]}; charset=utf-8",
            "Content-Disposition": f'attachment; filename="zatva-runs.{kind}"',
        }
    )
    await response.prepare(request)
    opening, between, closing = ("[\n", ",\n", "\n]\n") if kind == "json" else (_csv_line(_header()), "", "")
    await response.write(opening.encode())
    count, before = 0, None
    while count < _MOST_EXPORTED:
        runs = await database_of(request).run(find_runs, choice, limit=_EXPORTED_AT_ONCE, before=before)
        if not runs:
            break
        lines = [_as_json(view) if kind == "json" else _csv_line(_as_row(view).values()) for view in runs]
        await response.write(((between if count else "") + between.join(lines)).encode())
        count, before = count + len(runs), runs[-1].history.history_id
    await response.write(closing.encode())
    return response


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask before an entry goes."""
    _who, run = await asked_for(request, History)
    _again, repository = await asked_for(request, Repository, run.repository_id)
    name = repository.repository_name or repository.base_url
    return render(
        request,
        "confirm.html",
        title=_("Remove run %(number)s of %(name)s from the history?")
        % {"number": run.history_id, "name": name},
        steps=[(_("Overview"), "/"), (_("History"), "/runs")],
        lines=[_("Only this entry goes. The records that the run harvested are kept.")],
        button=_("Remove the entry"),
        back=f"/runs/{run.history_id}",
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the entry."""
    _who, run = await asked_for(request, History)
    await database_of(request).run(remove_history, run.history_id)
    raise web.HTTPSeeOther("/runs?done=run-removed")


@needs(Right.HARVEST)
async def remove_several(request: web.Request) -> web.Response:
    """Remove the entries that were ticked, after a page that says how many."""
    posted = await request.post()
    ticked = [int(text) for text in map(str, posted.getall("run", [])) if text.isdecimal()][:_PAGE]
    if not ticked:
        raise web.HTTPBadRequest(text=_("Tick the entries that are to go."))
    for number in ticked:
        await asked_for(request, History, number)
    if posted.get("sure") != "yes":
        return render(request, "runs_remove.html", runs=ticked)

    def gone(session: Session) -> None:
        for number in ticked:
            remove_history(session, number)

    await database_of(request).run(gone)
    raise web.HTTPSeeOther("/runs?done=runs-removed")


async def _calendar(request: web.Request, filters: Filters) -> dict[str, Any]:
    today = utc_now().date()
    begin = first_day(today, YEAR_DAYS)
    days = await database_of(request).run(days_of, filters.choice(request).within(begin), zone="UTC")
    plot = heat_map(
        days,
        begin.date(),
        today,
        link=day_link(filters.repository),
        label=_("Days of the year by the worst outcome of their runs"),
    )
    return {"days": days, "plot": plot}


async def _timeline(request: web.Request, filters: Filters) -> dict[str, Any]:
    now = utc_now()
    # What ends in this very second is shown, too.
    last = datetime.combine(filters.until, time.max, UTC) if filters.until else now
    end = last + timedelta(seconds=1)
    begin = end - timedelta(days=_TIMELINE_DAYS)
    choice: Choice = filters.choice(request).within(begin, end)
    runs = await database_of(request).run(find_runs, choice, limit=_TIMELINE_RUNS)
    spans = [_span(view) for view in reversed(runs)]
    plot = timeline(spans, begin, end, label=_("Runs of seven days, a row for each repository"))
    return {"runs": runs, "plot": plot, "begin": begin, "end": end}


def _span(view: HistoryView) -> Span:
    run = view.history
    begun = format_datestamp(run.harvest_start_time)
    title = " · ".join((view.repository_name, run.metadata_prefix or "", _(run.status), begun))
    return Span(
        row=view.repository_name,
        begun=run.harvest_start_time,
        ended=run.harvest_end_time,
        tone=look_of(run.status).tone,
        title=title,
        link=f"/runs/{run.history_id}",
    )


def _header() -> list[str]:
    return ["repository_name", *_COLUMNS]


def _as_row(view: HistoryView) -> Mapping[str, Any]:
    values = {name: getattr(view.history, name) for name in _COLUMNS}
    for name, value in values.items():
        if isinstance(value, datetime):
            values[name] = format_datestamp(value)
    return {"repository_name": view.repository_name, **values}


def _as_json(view: HistoryView) -> str:
    return json.dumps(_as_row(view), ensure_ascii=False)


def _csv_line(values: Any) -> str:  # noqa: ANN401 any column's type
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow([_harmless(value) for value in values])
    return out.getvalue()


def _harmless(value: object) -> object:
    """A text that a spreadsheet would take for a formula gets a quote in front."""
    return f"'{value}" if isinstance(value, str) and value[:1] in {"=", "+", "-", "@", "\t", "\r"} else value


_NUMBER: Final = r"{id:[1-9][0-9]{0,17}}"

ROUTES = (
    web.get("/runs", listing),
    web.get("/runs.{kind:csv|json}", export, allow_head=False),
    web.post("/runs/remove", remove_several),
    web.get(f"/runs/{_NUMBER}/remove", confirm_removal),
    web.post(f"/runs/{_NUMBER}/remove", remove),
)
