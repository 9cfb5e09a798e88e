"""The third function: the history row of an ended harvest, and when the harvest is retried."""

import io
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from harvester.harvest.checkpoint import only_harvest
from manager.models import Job
from manager.worker.claim import run_of
from manager.worker.process import last_message
from manager.worker.settlement import Cause, JobEnd, settle
from oai.console import Console
from oai.database import Database
from oai.sections import ManagerSettings
from tests.manager.conftest import Tables

SETTINGS = ManagerSettings(retry_minutes=5, retries=8)
CRASHED = JobEnd(cause=Cause.ENDED, exit_code=-11)
MINUTE = timedelta(minutes=1)


def settle_job(database: Database, ending: JobEnd, *, times: int = 1) -> None:
    with database.session() as session:
        job = session.get(Job, 1)
        assert job is not None
        run = run_of(job)
    for _ in range(times):
        with database.session() as session:
            settle(session, run, ending, SETTINGS)
            session.commit()


def running_job(tables: Tables, **columns: Any) -> None:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    own = {
        "repository_id": tables.repository(),
        "status": 1,
        "process_id": 7,
        "host": "w1",
        "started": started,
    }
    tables.add("oai_job", **own, **columns)


def minutes_to_the_next_try(tables: Tables) -> float | None:
    rows = tables("SELECT harvest_start_time - now() AS wait FROM oai_job")
    return rows[0].wait / MINUTE if rows else None


def test_the_retry_of_a_sample_is_a_sample(database: Database, tables: Tables) -> None:
    running_job(tables, max_records=10)
    settle_job(database, CRASHED)
    (again,) = tables("SELECT * FROM oai_job")
    assert (again.attempt, again.max_records) == (1, 10)


@pytest.mark.parametrize(("attempt", "minutes"), [(0, 5), (1, 10), (2, 20), (7, 640)])
def test_each_further_retry_waits_twice_as_long(
    database: Database, tables: Tables, attempt: int, minutes: float
) -> None:
    running_job(tables, attempt=attempt, set_spec="a:b", metadata_prefix="mods", incremental=False)
    settle_job(database, CRASHED)
    assert minutes_to_the_next_try(tables) == pytest.approx(minutes, abs=1)
    (again,) = tables("SELECT * FROM oai_job")
    assert (again.attempt, again.status, again.process_id, again.started) == (attempt + 1, 0, None, None)
    assert (again.set_spec, again.metadata_prefix, again.incremental) == ("a:b", "mods", False)


@pytest.mark.parametrize(("attempt", "minutes"), [(0, 0), (1, 5), (2, 10)])
def test_the_first_retry_of_a_harvest_whose_worker_is_lost_is_due_at_once(
    database: Database, tables: Tables, attempt: int, minutes: float
) -> None:
    running_job(tables, attempt=attempt)
    settle_job(database, JobEnd(cause=Cause.LOST))
    assert minutes_to_the_next_try(tables) == pytest.approx(minutes, abs=1)
    assert tables.one("SELECT attempt FROM oai_job") == attempt + 1


def test_a_process_that_outlives_its_worker_delays_the_retry(database: Database, tables: Tables) -> None:
    running_job(tables)
    with only_harvest(database, 1):
        settle_job(database, JobEnd(cause=Cause.LOST))
    assert minutes_to_the_next_try(tables) == pytest.approx(5, abs=1)


def test_a_retry_is_not_due_before_the_not_before_time_of_the_repository(
    database: Database, tables: Tables
) -> None:
    running_job(tables)
    tables.add("oai_history", repository_id=1, job_id=1, status="failed", harvest_start_time="2026-01-01")
    tables("UPDATE oai_repository SET not_before = now() + interval '2 hours'")
    settle_job(database, JobEnd(cause=Cause.ENDED, exit_code=75))
    assert minutes_to_the_next_try(tables) == pytest.approx(120, abs=1)


