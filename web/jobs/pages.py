"""Current jobs (UIUC tab 4): running, waiting, planned and just ended ones, live; what users do with them."""

import uuid
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from aiohttp import web
from sqlalchemy import Select, func, literal, select
from sqlalchemy.orm import Session

from harvester.harvest.models import Quarantined
from harvester.harvest.result import received
from harvester.harvest.run_warnings import notes_of
from harvester.models import History
from manager.jobs.control import KILL, PAUSE, RESUME, RUN, STOP, JobTransition, change_job
from manager.jobs.runs import RunFilter, find_runs
from manager.jobs.views import (
    JobPlace,
    JobView,
    count_jobs,
    find_job,
    harvest_of,
    list_jobs,
    remove_job,
    repositories_with_jobs,
)
from manager.leader.planner import next_start
from manager.models import Job
from manager.schedules.service import pause_schedule
from oai.audit import snapshot
from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.owners import RepositoryOwner
from web.auth.access import Right, asked_for, find_visible, needs, visible_repositories, who_asks
from web.auth.audit import check_undo, record_beside, undo_mark
from web.runs.log import line_of
from web.site.formats import clock, harvest_name, number
from web.site.i18n import _, mark
from web.site.keys import SETTINGS, database_of
from web.site.live_rows import Rows, Topic
from web.site.paging import as_number, page_of
from web.site.params import NUMBER, choice_in
from web.site.render import confirmation, render

MOST_JOBS: Final = 100
"""Maximum number of jobs shown: running ones, then those due next."""
_JUST: Final = timedelta(hours=1)
_MOST_ENDED: Final = 10
_MOST_LINES: Final = 100


@dataclass(frozen=True, kw_only=True)
class Control:
    """A job action: its notice and its confirmation question."""

    change: JobTransition
    done: str
    title: str
    line: str
    button: str
    undo: str | None = None
    """The control that undoes it."""


CONTROLS: Final[Mapping[str, Control]] = {
    "run": Control(
        change=RUN,
        done="harvest-asked",
        title=mark("Run the harvest of %(subject)s again now?"),
        line=mark("Its last process was lost. It continues where it stopped as soon as a slot is free."),
        button=mark("Run now"),
    ),
    "pause": Control(
        change=PAUSE,
        done="job-paused",
        title=mark("Pause the harvest of %(subject)s?"),
        line=mark("A running harvest finishes its page first and continues from there when you resume it."),
        button=mark("Pause harvest"),
        undo="resume",
    ),
    "resume": Control(
        change=RESUME,
        done="job-resumed",
        title=mark("Resume the harvest of %(subject)s?"),
        line=mark("It continues where it stopped as soon as a slot is free."),
        button=mark("Resume harvest"),
        undo="pause",
    ),
    "stop": Control(
        change=STOP,
        done="job-stopping",
        title=mark("Stop the harvest of %(subject)s?"),
        line=mark(
            "It finishes the current page and keeps what it has stored. The next run continues from there."
        ),
        button=mark("Stop harvest"),
    ),
    "kill": Control(
        change=KILL,
        done="job-killed",
        title=mark("Kill the harvest of %(subject)s?"),
        line=mark(
            "Its process ends immediately, in the middle of a page. Committed records are kept. "
            "Prefer to stop a harvest; kill it only if it does not stop."
        ),
        button=mark("Kill harvest"),
    ),
}
_PAUSING: Final = ("schedule", "pause")
"""Name and value of the button that also pauses the schedule."""
_CONTROL: Final = "{control:" + "|".join(CONTROLS) + "}"


