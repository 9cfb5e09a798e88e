"""REST API: schedules: list, add, show, change, remove, pause, resume, run now, sample."""

from collections.abc import Awaitable
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic import ConfigDict, Field, create_model
from sqlalchemy.orm import Session

from harvester.harvest_plan import Parameter, Surface, carried
from harvester.models import Repository
from manager.models import Job, RecurringJob
from manager.rule_access import check_rule_access
from manager.schedules.limits import LimitError
from manager.schedules.service import (
    MOST_RECORDS,
    ScheduleView,
    add_schedule,
    change_schedule,
    find_schedules,
    find_view,
    pause_schedule,
    remove_schedule,
    resume_schedule,
    run_now,
    sample_schedule,
)
from oai.rights import Right
from web.api.faults import ApiError, FieldFault
from web.api.operations import Call, Operations
from web.api.paging import list_page
from web.api.shapes import In, Out, Page, Paged
from web.auth.access import about, asked_for, visible_repositories
from web.schedules.forms import ScheduleForm, is_owned, partner_minutes, run_spacing, what_it_means
from web.schedules.rules import rule_context, rule_paths

OPERATIONS: Final = Operations("schedules")

_ORDER: Final = (
    "metadata_prefix", "set_spec", "frequency", "time_zone", "start_date", "end_date", "harvest_from",
    "harvest_to", "method", "validation", "incremental", "filter_file_path", "normalize_file_path",
)  # fmt: skip
"""Leading fields of a response, in their established order; further parameters follow."""


class _Named(Out):
    schedule_id: int
    repository_id: int
    repository_name: str


def _answered(one: Parameter) -> tuple[Any, Any]:
    kind: Any = str if one.kind is Path else one.kind
    return kind | None if one.stored is None else kind, Field(description=one.about)


def _place(one: Parameter) -> int:
    return _ORDER.index(one.column) if one.column in _ORDER else len(_ORDER)


if TYPE_CHECKING:
    _Parameters = _Named
else:
    _columns = {one.column: _answered(one) for one in sorted(carried(Surface.API), key=_place)}
    _Parameters = create_model("_Parameters", __base__=_Named, **_columns)


class ScheduleOut(_Parameters):
    """What is harvested, and how often."""

    state: str
    state_reason: str | None
    state_failure: dict[str, Any] | None = Field(description="The reason as a failure code with its facts.")
    next_due: datetime | None


class ScheduleQuery(Paged):
    """Filters for schedules."""

    repository: int | None = Field(None, ge=1, le=999_999_999, description="Limit to this repository.")


class NewSchedule(ScheduleForm):
    """A new schedule, with the fields of the form."""

    model_config = ConfigDict(extra="forbid")

    repository_id: int = Field(ge=1, le=999_999_999)


class SizeOut(Out):
    """How much a run takes."""

    seconds: float
    requests: int
    records: int


class ClashOut(Out):
    """Another schedule of the same server that is due while this one would run."""

    schedule_id: int
    repository_name: str
    metadata_prefix: str
    at: datetime = Field(description="Its first due time that clashes.")
    same_repository: bool = Field(description="Whether one of both waits for the other.")


class ForecastOut(Out):
    """What a schedule would mean, from the history of its repository."""

    runs: list[datetime] = Field(description="Due times of the coming week, at most 200.")
    complete_runs: int = Field(description="Complete runs on which the sizes rest, at most ten.")
    usual: SizeOut | None
    largest: SizeOut | None = Field(description="The largest of these runs, if far larger than usual.")
    clashes: list[ClashOut]
    quickest_hour: int | None = Field(description="Hour of the day at which the server is quickest.")
    seconds_per_request: dict[int, float] = Field(description="By the hour of the day, as far as known.")


class ScheduleChange(NewSchedule):
    """The whole schedule as it is to be from now on; it stays with its repository."""


class SampleOfSchedule(In):
    """The size of a sample."""

    records: int = Field(100, ge=1, le=MOST_RECORDS)


class Started(Out):
    """The created job."""

    job_id: int


@OPERATIONS.add("GET /schedules", "listSchedules", Right.LOOK, query=ScheduleQuery)
async def _list(call: Call) -> Page[ScheduleOut]:
    """List schedules by number, for one repository or all."""
    query = call.asked(ScheduleQuery)
    among = visible_repositories(call.who)
    find = partial(find_schedules, repository_id=query.repository, among=among)
    return await list_page(call, find, lambda view: _shown(call, view), after=lambda view: view.schedule.id)


@OPERATIONS.add(
    "POST /schedules",
    "addSchedule",
    Right.HARVEST,
    body=NewSchedule,
    status=201,
    faults={404},
    context=rule_context,
)
async def _add(call: Call) -> ScheduleOut:
    """Add a schedule; without a frequency it runs once."""
    asked = call.sent(NewSchedule)
    await asked_for(call.request, Repository, asked.repository_id)
    columns = {**asked.columns(), "partner_minutes": partner_minutes(call.request)}

    def add(session: Session) -> ScheduleView:
        added = add_schedule(session, **columns)
        check_rule_access(session, added, call.settings.data)
        return find_view(session, added.id)

    view = await _within_limits(call.database.run(add))
    about(call.request, "schedule", view.schedule.id, view.repository_name)
    return _shown(call, view)


