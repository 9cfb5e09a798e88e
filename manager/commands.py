"""`zatva manager`, `worker`, `schedule` and `job`."""

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import inspect
from sqlalchemy.orm import Session

from manager import job_control, jobs, running, schedules, workers
from manager.jobs import JobView
from manager.reasons import in_words
from manager.status import ManagerStatus, manager_status
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError
from oai.models import Base

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
_SCHEDULE_COLUMNS = {
    "id": "schedule",
    "repository_name": "repository",
    "metadata_prefix": "format",
    "set_spec": "set",
    "frequency": "frequency",
    "time_zone": "zone",
    "state_word": "state",
    "next_due": "next due",
    "state_reason": "because",
}


def run_manager(invocation: Invocation) -> ExitCode:
    """Run a manager until it is told to end."""
    with open_database(invocation.settings) as database:
        concurrency, drain = _concurrency(invocation), asyncio.Event()
        work = running.run(invocation.settings, database, concurrency=concurrency, drain=drain)
        running.until_told(work, drain=drain)
    return ExitCode.DONE


def run_worker(invocation: Invocation) -> ExitCode:
    """Run a worker until it is told to end, or drained."""
    with open_database(invocation.settings) as database:
        concurrency, drain = _concurrency(invocation), asyncio.Event()
        work = running.run_worker(invocation.settings, database, concurrency=concurrency, drain=drain)
        running.until_told(work, drain=drain)
    return ExitCode.DONE


def show_status(invocation: Invocation) -> ExitCode:
    """Show who leads, who works and how much waits."""
    with open_database(invocation.settings) as database, database.session() as session:
        status = manager_status(session)
    invocation.console.result(asdict(status), "\n".join(_status_lines(status)))
    return ExitCode.DONE


def drain_worker(invocation: Invocation) -> ExitCode:
    """Let workers take nothing more, and end when what they have is done."""
    given = invocation.arguments
    if bool(given.worker_id) is given.all:
        raise UsageError("worker drain: give the numbers of workers, or --all")
    with open_database(invocation.settings) as database, database.session() as session:
        drained = workers.drain(session, None if given.all else given.worker_id)
        session.commit()
    text = "\n".join(f"worker {number}: takes nothing more" for number in drained) or "no workers"
    invocation.console.result({"drained": drained}, text)
    return ExitCode.DONE


def add_schedule(invocation: Invocation) -> ExitCode:
    """Plan harvests of a repository."""
    given = invocation.arguments
    columns = {
        "repository_id": given.repository_id,
        "frequency": given.frequency,
        "time_zone": given.zone,
        "start_date": _moment(given.start),
        "end_date": _moment(given.end),
        "metadata_prefix": given.format,
        "set_spec": given.set,
        "harvest_from": given.harvest_from,
        "harvest_to": given.harvest_to,
        "incremental": not given.full,
        "method": given.method,
        "validation": given.validation,
        "filter_file_path": _absolute(given.filter_file),
        "normalize_file_path": _absolute(given.normalize_file),
        "parse_id": not given.no_parse_id,
        "files_per_dir": given.files_per_dir,
        "slice": given.slice,
        "overlap": given.overlap,
        "priority": given.priority,
        "owner": given.owner,
    }
    with open_database(invocation.settings) as database, database.session() as session:
        schedule = schedules.add_schedule(session, **columns)
        session.commit()
        invocation.console.result(_columns(schedule), f"schedule {schedule.id}: added")
    return ExitCode.DONE


def list_schedules(invocation: Invocation) -> ExitCode:
    """List schedules."""
    with open_database(invocation.settings) as database, database.session() as session:
        views = schedules.list_schedules(session, invocation.arguments.repository)
        rows = [
            {
                **_columns(view.schedule),
                "repository_name": view.repository_name,
                "state_word": view.state,
                "next_due": view.next_due,
            }
            for view in views
        ]
    invocation.console.table(rows, _SCHEDULE_COLUMNS, empty="no schedules; add one with `zatva schedule add`")
    return ExitCode.DONE


