"""`zatva job`: what is to start, what runs, what has ended."""

from dataclasses import asdict
from typing import Any

from harvester.running.outcome import get_history
from manager import job_control, jobs
from manager.jobs import JobView
from manager.reasons import in_words
from manager.runs import Choice, find_runs
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError
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
    "new_count": "new",
    "updated_count": "updated",
    "deleted_count": "deleted",
    "invalid_count": "refused",
    "failure_reason": "reason",
}


def list_jobs(invocation: Invocation) -> ExitCode:
    """List scheduled and running jobs."""
    with open_database(invocation.settings) as database, database.session() as session:
        views = jobs.list_jobs(session, invocation.arguments.repository)
    rows = [_job_row(view) for view in views]
    invocation.console.table(rows, _JOB_COLUMNS, empty="no jobs")
    return ExitCode.DONE


def show_job(invocation: Invocation) -> ExitCode:
    """Show all of a job."""
    job_id = invocation.arguments.job_id
    with open_database(invocation.settings) as database, database.session() as session:
        view = jobs.find_job(session, job_id)
    if view is None:
        raise UsageError(
            f"no job {job_id}; list waiting and running jobs with `zatva job list`, finished "
            "harvests with `zatva job history`"
        )
    invocation.console.facts(_job_row(view))
    return ExitCode.DONE


def change_job(invocation: Invocation) -> ExitCode:
    """Pause, resume, stop or kill a job, as `arguments.change` says."""
    job_id, change = invocation.arguments.job_id, _CHANGES[invocation.arguments.change]
    with open_database(invocation.settings) as database, database.session() as session:
        status = job_control.change_job(session, job_id, change)
        session.commit()
    word = status.name.lower().replace("_", " ")
    invocation.console.result(
        {"job_id": job_id, "status": int(status), "state": word}, f"job {job_id}: {word}"
    )
    return ExitCode.DONE


def list_history(invocation: Invocation) -> ExitCode:
    """List harvests that have ended, or show all of one."""
    given = invocation.arguments
    if given.history_id is not None:
        return _show_run(invocation)
    choice = Choice(repository_id=given.repository)
    with open_database(invocation.settings) as database, database.session() as session:
        views = find_runs(session, choice, limit=given.limit, before=given.before)
        rows = [{**columns_of(view.history), "repository_name": view.repository_name} for view in views]
    invocation.console.table(rows, _HISTORY_COLUMNS, empty="no finished harvests yet")
    return ExitCode.DONE


def _show_run(invocation: Invocation) -> ExitCode:
    history_id = invocation.arguments.history_id
    with open_database(invocation.settings) as database, database.session() as session:
        invocation.console.facts(columns_of(get_history(session, history_id)))
    return ExitCode.DONE


def remove_job(invocation: Invocation) -> ExitCode:
    """Remove a job; one that runs is ended first."""
    job_id = invocation.arguments.job_id
    with open_database(invocation.settings) as database, database.session() as session:
        removed = jobs.remove_job(session, job_id)
        session.commit()
    text = "removed" if removed else "running; the manager ends and removes it"
    invocation.console.result({"job_id": job_id, "removed": removed}, f"job {job_id}: {text}")
    return ExitCode.DONE


def _job_row(view: JobView) -> dict[str, Any]:
    """A job as tables and JSON show it."""
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
