"""Schedules whose runs fail: longer and longer pauses, then suspension."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from manager.models import Job
from manager.schedules import service as schedules
from manager.schedules.failures import pause_after
from manager.worker.claim import run_of
from manager.worker.settlement import Cause, JobEnd, settle
from oai.database import Database
from oai.sections import ManagerSettings
from tests.manager.conftest import Tables
from tests.manager.test_recurring import due_times, make_jobs, now

SETTINGS = ManagerSettings(retry_minutes=5, retries=0, suspend_after=3)
ENDED = JobEnd(cause=Cause.ENDED, exit_code=4)


def schedule(tables: Tables, **columns: Any) -> None:
    own = {"repository_id": tables.repository(), "frequency": "every 1 minute", "start_date": "2026-01-01"}
    tables.add("oai_recurring_job", **{**own, **columns})


def run_once(database: Database, tables: Tables, status: str, ending: JobEnd = ENDED, **history: Any) -> None:
    """Run the schedule once, from its job to its end, with the history row that its harvester writes."""
    make_jobs(database)
    tables("UPDATE oai_job SET status = 1, started = now()")
    tables("UPDATE oai_recurring_job SET last_due = now()")
    number = tables.one("SELECT job_id FROM oai_job")
    tables.add(
        "oai_history", repository_id=1, job_id=number, recurring_id=1, status=status,
        failure_reason="no answer", harvest_start_time=now(), **history,
    )  # fmt: skip
    with database.session() as session:
        job = session.get(Job, number)
        assert job is not None
        settle(session, run_of(job), ending, SETTINGS)
        session.commit()


def failures(tables: Tables) -> int:
    number: int = tables.one("SELECT failures FROM oai_recurring_job")
    return number


@pytest.mark.parametrize(
    ("count", "minutes"), [(0, 0), (1, 5), (2, 10), (3, 20), (9, 1280), (10, 1440), (999, 1440)]
)
def test_each_failure_doubles_the_pause_up_to_a_day(count: int, minutes: int) -> None:
    assert pause_after(count, SETTINGS) == timedelta(minutes=minutes)


def test_a_failed_schedule_is_planned_after_a_pause_and_not_at_its_next_due_time(
    database: Database, tables: Tables
) -> None:
    schedule(tables)
    run_once(database, tables, "failed")
    make_jobs(database)
    (due,) = due_times(tables)
    assert timedelta(minutes=4) < due - now() <= timedelta(minutes=6)
    assert due.second == 0


def test_a_successful_run_resets_the_failure_count(database: Database, tables: Tables) -> None:
    schedule(tables)
    run_once(database, tables, "failed")
    run_once(database, tables, "failed")
    assert failures(tables) == 2
    run_once(database, tables, "no changes")
    assert failures(tables) == 0
    make_jobs(database)
    assert due_times(tables)[0] - now() <= timedelta(minutes=1)


@pytest.mark.parametrize(
    ("status", "records", "cause", "counted"),
    [
        ("failed", 0, Cause.ENDED, 1),
        ("lost", 0, Cause.LOST, 0),
        ("incomplete", 0, Cause.ENDED, 1),
        ("incomplete", 5, Cause.ENDED, 0),
        ("held", 0, Cause.ENDED, 0),
        ("completed with errors", 9, Cause.ENDED, 0),
        ("killed", 0, Cause.STOPPED, 0),
        ("incomplete", 0, Cause.SHUTDOWN, 0),
    ],
)
def test_only_failures_of_the_repository_or_the_harvester_are_counted(
    database: Database, tables: Tables, status: str, records: int, cause: Cause, counted: int
) -> None:
    schedule(tables)
    run_once(database, tables, status, JobEnd(cause=cause, exit_code=4), record_count=records)
    assert failures(tables) == counted


@pytest.mark.parametrize("code", ["disk_floor", "disk_inodes", "quota_records"])
def test_a_harvest_without_disk_space_or_quota_is_retried_and_not_counted(
    database: Database, tables: Tables, code: str
) -> None:
    schedule(tables)
    for _ in range(4):
        run_once(database, tables, "incomplete", JobEnd(cause=Cause.ENDED, exit_code=75), failure_code=code)
        (due,) = due_times(tables)
        assert timedelta(minutes=4) < due - now() <= timedelta(minutes=5)
    assert tables.one("SELECT state FROM oai_recurring_job") != 5
    assert failures(tables) == 0


@pytest.mark.parametrize("code", ["repository_locked", "repository_busy"])
def test_a_run_that_finds_its_repository_locked_or_busy_is_not_counted(
    database: Database, tables: Tables, code: str
) -> None:
    schedule(tables)
    run_once(database, tables, "failed", failure_code=code)
    assert failures(tables) == 0


@pytest.mark.parametrize("exit_code", [6, 75])
def test_a_process_that_could_not_reach_the_database_is_not_counted(
    database: Database, tables: Tables, exit_code: int
) -> None:
    schedule(tables)
    run_once(database, tables, "failed")
    make_jobs(database)
    tables("UPDATE oai_job SET status = 1, started = now(), host = 'w1', process_id = 7")
    said = "zatva: database x: too many clients already"
    ending = JobEnd(cause=Cause.ENDED, exit_code=exit_code, stderr=said)
    with database.session() as session:
        settle(session, run_of(session.scalars(select(Job)).one()), ending, SETTINGS)
        session.commit()
    run = tables("SELECT * FROM oai_history ORDER BY history_id DESC")[0]
    assert (run.status, run.failure_code) == ("failed", "process_not_ready")
    assert run.failure_reason.endswith(f"(exit code {exit_code}); its last message was: {said}")
    assert failures(tables) == 1


def test_a_harvest_that_lost_the_database_is_not_counted(database: Database, tables: Tables) -> None:
    schedule(tables)
    run_once(database, tables, "failed", failure_code="database")
    assert failures(tables) == 0


def test_a_harvest_that_met_a_full_disk_is_not_counted(database: Database, tables: Tables) -> None:
    schedule(tables)
    run_once(database, tables, "failed", failure_code="disk_full")
    assert failures(tables) == 0


def test_a_schedule_is_suspended_with_the_reason_after_three_failures(
    database: Database, tables: Tables
) -> None:
    tables.ask_for_notices()
    schedule(tables)
    for _ in range(3):
        run_once(database, tables, "failed")
    (row,) = tables("SELECT state, state_reason FROM oai_recurring_job")
    assert row.state == 5
    assert "3 runs in a row failed, the last one: no answer" in row.state_reason
    assert tables.notices() == [("suspended", row.state_reason)]
    assert tables.one("SELECT facts -> 'failure' ->> 'code' FROM notice") == "other"
    make_jobs(database)
    assert due_times(tables) == []


def test_suspending_a_schedule_removes_its_jobs_that_have_not_started(
    database: Database, tables: Tables
) -> None:
    schedule(tables)
    for _ in range(2):
        run_once(database, tables, "failed")
    make_jobs(database)
    tables("UPDATE oai_job SET status = 1, started = now()")
    failing = tables.one("SELECT job_id FROM oai_job")
    for due in ("now() + interval '1 hour'", "now()"):
        tables(
            "INSERT INTO oai_job (repository_id, recurring_id, harvest_start_time)"  # noqa: S608 constants
            f" SELECT repository_id, id, {due} FROM oai_recurring_job"
        )
    tables.add(
        "oai_history", repository_id=1, job_id=failing, recurring_id=1, status="failed",
        harvest_start_time=now(),
    )  # fmt: skip
    with database.session() as session:
        settle(session, run_of(session.get_one(Job, failing)), ENDED, SETTINGS)
        session.commit()
    assert tables.one("SELECT state FROM oai_recurring_job") == 5
    assert tables("SELECT job_id FROM oai_job") == []


def test_suspended_schedule_has_no_next_run(database: Database, tables: Tables) -> None:
    schedule(tables)
    tables("UPDATE oai_recurring_job SET state = 5")
    with database.session() as session:
        schedules.run_now(session, 1)
        assert schedules.find_view(session, 1).next_due is None


def test_resuming_a_suspended_schedule_resets_its_failure_count(database: Database, tables: Tables) -> None:
    schedule(tables)
    for _ in range(3):
        run_once(database, tables, "failed")
    with database.session() as session:
        schedules.resume_schedule(session, 1)
        session.commit()
    assert failures(tables) == 0
    make_jobs(database)
    assert due_times(tables)[0] - now() <= timedelta(minutes=1)


def test_a_suspended_one_off_runs_again_when_it_is_resumed(database: Database, tables: Tables) -> None:
    schedule(tables, frequency=None)
    make_jobs(database)
    tables("UPDATE oai_recurring_job SET failures = 2")
    run_once(database, tables, "failed")
    assert tables.one("SELECT state FROM oai_recurring_job") == 5
    make_jobs(database)
    assert due_times(tables) == []
    with database.session() as session:
        schedules.resume_schedule(session, 1)
        session.commit()
    make_jobs(database)
    assert len(due_times(tables)) == 1


def test_the_usual_duration_is_computed_from_successful_runs(database: Database, tables: Tables) -> None:
    schedule(tables)
    for seconds in (100, 200):
        run_once(database, tables, "completed", harvest_end_time=now() + timedelta(seconds=seconds))
    assert tables.one("SELECT usual_seconds FROM oai_recurring_job") == pytest.approx(130, abs=2)


def test_a_resumed_run_does_not_change_the_usual_duration(database: Database, tables: Tables) -> None:
    schedule(tables)
    run_once(database, tables, "completed", evidence='{"resumed_at": 9}')
    assert tables.one("SELECT usual_seconds FROM oai_recurring_job") is None


def test_a_run_that_ended_before_its_start_has_a_duration_of_zero(database: Database, tables: Tables) -> None:
    schedule(tables)
    run_once(database, tables, "completed", harvest_end_time=now() - timedelta(hours=1))
    assert tables.one("SELECT usual_seconds FROM oai_recurring_job") == 0
