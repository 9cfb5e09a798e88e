"""History (UIUC tab 3): finished harvests as list, timeline, calendar and sums; export and removal."""

from calendar import monthrange
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import RunStatus
from manager.jobs.runs import TROUBLED, RunFilter, count_runs, days_of, find_runs, months_of, sources_of
from manager.jobs.views import HistoryView, remove_history
from manager.schedules.calendar import ScheduleName, due_groups, due_times, schedule_names
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.auth.access import (
    Right,
    about,
    asked_for,
    needs,
    several_asked_for,
    visible_repositories,
    who_asks,
)
from web.repositories.forms import repository_choices
from web.runs.words import YEAR_DAYS, day_link, first_day, is_made_up
from web.site.export import KINDS, columns_of, export_list
from web.site.formats import clock, look_of
from web.site.i18n import _
from web.site.keys import PAGE_SIZES, SETTINGS, database_of
from web.site.paging import LARGEST_BIGINT, number_in, numbers_in, page_of, text_in
from web.site.params import BIG_NUMBER, choice_in, chosen_repository, day_in
from web.site.plots import Span, heat_map, timeline
from web.site.render import confirmation, render
from web.site.zones import here, local, midnight, today

_DAY: Final = timedelta(days=1)
TROUBLE: Final = "trouble"
"""The filter for every status that needs attention."""
_PAGE: Final = 25
_TIMELINE_DAYS: Final = 7
_MOST_PLANNED: Final = 300
"""Planned runs on the timeline."""
_SOURCES: Final = 500
"""Repositories and formats in the table of sums."""
_TIMES_A_DAY: Final = 24
"""Runs of one schedule that are drawn one by one."""
_COLUMNS: Final = {**columns_of("repository_name"), **columns_of(
    "history_id", "repository_id", "metadata_prefix", "set_spec", "harvest_start_time", "harvest_end_time",
    "status", "verdict", "failure_reason", "record_count", "new_count", "updated_count", "unchanged_count",
    "deleted_count", "filtered_count", "invalid_count", "requests", "bytes", "job_id", "recurring_id", "host",
    "repeated_count", "tombstone_count", "disappeared_count", "postponed_count",
    of="history",
)}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Filters:
    """Filters of the history, as in the query string."""

    repository: int | None
    status: str
    prefix: str
    words: str
    since: date | None
    until: date | None

    @property
    def any(self) -> bool:
        """Return whether any filter is set."""
        return any((self.repository, self.status, self.prefix, self.words, self.since, self.until))

    @property
    def only_past(self) -> bool:
        """Return whether they select by what only runs have that have ended, or a time before now."""
        return bool(self.status or self.prefix or self.words or self.until)

    def query(self, **more: object) -> str:
        """Return the query string with these filters and additions, with `?`; empty if there are none."""
        pairs = {
            "repository": self.repository,
            "status": self.status,
            "format": self.prefix,
            "find": self.words,
            "since": self.since,
            "until": self.until,
            **more,
        }
        given = {name: str(value) for name, value in pairs.items() if value}
        return f"?{urlencode(given)}" if given else ""

    def choice(self, request: web.Request) -> RunFilter:
        """Return the selection of runs, among those that the user may see."""
        statuses = None
        if self.status == TROUBLE:
            statuses = frozenset(status.value for status in TROUBLED)
        elif self.status:
            statuses = frozenset({self.status})
        return RunFilter(
            repository_id=self.repository,
            statuses=statuses,
            metadata_prefix=self.prefix or None,
            words=self.words or None,
            since=midnight(self.since) if self.since else None,
            until=midnight(self.until + _DAY) if self.until else None,
            among=visible_repositories(who_asks(request)),
        )


def filters_of(request: web.Request) -> Filters:
    """Return the filters in the query string; respond 422 if one is invalid."""
    return Filters(
        repository=chosen_repository(request),
        status=choice_in(request, "status", [TROUBLE, *RunStatus]),
        prefix=text_in(request, "format").strip(),
        words=text_in(request, "find").strip(),
        since=day_in(request, "since"),
        until=day_in(request, "until"),
    )


async def listing(request: web.Request) -> web.Response:
    """Show the selected runs: the newest first, a week's timeline, a year's calendar, or sums by month."""
    return await _page(request)


