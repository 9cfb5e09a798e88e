"""Schedules (UIUC tab 2): what is harvested, and how often."""

import asyncio
from typing import Final

from aiohttp import web

from harvester.repositories import list_repositories
from manager.schedules import (
    ScheduleView,
    add_schedule,
    list_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_now,
)
from oai.errors import UsageError
from web.access import administrators_only
from web.catalogue import Details
from web.forms import Form, read_form
from web.keys import SETTINGS
from web.lookups import NUMBER, chosen_repository, number_of, repository_of
from web.planning import ScheduleForm
from web.rendering import render
from web.threads import database_of
from web.words import _

SUGGESTED: Final = (
    "every 6 hours",
    "daily at 02:30",
    "weekly on saturday at 01:00",
    "monthly on 1 at 03:00",
    "30 2 * * 1-5",
)


async def listing(request: web.Request) -> web.Response:
    """All schedules."""
    schedules = await database_of(request).run(list_schedules)
    return render(request, "schedules.html", schedules=schedules)


@administrators_only
async def new(request: web.Request) -> web.Response:
    """The form for a new schedule, after the choice of a repository."""
    repository_id = chosen_repository(request)
    if repository_id is None:
        repositories = await database_of(request).run(list_repositories)
        return render(request, "schedule_choose.html", repositories=repositories)
    details = await repository_of(request, repository_id)
    formats = [row.metadata_prefix for row in details.formats]
    prefix = "oai_dc" if "oai_dc" in formats or not formats else formats[0]
    values = {
        "metadata_prefix": prefix,
        "frequency": "daily at 02:30",
        "incremental": "yes",
        "validation": "2",
    }
    return _form(request, details, Form(values=values))


async def add(request: web.Request) -> web.Response:
    """Add the schedule, or show the form again with what is wrong."""
    repository_id = chosen_repository(request)
    if repository_id is None:
        raise web.HTTPNotFound(text=_("Choose a repository first."))
    details = await repository_of(request, repository_id)
    posted = (await request.post()).copy()
    posted["repository_id"] = str(repository_id)
    context = {"data": request.config_dict[SETTINGS].data}
    # Rule files are read while the form is checked.
    asked, form = await asyncio.to_thread(read_form, ScheduleForm, posted, context)
    if asked is None:
        return _form(request, details, form)
    try:
        columns = asked.columns()
        await database_of(request).run(lambda session: add_schedule(session, **columns))
    except UsageError as error:
        return _form(request, details, form.with_error("frequency", str(error)))
    raise web.HTTPSeeOther("/schedules?done=schedule-added")


async def run(request: web.Request) -> web.Response:
    """Make a job of the schedule that is due now."""
    await _schedule_of(request)
    await database_of(request).run(run_now, number_of(request))
    raise web.HTTPSeeOther("/jobs?done=harvest-asked")


async def pause(request: web.Request) -> web.Response:
    """Let the schedule make no jobs until it is resumed."""
    await _schedule_of(request)
    await database_of(request).run(pause_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-paused")


async def resume(request: web.Request) -> web.Response:
    """Let the schedule make jobs again."""
    await _schedule_of(request)
    await database_of(request).run(resume_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-resumed")


@administrators_only
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask before a schedule goes."""
    view = await _schedule_of(request)
    subject = f"{view.repository_name} · {view.schedule.metadata_prefix}"
    return render(
        request,
        "confirm.html",
        title=_("Remove the schedule of %(subject)s?") % {"subject": subject},
        steps=[(_("Overview"), "/"), (_("Schedules"), "/schedules")],
        lines=[
            _("Its planned jobs go with it. A harvest that runs already goes on."),
            _("Harvested records and the history are kept."),
        ],
        button=_("Remove the schedule"),
        back="/schedules",
    )


async def remove(request: web.Request) -> web.Response:
    """Remove the schedule."""
    await _schedule_of(request)
    await database_of(request).run(remove_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-removed")


async def _schedule_of(request: web.Request) -> ScheduleView:
    number = number_of(request)
    for view in await database_of(request).run(list_schedules):
        if view.schedule.id == number:
            return view
    raise web.HTTPNotFound(
        text=_("There is no schedule %(number)s; it may have been removed.") % {"number": number}
    )


def _form(request: web.Request, details: Details, form: Form) -> web.Response:
    formats = [(row.metadata_prefix, row.metadata_prefix) for row in details.formats]
    return render(
        request,
        "schedule_new.html",
        status=422 if form.errors else 200,
        details=details,
        form=form,
        formats=formats or [("oai_dc", "oai_dc")],
        frequencies=SUGGESTED,
        methods=[
            ("0", _("ListRecords: whole pages of records")),
            ("1", _("ListIdentifiers, then GetRecord for each: for repositories whose lists break")),
        ],
        levels=[
            ("2", _("Loose: skip bad records, and tell")),
            ("0", _("Strict: stop at XML that is not well-formed")),
            ("1", _("Very strict: each record must fit its schema")),
        ],
    )


ROUTES = (
    web.get("/schedules", listing),
    web.get("/schedules/new", new),
    web.post("/schedules/new", add),
    web.post(f"/schedules/{NUMBER}/run", run),
    web.post(f"/schedules/{NUMBER}/pause", pause),
    web.post(f"/schedules/{NUMBER}/resume", resume),
    web.get(f"/schedules/{NUMBER}/remove", confirm_removal),
    web.post(f"/schedules/{NUMBER}/remove", remove),
)
