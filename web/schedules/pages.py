"""Schedules (UIUC tab 2): what is harvested, and how often."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.access import access_of
from harvester.models import Repository
from harvester.probing.findings import Profile
from manager.jobs.reasons import find_maintenance
from manager.models import RecurringJob
from manager.rule_access import check_rule_access
from manager.schedules.calendar import DueGroup, due_groups, due_times, schedule_names
from manager.schedules.rule_changes import with_changed_rules
from manager.schedules.service import (
    add_schedule,
    change_schedule,
    find_schedules,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_now,
    sample_schedule,
)
from manager.worker.registry import places
from oai.audit import last_change
from oai.datestamps import utc_now
from oai.errors import UsageError
from web.auth.access import Right, about, asked_for, needs, visible_repositories, who_asks
from web.auth.audit import check_undo, undo_mark
from web.repositories.forms import Details, repository_choices
from web.rules.unapplied import page_after
from web.schedules.forms import (
    SAMPLE,
    SampleForm,
    ScheduleForm,
    changes_since,
    field_of,
    is_owned,
    options,
    partner_minutes,
    refused,
    run_spacing,
    unchanged_times,
    values_of,
    what_it_means,
)
from web.schedules.reading import done_with, read_schedule
from web.schedules.rules import rule_choices, rule_context, rule_paths, rule_to_use
from web.schedules.timing import timing_in
from web.site.formats import harvest_name
from web.site.forms import Form, StaleFormError, filled_from, keeping_other_changes, locked_row, read_form
from web.site.i18n import _, error_text
from web.site.keys import PAGE_SIZES, SETTINGS, database_of
from web.site.paging import PAGE, number_in, page_of
from web.site.params import NUMBER, chosen_repository, number_of, repository_of
from web.site.render import confirmation, refuse, render
from web.site.zones import here, local, midnight

DAYS: Final = 7
SHOWN: Final = 4
"""Maximum number of schedules that a cell and each frequent plan name."""
_HOURLY: Final = DAYS * 25
"""Runs a week; more frequent plans are listed beside the grid. One day may have 25 hours."""


def suggested_values(details: Details) -> dict[str, str]:
    """Return the initial values of a new schedule: the profile from the diagnostics, if there is one."""
    formats = [row.metadata_prefix for row in details.formats]
    access = access_of(details.repository.protocol)
    usual = access.usual_format
    prefix = usual if usual in formats or not formats else formats[0]
    profile = Profile.from_json(details.repository.profile) or Profile(metadata_prefix=prefix)
    return {
        "metadata_prefix": profile.metadata_prefix,
        "frequency": "daily at 02:30",
        "time_zone": here().key,
        "incremental": "yes" if profile.incremental and access.query is None else "",
        "validation": str(profile.validation),
        "method": str(profile.method),
        "slice": profile.slice or "",
        "parse_id": "true",
    }


@dataclass(frozen=True, kw_only=True)
class Due:
    """One future run."""

    moment: datetime
    schedule: int


@dataclass(frozen=True, kw_only=True)
class Cell:
    """The runs due in an hour of a day, in order; `more` is the number of those left out."""

    dues: Sequence[Due] = ()
    more: int = 0


@dataclass(frozen=True, kw_only=True)
class Hour:
    """An hour of the day with a cell for each day of the week."""

    hour: int
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Week:
    """The next seven days in the reader's time zone, by hours; hours without runs are left out."""

    days: Sequence[date]
    hours: Sequence[Hour]
    often: Sequence[DueGroup]
    """Plans that run more often than every hour."""

    @property
    def schedules(self) -> set[int]:
        """Return the ids of all schedules that are named."""
        dues = {due.schedule for hour in self.hours for cell in hour.cells for due in cell.dues}
        return dues.union(*(group.first for group in self.often))


def end_of_week(now: datetime) -> datetime:
    """Return the end (UTC) of the last of the seven days in the reader's time zone."""
    return midnight(local(now).date() + timedelta(days=DAYS))