async def _page(request: web.Request, fault: str = "") -> web.Response:
    filters = filters_of(request)
    view = request.query.get("view", "")
    if filters.repository is not None:
        await asked_for(request, Repository, filters.repository)
    database, repositories = database_of(request), await repository_choices(request)
    shared: dict[str, Any] = {
        "filters": filters,
        "view": view if view in {"timeline", "calendar", "totals"} else "",
        "repositories": repositories,
        "statuses": [TROUBLE, *RunStatus],
        "trouble": TROUBLE,
    }
    if view == "calendar":
        return render(request, "runs_calendar.html", **shared, **await _calendar(request, filters))
    if view == "totals":
        return render(request, "runs_totals.html", **shared, **await _totals(request, filters))
    if view == "timeline":
        return render(
            request, "runs_timeline.html", **shared, **await _timeline(request, filters, dict(repositories))
        )
    before = number_in(request, "before", largest=LARGEST_BIGINT)
    runs = await database.run(find_runs, filters.choice(request), limit=_PAGE + 1, before=before)
    return render(
        request,
        "runs.html",
        status=422 if fault else 200,
        here=f"/runs{filters.query(before=before)}" if fault else request.path_qs,
        fault=fault,
        **shared,
        page=page_of(runs, lambda view: view.history.history_id, behind=before, size=_PAGE),
        before=before,
    )


