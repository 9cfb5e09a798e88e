"""Harvests that run without progress."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harvester.store.backup import unchanging_files
from manager.jobs import views as jobs
from manager.jobs.reasons import Code
from manager.leader.stuck import flag_stuck
from oai.database import Database
from oai.sections import ManagerSettings
from oai.settings import Settings
from tests.manager.conftest import Tables, alive, managing, until

MINUTE = timedelta(minutes=1)


def running_harvest(tables: Tables, *, started: int, updated: int, pages: int, **columns: Any) -> None:
    """Add a harvest that began, and stored its last page, so many minutes ago."""
    now = datetime.now(UTC)
    repository = tables.repository()
    job = {"status": 1, "process_id": 7, "started": now - started * MINUTE, **columns.pop("job", {})}
    tables.add("oai_job", repository_id=repository, **job)
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1,
        updated=now - updated * MINUTE, counts=f'{{"pages": {pages}}}', **columns,
    )  # fmt: skip


def flagged(database: Database, **settings: Any) -> list[int]:
    with database.session() as session:
        stuck = flag_stuck(session, ManagerSettings(**{"stuck_minutes": 15, "stuck_pages": 20, **settings}))
        session.commit()
        return stuck


@pytest.mark.parametrize(
    ("started", "updated", "pages", "stuck"),
    [
        (60, 14, 1000, False),
        (60, 16, 1000, True),
        # Ten pages in 100 minutes: 20 times as long as a page are 200 minutes.
        (250, 150, 10, False),
        (310, 210, 10, True),
        (14, 14, 0, False),
        (16, 16, 0, True),
    ],
)
def test_the_allowed_time_without_progress_depends_on_the_runs_own_pace(
    database: Database, tables: Tables, started: int, updated: int, pages: int, *, stuck: bool
) -> None:
    running_harvest(tables, started=started, updated=updated, pages=pages)
    assert flagged(database) == [1] * stuck
    assert (tables.one("SELECT stuck_since FROM oai_job") is not None) is stuck


def test_a_harvest_that_has_just_ended_is_not_stuck(database: Database, tables: Tables) -> None:
    """Its process is about to end, and its checkpoint no longer names the job."""
    running_harvest(tables, started=60, updated=60, pages=1000)
    tables("UPDATE oai_harvest SET job_id = NULL")
    assert flagged(database) == [1]
    run = {"metadata_prefix": "oai_dc", "status": "completed", "harvest_start_time": datetime.now(UTC)}
    tables.add("oai_history", repository_id=1, job_id=1, **run)
    assert flagged(database) == []
    assert tables.one("SELECT stuck_since FROM oai_job") is None


def test_pages_before_an_interruption_do_not_count_towards_the_pace_after_it(
    database: Database, tables: Tables
) -> None:
    running_harvest(tables, started=250, updated=150, pages=1010, job={"pages_before": 1000})
    assert flagged(database) == []


def test_a_harvest_that_waits_for_its_repository_is_not_stuck(database: Database, tables: Tables) -> None:
    until_then = datetime.now(UTC) + MINUTE
    waits = json.dumps({"code": "waiting", "until": f"{until_then:%Y-%m-%dT%H:%M:%SZ}"})
    running_harvest(tables, started=600, updated=500, pages=100000, last_error="x", last_failure=waits)
    assert flagged(database) == []


def test_an_import_after_the_harvest_counts_as_progress_and_is_shown(
    database: Database, tables: Tables
) -> None:
    running_harvest(tables, started=600, updated=500, pages=1000)
    tables("UPDATE oai_harvest SET job_id = NULL")  # as its end leaves it
    now = datetime.now(UTC)
    tables.add("bibliographic_import", repository_id=1, started_by="harvest", updated=now - 16 * MINUTE)
    assert flagged(database) == [1]
    tables("UPDATE bibliographic_import SET updated = now()")
    assert flagged(database) == []
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    assert view.reason is not None
    assert (view.state, view.reason.code) == ("running", Code.IMPORTING)


def test_a_stuck_harvest_is_notified_once_and_shown_until_it_progresses(
    database: Database, tables: Tables
) -> None:
    tables.ask_for_notices()
    running_harvest(tables, started=60, updated=30, pages=1000)
    assert flagged(database) == [1]
    assert flagged(database) == []
    assert [occasion for occasion, _ in tables.notices()] == ["stuck"]
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    assert view.reason is not None
    assert (view.state, view.reason.code) == ("running", Code.STUCK)
    tables("UPDATE oai_harvest SET updated = now()")
    flagged(database)
    assert tables.one("SELECT stuck_since FROM oai_job") is None


def test_a_harvest_that_waits_for_a_backup_is_not_stuck(database: Database, tables: Tables) -> None:
    running_harvest(tables, started=60, updated=30, pages=1000)
    with unchanging_files(database):
        assert flagged(database) == []
    assert flagged(database) == [1]


@pytest.mark.parametrize(("restart", "status"), [(False, 1), (True, 7)])
def test_a_stuck_harvest_is_restarted_only_if_configured(
    database: Database, tables: Tables, status: int, *, restart: bool
) -> None:
    running_harvest(tables, started=60, updated=30, pages=1000)
    flagged(database, stuck_restart=restart)
    assert tables.one("SELECT status FROM oai_job") == status


async def test_a_stuck_harvest_is_ended_and_retried(
    quick: Settings, database: Database, tables: Tables
) -> None:
    strict = {"stuck_minutes": 0.001, "stuck_pages": 0.001, "stuck_restart": True, "stop_seconds": 0.2}
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="stubborn")
    settings = quick.model_copy(update={"manager": quick.manager.model_copy(update=strict)})
    async with managing(settings, database):
        await until(lambda: tables("SELECT FROM oai_job WHERE attempt >= 1"))
        (first, *_) = tables("SELECT process_id, failure_reason FROM oai_history ORDER BY history_id")
        assert not alive(first.process_id)
    assert "made no progress" in first.failure_reason