def week_of(groups: Iterable[DueGroup], now: datetime) -> Week:
    """Return the week with the runs that the schedules will have."""
    first = local(now).date()
    days = [first + timedelta(days=count) for count in range(DAYS)]
    end = end_of_week(now)
    found: dict[tuple[int, date], list[tuple[datetime, DueGroup]]] = {}
    often = []
    for group in groups:
        # One time more than the grid shows: if it exists, the plan runs more often.
        moments = due_times(group, now, end, most=_HOURLY + 1)
        if len(moments) > _HOURLY:
            often.append(group)
            continue
        for moment in moments:
            on_the_clock = local(moment)
            place = (on_the_clock.hour, on_the_clock.date())
            found.setdefault(place, []).append((moment, group))
    hours = [
        Hour(hour=hour, cells=[_cell(found.get((hour, day), [])) for day in days])
        for hour in sorted({hour for hour, _day in found})
    ]
    return Week(days=days, hours=hours, often=often)


def _cell(runs: Iterable[tuple[datetime, DueGroup]]) -> Cell:
    named = sorted((moment, number) for moment, group in runs for number in group.first)[:SHOWN]
    due = sum(group.schedules for _moment, group in runs)
    return Cell(dues=[Due(moment=moment, schedule=number) for moment, number in named], more=due - len(named))


async def listing(request: web.Request) -> web.Response:
    """Show the schedules of all repositories or of one, as a list or as the coming week."""
    repository_id = chosen_repository(request)
    if repository_id is not None:
        await asked_for(request, Repository, repository_id)
    among = visible_repositories(who_asks(request))
    chosen: dict[str, Any] = {"repository_id": repository_id, "among": among}
    week = request.query.get("view") == "week"
    shown = await (_week(request, chosen) if week else _list(request, chosen))
    choices = await repository_choices(request)
    return render(
        request,
        "schedules.html",
        repositories=choices,
        told=dict(choices),
        repository=repository_id,
        view="week" if week else "",
        **shown,
    )


async def _list(request: web.Request, chosen: Mapping[str, Any]) -> dict[str, Any]:
    after = number_in(request, "after") or 0
    found = await database_of(request).run(find_schedules, limit=PAGE + 1, after=after, **chosen)
    maintenance = await database_of(request).run(find_maintenance)
    return {"page": page_of(found, lambda view: view.schedule.id, behind=after), "maintenance": maintenance}


async def _week(request: web.Request, chosen: Mapping[str, Any]) -> dict[str, Any]:
    now, database = utc_now(), database_of(request)
    until = end_of_week(now)
    most = request.app[PAGE_SIZES].week_groups
    minutes = request.config_dict[SETTINGS].manager.partner_minutes
    due = await database.run(
        due_groups, now, until, limit=most, named=SHOWN, partner_minutes=minutes, **chosen
    )
    # Computed in a thread, so that a page with thousands of runs does not block the event loop.
    week = await asyncio.to_thread(week_of, due.groups, now)
    return {
        "week": week,
        "names": await database.run(schedule_names, week.schedules),
        "left_out": due.left_out,
        "places": await database.run(places),
    }


@needs(Right.HARVEST)
async def new(request: web.Request) -> web.Response:
    """Show the form for a new schedule, once a repository has been chosen."""
    repository_id = chosen_repository(request)
    if repository_id is None:
        return render(request, "schedule_choose.html", repositories=await repository_choices(request))
    await asked_for(request, Repository, repository_id)
    details = await repository_of(request, repository_id)
    return await _form(
        request, details, Form(values={**suggested_values(details), **await rule_to_use(request)})
    )


