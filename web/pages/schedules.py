"""Schedules (UIUC tab 2): what is harvested, and how often."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web
from pydantic import Field

from harvester.access import SelectionError, access_of
from harvester.listing import name_repositories
from harvester.models import Repository
from manager.due_groups import due_groups, schedule_names
from manager.models import RecurringJob
from manager.samples import sample_schedule
from manager.schedule_listing import find_schedules
from manager.schedules import (
    add_schedule,
    change_schedule,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_now,
)
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.access import Right, asked_for, needs, visible_repositories, who_asks
from web.catalogue import Details
from web.forms import Form, FormModel, read_form
from web.keys import SETTINGS
from web.lookups import NUMBER, chosen_repository, number_of, repository_of
from web.paging import number_in
from web.planning import FURTHER, ScheduleForm, levels, methods, overlaps, slices
from web.rendering import render
from web.schedule_values import suggested_values, values_of
from web.subject import about
from web.threads import database_of
from web.week import SHOWN, end_of_week, week_of
from web.words import _, told

SUGGESTED: Final = (
    "every 6 hours",
    "daily at 02:30",
    "weekly on saturday at 01:00",
    "monthly on 1 at 03:00",
    "30 2 * * 1-5",
)
_CHOICES: Final = 1000
_PAGE: Final = 50
_GROUPS: Final = 100
"""Plans that a week draws: schedules with the same times are one."""


class SampleForm(FormModel):
    """How many records a sample has."""

    records: int = Field(ge=1, le=100_000)


async def listing(request: web.Request) -> web.Response:
    """The schedules, all or one repository's, as a list or as the week to come."""
    repository_id = chosen_repository(request)
    if repository_id is not None:
        await asked_for(request, Repository, repository_id)
    among = visible_repositories(who_asks(request))
    chosen: dict[str, Any] = {"repository_id": repository_id, "among": among}
    week = request.query.get("view") == "week"
    shown = await (_week(request, chosen) if week else _list(request, chosen))
    repositories = await database_of(request).run(name_repositories, limit=_CHOICES, among=among)
    return render(
        request,
        "schedules.html",
        repositories=repositories,
        repository=repository_id,
        view="week" if week else "",
        **shown,
    )


async def _list(request: web.Request, chosen: Mapping[str, Any]) -> dict[str, Any]:
    after = number_in(request, "after") or 0
    found = await database_of(request).run(find_schedules, limit=_PAGE + 1, after=after, **chosen)
    return {
        "schedules": found[:_PAGE],
        "next": found[_PAGE - 1].schedule.id if len(found) > _PAGE else None,
        "first": not after,
    }


async def _week(request: web.Request, chosen: Mapping[str, Any]) -> dict[str, Any]:
    now, database = utc_now(), database_of(request)
    until = end_of_week(now)
    due = await database.run(due_groups, now, until, limit=_GROUPS, named=SHOWN, **chosen)
    # A thread for it: others are not to wait for a page with thousands of runs.
    week = await asyncio.to_thread(week_of, due.groups, now)
    return {
        "week": week,
        "names": await database.run(schedule_names, week.schedules),
        "left_out": due.left_out,
    }


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """The form for a new schedule, after the choice of a repository."""
    repository_id = chosen_repository(request)
    if repository_id is None:
        among = visible_repositories(who_asks(request))
        repositories = await database_of(request).run(name_repositories, limit=_CHOICES, among=among)
        return render(request, "schedule_choose.html", repositories=repositories)
    await asked_for(request, Repository, repository_id)
    details = await repository_of(request, repository_id)
    return _form(request, details, Form(values=suggested_values(details)))


@needs(Right.HARVEST)
async def add(request: web.Request) -> web.Response:
    """Add the schedule, or show the form again with what is wrong."""
    repository_id = chosen_repository(request)
    if repository_id is None:
        raise web.HTTPNotFound(text=_("Choose a repository first."))
    await asked_for(request, Repository, repository_id)
    details = await repository_of(request, repository_id)
    asked, form = await _read(request, repository_id)
    if asked is None or form.values.get("do") == "show-plan":
        return _form(request, details, form, plan=asked)
    columns = asked.columns()
    try:
        made = await database_of(request).run(lambda session: add_schedule(session, **columns))
    except UsageError as error:
        return _form(request, details, form.with_error(_field(error), told(error)))
    about(request, "schedule", made.id, details.name)
    raise web.HTTPSeeOther("/schedules?done=schedule-added")


