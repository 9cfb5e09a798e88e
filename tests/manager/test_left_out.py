"""Due times at which no run began are recorded in the history."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manager.job_commands import last_run_if_idle
from manager.jobs.runs import RunFilter, days_of, find_runs
from manager.leader.dispatcher import launch_due
from manager.leader.planner import MOST
from manager.notices.announcements import announce
from oai.database import Database
from oai.outgoing import HookSettings
from oai.sections import ManagerSettings
from tests.manager.conftest import Tables
from tests.manager.test_recurring import make_jobs

NOW = datetime.now(UTC).replace(microsecond=0)
MINUTE = timedelta(minutes=1)


def a_schedule(tables: Tables, *, last_due: datetime, **columns: Any) -> int:
    """Add an hourly schedule that began ten days ago and has no job now; return its number."""
    given = {"frequency": "every 60 minutes", "state": 1, "last_due": last_due, **columns}
    start = last_due - timedelta(days=10)
    tables.add("oai_recurring_job", repository_id=tables.repository(), start_date=start, **given)
    number: int = tables.one("SELECT max(id) FROM oai_recurring_job")
    return number


def a_run(
    tables: Tables,
    schedule: int,
    *,
    began: datetime,
    ended: datetime,
    job: int = 7,
    status: str = "completed",
) -> None:
    tables.add(
        "oai_history", repository_id=1, recurring_id=schedule, status=status, verdict="complete", job_id=job,
        harvest_start_time=began, harvest_end_time=ended,
    )  # fmt: skip


def left_out(tables: Tables) -> list[tuple[str, int]]:
    """Return the status of each row of missed or skipped runs, with its number of due times."""
    rows = tables(
        "SELECT status, evidence -> 'due_times' AS times FROM oai_history"
        " WHERE evidence ? 'due_times' ORDER BY history_id"
    )
    return [(row.status, row.times) for row in rows]


def test_due_times_during_the_last_run_are_skipped_in_one_row(database: Database, tables: Tables) -> None:
    number = a_schedule(tables, last_due=NOW - 200 * MINUTE)
    a_run(tables, number, began=NOW - 200 * MINUTE, ended=NOW - MINUTE)
    make_jobs(database)
    assert left_out(tables) == [("skipped (overlap)", 3)]
    row = tables("SELECT * FROM oai_history ORDER BY history_id DESC LIMIT 1")[0]
    assert row.failure_reason.startswith("3 due times, ")
    assert row.failure_reason.endswith(": skipped, because the previous run was still running")
    assert (row.harvest_start_time, row.harvest_end_time) == (NOW - 140 * MINUTE, NOW - 20 * MINUTE)
    assert (row.recurring_id, row.metadata_prefix, row.record_count) == (number, "oai_dc", 0)


def test_due_times_before_a_late_run_began_or_after_it_ended_are_missed(
    database: Database, tables: Tables
) -> None:
    number = a_schedule(tables, last_due=NOW - 310 * MINUTE)
    a_run(tables, number, began=NOW - 200 * MINUTE, ended=NOW - 120 * MINUTE)
    make_jobs(database)
    assert left_out(tables) == [("missed", 3), ("skipped (overlap)", 2)]


def test_a_pause_of_a_job_counts_as_part_of_its_run(database: Database, tables: Tables) -> None:
    number = a_schedule(tables, last_due=NOW - 200 * MINUTE)
    a_run(tables, number, began=NOW - 200 * MINUTE, ended=NOW - 190 * MINUTE)
    a_run(tables, number, began=NOW - 10 * MINUTE, ended=NOW - MINUTE)
    make_jobs(database)
    assert left_out(tables) == [("skipped (overlap)", 3)]


def test_due_times_that_pass_while_a_retry_waits_are_not_recorded(database: Database, tables: Tables) -> None:
    number = a_schedule(tables, last_due=NOW - 310 * MINUTE)
    a_run(tables, number, began=NOW - 200 * MINUTE, ended=NOW - 195 * MINUTE, job=7)
    a_run(tables, number, began=NOW - 30 * MINUTE, ended=NOW - 9 * MINUTE, job=8)
    make_jobs(database)
    # 250 to 10 minutes ago: one before the first run, three before its retry, one during this.
    assert left_out(tables) == [("missed", 1), ("skipped (overlap)", 1)]


@pytest.mark.parametrize(("overlap", "skipped"), [("skip", True), ("queue", False)])
def test_a_run_that_became_due_during_a_run_by_hand_is_skipped(
    database: Database, tables: Tables, overlap: str, *, skipped: bool
) -> None:
    number = a_schedule(tables, last_due=NOW - 70 * MINUTE, overlap=overlap)
    tables.add("oai_job", repository_id=1, recurring_id=number, harvest_start_time=NOW - 70 * MINUTE)
    a_run(tables, number, began=NOW - 80 * MINUTE, ended=NOW - MINUTE)
    with database.session() as session:
        launched = launch_due(session, ManagerSettings())
        session.commit()
    assert launched == ([] if skipped else [1])
    make_jobs(database)
    assert left_out(tables) == ([("skipped (overlap)", 2)] if skipped else [])
    assert tables.one("SELECT count(*) FROM oai_job") == 1


def test_a_run_that_was_due_before_another_one_began_is_not_skipped(
    database: Database, tables: Tables
) -> None:
    number = a_schedule(tables, last_due=NOW - 70 * MINUTE)
    tables.add("oai_job", repository_id=1, recurring_id=number, harvest_start_time=NOW - 70 * MINUTE)
    a_run(tables, number, began=NOW - 60 * MINUTE, ended=NOW - MINUTE)
    with database.session() as session:
        assert launch_due(session, ManagerSettings()) == [1]


@pytest.mark.parametrize(("status", "minutes"), [("failed", -1), ("killed", -1), ("completed", 600)])
def test_a_run_that_failed_or_ends_in_the_future_makes_up_for_nothing(
    database: Database, tables: Tables, status: str, minutes: int
) -> None:
    number = a_schedule(tables, last_due=NOW - 70 * MINUTE)
    tables.add("oai_job", repository_id=1, recurring_id=number, harvest_start_time=NOW - 70 * MINUTE)
    a_run(tables, number, began=NOW - 80 * MINUTE, ended=NOW + minutes * MINUTE, status=status)
    with database.session() as session:
        assert launch_due(session, ManagerSettings()) == [1]


def test_a_schedule_that_is_changed_while_its_run_waits_makes_no_second_job(
    database: Database, tables: Tables
) -> None:
    number = a_schedule(tables, last_due=NOW - 70 * MINUTE, state=0)
    tables.add("oai_job", repository_id=1, recurring_id=number, harvest_start_time=NOW - 70 * MINUTE)
    make_jobs(database)
    assert tables.one("SELECT count(*) FROM oai_job") == 1
    assert tables.one("SELECT state FROM oai_recurring_job") == 1


def test_what_becomes_due_during_a_run_is_skipped_although_the_schedule_was_changed(
    database: Database, tables: Tables
) -> None:
    number = a_schedule(tables, last_due=NOW - 70 * MINUTE, state=0)
    tables.add(
        "oai_job", repository_id=1, recurring_id=number, harvest_start_time=NOW - 70 * MINUTE, status=1
    )
    make_jobs(database)
    assert tables.one("SELECT count(*) FROM oai_job") == 2
    tables("DELETE FROM oai_job WHERE status = 1")
    tables("UPDATE oai_job SET harvest_start_time = :due", due=NOW - 10 * MINUTE)
    tables("UPDATE oai_recurring_job SET last_due = :due", due=NOW - 10 * MINUTE)
    a_run(tables, number, began=NOW - 70 * MINUTE, ended=NOW - MINUTE)
    with database.session() as session:
        assert launch_due(session, ManagerSettings()) == []
        session.commit()
    make_jobs(database)
    assert left_out(tables) == [("skipped (overlap)", 1)]


def test_due_times_that_are_merged_into_one_queued_run_are_recorded(
    database: Database, tables: Tables
) -> None:
    number = a_schedule(tables, last_due=NOW - 200 * MINUTE, overlap="queue")
    a_run(tables, number, began=NOW - 200 * MINUTE, ended=NOW - MINUTE)
    make_jobs(database)
    assert left_out(tables) == [("skipped (overlap)", 2)]
    assert len(tables("SELECT FROM oai_job WHERE harvest_start_time <= now()")) == 1


@pytest.mark.parametrize(
    ("minutes", "shown", "at_once"),
    [(5, [("missed", 5)], False), (90, [("missed", 3), ("skipped (overlap)", 1)], True)],
)
def test_due_times_before_a_late_queued_run_began_are_missed_and_not_repeated(
    database: Database, tables: Tables, minutes: int, shown: list[tuple[str, int]], *, at_once: bool
) -> None:
    number = a_schedule(tables, last_due=NOW - 310 * MINUTE, overlap="queue")
    a_run(tables, number, began=NOW - minutes * MINUTE, ended=NOW - MINUTE)
    make_jobs(database)
    assert left_out(tables) == shown
    assert (tables.one("SELECT harvest_start_time <= now() FROM oai_job")) is at_once


def test_the_reason_names_a_single_missed_due_time(database: Database, tables: Tables) -> None:
    a_schedule(tables, last_due=NOW - 80 * MINUTE)
    make_jobs(database)
    reason = tables.one("SELECT failure_reason FROM oai_history")
    assert reason.startswith(f"due at {NOW - 20 * MINUTE:%Y-%m-%dT%H:%M}")


@pytest.mark.parametrize("minutes_ago", [30, -30])
def test_no_row_is_added_if_no_due_time_was_missed(
    database: Database, tables: Tables, minutes_ago: int
) -> None:
    # Not relative to NOW, which is long ago if the test runs late.
    a_schedule(tables, last_due=datetime.now(UTC) - minutes_ago * MINUTE)
    make_jobs(database)
    assert tables.history() == []


def test_due_times_while_a_schedule_was_paused_are_not_missed(database: Database, tables: Tables) -> None:
    a_schedule(tables, last_due=NOW - 200 * MINUTE, state=0)
    make_jobs(database)
    assert tables.history() == []


def test_missed_due_times_are_counted_up_to_a_limit(database: Database, tables: Tables) -> None:
    a_schedule(tables, last_due=NOW - 2000 * MINUTE, frequency="every 1 second")
    make_jobs(database)
    assert left_out(tables) == [("missed", MOST)]
    assert "1,000 or more due times" in tables.one("SELECT failure_reason FROM oai_history")


def test_a_missed_due_time_sends_no_notice_and_calls_no_hook(database: Database, tables: Tables) -> None:
    tables.add("notice_rule", channel="mail", target="alena@example.org", kind="always")
    a_schedule(tables, last_due=NOW - 80 * MINUTE)
    make_jobs(database)
    with database.session() as session:
        assert announce(session, [HookSettings(name="any", command=("/bin/true",))]) == 0


def test_the_last_run_of_an_idle_repository_is_its_last_real_run(database: Database, tables: Tables) -> None:
    number = a_schedule(tables, last_due=NOW - 200 * MINUTE)
    a_run(tables, number, began=NOW - 200 * MINUTE, ended=NOW - 190 * MINUTE)
    make_jobs(database)
    with database.session() as session:
        ended = last_run_if_idle(session, 1)
        assert ended is not None
        assert ended.run is not None
        assert ended.run.status == "completed"


def test_a_missed_due_time_is_listed_in_the_history_and_not_counted_as_a_run(
    database: Database, tables: Tables
) -> None:
    a_schedule(tables, last_due=NOW - 80 * MINUTE)
    make_jobs(database)
    with database.session() as session:
        assert [view.history.status for view in find_runs(session, RunFilter(), limit=9)] == ["missed"]
        (day,) = days_of(session, RunFilter(), zone="UTC")
    assert (day.worst, day.runs, day.troubled) == ("missed", 0, 0)