@OPERATIONS.add(
    "POST /schedules/forecast",
    "forecastSchedule",
    Right.HARVEST,
    body=NewSchedule,
    faults={404},
    context=rule_context,
)
async def _forecast(call: Call) -> ForecastOut:
    """Show what a schedule would mean, without adding it."""
    asked = call.sent(NewSchedule)
    await asked_for(call.request, Repository, asked.repository_id)
    owned = await is_owned(call.request, asked.repository_id, None)
    dues = asked.times_within_week(*run_spacing(call.request, None, owned=owned))
    found = await what_it_means(call.request, asked.repository_id, asked, dues, None)
    return ForecastOut.from_row(
        found,
        runs=dues,
        complete_runs=found.runs,
        clashes=[ClashOut.from_row(one, schedule_id=one.recurring_id) for one in found.clashes],
        quickest_hour=found.quickest,
        seconds_per_request=dict(found.hours),
    )


@OPERATIONS.add("GET /schedules/{schedule}", "getSchedule", Right.LOOK)
async def _show(call: Call) -> ScheduleOut:
    """Show a schedule."""
    number = (await call.row(RecurringJob, "schedule")).id
    return _shown(call, await call.database.run(find_view, number))


@OPERATIONS.add(
    "PUT /schedules/{schedule}", "changeSchedule", Right.HARVEST, body=ScheduleChange, context=rule_context
)
async def _change(call: Call) -> ScheduleOut:
    """Change a schedule; its next job is planned again."""
    row = await call.row(RecurringJob, "schedule")
    asked = call.sent(ScheduleChange)
    columns = {
        **asked.model_dump(),
        "repository_id": row.repository_id,
        "partner_minutes": partner_minutes(call.request),
    }

    def change(session: Session) -> ScheduleView:
        check_rule_access(session, change_schedule(session, row.id, **columns), call.settings.data)
        return find_view(session, row.id)

    return _shown(call, await _within_limits(call.database.run(change)))


async def _within_limits(work: Awaitable[ScheduleView]) -> ScheduleView:
    """Await the work; a plan that partners may not have is an error of its field."""
    try:
        return await work
    except LimitError as error:
        fault = FieldFault(pointer=f"/{error.field}", detail=str(error))
        raise ApiError(422, str(error), errors=[fault]) from None


async def unless_too_soon(work: Awaitable[Job]) -> Job:
    """Await the work; raises ApiError if it is a partner's run too soon after another one."""
    try:
        return await work
    except LimitError as error:
        raise ApiError(409, str(error)) from None


@OPERATIONS.add("DELETE /schedules/{schedule}", "removeSchedule", Right.HARVEST)
async def _remove(call: Call) -> None:
    """Remove a schedule with its planned jobs; a running harvest continues."""
    await call.database.run(remove_schedule, (await call.row(RecurringJob, "schedule")).id)


@OPERATIONS.add("POST /schedules/{schedule}/pause", "pauseSchedule", Right.HARVEST)
async def _pause(call: Call) -> ScheduleOut:
    """Pause a schedule; it creates no jobs until it is resumed."""
    return await _after(call, pause_schedule)


@OPERATIONS.add("POST /schedules/{schedule}/resume", "resumeSchedule", Right.HARVEST)
async def _resume(call: Call) -> ScheduleOut:
    """Resume a schedule."""
    return await _after(call, resume_schedule)


@OPERATIONS.add("POST /schedules/{schedule}/run", "runSchedule", Right.HARVEST, status=201)
async def _run(call: Call) -> Started:
    """Run a schedule now."""
    number, minutes = (await call.row(RecurringJob, "schedule")).id, partner_minutes(call.request)
    job = await unless_too_soon(call.database.run(run_now, number, partner_minutes=minutes))
    about(call.request, "schedule", job.recurring_id, job_id=job.job_id)
    return Started(job_id=job.job_id)


@OPERATIONS.add(
    "POST /schedules/{schedule}/sample", "sampleSchedule", Right.HARVEST, body=SampleOfSchedule, status=201
)
async def _sample(call: Call) -> Started:
    """Harvest a few records now, beside the schedule."""
    number, asked = (await call.row(RecurringJob, "schedule")).id, call.sent(SampleOfSchedule)
    minutes = partner_minutes(call.request)
    sampled = call.database.run(sample_schedule, number, asked.records, partner_minutes=minutes)
    job = await unless_too_soon(sampled)
    about(call.request, "schedule", number, job_id=job.job_id, records=asked.records)
    return Started(job_id=job.job_id)


async def _after(call: Call, step: Any) -> ScheduleOut:  # noqa: ANN401 the service that pauses or resumes
    number = (await call.row(RecurringJob, "schedule")).id

    def work(session: Session) -> ScheduleView:
        step(session, number)
        session.flush()
        return find_view(session, number)

    return _shown(call, await call.database.run(work))


def _shown(call: Call, view: ScheduleView) -> ScheduleOut:
    row = view.schedule
    return ScheduleOut.from_row(
        row,
        **rule_paths(call.request, row),
        schedule_id=row.id,
        repository_name=view.repository_name,
        state=view.state,
        next_due=view.next_due,
    )