def remove_schedule(invocation: Invocation) -> ExitCode:
    """Remove a schedule and its planned jobs."""
    return _change_schedule(invocation, schedules.remove_schedule, "removed")


def pause_schedule(invocation: Invocation) -> ExitCode:
    """Let a schedule make no jobs for now."""
    return _change_schedule(invocation, schedules.pause_schedule, "paused")


def resume_schedule(invocation: Invocation) -> ExitCode:
    """Let a paused schedule go on."""
    return _change_schedule(invocation, schedules.resume_schedule, "resumed")


def run_schedule(invocation: Invocation) -> ExitCode:
    """Harvest now, beside the plan."""
    with open_database(invocation.settings) as database, database.session() as session:
        job = schedules.run_now(session, invocation.arguments.recurring_id)
        session.commit()
        invocation.console.result(_columns(job), f"job {job.job_id}: due now")
    return ExitCode.DONE


def list_jobs(invocation: Invocation) -> ExitCode:
    """List scheduled and running jobs."""
    with open_database(invocation.settings) as database, database.session() as session:
        views = jobs.list_jobs(session, invocation.arguments.repository)
    rows = [_job_row(view) for view in views]
    invocation.console.table(rows, _JOB_COLUMNS, empty="no jobs")
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
    """List harvests that have ended."""
    given = invocation.arguments
    with open_database(invocation.settings) as database, database.session() as session:
        views = jobs.list_history(session, given.repository, given.limit, given.before)
        rows = [{**_columns(view.history), "repository_name": view.repository_name} for view in views]
    invocation.console.table(rows, _HISTORY_COLUMNS, empty="no harvest has ended yet")
    return ExitCode.DONE


def remove_job(invocation: Invocation) -> ExitCode:
    """Remove a job; one that runs is ended first."""
    job_id = invocation.arguments.job_id
    with open_database(invocation.settings) as database, database.session() as session:
        removed = jobs.remove_job(session, job_id)
        session.commit()
    text = "removed" if removed else "runs; the manager ends it and removes it"
    invocation.console.result({"job_id": job_id, "removed": removed}, f"job {job_id}: {text}")
    return ExitCode.DONE


def _status_lines(status: ManagerStatus) -> list[str]:
    lines = [f"leader: {status.leader or 'no manager runs'}"]
    lines += [f"stands by: {manager}" for manager in status.stand_bys]
    for worker in status.workers:
        marks = ", draining" * worker.draining + ", lost" * worker.lost
        lines.append(
            f"worker {worker.worker_id} on {worker.host}, process {worker.process_id}: {worker.harvests} of"
            f" {worker.concurrency} harvests, last sign at {worker.last_sign:%H:%M:%SZ}{marks}"
        )
    for label, counts in (
        ("jobs", {**status.jobs, "late": status.late, "stuck": status.stuck}),
        ("schedules", status.schedules),
        ("waiting for a worker", status.queues),
    ):
        lines.append(f"{label}: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    return lines


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


def _change_schedule(invocation: Invocation, change: Callable[[Session, int], None], done: str) -> ExitCode:
    recurring_id = invocation.arguments.recurring_id
    with open_database(invocation.settings) as database, database.session() as session:
        change(session, recurring_id)
        session.commit()
    invocation.console.result({"id": recurring_id, done: True}, f"schedule {recurring_id}: {done}")
    return ExitCode.DONE


def _concurrency(invocation: Invocation) -> int | None:
    number: int | None = invocation.arguments.concurrency
    if number is not None and number < 1:
        raise UsageError(f"--concurrency {number}: give 1 or more")
    return number


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no time; write it as 2026-01-31T02:30+01:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _absolute(path: str | None) -> str | None:
    """The manager runs in another folder, maybe."""
    return None if path is None else str(Path(path).absolute())


def _columns(row: Base) -> dict[str, Any]:
    return {attribute.key: getattr(row, attribute.key) for attribute in inspect(type(row)).column_attrs}
