"""Helpers of tests with many schedules and killed processes: plans, processes, disturbances, final checks."""

import asyncio
import contextlib
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path
from typing import Self

import pytest
from sqlalchemy.exc import OperationalError

from tests.commands import Process
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.manager.conftest import Tables, manager_process, until
from tests.manager.notices.receiver import SECRET, Receiver

_REPOSITORIES = 3
_ONE_OFF = 4
"""One in this many schedules runs only once."""
_SPREAD = 5
"""Seconds over which they are due."""
PATIENCE = 240.0
"""Seconds without any progress; the whole takes about half a minute on two cores of its own."""
SETTINGS = {
    "ZATVA_MANAGER__TICK_SECONDS": "0.3",
    "ZATVA_MANAGER__RETRY_MINUTES": "0.001",
    # On a busy machine, signs of life come seconds late; jobs of workers wrongly considered lost run twice.
    "ZATVA_MANAGER__LOST_SECONDS": "10",
    "ZATVA_MANAGER__CONCURRENCY": "2",
    "ZATVA_MANAGER__PER_HOST": "100",
    "ZATVA_MANAGER__RETRIES": "20",
    "ZATVA_MANAGER__SUSPEND_AFTER": "0",
    "ZATVA_WEBHOOKS__SECRET": SECRET,
    "ZATVA_WEBHOOKS__PRIVATE_NETWORKS": "true",
    "ZATVA_LOG__LEVEL": "error",
}


@contextlib.asynccontextmanager
async def repositories(tables: Tables, number: int = _REPOSITORIES) -> AsyncIterator[list[FakeRepository]]:
    async with contextlib.AsyncExitStack() as stack:
        served = [
            await stack.enter_async_context(serve(FakeRepository(items=many(5)))) for _ in range(number)
        ]
        for place, repository in enumerate(served):
            tables.add("oai_repository", base_url=repository.url, base_dir=f"r{place}")
        yield served


def plan(tables: Tables, schedules: int, *, real: bool, repositories: int = _REPOSITORIES) -> None:
    """The schedules, spread over repositories and time; one of each repository is really harvested."""
    tables(
        "INSERT INTO oai_recurring_job (repository_id, metadata_prefix, frequency, start_date)"
        " SELECT 1 + number % :repositories,"
        " CASE WHEN :real OR number < :repositories THEN 'oai_dc' ELSE 'alone' END,"
        " CASE WHEN number % :one_off > 0 THEN 'every 5 hours' END,"
        " now() + interval '2 seconds' + number * interval '1 second' * CAST(:spread AS float) / :schedules"
        " FROM generate_series(0, :schedules - 1) AS number",
        repositories=repositories,
        real=real,
        one_off=_ONE_OFF,
        spread=_SPREAD,
        schedules=schedules,
    )


