"""`zatva manager` and `zatva worker`."""

import asyncio
from dataclasses import asdict

from manager import running, workers
from manager.status import ManagerStatus, manager_status
from oai.cli import Invocation
from oai.database import open_database
from oai.errors import ExitCode, UsageError


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
        raise UsageError("worker drain: give worker numbers, or --all")
    with open_database(invocation.settings) as database, database.session() as session:
        drained = workers.drain(session, None if given.all else given.worker_id)
        session.commit()
    text = "\n".join(f"worker {number}: takes no new jobs" for number in drained) or "no workers"
    invocation.console.result({"drained": drained}, text)
    return ExitCode.DONE


def _status_lines(status: ManagerStatus) -> list[str]:
    lines = [f"leader: {status.leader or 'none (no manager is running)'}"]
    lines += [f"standby: {manager}" for manager in status.stand_bys]
    for worker in status.workers:
        marks = ", draining" * worker.draining + ", lost" * worker.lost
        lines.append(
            f"worker {worker.worker_id} on {worker.host}, process {worker.process_id}: "
            f"{worker.harvests} of {worker.concurrency} harvests, last heartbeat at "
            f"{worker.last_sign:%H:%M:%SZ}{marks}"
        )
    for label, counts in (
        ("jobs", {**status.jobs, "late": status.late, "stuck": status.stuck}),
        ("schedules", status.schedules),
        ("waiting for a worker", status.queues),
    ):
        lines.append(f"{label}: " + ", ".join(f"{count} {word}" for word, count in counts.items()))
    return lines


def _concurrency(invocation: Invocation) -> int | None:
    number: int | None = invocation.arguments.concurrency
    if number is not None and number < 1:
        raise UsageError(f"--concurrency {number}: give 1 or more")
    return number