@needs(Right.HARVEST)
async def edit(request: web.Request) -> web.Response:
    """The form for a schedule that there is."""
    _who, schedule = await asked_for(request, RecurringJob)
    details = await repository_of(request, schedule.repository_id)
    return _form(request, details, Form(values=values_of(schedule)), schedule=schedule)


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Change the schedule, or show the form again with what is wrong."""
    _who, schedule = await asked_for(request, RecurringJob)
    details = await repository_of(request, schedule.repository_id)
    asked, form = await _read(request, schedule.repository_id)
    if asked is None or form.values.get("do") == "show-plan":
        return _form(request, details, form, plan=asked, schedule=schedule)
    columns = asked.columns()
    try:
        await database_of(request).run(lambda session: change_schedule(session, schedule.id, **columns))
    except UsageError as error:
        return _form(request, details, form.with_error(_field(error), told(error)), schedule=schedule)
    raise web.HTTPSeeOther("/schedules?done=schedule-changed")


@needs(Right.HARVEST)
async def run(request: web.Request) -> web.Response:
    """Make a job of the schedule that is due now."""
    await asked_for(request, RecurringJob)
    await database_of(request).run(run_now, number_of(request))
    raise web.HTTPSeeOther("/jobs?done=harvest-asked")


@needs(Right.HARVEST)
async def sample(request: web.Request) -> web.Response:
    """Make a job that ends after so many records."""
    await asked_for(request, RecurringJob)
    asked, _shown = read_form(SampleForm, await request.post())
    if asked is None:
        raise web.HTTPBadRequest(text=_("Enter a number of records from 1 to 100000."))
    await database_of(request).run(sample_schedule, number_of(request), asked.records)
    raise web.HTTPSeeOther("/jobs?done=harvest-asked")


@needs(Right.HARVEST)
async def pause(request: web.Request) -> web.Response:
    """Let the schedule make no jobs until it is resumed."""
    await asked_for(request, RecurringJob)
    await database_of(request).run(pause_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-paused")


@needs(Right.HARVEST)
async def resume(request: web.Request) -> web.Response:
    """Let the schedule make jobs again."""
    await asked_for(request, RecurringJob)
    await database_of(request).run(resume_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-resumed")


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask before a schedule goes."""
    _who, schedule = await asked_for(request, RecurringJob)
    details = await repository_of(request, schedule.repository_id)
    return render(
        request,
        "confirm.html",
        title=_("Remove the schedule of %(subject)s?")
        % {"subject": f"{details.name} · {schedule.metadata_prefix}"},
        steps=[(_("Overview"), "/"), (_("Schedules"), "/schedules")],
        lines=[
            _("Its planned jobs are removed, too. A harvest that is already running continues."),
            _("Harvested records and the history are kept."),
        ],
        button=_("Remove schedule"),
        back="/schedules",
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the schedule."""
    await asked_for(request, RecurringJob)
    await database_of(request).run(remove_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-removed")


def _field(error: UsageError) -> str:
    """The field that what is wrong with the plan as a whole is told at."""
    return "set_spec" if isinstance(error, SelectionError) else "frequency"


async def _read(request: web.Request, repository_id: int) -> tuple[ScheduleForm | None, Form]:
    posted = (await request.post()).copy()
    posted["repository_id"] = str(repository_id)
    context = {"data": request.config_dict[SETTINGS].data}
    # Rule files are read while the form is checked.
    return await asyncio.to_thread(read_form, ScheduleForm, posted, context)


def _form(
    request: web.Request,
    details: Details,
    form: Form,
    *,
    plan: ScheduleForm | None = None,
    schedule: RecurringJob | None = None,
) -> web.Response:
    access = access_of(details.repository.protocol)
    formats = [(row.metadata_prefix, row.metadata_prefix) for row in details.formats]
    present = form.values.get("metadata_prefix")
    if isinstance(present, str) and present and (present, present) not in formats:
        formats.append((present, present))
    return render(
        request,
        "schedule_form.html",
        status=422 if form.errors else 200,
        details=details,
        form=form,
        schedule=schedule,
        plan=plan,
        runs=plan.next_runs() if plan else [],
        profiled=details.repository.profile is not None and schedule is None,
        access=access,
        formats=formats or [(access.usual_format, access.usual_format)],
        frequencies=SUGGESTED,
        methods=methods(),
        levels=levels(),
        slices=slices(),
        overlaps=overlaps(),
        further=FURTHER,
        layouts=[
            ("true", _("In folders by identifier")),
            ("false", _("All in one folder")),
        ],
    )


ROUTES = (
    web.get("/schedules", listing),
    web.get("/schedules/new", new),
    web.post("/schedules/new", add),
    web.get(f"/schedules/{NUMBER}/edit", edit),
    web.post(f"/schedules/{NUMBER}/edit", change),
    web.post(f"/schedules/{NUMBER}/run", run),
    web.post(f"/schedules/{NUMBER}/sample", sample),
    web.post(f"/schedules/{NUMBER}/pause", pause),
    web.post(f"/schedules/{NUMBER}/resume", resume),
    web.get(f"/schedules/{NUMBER}/remove", confirm_removal),
    web.post(f"/schedules/{NUMBER}/remove", remove),
)