@pytest.mark.parametrize(("resumed_at", "attempt"), [(0, 1), (50, None)])
def test_records_since_the_last_attempt_reset_the_retries(
    database: Database, tables: Tables, resumed_at: int, attempt: int | None
) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository("x"), frequency="hourly", state=1)
    running_job(tables, recurring_id=1, attempt=8)
    tables.add(
        "oai_history", repository_id=1, job_id=1, status="failed", failure_code="server_busy",
        record_count=50, evidence=f'{{"resumed_at": {resumed_at}}}', harvest_start_time="2026-01-01",
    )  # fmt: skip
    settle_job(database, JobEnd(cause=Cause.ENDED, exit_code=75))
    assert [row.attempt for row in tables("SELECT attempt FROM oai_job")] == ([attempt] if attempt else [])
    assert tables.one("SELECT failures FROM oai_recurring_job") == (0 if attempt else 1)


@pytest.mark.parametrize("way", ["stopped", "deleted"])
def test_a_harvest_that_a_user_stopped_is_recorded_as_stopped(
    database: Database, tables: Tables, way: str
) -> None:
    running_job(tables)
    with database.session() as session:
        run = run_of(session.get_one(Job, 1))
    tables("DELETE FROM oai_job" if way == "deleted" else "UPDATE oai_job SET status = 3")
    tables.add(
        "oai_history", repository_id=1, job_id=1, status="incomplete", failure_code="interrupted",
        harvest_start_time="2026-01-01",
    )  # fmt: skip
    with database.session() as session:
        settle(session, run, JobEnd(cause=Cause.DELETED if way == "deleted" else Cause.ENDED), SETTINGS)
        session.commit()
    assert tables.one("SELECT failure_code FROM oai_history") == "job_stopped"
    assert minutes_to_the_next_try(tables) is None


def test_a_harvest_whose_job_was_given_to_another_worker_records_a_lost_process(
    database: Database, tables: Tables
) -> None:
    running_job(tables)
    with database.session() as session:
        run = run_of(session.get_one(Job, 1))
    settle_job(database, JobEnd(cause=Cause.LOST))
    tables.add(
        "oai_history", repository_id=1, job_id=1, status="incomplete", failure_code="interrupted",
        harvest_start_time="2026-01-01",
    )  # fmt: skip
    with database.session() as session:
        settle(session, run, JobEnd(cause=Cause.DELETED, exit_code=130), SETTINGS)
        session.commit()
    rows = tables("SELECT status, failure_code, failure_facts FROM oai_history ORDER BY history_id")
    assert [(row.status, row.failure_code) for row in rows] == [
        ("lost", "process_lost"),
        ("incomplete", "process_lost"),
    ]
    assert rows[1].failure_facts == {"number": 7, "host": "w1"}


def test_the_records_of_a_harvest_that_was_believed_lost_count_once(
    database: Database, tables: Tables
) -> None:
    running_job(tables)
    run_started = datetime(2026, 1, 1, tzinfo=UTC)
    tables.add(
        "oai_harvest", repository_id=1, metadata_prefix="oai_dc", job_id=1, run_started=run_started,
        run_parameters="{}", counts='{"records": 10, "new": 10}',
    )  # fmt: skip
    with database.session() as session:
        run = run_of(session.get_one(Job, 1))
    settle_job(database, JobEnd(cause=Cause.LOST))
    tables.add(
        "oai_history", repository_id=1, job_id=1, harvest_id=1, run_started=run_started, status="completed",
        record_count=30, new_count=30, harvest_start_time="2026-01-01",
    )  # fmt: skip
    with database.session() as session:
        settle(session, run, JobEnd(cause=Cause.DELETED, exit_code=0), SETTINGS)
        session.commit()
    rows = tables("SELECT record_count, continued_by FROM oai_history ORDER BY history_id")
    assert [tuple(row) for row in rows] == [(0, 2), (30, None)]
    assert minutes_to_the_next_try(tables) is None


def test_a_harvest_is_not_retried_after_the_last_retry(database: Database, tables: Tables) -> None:
    running_job(tables, attempt=8)
    settle_job(database, CRASHED)
    assert minutes_to_the_next_try(tables) is None
    assert tables.history() == [("failed", "oai_dc")]