class Processes:
    """The managers and workers that run."""

    def __init__(
        self,
        environment: dict[str, str],
        tables: Tables,
        *,
        managers: int,
        workers: int,
        of_workers: dict[str, str] | None = None,
    ) -> None:
        """Start so many with these variables; `of_workers` are further variables of the workers."""
        self._environment = environment
        self._of_workers = environment | (of_workers or {})
        self._tables = tables
        self._numbers = (managers, workers)
        self._stack = contextlib.AsyncExitStack()
        self._managers: list[Process] = []
        self._workers: list[Process] = []

    async def __aenter__(self) -> Self:
        for kept, number, what, environment in (
            (self._managers, self._numbers[0], "run", self._environment),
            (self._workers, self._numbers[1], "serve_worker", self._of_workers),
        ):
            for _ in range(number):
                command = ("tests.manager.soak_process", what)
                process = manager_process(environment, *command)
                kept.append(await self._stack.enter_async_context(process))
        return self

    async def __aexit__(self, *_: object) -> None:
        for process in (*self._managers, *self._workers):
            process.send_signal(signal.SIGTERM)
        for process in (*self._managers, *self._workers):
            await asyncio.to_thread(process.wait, 60)
        await self._stack.aclose()

    async def kill_the_leader(self) -> None:
        names = self._tables("SELECT process_id FROM oai_leader")
        leading = [process for process in self._managers if process.pid == names[0].process_id]
        await self._kill(self._managers, leading[0])

    async def kill_a_worker(self) -> None:
        await self._kill(self._workers, self._workers[-1])

    @contextlib.contextmanager
    def stopped_worker(self) -> Iterator[None]:
        """Suspend a worker for the block."""
        worker = self._workers[0]
        worker.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            worker.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def stopped_writers(self) -> Iterator[None]:
        """Suspend whatever the workers have started for the block, as a disk that hangs does."""
        writers = [pid for worker in self._workers for pid in _descendants(worker.pid)]
        _signal(writers, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(writers, signal.SIGCONT)

    async def _kill(self, kept: list[Process], process: Process) -> None:
        process.kill()
        kept.remove(process)
        await asyncio.to_thread(process.wait)


def _descendants(pid: int) -> list[int]:
    try:
        children = [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:  # it has ended meanwhile
        return []
    return [one for child in children for one in (child, *_descendants(child))]


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def came_to(tables: Tables, number: int) -> bool:
    """Return whether so many runs have completed; false while the database is not available."""
    good = "SELECT count(*) FROM oai_history WHERE status IN ('completed', 'no changes')"
    try:
        return bool(tables.one(good) >= number)
    except OperationalError:
        return False


def over(tables: Tables) -> bool:
    """Whether every schedule has had its run, and its next one planned, and nothing more is under way."""
    rest = tables.one(
        "SELECT (SELECT count(*) FROM oai_job"
        " WHERE status <> 0 OR harvest_start_time < now() + interval '1 hour')"
        " + (SELECT count(*) FROM oai_history WHERE announced IS NULL)"
        " + (SELECT count(*) FROM notice WHERE ended IS NULL)"
        " + (SELECT count(*) FROM oai_recurring_job AS schedule WHERE NOT EXISTS"
        " (SELECT FROM oai_history WHERE recurring_id = schedule.id"
        " AND status IN ('completed', 'no changes', 'not alone'))"
        " OR schedule.frequency IS NOT NULL"
        " AND NOT EXISTS (SELECT FROM oai_job WHERE recurring_id = schedule.id))"
    )
    return bool(rest == 0)


def ended(tables: Tables) -> int:
    """Return how many runs and notices have ended, successfully or not."""
    number: int = tables.one(
        "SELECT (SELECT count(*) FROM oai_history) + (SELECT count(*) FROM notice WHERE ended IS NOT NULL)"
    )
    return number


def moved(tables: Tables, seen: int) -> bool:
    """Whether more has ended than was seen before, or all is over."""
    return over(tables) or ended(tables) > seen


def left(tables: Tables) -> list[str]:
    """What is not over, row by row."""
    job = "status <> 0 OR harvest_start_time < now() + interval '1 hour'"
    wheres = {
        "oai_job": job,
        "procrastinate_jobs": "status IN ('todo', 'doing')",
        "oai_history": "announced IS NULL",
        "notice": "ended IS NULL",
        "oai_leader": "true",
        "oai_recurring_job": "id NOT IN (SELECT recurring_id FROM oai_history"
        " WHERE status IN ('completed', 'no changes', 'not alone'))",
        "oai_history AS run": "status NOT IN ('completed', 'no changes', 'not alone')",
    }
    return [
        f"{table}: {row._asdict()}"
        for table, where in wheres.items()
        for row in tables(f"SELECT * FROM {table} WHERE {where}")  # noqa: S608 the test's own words
    ]


async def rest(tables: Tables, schedules: int) -> None:
    """Wait until all is over; a busy machine needs long for it, but has to make progress."""
    seen = 0
    while not over(tables):
        assert seen < 10 * schedules, "runs never end"
        try:
            await until(partial(moved, tables, seen), patience=PATIENCE)
        except AssertionError:
            pytest.fail("\n".join(left(tables)))
        seen = ended(tables)


def judge(
    tables: Tables, served: list[FakeRepository], webhooks: Receiver, schedules: int, seed: str
) -> None:
    runs = tables(
        "SELECT history_id, recurring_id, job_id, status, failure_code, process_id,"
        " harvest_start_time::text AS began, harvest_end_time::text AS ended"
        " FROM oai_history ORDER BY history_id"
    )
    good = Counter(run.recurring_id for run in runs if run.status in ("completed", "no changes"))
    assert sorted(good) == list(range(1, schedules + 1)), f"{seed}: missed"
    twice = [run._asdict() for run in runs if good[run.recurring_id] > 1]
    assert twice == [], f"{seed}: twice"
    others = {run.status for run in runs} - {"completed", "no changes"}
    assert others <= {"lost", "failed", "incomplete", "killed"}, seed
    planned = tables("SELECT recurring_id, count(*) AS jobs FROM oai_job GROUP BY 1")
    assert {row.jobs for row in planned} == {1}, seed
    recurring = tables.one("SELECT count(*) FROM oai_recurring_job WHERE frequency IS NOT NULL")
    assert len(planned) == recurring, seed
    assert all(repository.lists() for repository in served), seed
    assert tables.one("SELECT count(*) FROM oai_record") == 5 * len(served), seed
    assert {post["facts"]["history_id"] for post in webhooks.posts} == {run.history_id for run in runs}, seed


def leftovers(data: Path) -> list[str]:
    """Return harvesters of this test, and servers that fork them, that still run (Linux)."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            ours = f"ZATVA_DATA={data}".encode() in (place / "environ").read_bytes().split(b"\0")
            command = (place / "cmdline").read_bytes().split(b"\0")
            if (
                ours
                and any(word == b"oai.prefork" or word.startswith(b"--job-id=") for word in command)
                and int(place.name) != os.getpid()
            ):
                found.append(place.name)
    return found
