"""REST API: jobs: list, show, pause, resume, stop, kill, remove; workers: list, drain."""

from datetime import datetime
from typing import Any, Final

from pydantic import Field

from manager.jobs.control import KILL, PAUSE, RESUME, RUN, STOP, JobTransition, change_job
from manager.jobs.estimates import JobProgress
from manager.jobs.reasons import in_words
from manager.jobs.views import JobPlace, JobView, find_job, list_jobs, remove_job
from manager.models import Job, JobStatus
from manager.worker.registry import WorkerLife, drain, manager_status
from oai.errors import UsageError
from oai.rights import Right
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import after, page_of, unreadable_cursor
from web.api.shapes import Out, Page, Paged
from web.auth.access import about, visible_repositories
from web.site.i18n import _

OPERATIONS: Final = Operations("jobs")


class ProgressOut(Out, JobProgress):
    """Progress of a harvest."""

    rate: float = Field(description="Records per second.")
    last_failure: dict[str, Any] | None = Field(description="The reason as a failure code with its facts.")


class EstimateOut(Out):
    """Expected times; null if they cannot be estimated."""

    position: int | None = Field(
        description="Position in the queue; 1 is the next job. Null: not due, paused, running, or its "
        "repository may not be harvested now."
    )
    start: datetime | None
    seconds: float | None


class JobOut(Out):
    """A scheduled or running harvest."""

    job_id: int
    repository_id: int
    repository_name: str
    recurring_id: int | None = Field(description="Number of its schedule.")
    metadata_prefix: str
    set_spec: str | None
    harvest_from: str | None
    harvest_to: str | None
    state: str
    under_way: bool
    reason: str | None = Field(description="Reason why the job is waiting, or its current problem.")
    due: datetime
    started: datetime | None
    host: str | None
    process_id: int | None
    attempt: int
    priority: int
    progress: ProgressOut | None
    estimate: EstimateOut


class JobQuery(Paged):
    """Filters for jobs."""

    repository: int | None = Field(None, ge=1, le=999_999_999, description="Limit to this repository.")
    limit: int = Field(
        100, ge=1, le=1000, description="Maximum number of jobs: running jobs first, then by time."
    )


class JobState(Out):
    """The new state of a job."""

    job_id: int
    state: str


@OPERATIONS.add("GET /jobs", "listJobs", Right.LOOK, query=JobQuery)
async def _list(call: Call) -> Page[JobOut]:
    """List running and waiting jobs, with estimates."""
    query = call.asked(JobQuery)
    key = after(call, str)
    place = JobPlace.parse(key) if key is not None else None
    if key is not None and place is None:
        raise unreadable_cursor()
    jobs = await call.database.run(
        list_jobs,
        query.repository,
        among=visible_repositories(call.who),
        after=place,
        most=query.limit + 1,
    )
    return page_of(call, jobs, _shown, lambda job: str(job.place))


@OPERATIONS.add("GET /jobs/{job}", "getJob", Right.LOOK)
async def _show(call: Call) -> JobOut:
    """Show a job."""
    row = await call.row(Job, "job")
    job = await call.database.run(find_job, row.job_id)
    if job is None:
        raise ApiError(
            404,
            _("Job %(number)s does not exist; it ended or was removed. See the history.")
            % {"number": row.job_id},
        )
    return _shown(job)


@OPERATIONS.add("DELETE /jobs/{job}", "removeJob", Right.HARVEST)
async def _remove(call: Call) -> JobState:
    """Remove a waiting job, or stop a running one."""
    number = (await call.row(Job, "job")).job_id
    gone = await call.database.run(remove_job, number)
    return JobState(job_id=number, state="removed" if gone else "stopping")


@OPERATIONS.add("POST /jobs/{job}/run", "runJob", Right.HARVEST)
async def _run(call: Call) -> JobState:
    """Run a lost harvest again now, without waiting for its next try."""
    return await _changed(call, RUN)


@OPERATIONS.add("POST /jobs/{job}/pause", "pauseJob", Right.HARVEST)
async def _pause(call: Call) -> JobState:
    """Pause a job; a running harvest ends after its page and can be resumed."""
    return await _changed(call, PAUSE)


@OPERATIONS.add("POST /jobs/{job}/resume", "resumeJob", Right.HARVEST)
async def _resume(call: Call) -> JobState:
    """Resume a job."""
    return await _changed(call, RESUME)


@OPERATIONS.add("POST /jobs/{job}/stop", "stopJob", Right.HARVEST)
async def _stop(call: Call) -> JobState:
    """Stop a running harvest after its page; the next run continues from there."""
    return await _changed(call, STOP)


@OPERATIONS.add("POST /jobs/{job}/kill", "killJob", Right.HARVEST)
async def _kill(call: Call) -> JobState:
    """Kill the process of a running harvest immediately."""
    return await _changed(call, KILL)


async def _changed(call: Call, change: JobTransition) -> JobState:
    number = (await call.row(Job, "job")).job_id
    status: JobStatus = await call.database.run(change_job, number, change)
    return JobState(job_id=number, state=status.name.lower().replace("_", " "))


def _shown(job: JobView) -> JobOut:
    return JobOut.from_row(job, reason=in_words(job.reason) if job.reason is not None else None)


class WorkerOut(Out, WorkerLife):
    """A worker: a process that runs harvests."""

    last_sign: datetime = Field(description="Last heartbeat.")
    concurrency: int = Field(description="Harvests that it runs at a time.")
    harvests: int = Field(description="Harvests that it runs now.")
    draining: bool = Field(description="Whether it takes no new work and ends when its harvests have ended.")
    lost: bool = Field(description="Whether it has been silent for too long.")


class WorkersOut(Out):
    """The managers and workers of all machines."""

    leader: str | None = Field(description="Host and process of the leading manager; null: none runs.")
    stand_bys: list[str]
    workers: list[WorkerOut]


@OPERATIONS.add("GET /workers", "getWorkers", Right.ADMINISTER)
async def _workers(call: Call) -> WorkersOut:
    """Show managers and workers."""
    return WorkersOut.model_validate(await call.database.run(manager_status))


@OPERATIONS.add("POST /workers/{worker}/drain", "drainWorker", Right.ADMINISTER)
async def _drain(call: Call) -> None:
    """Let a worker take no new work and end when its harvests have ended."""
    number = call.place["worker"]
    try:
        await call.database.run(drain, [number])
    except UsageError:
        raise ApiError(404, _("The worker does not exist; it may have ended.")) from None
    about(call.request, "worker", number)
