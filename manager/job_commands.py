"""Handlers of `zatva job`: planned jobs, running jobs and the history."""

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, exists, func, or_, select
from sqlalchemy.orm import Session

from harvester.harvest.result import get_history
from harvester.locks import is_locked
from harvester.models import History
from harvester.repositories import check_repositories
from harvester.vocabulary import NOT_RUN, RunStatus
from manager.jobs import control as job_control
from manager.jobs import views as jobs
from manager.jobs.reasons import in_words
from manager.jobs.runs import RunFilter, find_runs, pieces_of, was_started
from manager.jobs.views import JobView
from manager.models import UNDER_WAY, Job, JobStatus, in_plain_words
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.datestamps import format_datestamp
from oai.errors import ExitCode, TryLaterError, UsageError
from oai.failure_codes import INTERRUPTIONS
from oai.models import columns_of

_JOB_COLUMNS = {
    "job_id": "job",
    "repository_name": "repository",
    "metadata_prefix": "format",
    "set_spec": "set",
    "state": "state",
    "because": "because",
    "position": "place",
    "start": "starts",
    "seconds_left": "seconds left",
    "records": "records",
    "complete_list_size": "of",
    "rate": "per second",
    "errors": "errors",
    "host": "host",
    "process_id": "process",
}
_CHANGES = {
    "run": job_control.RUN,
    "pause": job_control.PAUSE,
    "resume": job_control.RESUME,
    "stop": job_control.STOP,
    "kill": job_control.KILL,
}
_HISTORY_COLUMNS = {
    "history_id": "run",
    "repository_name": "repository",
    "harvest_start_time": "started",
    "harvest_end_time": "ended",
    "status": "status",
    "record_count": "records",
    "repeated_count": "repeated",
    "new_count": "new",
    "updated_count": "updated",
    "deleted_count": "deleted",
    "invalid_count": "rejected",
    "failure_reason": "reason",
}
_POLL_SECONDS: Final = 1.0
_EXIT_CODES: Final = {
    RunStatus.COMPLETED: ExitCode.DONE,
    RunStatus.NO_CHANGES: ExitCode.DONE,
    RunStatus.COMPLETED_WITH_ERRORS: ExitCode.RECORDS_REFUSED,
    RunStatus.HELD: ExitCode.RECORDS_REFUSED,
    RunStatus.FAILED: ExitCode.REMOTE_FAILED,
    RunStatus.LOST: ExitCode.FAULT,
    RunStatus.KILLED: ExitCode.INTERRUPTED,
    RunStatus.INCOMPLETE: ExitCode.REMOTE_FAILED,
}


def list_jobs(invocation: Invocation) -> None:
    """List scheduled and running jobs."""
    with invocation.session() as session:
        check_repositories(session, invocation.arguments.repository)
        views = jobs.list_jobs(session, invocation.arguments.repository)
    rows = [job_row(view) for view in views]
    if not invocation.console.as_json:
        rows = [row | {"state": in_plain_words(row["state"])} for row in rows]
    invocation.console.table(rows, _JOB_COLUMNS, empty="no jobs")


def show_job(invocation: Invocation) -> None:
    """Show all details of a job."""
    job_id = invocation.arguments.job_id
    with invocation.session() as session:
        view = jobs.find_job(session, job_id)
    if view is None:
        raise UsageError(
            f"no job {job_id}; list waiting and running jobs with `zatva job list`, finished "
            "harvests with `zatva job history`"
        )
    row = job_row(view)
    invocation.console.facts(row, row | {"state": in_plain_words(row["state"])})


def change_job(invocation: Invocation) -> None:
    """Pause, resume, stop or kill a job, as `arguments.change` says."""
    job_id, change = invocation.arguments.job_id, _CHANGES[invocation.arguments.change]
    with invocation.transaction() as session:
        status = job_control.change_job(session, job_id, change)
    word = status.name.lower().replace("_", " ")
    invocation.console.result(
        {"job_id": job_id, "status": int(status), "state": word}, f"job {job_id}: {word}"
    )


def list_history(invocation: Invocation) -> None:
    """List harvests that have ended, or show all details of one."""
    given = invocation.arguments
    if given.history_id is not None:
        _show_run(invocation)
        return
    choice = RunFilter(repository_id=given.repository)
    with invocation.session() as session:
        check_repositories(session, given.repository)
        views = find_runs(session, choice, limit=given.limit, before=given.before, whole=True)
        rows = [{**columns_of(view.history), "repository_name": view.repository_name} for view in views]
    invocation.console.table(rows, _HISTORY_COLUMNS, empty="no finished harvests yet")


def _show_run(invocation: Invocation) -> None:
    history_id = invocation.arguments.history_id
    with invocation.session() as session:
        run, pieces = get_history(session, history_id), pieces_of(session, history_id)
        numbers = [piece.history_id for piece in pieces]
        invocation.console.facts({**columns_of(run), "pieces": numbers})


