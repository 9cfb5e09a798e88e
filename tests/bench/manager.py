"""Benchmark of the manager: delay until due jobs start, and the cost of an idle manager."""

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection, event, text

from manager import commands as running
from manager.worker.process import HARVESTER
from oai.database import Database, open_database
from oai.sections import ManagerSettings
from oai.settings import Settings, load_settings
from tests.bench.harvest import served
from tests.bench.measuring import ms, percentile, say

_TRIVIAL = ("/bin/true",)
"""A harvest that does nothing: only the work of the manager and its workers is measured."""
_RECORDS = 3
"""Records of each repository of the real harvests."""
_PLACES = 4
_WORKERS = 2
_WARM_SECONDS = 5.0
_LONGEST = 600.0


def measure(*, jobs: int, schedules: int, seconds: float) -> None:
    """Print two Markdown tables: `jobs` due at once on two workers, and an idle manager with `schedules`."""
    with _managed() as (settings, database):
        _fill(database, jobs)
        asyncio.run(_measure_starts(settings, database, jobs, _TRIVIAL))
        _empty(database)
        sys.stdout.write("\n")
        _schedule(database, schedules)
        asyncio.run(_measure_idleness(settings, database, schedules, seconds))


def measure_harvests(*, jobs: int, prefork: bool) -> None:
    """Print two Markdown tables: the first harvests of `jobs` repositories, and harvests of nothing new."""
    with _managed(prefork=prefork) as (settings, database), served(_RECORDS) as base_url:
        _fill(database, jobs, base_url)
        for title in (f"first harvests, {_RECORDS} records each", "harvests that find nothing new"):
            sys.stdout.write(f"{title}:\n\n")
            asyncio.run(_measure_starts(settings, database, jobs, HARVESTER))
            with database.engine.begin() as connection:
                outcomes = connection.execute(text("SELECT verdict, count(*) FROM oai_history GROUP BY 1"))
                counts = {row.verdict: row.count for row in outcomes}
                sys.stdout.write(f"\n{counts}\n\n")
                connection.execute(text("TRUNCATE oai_history CASCADE"))


@contextlib.contextmanager
def _managed(*, prefork: bool = True) -> Iterator[tuple[Settings, Database]]:
    with tempfile.TemporaryDirectory(prefix="zatva-bench-") as folder:
        root = Path(folder)
        root.chmod(0o755)
        manager = ManagerSettings(retries=0, per_host=1000, concurrency=_PLACES, prefork=prefork)
        settings = load_settings(data=root / "data", database_url=None)
        settings = settings.model_copy(update={"manager": manager})
        with open_database(settings) as database:
            yield settings, database


def _fill(database: Database, jobs: int, base_url: str | None = None) -> None:
    """Insert `jobs` repositories, each on a separate host unless a base URL is given."""
    with database.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO oai_repository (base_url, base_dir)"
                " SELECT coalesce(:url || '/' || n, 'https://r' || n || '.example/oai'), 'r' || n"
                " FROM generate_series(1, :jobs) AS n"
            ),
            {"jobs": jobs, "url": base_url},
        )


def _empty(database: Database) -> None:
    with database.engine.begin() as connection:
        connection.execute(text("TRUNCATE oai_repository CASCADE"))


def _schedule(database: Database, schedules: int) -> None:
    """Insert `schedules` schedules, each with its next job hours away, as a manager leaves them."""
    _fill(database, schedules)
    with database.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO oai_recurring_job (repository_id, frequency, state, last_due)"
                " SELECT repository_id, 'daily at 02:30', 1, now() + interval '9 hours' FROM oai_repository"
            )
        )
        connection.execute(
            text(
                "INSERT INTO oai_job (repository_id, recurring_id, harvest_start_time)"
                " SELECT repository_id, id, last_due FROM oai_recurring_job"
            )
        )
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))