async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the selected runs."""
    filters = filters_of(request)
    if filters.repository is not None:
        await asked_for(request, Repository, filters.repository)
    find = partial(find_runs, choice=filters.choice(request))
    return await export_list(request, "runs", _COLUMNS, find, before=lambda row: row.history.history_id)


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before an entry is removed."""
    run = await asked_for(request, History)
    repository = await asked_for(request, Repository, run.repository_id)
    name = repository.display_name
    return confirmation(
        request,
        _("Remove run %(number)s of %(name)s from the history?") % {"number": run.history_id, "name": name},
        _("Only this history entry is removed. Harvested records are kept."),
        steps=[(_("History"), "/runs")],
        button=_("Remove entry"),
        back=f"/runs/{run.history_id}",
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the entry."""
    run = await asked_for(request, History)
    with suppress(UsageError):  # somebody else has just removed it
        await database_of(request).run(remove_history, run.history_id)
    raise web.HTTPSeeOther("/runs?done=run-removed")


@needs(Right.HARVEST)
async def remove_several(request: web.Request) -> web.Response:
    """Remove the selected entries, after a confirmation page with their number; some may be gone already."""
    posted = await request.post()
    ticked = numbers_in(posted, "run", largest=LARGEST_BIGINT)[:_PAGE]
    if not ticked:
        return await _page(request, _("Select the entries to remove."))
    runs, _gone = await several_asked_for(request, History, ticked)
    if posted.get("sure") != "yes":
        return render(request, "runs_remove.html", runs=list(runs))

    def work(session: Session) -> None:
        for number in runs:
            with suppress(UsageError):
                remove_history(session, number)

    await database_of(request).run(work)
    about(request, "run", " ".join(map(str, runs)))
    raise web.HTTPSeeOther("/runs?done=runs-removed")


async def _calendar(request: web.Request, filters: Filters) -> dict[str, Any]:
    day = today()
    begin = first_day(day, YEAR_DAYS)
    days = await database_of(request).run(days_of, filters.choice(request).within(begin), zone=here().key)
    plot = heat_map(
        days,
        local(begin).date(),
        day,
        link=day_link(filters.repository),
        label=_("Days of the year, by the worst outcome of their runs"),
    )
    return {"days": days, "plot": plot}


async def _totals(request: web.Request, filters: Filters) -> dict[str, Any]:
    """Return the sums of the chosen time, otherwise of this month and the twelve before it."""
    this_month = today().replace(day=1)
    since = filters.since or this_month.replace(year=this_month.year - 1)
    choice = filters.choice(request)
    choice, database = choice.within(midnight(since), choice.until), database_of(request)
    days = await database.run(days_of, choice, zone=here().key)
    sources = await database.run(sources_of, choice)
    months = [
        (max(month, since), min(_last_day(month), filters.until or date.max), totals)
        for month, totals in months_of(days).items()
    ]
    shown = sources[:_SOURCES]
    return {"since": since, "zone": here().key, "months": months, "sources": shown, "every": len(sources)}


def _last_day(month: date) -> date:
    return month.replace(day=monthrange(month.year, month.month)[1])


async def _timeline(request: web.Request, filters: Filters, names: Mapping[int, str]) -> dict[str, Any]:
    now = utc_now()
    # Include runs that end in this second.
    end = midnight(filters.until + _DAY) if filters.until else now + timedelta(seconds=1)
    begin = end - timedelta(days=_TIMELINE_DAYS)
    choice: RunFilter = filters.choice(request).within(begin, end)
    database = database_of(request)
    most = request.app[PAGE_SIZES].timeline_runs
    runs = await database.run(find_runs, choice, limit=most)
    every = await database.run(count_runs, choice) if len(runs) == most else len(runs)
    spans = [_span(view, names) for view in reversed(runs)]
    minutes = request.config_dict[SETTINGS].manager.partner_minutes
    planned = (
        []
        if filters.only_past
        else await database.run(_planned, choice, now, now + _DAY, names, partner_minutes=minutes)
    )
    until = now + _DAY if planned else end
    plot = timeline(
        [*spans, *planned],
        begin,
        until,
        now=now if planned else None,
        label=_("Runs of seven days and the next day, one row per repository")
        if planned
        else _("Runs of seven days, one row per repository"),
    )
    return {"runs": runs, "every": every, "plot": plot, "begin": begin, "end": until, "planned": planned}


def _planned(
    session: Session,
    choice: RunFilter,
    now: datetime,
    end: datetime,
    names: Mapping[int, str],
    *,
    partner_minutes: float,
) -> list[Span]:
    """Return the runs that schedules will have, the next ones first."""
    due = due_groups(
        session,
        now,
        end,
        limit=_MOST_PLANNED,
        named=_MOST_PLANNED,
        repository_id=choice.repository_id,
        among=choice.among,
        partner_minutes=partner_minutes,
    )
    spans = sorted(
        (begun, ended, number)
        for group in due.groups
        for begun, ended in _as_spans(due_times(group, now, end, most=_TIMES_A_DAY + 1), end)
        for number in group.first
    )[:_MOST_PLANNED]
    planned = schedule_names(session, {number for *_, number in spans})
    return [
        _planned_span(number, planned[number], names, begun, ended)
        for begun, ended, number in spans
        if number in planned
    ]


def _planned_span(
    number: int, schedule: ScheduleName, names: Mapping[int, str], begun: datetime, ended: datetime
) -> Span:
    row = names.get(schedule.repository_id, schedule.repository_name)
    return Span(
        key=schedule.repository_id,
        row=row,
        begun=begun,
        ended=ended,
        tone="active",
        title=" · ".join((row, schedule.metadata_prefix, _("planned"), clock(begun))),
        link=f"/schedules/{number}/edit",
    )


def _as_spans(moments: Sequence[datetime], end: datetime) -> list[tuple[datetime, datetime]]:
    """Return the times as points, or as one stretch if they are too many to distinguish."""
    if len(moments) > _TIMES_A_DAY:
        return [(moments[0], end)]
    return [(moment, moment) for moment in moments]


def _span(view: HistoryView, names: Mapping[int, str]) -> Span:
    run = view.history
    name = names.get(run.repository_id, view.repository_name)
    begun = clock(run.harvest_start_time)
    facts = [name, run.metadata_prefix or "", _(run.status), begun]
    title = " · ".join([*facts, _("generated by the demo")] if is_made_up(run) else facts)
    return Span(
        key=run.repository_id,
        row=name,
        begun=run.harvest_start_time,
        ended=run.harvest_end_time,
        tone=look_of(run.status).tone,
        title=title,
        link=f"/runs/{run.history_id}",
    )


ROUTES = (
    web.get("/runs", listing),
    web.get(f"/runs.{KINDS}", as_file, allow_head=False),
    web.post("/runs/remove", remove_several),
    web.get(f"/runs/{BIG_NUMBER}/remove", confirm_removal),
    web.post(f"/runs/{BIG_NUMBER}/remove", remove),
)