async def listing(request: web.Request) -> web.Response:
    """List the jobs that run, wait for a slot or have just ended, or those that are planned."""
    database, among = database_of(request), visible_repositories(who_asks(request))
    planned, text = bool(planned_in(request)), request.query.get("after", "")
    after = JobPlace.parse(text)
    found = await database.run(list_jobs, among=among, planned=planned, after=after, most=MOST_JOBS + 1)
    page = page_of(found, lambda job: job.place, behind=after, size=MOST_JOBS)
    topic = "planned" if planned else "jobs"
    ended = RunFilter(among=among).within(utc_now() - _JUST)
    return render(
        request,
        "jobs.html",
        jobs=page.rows,
        page=page,
        topic=f"{topic}:{text}" if after else topic,
        awaited=not planned and request.query.get("done") == "harvest-asked",
        planned=planned,
        waiting=await database.run(count_jobs, among=among),
        runs=[] if planned or after else await database.run(find_runs, ended, limit=_MOST_ENDED),
    )


async def show(request: web.Request) -> web.Response:
    """Show one job, live; when it has ended, lead to its run."""
    who, number = who_asks(request), int(request.match_info["id"])
    run = await database_of(request).run(_run_of, visible_repositories(who), number)
    row = await database_of(request).run(find_visible, who, Job, number)
    job = None if row is None else await database_of(request).run(find_job, number)
    if job is None and run is None:
        await asked_for(request, Job)  # names what does not exist
    if job is None or (run is not None and not job.under_way):
        raise web.HTTPSeeOther(f"/runs/{run}")
    among = visible_repositories(who)
    return render(
        request,
        "job.html",
        job=job,
        jobs=[job],
        topic=f"job:{number}",
        course_rows=await database_of(request).run(_course, among, str(number)),
        log_rows=await database_of(request).run(_log, among, str(number)),
    )


def _run_of(session: Session, among: Select[int] | None, job_id: int) -> int | None:
    """Return the last run of the job, if it has ended and the user may see it."""
    runs = select(func.max(History.history_id)).where(History.job_id == job_id)
    return session.scalar(runs if among is None else runs.where(History.repository_id.in_(among)))


def planned_in(request: web.Request) -> bool | None:
    """Return whether the query string selects the planned jobs or the other ones; None for all jobs.

    Responds 422 for an unknown view.
    """
    return {"planned": True, "now": False}.get(choice_in(request, "view", ["now", "planned"]))


async def visible_jobs(
    request: web.Request, after: JobPlace | None = None, *, planned: bool | None = None
) -> list[JobView]:
    """Return the first hundred jobs that the user may see, or those after a place, plus one more."""
    among = visible_repositories(who_asks(request))
    return await database_of(request).run(
        list_jobs, among=among, planned=planned, after=after, most=MOST_JOBS + 1
    )


@needs(Right.HARVEST)
async def confirm(request: web.Request) -> web.Response:
    """Ask for confirmation of a job action, naming the job."""
    job = await _job_of(request)
    control = CONTROLS[request.match_info["control"]]
    lines, pausing = [_where(job), _(control.line)], None
    if control.change is STOP and (start := await _next_start(request, job)) is not None:
        offer = _(
            "Its schedule starts the next harvest at %(next)s. To prevent this, pause the schedule too."
        )
        lines.append(offer % {"next": clock(start)})
        pausing = (*_PAUSING, _("Stop the harvest and pause its schedule"))
    return confirmation(
        request,
        _(control.title) % {"subject": _subject(job)},
        *lines,
        steps=[(_("Current jobs"), "/jobs")],
        button=_(control.button),
        tone="danger" if control.change in (STOP, KILL) else "primary",
        other=pausing,
    )


async def _next_start(request: web.Request, job: JobView) -> datetime | None:
    """Return when the job's schedule starts the next harvest, if this one ends now; None if it does not."""
    if job.recurring_id is None:
        return None
    settings = request.config_dict[SETTINGS].manager
    return await database_of(request).run(next_start, job.recurring_id, settings)


