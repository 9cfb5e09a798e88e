"""Pages of store audits: schedules, results with the first findings, and audits on request."""

from typing import Final

from aiohttp import web
from pydantic import Field

from harvester.models import Repository
from harvester.store.models import StoreAudit
from manager.models import StoreAuditSchedule
from manager.store_audits import (
    find_audit,
    find_audits,
    list_schedules,
    queue_audit,
    remove_schedule,
    set_schedule,
)
from web.auth.access import Right, about, asked_for, needs, visible_repositories, who_asks
from web.repositories.forms import repository_choices
from web.schedules.forms import TimedForm
from web.schedules.timing import timing_in, weekday_names
from web.site.faults import conflicts
from web.site.forms import Form, empty_is_none, read_form
from web.site.i18n import _
from web.site.keys import database_of
from web.site.paging import LARGEST_BIGINT, PAGE, number_in, page_of
from web.site.params import BIG_NUMBER, NUMBER, chosen_repository, number_of
from web.site.render import render
from web.site.zones import here

_LONGEST: Final = 200


class AuditScheduleForm(TimedForm):
    """How often the store of a repository, or of all repositories, is audited."""

    repository_id: int | None = Field(
        None,
        ge=1,
        le=999_999_999,
        description="Null for callers who see all repositories: all without a schedule of their own.",
    )
    frequency: str = Field(
        min_length=1, max_length=_LONGEST, description="As in schedules: `weekly on saturday at 02:00`."
    )
    time_zone: str = Field("UTC", max_length=_LONGEST, description="IANA time zone.")

    _empty_is_none = empty_is_none("repository_id")


async def show(request: web.Request) -> web.Response:
    """Show the schedules and the audits, newest first; of one repository if the query names it."""
    return await _page(
        request, Form(values={"frequency": "weekly on saturday at 02:00", "time_zone": here().key})
    )


async def show_audit(request: web.Request) -> web.Response:
    """Show one audit with its first findings."""
    audit = await asked_for(request, StoreAudit)
    view = await database_of(request).run(find_audit, audit.audit_id)
    return render(request, "store_audit.html", view=view, audit=view.audit)


@needs(Right.HARVEST)
async def run(request: web.Request) -> web.Response:
    """Queue an audit of the repository's store."""
    repository = await asked_for(request, Repository)
    with conflicts():
        await database_of(request).run(queue_audit, repository.repository_id)
    raise web.HTTPSeeOther(f"/store-audits?repository={repository.repository_id}&done=audit-queued")


@needs(Right.HARVEST)
async def schedule(request: web.Request) -> web.Response:
    """Set a schedule, or show the form again with its errors."""
    asked, form = read_form(AuditScheduleForm, await request.post())
    if asked is None:
        return await _page(request, form)
    if asked.repository_id is not None:
        await asked_for(request, Repository, asked.repository_id)
    elif not who_asks(request).sees_everything:
        return await _page(request, form.with_error("repository_id", _("Choose a repository first.")))
    made = await database_of(request).run(lambda session: set_schedule(session, **asked.model_dump()))
    about(request, "audit schedule", made.schedule_id, **asked.model_dump())
    raise web.HTTPSeeOther("/store-audits?done=audit-schedule-set")


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove a schedule; its audits stay."""
    await asked_for(request, StoreAuditSchedule)
    await database_of(request).run(remove_schedule, number_of(request))
    raise web.HTTPSeeOther("/store-audits?done=audit-schedule-removed")


async def _page(request: web.Request, form: Form) -> web.Response:
    who, database = who_asks(request), database_of(request)
    before = number_in(request, "before", largest=LARGEST_BIGINT)
    among, chosen = visible_repositories(who), chosen_repository(request)
    if chosen is not None:
        await asked_for(request, Repository, chosen)
    audits = await database.run(find_audits, limit=PAGE + 1, before=before, repository_id=chosen, among=among)
    return render(
        request,
        "store_audits.html",
        status=422 if form.errors else 200,
        form=form,
        page=page_of(audits, lambda view: view.audit.audit_id, behind=before),
        schedules=await database.run(list_schedules, among=among),
        chosen=chosen,
        timing=timing_in(form.values),
        weekdays=weekday_names(),
        choices=[
            *([("", _("all repositories"))] if who.sees_everything else []),
            *await repository_choices(request),
        ],
    )


ROUTES: Final = (
    web.get("/store-audits", show),
    web.get(f"/store-audits/{BIG_NUMBER}", show_audit),
    web.post("/store-audits/schedules", schedule),
    web.post(f"/store-audits/schedules/{NUMBER}/remove", remove),
    web.post(f"/repositories/{NUMBER}/store-audits", run),
)