def test_settling_a_job_twice_has_the_same_result(database: Database, tables: Tables) -> None:
    running_job(tables)
    settle_job(database, CRASHED, times=2)
    assert tables.history() == [("failed", "oai_dc")]
    assert tables.one("SELECT count(*) FROM oai_job") == 1


def test_due_times_before_the_next_retry_are_left_out(database: Database, tables: Tables) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository("x"), frequency="every 1 minute", state=1)
    running_job(tables, recurring_id=1, attempt=6)
    settle_job(database, CRASHED)
    assert minutes_to_the_next_try(tables) == pytest.approx(320, abs=1)


def test_a_harvest_of_a_paused_schedule_is_not_retried(database: Database, tables: Tables) -> None:
    tables.add("oai_recurring_job", repository_id=tables.repository("x"), frequency="hourly", state=3)
    running_job(tables, recurring_id=1)
    settle_job(database, CRASHED)
    assert minutes_to_the_next_try(tables) is None


def test_a_one_off_that_crashed_while_it_was_paused_is_due_again_when_it_is_resumed(
    database: Database, tables: Tables
) -> None:
    tables.add(
        "oai_recurring_job", repository_id=tables.repository("x"), state=3, last_due="2026-01-01T00:00Z"
    )
    running_job(tables, recurring_id=1)
    settle_job(database, CRASHED)
    assert minutes_to_the_next_try(tables) is None
    assert tables.one("SELECT last_due FROM oai_recurring_job") is None


def test_a_harvest_that_was_stopped_on_request_is_not_retried(database: Database, tables: Tables) -> None:
    running_job(tables)
    tables("UPDATE oai_job SET status = 3")
    settle_job(database, CRASHED)
    assert tables.history() == [("killed", "oai_dc")]
    assert minutes_to_the_next_try(tables) is None


@pytest.mark.parametrize(
    ("status", "tried_again"), [("completed", False), ("incomplete", True), ("failed", False)]
)
def test_the_history_row_of_a_lost_harvest_decides_whether_it_is_retried(
    database: Database, tables: Tables, status: str, *, tried_again: bool
) -> None:
    running_job(tables)
    tables.add("oai_history", repository_id=1, job_id=1, status=status, harvest_start_time="2026-01-01")
    settle_job(database, JobEnd(cause=Cause.LOST))
    assert [row.status for row in tables("SELECT status FROM oai_history")] == [status]
    assert (minutes_to_the_next_try(tables) is not None) is tried_again


@pytest.mark.parametrize(("code", "tried_again"), [("database", True), ("not_oai_pmh", False)])
def test_a_harvest_that_lost_the_database_is_retried_although_it_wrote_its_row(
    database: Database, tables: Tables, code: str, *, tried_again: bool
) -> None:
    running_job(tables)
    run = {"status": "failed", "failure_code": code, "harvest_start_time": "2026-01-01"}
    tables.add("oai_history", repository_id=1, job_id=1, **run)
    settle_job(database, JobEnd(cause=Cause.ENDED, exit_code=6))
    assert (minutes_to_the_next_try(tables) is not None) is tried_again


def test_a_completed_run_is_not_retried_although_its_commit_lost_the_database(
    database: Database, tables: Tables
) -> None:
    running_job(tables)
    for columns in ({"status": "completed"}, {"status": "failed", "failure_code": "database"}):
        tables.add("oai_history", repository_id=1, job_id=1, harvest_start_time="2026-01-01", **columns)
    settle_job(database, JobEnd(cause=Cause.ENDED, exit_code=6))
    assert minutes_to_the_next_try(tables) is None