@needs(Right.HARVEST)
async def change(request: web.Request) -> web.Response:
    """Pause, resume, stop or kill a job; a stop may also pause its schedule."""
    control = CONTROLS[request.match_info["control"]]
    job = await _job_of(request)
    name, value = _PAUSING
    pauses = control.change is STOP and (await request.post()).get(name) == value

    def work(session: Session) -> bool:
        try:
            change_job(session, job.job_id, control.change)
        except UsageError:
            status = session.scalar(select(Job.status).where(Job.job_id == job.job_id))
            if "since" in request.query and control.undo and status in CONTROLS[control.undo].change.becomes:
                return False  # it is undone already, by a double click for instance
            raise
        check_undo(session, request, "job", job.job_id)
        if pauses:
            _pause_schedule(session, request, job)
        return bool(control.undo)

    try:
        can_undo = await database_of(request).run(work)
    except UsageError:
        raise web.HTTPConflict(
            text=_("The state of the job has changed, so the action is no longer possible. See Current jobs.")
        ) from None
    undo = f"&undo=/jobs/{job.job_id}/{control.undo}{undo_mark(request)}" if can_undo else ""
    raise web.HTTPSeeOther(f"/jobs?done={control.done}{'-and-paused' if pauses else ''}{undo}")


def _pause_schedule(session: Session, request: web.Request, job: JobView) -> None:
    number, name = job.recurring_id, job.repository_name
    if number is not None:
        before = snapshot(session, "schedule", str(number))
        if pause_schedule(session, number).changed:
            record_beside(session, request, "schedule.pause", "schedule", number, name, before=before)


@needs(Right.HARVEST)
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask for confirmation before a job is removed, and describe the effect."""
    return _confirm_removal(request, await _job_of(request))


def _confirm_removal(request: web.Request, job: JobView, status: int = 200) -> web.Response:
    waits = not job.under_way
    lines = [_where(job)] if waits else [_where(job), _(CONTROLS["stop"].line)]
    if job.recurring_id is not None:
        lines.append(
            _(
                "Its schedule is kept. If it repeats, it creates the next job at the next due time; "
                "otherwise run the harvest by hand."
            )
        )
    title = _("Remove the job %(subject)s?") if waits else _("Stop the harvest of %(subject)s?")
    return confirmation(
        request,
        title % {"subject": _subject(job)},
        *lines,
        steps=[(_("Current jobs"), "/jobs")],
        button=_("Remove job") if waits else _("Stop harvest"),
        kept=[("waits", "yes")] if waits else [],
        status=status,
    )


@needs(Right.HARVEST)
async def remove(request: web.Request) -> web.Response:
    """Remove the job, or end its process."""
    job = await _job_of(request)
    if "waits" in await request.post() and job.under_way:
        # The page said that it has not begun: what it asked about is not what would happen now.
        return _confirm_removal(request, job, status=409)
    gone = await database_of(request).run(remove_job, job.job_id)
    raise web.HTTPSeeOther("/jobs?done=" + ("job-removed" if gone else "job-stopping"))


async def _job_of(request: web.Request) -> JobView:
    row = await asked_for(request, Job)
    job = await database_of(request).run(find_job, row.job_id)
    if job is None:
        raise web.HTTPNotFound(
            text=_("Job %(number)s does not exist; it ended or was removed. See the history.")
            % {"number": row.job_id}
        )
    return job


def _subject(job: JobView) -> str:
    return harvest_name(job.repository_name, job.metadata_prefix, job.set_spec)


def _where(job: JobView) -> str:
    if job.process_id is None:
        if job.under_way:
            return _("It is about to start.")
        if job.progress is not None:
            return _("It is interrupted; records stored so far: %(records)s.") % {
                "records": number(job.progress.records)
            }
        return _("It has not started yet.")
    return _("It runs as process %(process)s on %(host)s.") % {"process": job.process_id, "host": job.host}


def _listed(session: Session, among: Select[int] | None, place: str, *, planned: bool) -> Rows:
    # As many as for the page, so that the same jobs get an estimate.
    jobs = list_jobs(session, among=among, planned=planned, after=JobPlace.parse(place), most=MOST_JOBS + 1)
    return [(f"job-{job.job_id}", {"job": job}) for job in jobs[:MOST_JOBS]]


def _one(session: Session, among: Select[int] | None, place: str) -> Rows:
    job = find_job(session, int(place)) if _sees(session, among, place) else None
    return [] if job is None else [(f"job-{job.job_id}", {"job": job, "job_page": True, "of_one": True})]


def _sees(session: Session, among: Select[int] | None, place: str) -> bool:
    job = session.get(Job, int(place)) if place else None
    return job is not None and (
        among is None or bool(session.scalar(select(literal(job.repository_id).in_(among))))
    )


def _course(session: Session, among: Select[int] | None, place: str) -> Rows:
    """Return one row with the counts and the course of the job's harvest, once it has begun."""
    harvest = harvest_of(session, int(place)) if _sees(session, among, place) else None
    if harvest is None or not harvest.counts:
        return []
    # The row is read once for all languages: its template translates and draws.
    counts = {"received": received(harvest.counts), **harvest.counts}
    return [(f"course-{place}", {"job_id": int(place), "counts": counts, "pace": harvest.pace})]


