"""The measured steps of the manager: schedules that need jobs, and due jobs."""

import asyncio
import contextlib
import time
from collections.abc import Coroutine
from typing import Final

from sqlalchemy import text

from manager import commands as running
from manager.leader.dispatcher import launch_due
from manager.leader.planner import make_job, without_job
from oai.database import Database, open_database
from tests.bench.growth_ground import Chain, Ground, Step

_TRIVIAL: Final = ("/bin/true",)
"""A harvest command that does nothing."""
_LONGEST: Final = 1800.0
_TICKS: Final = 20
_REPOSITORIES: Final = text(
    """
    INSERT INTO oai_repository (base_url, base_dir)
    SELECT 'https://r' || n || '.example/oai', 'r' || n FROM generate_series(1, CAST(:size AS int)) AS n
    """
)
_SCHEDULES: Final = """
    INSERT INTO oai_recurring_job (repository_id, frequency, start_date)
    SELECT repository_id, 'daily at 02:30', now() + interval '1 day' FROM oai_repository
    """
_JOBS: Final = "INSERT INTO oai_job (repository_id) SELECT repository_id FROM oai_repository"
_ENDED: Final = text("SELECT count(*) >= :size FROM oai_history")


def _fill(ground: Ground, *statements: str) -> None:
    with open_database(ground.settings) as database, database.engine.begin() as connection:
        connection.execute(_REPOSITORIES, {"size": ground.size})
        for statement in statements:
            connection.execute(text(statement))


def _make_jobs(ground: Ground) -> None:
    """Run the first function of the manager's tick, with schedules that are all new."""
    with open_database(ground.settings) as database:
        with database.session() as session:
            new = without_job(session)
        for recurring_id in new:
            with database.session() as session, session.begin():
                make_job(session, recurring_id, ground.settings.manager)


def _rest(ground: Ground) -> None:
    """Run ticks in which nothing is due."""
    with open_database(ground.settings) as database:
        for _ in range(_TICKS):
            with database.session() as session, session.begin():
                without_job(session)
                launch_due(session, ground.settings.manager)


def _run_jobs(ground: Ground) -> None:
    """Run a manager with its worker until the last of many due jobs has ended."""
    settings = ground.settings.model_copy(
        update={"manager": ground.settings.manager.model_copy(update={"retries": 0, "per_host": 1000})}
    )
    with open_database(settings) as database:
        asyncio.run(_until_ended(running.run(settings, database, command=_TRIVIAL), database, ground.size))


async def _until_ended(manager: Coroutine[object, object, object], database: Database, size: int) -> None:
    task = asyncio.create_task(manager)
    try:
        end = time.monotonic() + _LONGEST
        while not await asyncio.to_thread(_are_ended, database, size):
            if task.done() or time.monotonic() > end:
                raise SystemExit(f"{size:,} jobs had not ended after {_LONGEST:g} s")
            await asyncio.sleep(0.2)
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _are_ended(database: Database, size: int) -> bool:
    with database.engine.connect() as connection:
        return bool(connection.execute(_ENDED, {"size": size}).scalar_one())


SCHEDULES: Final = Chain(
    name="schedules",
    least=1000,
    steps=(
        Step(
            name="all new, a job for each",
            before=lambda ground: _fill(ground, _SCHEDULES),
            work=_make_jobs,
        ),
        Step(name=f"{_TICKS} ticks, nothing due", work=_rest),
        Step(name="schedule list", work=lambda ground: ground.zatva("schedule", "list")),
        Step(name="job list", work=lambda ground: ground.zatva("job", "list")),
    ),
)
JOBS: Final = Chain(
    name="jobs",
    least=250,
    steps=(
        Step(name="all due at once", before=lambda ground: _fill(ground, _JOBS), work=_run_jobs),
        Step(name="job history", work=lambda ground: ground.zatva("job", "history", "--limit", "50")),
    ),
)