@pytest.mark.parametrize(("status", "tried_again"), [("completed", False), ("failed", True)])
def test_a_harvest_believed_lost_is_not_retried_once_it_completes(
    database: Database, tables: Tables, status: str, *, tried_again: bool
) -> None:
    """Its worker gave no sign of life and was believed lost, but was running."""
    tables.add("oai_recurring_job", repository_id=tables.repository("x"), frequency="hourly", state=1)
    running_job(tables, recurring_id=1, set_spec="a")
    with database.session() as session:
        job = session.get(Job, 1)
        assert job is not None
        run = run_of(job)
    settle_job(database, JobEnd(cause=Cause.LOST))
    assert minutes_to_the_next_try(tables) is not None
    tables.add(
        "oai_history",
        repository_id=run.repository_id,
        job_id=1,
        status=status,
        harvest_start_time="2026-01-01",
    )
    for _ in range(2):
        with database.session() as session:
            settle(session, run, JobEnd(cause=Cause.ENDED, exit_code=0), SETTINGS)
            session.commit()
    assert (minutes_to_the_next_try(tables) is not None) is tried_again
    assert tables.one("SELECT failures FROM oai_recurring_job") == 0
    assert [row.status for row in tables("SELECT status FROM oai_history ORDER BY 1")] == [status, "lost"]


@pytest.mark.parametrize(
    ("status", "cause", "message"),
    [(3, Cause.ENDED, "stopped"), (5, Cause.ENDED, "paused"), (1, Cause.SHUTDOWN, "the manager ended")],
)
def test_the_history_states_why_a_harvest_was_interrupted(
    database: Database, tables: Tables, status: int, cause: Cause, message: str
) -> None:
    running_job(tables)
    tables("UPDATE oai_job SET status = :status", status=status)
    tables.add(
        "oai_history", repository_id=1, job_id=1, status="incomplete", failure_reason="interrupted",
        harvest_start_time="2026-01-01",
    )  # fmt: skip
    settle_job(database, JobEnd(cause=cause, exit_code=130))
    assert message in tables.one("SELECT failure_reason FROM oai_history")


def test_a_harvest_of_a_removed_repository_leaves_no_history(database: Database, tables: Tables) -> None:
    running_job(tables)
    with database.session() as session:
        job = session.get(Job, 1)
        assert job is not None
        run = run_of(job)
    tables("DELETE FROM oai_repository")
    with database.session() as session:
        settle(session, run, CRASHED, SETTINGS)
        session.commit()
    assert tables.history() == []


def test_the_history_row_has_job_set_host_process_start_and_reason(
    database: Database, tables: Tables
) -> None:
    running_job(tables, set_spec="a:b")
    settle_job(database, JobEnd(cause=Cause.ENDED, exit_code=1, stderr="Traceback\n  …\nMemory\0Error\n"))
    (row,) = tables("SELECT * FROM oai_history")
    assert (row.job_id, row.set_spec, row.host, row.process_id, row.verdict) == (1, "a:b", "w1", 7, "failed")
    assert row.harvest_start_time == datetime(2026, 1, 1, tzinfo=UTC)
    assert row.failure_reason == (
        "process 7 on host 'w1' ended with exit code 1 and wrote no history; its last message was: "
        "MemoryError"
    )


def test_progress_is_not_the_last_message_of_a_killed_process(
    database: Database, tables: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    err = io.StringIO()
    with monkeypatch.context() as clock, Console(err=err).progress("harvest") as advance:
        for hours in (1, 2):
            clock.setattr(time, "monotonic", lambda ahead=hours * 3600: time.perf_counter() + ahead)
            advance(640 * hours, total=2000 * (hours - 1), note="HTTP status 503; retrying" * (hours - 1))
    assert len(err.getvalue().splitlines()) == 2
    running_job(tables)
    settle_job(database, JobEnd(cause=Cause.ENDED, exit_code=-9, stderr=err.getvalue()))
    assert tables.one("SELECT failure_reason FROM oai_history").endswith("ended by signal 9")
    assert last_message(f"out of memory\n{err.getvalue()}") == "out of memory"


def test_the_row_of_a_lost_harvest_has_the_counts_of_its_own_checkpoint(
    database: Database, tables: Tables
) -> None:
    running_job(tables)
    for prefix, job, records in (("a", 7, 70), ("oai_dc", 1, 10), ("z", 8, 80)):
        tables.add(
            "oai_harvest", repository_id=1, metadata_prefix=prefix, job_id=job,
            counts=f'{{"records": {records}}}', run_started="2026-01-01T00:00Z",
        )  # fmt: skip
    settle_job(database, JobEnd(cause=Cause.LOST))
    assert tables.one("SELECT record_count FROM oai_history") == 10