def remove_job(invocation: Invocation) -> None:
    """Remove a job; a running one is ended first."""
    job_id = invocation.arguments.job_id
    with invocation.transaction() as session:
        removed = jobs.remove_job(session, job_id)
    text = "removed" if removed else "running; the manager ends and removes it"
    invocation.console.result({"job_id": job_id, "removed": removed}, f"job {job_id}: {text}")


def job_row(view: JobView) -> dict[str, Any]:
    """Return a job as tables and JSON show it."""
    row = asdict(view)
    progress, estimate = row.pop("progress") or {}, row.pop("estimate")
    row |= progress
    row["reason"] = None if view.reason is None else view.reason.as_json()
    row["because"] = None if view.reason is None else in_words(view.reason)
    row["rate"] = round(progress["rate"], 1) if progress else None
    row["position"] = estimate["position"]
    row["start"] = estimate["start"]
    row["seconds"] = estimate["seconds"]
    row["seconds_left"] = (
        round(estimate["seconds"]) if view.under_way and estimate["seconds"] is not None else None
    )
    return row


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What the command waited for has happened; `run` is the last harvest's history row, if there is one."""

    run: History | None


def wait(invocation: Invocation) -> ExitCode:
    """Wait, and return the exit code of the last harvest; 75 if the timeout expires."""
    given = invocation.arguments
    if (given.job_id is None) == (given.repository is None):
        raise UsageError("give either the number of a job, or --repository with the number of a repository")

    def look(session: Session) -> Ended | None:
        if given.job_id is not None:
            return job_ended(session, given.job_id)
        return last_run_if_idle(session, given.repository)

    with open_database(invocation.settings) as database:
        run = until(database, look, timeout=given.timeout).run
    if run is None:
        invocation.console.result(
            {"history_id": None, "status": None}, "no job is running or due; no harvest has ended yet"
        )
        return ExitCode.DONE
    ended = format_datestamp(run.harvest_end_time)
    invocation.console.result(
        {
            "history_id": run.history_id,
            "job_id": run.job_id,
            "harvest_end_time": run.harvest_end_time,
            "status": run.status,
            "verdict": run.verdict,
            "failure_reason": run.failure_reason,
        },
        f"run {run.history_id}, ended {ended}: {run.status}"
        + (f": {run.failure_reason}" if run.failure_reason else ""),
    )
    return exit_code_of(run.status, run.failure_code)


def until(
    database: Database,
    look: Callable[[Session], Ended | None],
    *,
    timeout: float | None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Ended:
    """Call `look` repeatedly until it returns a value; raises TryLaterError after `timeout` seconds."""
    begun = clock()
    while True:
        with database.session() as session:
            ended = look(session)
            session.expunge_all()
        if ended is not None:
            return ended
        if timeout is not None and clock() - begun >= timeout:
            raise TryLaterError(
                f"not ended within {timeout:g} seconds; see `zatva job list`, then wait again"
            )
        sleep(_POLL_SECONDS if timeout is None else min(_POLL_SECONDS, max(timeout / 10, 0.01)))


def job_ended(session: Session, job_id: int) -> Ended | None:
    """Return the job's history row once the job is gone; None while the job exists.

    Raises UsageError if neither a job nor a history row has this id.
    """
    if session.scalar(select(exists().where(Job.job_id == job_id))):
        return None
    run = _newest(session, History.job_id == job_id)
    if run is None:
        raise UsageError(f"no job {job_id}, waiting, running or finished; list jobs with `zatva job list`")
    return Ended(run=run)


def last_run_if_idle(session: Session, repository_id: int) -> Ended | None:
    """Return the repository's last run once none of its jobs is running or due; None until then.

    While the repository is locked, due jobs do not count, because they do not begin.
    Runs that did not start because of a lock do not count, either. Raises UsageError if there is no such
    repository.
    """
    check_repositories(session, repository_id)
    busy = exists().where(
        Job.repository_id == repository_id,
        or_(
            Job.status.in_(UNDER_WAY),
            and_(
                Job.status == JobStatus.SCHEDULED,
                Job.harvest_start_time <= func.now(),
                ~is_locked(repository_id),
            ),
        ),
    )
    if session.scalar(select(busy)):
        return None
    return Ended(run=_newest(session, and_(History.repository_id == repository_id, was_started())))


def exit_code_of(status: str, failure_code: str | None = None) -> ExitCode:
    """Return the exit code for a run that ended with this status and failure."""
    if status == RunStatus.INCOMPLETE and failure_code in INTERRUPTIONS:
        return ExitCode.INTERRUPTED
    return _EXIT_CODES.get(RunStatus(status), ExitCode.FAULT) if status in set(RunStatus) else ExitCode.FAULT


def _newest(session: Session, condition: ColumnElement[bool]) -> History | None:
    query = (
        select(History)
        .where(condition, History.status.not_in(NOT_RUN))
        .order_by(History.history_id.desc())
        .limit(1)
    )
    return session.scalars(query).one_or_none()