def _log(session: Session, among: Select[int] | None, place: str) -> Rows:
    """Return the last lines of the log of the job's harvest, newest first."""
    harvest = harvest_of(session, int(place)) if _sees(session, among, place) else None
    if harvest is None:
        return []
    notes = list(enumerate(notes_of(harvest.warnings, harvest.warning_failures)))[-_MOST_LINES:]
    keys = {str(note.failure.facts.get("fault_key", "")) for _at, note in notes if note.failure is not None}
    errors = select(Quarantined.fault_key, Quarantined.quarantine_id).where(
        Quarantined.repository_id == harvest.repository_id,
        Quarantined.fault_key.in_([uuid.UUID(key) for key in keys if key]),
    )
    kept = {key.hex: number for key, number in session.execute(errors)}
    return [(f"line-{at}", {"place": at, "line": line_of(note, kept)}) for at, note in reversed(notes)]


def _is_number(text: str) -> bool:
    return as_number(text) is not None


def _under_way(session: Session, among: Select[int] | None, _place: str) -> Rows:
    return [row for row in _listed(session, among, "", planned=False) if row[1]["job"].under_way]


def _with_current(session: Session, organisations: Collection[int]) -> Collection[int]:
    """Return those of the organisations that have jobs which are not only planned."""
    owners = select(RepositoryOwner.organisation_id).where(
        RepositoryOwner.organisation_id.in_(organisations),
        RepositoryOwner.repository_id.in_(repositories_with_jobs()),
    )
    return set(session.scalars(owners.distinct()))


def _is_place(text: str) -> bool:
    return JobPlace.parse(text) is not None


TOPICS: Final[Mapping[str, Topic]] = {
    "jobs": Topic(
        load=partial(_listed, planned=False),
        template="job_row.html",
        is_place=_is_place,
        with_rows=_with_current,
    ),
    "planned": Topic(load=partial(_listed, planned=True), template="job_row.html", is_place=_is_place),
    "job-course": Topic(load=_course, template="job_course.html", is_place=_is_number),
    "job-log": Topic(load=_log, template="job_line.html", is_place=_is_number),
    "job": Topic(load=_one, template="job_row.html", is_place=_is_number),
    "running": Topic(load=_under_way, template="job_row.html", with_rows=_with_current),
}

ROUTES = (
    web.get("/jobs", listing),
    web.get(f"/jobs/{NUMBER}", show),
    web.get(f"/jobs/{NUMBER}/remove", confirm_removal),
    web.post(f"/jobs/{NUMBER}/remove", remove),
    web.get(f"/jobs/{NUMBER}/{_CONTROL}", confirm),
    web.post(f"/jobs/{NUMBER}/{_CONTROL}", change),
)