@needs(Right.HARVEST)
async def add(request: web.Request) -> web.Response:
    """Add the schedule, or show the form again with its errors."""
    repository_id = chosen_repository(request)
    if repository_id is None:
        raise web.HTTPNotFound(text=_("Choose a repository first."))
    await asked_for(request, Repository, repository_id)
    details = await repository_of(request, repository_id)
    asked, form = await read_schedule(request, details)
    if asked is None or form.values.get("do") == "show-plan":
        return await _form(request, details, form, plan=asked)
    columns = {**asked.columns(), "partner_minutes": partner_minutes(request)}
    try:
        made = await database_of(request).run(_add, request.config_dict[SETTINGS].data, columns)
    except UsageError as error:
        return await _form(request, details, form.with_error(field_of(error), error_text(error)))
    about(request, "schedule", made.id, details.name)
    raise web.HTTPSeeOther(await page_after(request, made.id, done_with(form, "schedule-added")))


@needs(Right.HARVEST)
async def edit(request: web.Request) -> web.Response:
    """Show the form of an existing schedule."""
    schedule = await asked_for(request, RecurringJob)
    return await _edited(request, schedule, SAMPLE)


async def _edited(request: web.Request, schedule: RecurringJob, sample: Form) -> web.Response:
    details = await repository_of(request, schedule.repository_id)
    files = {name: path or "" for name, path in rule_paths(request, schedule).items()}
    values = {**filled_from(values_of(schedule)), **files, **await rule_to_use(request)}
    return await _form(request, details, Form(values=values), schedule=schedule, sample=sample)


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Change the schedule, or show the form again with its errors."""
    schedule = await asked_for(request, RecurringJob)
    details = await repository_of(request, schedule.repository_id)
    asked, form = await read_schedule(request, details, schedule)
    if asked is None or form.values.get("do") == "show-plan":
        return await _form(request, details, form, plan=asked, schedule=schedule)
    columns = {**asked.model_dump(), "partner_minutes": partner_minutes(request)}
    try:
        data = request.config_dict[SETTINGS].data
        await database_of(request).run(_change, data, schedule.id, columns, form)
    except (StaleFormError, UsageError) as error:
        return await _form(request, details, refused(form, error), schedule=schedule)
    raise web.HTTPSeeOther(await page_after(request, schedule.id, done_with(form, "schedule-changed")))


@needs(Right.HARVEST)
async def run(request: web.Request) -> web.StreamResponse:
    """Create a job of the schedule that is due now."""
    await asked_for(request, RecurringJob)
    try:
        job = await database_of(request).run(
            run_now, number_of(request), partner_minutes=partner_minutes(request)
        )
    except UsageError as error:
        return await refuse(request, listing, error_text(error))
    raise web.HTTPSeeOther(f"/jobs/{job.job_id}?done=harvest-asked")


@needs(Right.HARVEST)
async def sample(request: web.Request) -> web.StreamResponse:
    """Create a job that ends after the given number of records."""
    schedule = await asked_for(request, RecurringJob)
    asked, form = read_form(SampleForm, await request.post())
    if asked is None:
        return await _edited(request, schedule, form)
    minutes = partner_minutes(request)
    try:
        job = await database_of(request).run(
            sample_schedule, number_of(request), asked.records, partner_minutes=minutes
        )
    except UsageError as error:
        return await refuse(request, edit, error_text(error))
    raise web.HTTPSeeOther(f"/jobs/{job.job_id}?done=harvest-asked")


@needs(Right.HARVEST)
async def pause(request: web.Request) -> web.Response:
    """Pause the schedule: no jobs are created until it is resumed."""
    return await _switch(request, lambda *given: pause_schedule(*given).changed, "schedule-paused", "resume")


@needs(Right.HARVEST)
async def resume(request: web.Request) -> web.Response:
    """Resume the schedule."""
    return await _switch(request, resume_schedule, "schedule-resumed", "pause")


async def _switch(
    request: web.Request, change: Callable[[Session, int], bool], done: str, opposite: str
) -> web.Response:
    """Pause or resume the schedule, and offer to undo that if it was in the other state."""
    schedule = await asked_for(request, RecurringJob)
    number = number_of(request)

    def work(session: Session) -> bool:
        changed = change(session, number)
        if changed:  # otherwise it is undone already, by a double click for instance
            check_undo(session, request, "schedule", number, schedule.repository_id)
        return changed

    changed = await database_of(request).run(work)
    undo = f"&undo=/schedules/{number}/{opposite}{undo_mark(request)}" if changed else ""
    raise web.HTTPSeeOther(f"/schedules?done={done}{undo}")


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a schedule is removed."""
    schedule = await asked_for(request, RecurringJob)
    details = await repository_of(request, schedule.repository_id)
    return confirmation(
        request,
        _("Remove the schedule of %(subject)s?")
        % {"subject": harvest_name(details.name, schedule.metadata_prefix, schedule.set_spec)},
        _("Its planned jobs are removed, too. A harvest that is already running continues."),
        _("Harvested records and the history are kept."),
        steps=[(_("Schedules"), "/schedules")],
        button=_("Remove schedule"),
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the schedule."""
    await asked_for(request, RecurringJob)
    with suppress(UsageError):  # somebody else has just removed it
        await database_of(request).run(remove_schedule, number_of(request))
    raise web.HTTPSeeOther("/schedules?done=schedule-removed")


def _add(session: Session, data: Path, columns: Mapping[str, Any]) -> RecurringJob:
    # Locked, because a second click on the button sends the form a second time.
    locked_row(session, Repository, columns["repository_id"])
    schedule = add_schedule(session, **columns)
    check_rule_access(session, schedule, data)
    same = {name: getattr(schedule, name) for name in columns if name != "partner_minutes"}
    others = select(RecurringJob.id).filter_by(**same).where(RecurringJob.id != schedule.id)
    if session.scalar(others.limit(1)) is not None:
        raise UsageError(_("The repository already has the same schedule."))
    return schedule


def _change(session: Session, data: Path, number: int, columns: Mapping[str, Any], form: Form) -> None:
    last = partial(last_change, session, "schedule", number)
    with keeping_other_changes(form, lambda: values_of(locked_row(session, RecurringJob, number)), last):
        times = unchanged_times(session.get_one(RecurringJob, number), columns, form)
        check_rule_access(session, change_schedule(session, number, **{**columns, **times}), data)


async def _form(
    request: web.Request,
    details: Details,
    form: Form,
    *,
    plan: ScheduleForm | None = None,
    schedule: RecurringJob | None = None,
    sample: Form = SAMPLE,
) -> web.Response:
    number, access = details.repository.repository_id, access_of(details.repository.protocol)
    owned = await is_owned(request, number, schedule)
    since, floor = run_spacing(request, schedule, owned=owned)
    formats = [(row.metadata_prefix, row.metadata_prefix) for row in details.formats]
    present = form.values.get("metadata_prefix")
    if isinstance(present, str) and present and (present, present) not in formats:
        formats.append((present, present))
    return render(
        request,
        "schedule_form.html",
        rule_files=rule_choices(await rule_context(request), form.values),
        status=max(form.status, sample.status),
        details=details,
        form=form,
        sample=sample,
        here=f"/schedules/{schedule.id}/edit" if schedule else request.path_qs,
        schedule=schedule,
        rules_unapplied=schedule and await database_of(request).run(with_changed_rules, [schedule.id]),
        plan=plan,
        since=plan and await changes_since(request, number, plan, schedule),
        runs=plan.next_runs(since, floor) if plan else [],
        found=plan
        and await what_it_means(request, number, plan, plan.times_within_week(since, floor), schedule),
        limited=owned,
        minutes=f"{request.config_dict[SETTINGS].manager.partner_minutes:g}",
        profiled=details.repository.profile is not None and schedule is None,
        access=access,
        formats=formats or [(access.usual_format, access.usual_format)],
        chosen=timing_in(form.values),
        **options(),
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
