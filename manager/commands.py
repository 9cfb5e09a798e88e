"""Handlers of `zatva manager` and `zatva worker`."""

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Sequence
from dataclasses import asdict
from typing import Any

from manager.health import health
from manager.leader.loop import Manager
from manager.models import in_plain_words
from manager.worker import registry
from manager.worker.process import HARVESTER
from manager.worker.registry import ManagerStatus, manager_status
from manager.worker.worker import Worker
from oai.cli import Invocation
from oai.database import Database, open_database
from oai.errors import UsageError
from oai.executor import DatabaseExecutor
from oai.settings import Settings


async def run(
    settings: Settings,
    database: Database,
    *,
    concurrency: int | None = None,
    command: Sequence[str] = HARVESTER,
    drain: asyncio.Event | None = None,
) -> None:
    """Run a manager and its worker until cancelled; running harvests are then ended before it returns.

    `concurrency` is the number of harvests that run here at a time (default: from the settings); `command`
    starts a harvester. Once `drain` is set, this worker takes no new work and the leadership passes to a
    standby manager if there is one; the call returns when no work is left here and another manager leads.
    """
    drain = asyncio.Event() if drain is None else drain
    with DatabaseExecutor(database, threads=2, name="manager-database") as transactions:
        worker = Worker(settings, database, transactions, command=command, drain=drain)
        manager = Manager(settings, database, transactions, worker, drain=drain)
        async with health(settings, transactions, manager):
            await _lead_and_work(manager, worker.run(concurrency=concurrency))


async def serve_worker(
    settings: Settings,
    database: Database,
    *,
    concurrency: int | None = None,
    command: Sequence[str] = HARVESTER,
    drain: asyncio.Event | None = None,
) -> None:
    """Run a worker that never leads, until it is cancelled or drained; for additional machines."""
    with DatabaseExecutor(database, threads=2, name="manager-database") as transactions:
        worker = Worker(settings, database, transactions, command=command, drain=drain)
        await worker.run(concurrency=concurrency)


async def _lead_and_work(manager: Manager, work: Coroutine[Any, Any, None]) -> None:
    leading = asyncio.create_task(manager.lead())
    working = asyncio.create_task(work)
    try:
        await asyncio.wait([leading, working], return_when=asyncio.FIRST_COMPLETED)
        if working.done() and working.exception() is None:
            await _first_of(leading, manager.dispensable())
    finally:
        # The leader stops before the worker, so that it does not restart here the harvests that the worker
        # ends.
        await _end(leading)
        await _end(working)
    # The leading task ends only with an error; the working task ends with an error or when it is drained.
    if not leading.cancelled():
        leading.result()
    working.result()


async def _first_of(task: asyncio.Task[None], other: Coroutine[Any, Any, None]) -> None:
    """Wait until either ends; cancel `other` if `task` ends first."""
    second = asyncio.create_task(other)
    try:
        await asyncio.wait([task, second], return_when=asyncio.FIRST_COMPLETED)
    finally:
        await _end(second)


async def _end(task: asyncio.Task[None]) -> None:
    """Cancel the task and wait until it has ended, even if this coroutine is itself cancelled meanwhile."""
    task.cancel()
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([task])


def run_until_signal(work: Coroutine[Any, Any, None], *, drain: asyncio.Event | None = None) -> None:
    """Run `run` or `serve_worker` until a signal ends it; ending this way is not an error.

    SIGTERM and SIGINT end it, and so does SIGHUP (the terminal was closed) unless the program was started
    with `nohup`. SIGUSR1 sets `drain`, if given.
    """

    async def watched() -> None:
        task = asyncio.create_task(work)
        loop = asyncio.get_running_loop()
        numbers = [signal.SIGTERM, signal.SIGINT]
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
            numbers.append(signal.SIGHUP)
        for number in numbers:
            loop.add_signal_handler(number, task.cancel)
        if drain is not None:
            loop.add_signal_handler(signal.SIGUSR1, drain.set)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    asyncio.run(watched())


def run_manager(invocation: Invocation) -> None:
    """Run a manager until a signal ends it."""
    with open_database(invocation.settings) as database:
        concurrency, drain = invocation.arguments.concurrency, asyncio.Event()
        work = run(invocation.settings, database, concurrency=concurrency, drain=drain)
        run_until_signal(work, drain=drain)


def run_worker(invocation: Invocation) -> None:
    """Run a worker until a signal ends it, or until it is drained."""
    with open_database(invocation.settings) as database:
        concurrency, drain = invocation.arguments.concurrency, asyncio.Event()
        work = serve_worker(invocation.settings, database, concurrency=concurrency, drain=drain)
        run_until_signal(work, drain=drain)


def show_status(invocation: Invocation) -> None:
    """Show the leader, the workers and the number of waiting tasks."""
    with invocation.session() as session:
        status = manager_status(session)
    invocation.console.result(asdict(status), "\n".join(_status_lines(status)))


def drain_worker(invocation: Invocation) -> None:
    """Drain workers: they take no new work and end when their current work is done."""
    given = invocation.arguments
    if bool(given.worker_id) is given.all:
        raise UsageError("worker drain: give worker numbers, or --all")
    with invocation.transaction() as session:
        drained = registry.drain(session, None if given.all else given.worker_id)
    text = "\n".join(f"worker {number}: takes no new jobs" for number in drained) or "no workers"
    invocation.console.result({"drained": drained}, text)


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
        lines.append(
            f"{label}: " + ", ".join(f"{count} {in_plain_words(word)}" for word, count in counts.items())
        )
    return lines