@contextlib.asynccontextmanager
async def _at_work(
    settings: Settings, database: Database, command: Sequence[str], *, workers: int
) -> AsyncIterator[None]:
    """Run a manager with an embedded worker, and further workers, for the block."""
    tasks = [asyncio.create_task(running.run(settings, database, command=command))]
    tasks += [
        asyncio.create_task(running.serve_worker(settings, database, command=command))
        for _ in range(workers - 1)
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def _measure_starts(settings: Settings, database: Database, jobs: int, command: Sequence[str]) -> None:
    async with _at_work(settings, database, command, workers=_WORKERS):
        await asyncio.sleep(_WARM_SECONDS)
        with database.engine.begin() as connection:
            connection.execute(
                text("INSERT INTO oai_job (repository_id) SELECT repository_id FROM oai_repository")
            )
            due = connection.scalar(text("SELECT now()"))
        begun, own = time.monotonic(), time.process_time()
        # In a thread and seldom, so that counting does not distort the measurement.
        while (ended := await asyncio.to_thread(_ended, database)) < jobs:
            if time.monotonic() - begun > _LONGEST:
                raise SystemExit(f"only {ended} of {jobs} jobs ended in {_LONGEST:g} s")
            await asyncio.sleep(0.5)
        taken, spent = time.monotonic() - begun, time.process_time() - own
    with database.engine.connect() as connection:
        rows = connection.execute(
            text("SELECT extract(epoch FROM harvest_start_time - :due) FROM oai_history"), {"due": due}
        )
        waits = [float(row[0]) for row in rows]
    say(f"{jobs:,} jobs due at once, {_WORKERS} workers of {_PLACES} places, {os.cpu_count()} cores", "")
    say("---", "---:")
    say("from due to started, first", ms(min(waits)))
    for percent in (50, 99):
        say(f"from due to started, p{percent}", ms(percentile(waits, percent)))
    say("harvests per second", f"{jobs / taken:,.1f}")
    say("CPU of manager and workers for one harvest", ms(spent / jobs))
    say("time until all had ended", f"{taken:,.1f} s")


def _ended(database: Database) -> int:
    with database.engine.connect() as connection:
        return int(connection.scalar(text("SELECT count(*) FROM oai_history")) or 0)


@dataclass
class _Counted:
    statements: int = 0


async def _measure_idleness(settings: Settings, database: Database, schedules: int, seconds: float) -> None:
    counted = _Counted()

    def count(connection: Connection, *_: object) -> None:
        del connection
        counted.statements += 1

    async with _at_work(settings, database, _TRIVIAL, workers=1):
        await asyncio.sleep(_WARM_SECONDS)
        event.listen(database.engine, "before_cursor_execute", count)
        server, own = _server_figures(database), time.process_time()
        counted.statements = 0
        begun = time.monotonic()
        await asyncio.sleep(seconds)
        passed, own = time.monotonic() - begun, time.process_time() - own
        statements, after = counted.statements, _server_figures(database)
        event.remove(database.engine, "before_cursor_execute", count)
    ticks = passed / settings.manager.tick_seconds
    say(f"An idle manager with {schedules:,} schedules, a tick every {settings.manager.tick_seconds:g} s", "")
    say("---", "---:")
    say("statements of the manager per tick", f"{statements / ticks:,.1f}")
    say("transactions per tick, the task queue's included", f"{(after[0] - server[0]) / ticks:,.1f}")
    say("rows read by the server per tick", f"{(after[1] - server[1]) / ticks:,.0f}")
    say("CPU of the manager", f"{own / passed:.1%} of a core")
    say("CPU of the server", f"{(after[2] - server[2]) / passed:.1%} of a core")


def _server_figures(database: Database) -> tuple[int, int, float]:
    """Return transactions, rows read, and CPU seconds of the server's live processes (Linux)."""
    with database.engine.connect() as connection:
        connection.execute(text("SELECT pg_stat_force_next_flush()"))
        row = connection.execute(
            text(
                "SELECT xact_commit + xact_rollback, tup_returned FROM pg_stat_database"
                " WHERE datname = current_database()"
            )
        ).one()
        pids = [row[0] for row in connection.execute(text("SELECT pid FROM pg_stat_activity"))]
    return int(row[0]), int(row[1]), sum(map(_cpu, pids))


def _cpu(pid: int) -> float:
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")
