"""Current jobs (UIUC tab 4): what runs and what waits, live."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from manager.jobs import JobView, list_jobs, remove_job
from oai.errors import UsageError
from web.access import administrators_only
from web.events import Topic
from web.lookups import NUMBER, number_of
from web.rendering import render
from web.threads import database_of
from web.words import _

_WAITING: Final = "queued"

Rows = Sequence[tuple[str, Mapping[str, Any]]]


async def listing(request: web.Request) -> web.Response:
    """All jobs: the running ones first."""
    jobs = await database_of(request).run(list_jobs)
    return render(request, "jobs.html", jobs=jobs)


@administrators_only
async def confirm_removal(request: web.Request) -> web.Response:
    """Ask before a job goes, and say what happens to it."""
    job = await _job_of(request)
    subject = f"{job.repository_name} · {job.metadata_prefix}"
    waits = job.state == _WAITING
    lines = [_("It has not begun yet.") if waits else _running_line(job)]
    if job.recurring_id is not None:
        lines.append(_("Its schedule stays and makes the next job at the next due time."))
    return render(
        request,
        "confirm.html",
        title=(_("Remove %(subject)s?") if waits else _("End the harvest of %(subject)s?"))
        % {"subject": subject},
        steps=[(_("Overview"), "/"), (_("Current jobs"), "/jobs")],
        lines=lines,
        button=_("Remove the job") if waits else _("End the harvest"),
        back="/jobs",
    )


async def remove(request: web.Request) -> web.Response:
    """Remove the job, or have its process ended."""
    try:
        gone = await database_of(request).run(remove_job, number_of(request))
    except UsageError:
        raise _no_such_job(request) from None
    raise web.HTTPSeeOther("/jobs?done=" + ("job-removed" if gone else "job-stopping"))


async def _job_of(request: web.Request) -> JobView:
    for job in await database_of(request).run(list_jobs):
        if job.job_id == number_of(request):
            return job
    raise _no_such_job(request)


def _no_such_job(request: web.Request) -> web.HTTPNotFound:
    return web.HTTPNotFound(
        text=_("There is no job %(number)s: it has ended, or was removed. The history knows more.")
        % {"number": number_of(request)}
    )


def _running_line(job: JobView) -> str:
    where = (
        _("It runs as process %(process)s on %(host)s.") % {"process": job.process_id, "host": job.host}
        if job.process_id is not None
        else _("It is about to start.")
    )
    return where + " " + _("It finishes its page, keeps what it has, and can be resumed.")


def _all(session: Session) -> Rows:
    return [(f"job-{job.job_id}", {"job": job}) for job in list_jobs(session)]


def _under_way(session: Session) -> Rows:
    return [(f"job-{job.job_id}", {"job": job}) for job in list_jobs(session) if job.state != _WAITING]


TOPICS: Final[Mapping[str, Topic]] = MappingProxyType(
    {
        "jobs": Topic(load=_all, template="job_row.html"),
        "running": Topic(load=_under_way, template="job_row.html"),
    }
)

ROUTES = (
    web.get("/jobs", listing),
    web.get(f"/jobs/{NUMBER}/remove", confirm_removal),
    web.post(f"/jobs/{NUMBER}/remove", remove),
)
