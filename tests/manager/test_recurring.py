"""The leader's first function: it adds jobs for the rows of schedules."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from manager.leader.planner import (
    make_job,
    remove_jobs_of_paused,
    replan_after_wrong_clock,
    without_job,
)
from manager.schedules.plan import is_begun
from manager.schedules.service import (
    change_schedule,
    find_view,
    pause_schedule,
    resume_schedule,
    run_now,
)
from oai.database import Database
from oai.sections import ManagerSettings
from tests.manager.conftest import Tables
from tests.plans import work_of

HOUR = timedelta(hours=1)
SETTINGS = ManagerSettings()


def make_jobs(database: Database) -> None:
    """Add missing jobs, as a tick of the leader does."""
    with database.session() as session:
        remove_jobs_of_paused(session)
        for recurring_id in without_job(session):
            make_job(session, recurring_id, SETTINGS, overlap=60)
        session.commit()


def now() -> datetime:
    return datetime.now(UTC)


def schedule(tables: Tables, **columns: Any) -> int:
    tables.add("oai_recurring_job", repository_id=tables.repository(), **columns)
    number: int = tables.one("SELECT max(id) FROM oai_recurring_job")
    return number


def due_times(tables: Tables) -> list[datetime]:
    return [row[0] for row in tables("SELECT harvest_start_time FROM oai_job ORDER BY job_id")]


def test_a_paused_job_of_a_paused_schedule_stays_when_it_is_resumed(
    database: Database, tables: Tables
) -> None:
    schedule(tables, frequency="daily at 23:00")
    make_jobs(database)
    tables("UPDATE oai_job SET last_history = 1")  # as of a run that was paused
    tables("UPDATE oai_recurring_job SET state = 3")
    make_jobs(database)
    assert len(due_times(tables)) == 1


@pytest.mark.parametrize("frequency", ["daily at 23:00", None])
def test_a_schedule_that_is_paused_by_sql_does_not_run_until_it_is_resumed(
    database: Database, tables: Tables, frequency: str | None
) -> None:
    number = schedule(tables, frequency=frequency)
    make_jobs(database)
    (planned,) = due_times(tables)
    tables("UPDATE oai_recurring_job SET state = 3")
    with database.session() as session:
        asked = run_now(session, number)
        session.commit()
        make_jobs(database)
        assert due_times(tables) == []
        asked = run_now(session, number)
        session.commit()
        make_jobs(database)
        assert due_times(tables) == [asked.harvest_start_time]
        assert resume_schedule(session, number)
        session.delete(asked)
        session.commit()
    make_jobs(database)
    assert (due_times(tables) == [planned]) is bool(frequency)
    assert len(due_times(tables)) == 1


def state(tables: Tables) -> int:
    number: int = tables.one("SELECT state FROM oai_recurring_job")
    return number


def _change_and_plan(database: Database, number: int, **columns: Any) -> None:
    with database.session() as session:
        change_schedule(session, number, **columns)
        session.commit()
    make_jobs(database)


def test_a_one_off_without_a_start_is_due_at_once(database: Database, tables: Tables) -> None:
    schedule(tables, frequency="")
    make_jobs(database)
    assert due_times(tables)[0] <= now()
    assert state(tables) == 2


def test_a_schedule_with_a_later_start_is_first_due_then(database: Database, tables: Tables) -> None:
    start = now() + HOUR
    schedule(tables, start_date=start, frequency="every 6 hours")
    make_jobs(database)
    assert due_times(tables) == [start]
    assert state(tables) == 1


def test_missed_runs_are_made_up_for_by_one_immediate_run(database: Database, tables: Tables) -> None:
    begun = now() - timedelta(days=10)
    schedule(tables, start_date=begun, date_added=begun, frequency="every 6 hours")
    make_jobs(database)
    assert len(due_times(tables)) == 1
    assert abs(due_times(tables)[0] - now()) < HOUR


def test_due_times_before_a_schedule_was_added_are_not_made_up_for(
    database: Database, tables: Tables
) -> None:
    start = now() - timedelta(days=10, hours=1)
    schedule(tables, start_date=start, frequency="every 6 hours")
    make_jobs(database)
    (due,) = due_times(tables)
    assert (now() < due < now() + 6 * HOUR, (due - start) % (6 * HOUR)) == (True, timedelta(0))


def test_a_tick_adds_no_second_job_for_a_schedule_that_has_one(database: Database, tables: Tables) -> None:
    schedule(tables, frequency="hourly")
    make_jobs(database)
    make_jobs(database)
    assert len(due_times(tables)) == 1


def test_the_next_job_is_planned_for_the_future_when_the_last_one_is_deleted(
    database: Database, tables: Tables
) -> None:
    start = now() - timedelta(days=10)
    schedule(tables, start_date=start, date_added=start, frequency="every 6 hours")
    make_jobs(database)
    tables("DELETE FROM oai_job")
    make_jobs(database)
    (due,) = due_times(tables)
    assert now() < due <= now() + 6 * HOUR
    assert (due - start) % (6 * HOUR) == timedelta(0)


def test_deleting_a_scheduled_job_skips_only_that_run(database: Database, tables: Tables) -> None:
    start = now() + HOUR
    schedule(tables, start_date=start, frequency="every 6 hours")
    make_jobs(database)
    tables("DELETE FROM oai_job")
    make_jobs(database)
    assert due_times(tables) == [start + 6 * HOUR]


def test_the_time_of_day_is_that_of_the_schedules_zone(database: Database, tables: Tables) -> None:
    start = datetime(2050, 7, 1, 12, tzinfo=UTC)
    schedule(tables, start_date=start, frequency="daily at 02:30", time_zone="Europe/Prague")
    make_jobs(database)
    assert due_times(tables) == [datetime(2050, 7, 2, 0, 30, tzinfo=UTC)]


def test_no_jobs_are_added_after_the_end_of_a_schedule(database: Database, tables: Tables) -> None:
    schedule(tables, start_date=now() - HOUR, end_date=now() + HOUR, frequency="every 6 hours")
    make_jobs(database)
    tables("DELETE FROM oai_job")
    make_jobs(database)
    assert due_times(tables) == []
    assert "end date" in tables.one("SELECT state_reason FROM oai_recurring_job")


def test_no_job_is_added_for_a_schedule_whose_end_has_passed(database: Database, tables: Tables) -> None:
    schedule(tables, start_date=now() - 2 * HOUR, end_date=now() - HOUR)
    make_jobs(database)
    assert due_times(tables) == []


def test_a_one_off_schedule_is_planned_only_once(database: Database, tables: Tables) -> None:
    schedule(tables)
    make_jobs(database)
    tables("DELETE FROM oai_job")
    make_jobs(database)
    assert due_times(tables) == []


def test_a_one_off_that_has_run_runs_again_only_with_a_new_start(database: Database, tables: Tables) -> None:
    number = schedule(tables, start_date=now() - HOUR)
    make_jobs(database)
    tables("DELETE FROM oai_job")
    _change_and_plan(database, number, priority=1)
    assert (due_times(tables), state(tables)) == ([], 2)
    assert tables.one("SELECT state_reason FROM oai_recurring_job") is None
    with database.session() as session:
        pause_schedule(session, number)
        resume_schedule(session, number)
        session.commit()
    make_jobs(database)
    assert (due_times(tables), state(tables)) == ([], 2)
    start = now() + HOUR
    _change_and_plan(database, number, start_date=start)
    assert due_times(tables) == [start]


@pytest.mark.parametrize("retried", [False, True])
def test_a_one_off_whose_job_still_waits_is_planned_again_when_it_is_edited(
    database: Database, tables: Tables, *, retried: bool
) -> None:
    number = schedule(tables, start_date=now() - HOUR if retried else now() + HOUR)
    make_jobs(database)
    tables("UPDATE oai_job SET harvest_start_time = now() + interval '1 hour'")
    _change_and_plan(database, number, priority=1)
    assert tables("SELECT priority FROM oai_job") == [(1,)]


@pytest.mark.parametrize("status", [0, 2])
@pytest.mark.parametrize("frequency", [None, "every 6 hours"])
def test_a_waiting_run_of_a_changed_schedule_has_the_new_parameters(
    database: Database, tables: Tables, frequency: str | None, status: int
) -> None:
    number = schedule(tables, frequency=frequency, set_spec="old")
    make_jobs(database)
    tables("UPDATE oai_job SET status = :status", status=status)
    _change_and_plan(database, number, set_spec="new")
    assert _sets_of_waiting_runs(tables) == ["new"]


def _sets_of_waiting_runs(tables: Tables) -> list[str]:
    return [row.set_spec for row in tables("SELECT set_spec FROM oai_job WHERE harvest_start_time <= now()")]


def test_a_waiting_run_has_the_parameters_of_a_row_that_was_changed_by_sql(
    database: Database, tables: Tables
) -> None:
    schedule(tables, frequency="every 6 hours", set_spec="old")
    make_jobs(database)
    tables("UPDATE oai_recurring_job SET set_spec = 'new', state = 0")
    make_jobs(database)
    assert _sets_of_waiting_runs(tables) == ["new"]


def test_a_run_started_by_hand_remains_after_a_change_and_has_the_new_parameters(
    database: Database, tables: Tables
) -> None:
    number = schedule(tables, frequency="every 6 hours", start_date=now() + HOUR)
    with database.session() as session:
        job = run_now(session, number).job_id
        session.commit()
    make_jobs(database)
    _change_and_plan(database, number, set_spec="new", start_date=now() + 2 * HOUR)
    jobs = tables("SELECT job_id, set_spec FROM oai_job WHERE harvest_start_time <= now()")
    assert [tuple(row) for row in jobs] == [(job, "new")]
    assert len(due_times(tables)) == 2


@pytest.mark.parametrize("frequency", [None, "every 6 hours"])
def test_a_waiting_run_is_postponed_with_its_schedule(
    database: Database, tables: Tables, frequency: str | None
) -> None:
    number = schedule(tables, frequency=frequency)
    make_jobs(database)
    start = now() + HOUR
    _change_and_plan(database, number, start_date=start)
    assert due_times(tables) == [start]


@pytest.mark.parametrize("status", [0, 2])
@pytest.mark.parametrize("frequency", [None, "every 6 hours"])
def test_pausing_a_schedule_removes_its_waiting_run(
    database: Database, tables: Tables, frequency: str | None, status: int
) -> None:
    number = schedule(tables, frequency=frequency)
    make_jobs(database)
    tables("UPDATE oai_job SET status = :status", status=status)
    with database.session() as session:
        pause_schedule(session, number)
        session.commit()
        assert find_view(session, number).next_due is None
    make_jobs(database)
    assert due_times(tables) == []
    with database.session() as session:
        resume_schedule(session, number)
        session.commit()
    make_jobs(database)
    assert len(due_times(tables)) == 1


def test_a_running_harvest_keeps_its_parameters_when_its_schedule_is_changed_or_paused(
    database: Database, tables: Tables
) -> None:
    number = schedule(tables, frequency="every 6 hours", set_spec="old")
    make_jobs(database)
    tables("UPDATE oai_job SET status = 1")
    with database.session() as session:
        change_schedule(session, number, set_spec="new")
        pause_schedule(session, number)
        session.commit()
    assert [row.set_spec for row in tables("SELECT set_spec FROM oai_job")] == ["old"]


def test_no_jobs_are_added_for_a_paused_schedule(database: Database, tables: Tables) -> None:
    schedule(tables, frequency="hourly", state=3)
    make_jobs(database)
    assert due_times(tables) == []


def test_jobs_have_the_lower_bound_of_their_schedule_until_they_can_continue(
    database: Database, tables: Tables
) -> None:
    number = schedule(tables, frequency="hourly", harvest_from="2020-01-01")
    froms = []
    for verdict in ("failed", "partial", "complete", "complete"):
        make_jobs(database)
        froms.append(tables.one("SELECT harvest_from FROM oai_job"))
        tables("DELETE FROM oai_job")
        tables.add(
            "oai_history", repository_id=1, recurring_id=number, status="x", verdict=verdict,
            harvest_start_time=now(),
        )  # fmt: skip
    assert froms == ["2020-01-01"] * 4
    tables.add(
        "oai_harvest", repository_id=1, metadata_prefix="oai_dc", watermark="2026-05-02T00:00:30Z",
        complete_from="2020-01-01",
    )  # fmt: skip
    make_jobs(database)
    assert tables.one("SELECT harvest_from FROM oai_job") == "2026-05-01"


@pytest.mark.parametrize(
    ("granularity", "harvest_to", "computed"),
    [
        ("YYYY-MM-DDThh:mm:ssZ", None, "2026-05-01T23:59:30Z"),
        ("YYYY-MM-DD", None, "2026-05-01"),
        ("YYYY-MM-DDThh:mm:ssZ", "2026-12-31", "2026-05-01T23:59:30Z"),
        ("YYYY-MM-DDThh:mm:ssZ", "2026-01-31", None),
    ],
)
def test_the_row_of_an_incremental_job_has_the_from_that_it_harvests(
    database: Database, tables: Tables, granularity: str, harvest_to: str | None, computed: str | None
) -> None:
    schedule(tables, frequency="hourly", harvest_to=harvest_to)
    tables("UPDATE oai_repository SET granularity = :granularity", granularity=granularity)
    tables.add("oai_harvest", repository_id=1, metadata_prefix="oai_dc", watermark="2026-05-02T00:00:30Z")
    make_jobs(database)
    assert tuple(tables("SELECT harvest_from, harvest_to FROM oai_job")[0]) == (computed, harvest_to)


def test_the_row_of_a_full_job_or_of_another_set_has_no_from(database: Database, tables: Tables) -> None:
    schedule(tables, frequency="hourly", incremental=False)
    tables.add("oai_recurring_job", repository_id=1, frequency="hourly", set_spec="other")
    tables.add("oai_harvest", repository_id=1, metadata_prefix="oai_dc", watermark="2026-05-02T00:00:30Z")
    make_jobs(database)
    assert [row[0] for row in tables("SELECT harvest_from FROM oai_job")] == [None, None]


def test_jobs_of_a_full_schedule_always_have_its_first_from(database: Database, tables: Tables) -> None:
    number = schedule(tables, frequency="hourly", harvest_from="2020-01-01", incremental=False)
    tables.add(
        "oai_history", repository_id=1, recurring_id=number, status="x", verdict="complete",
        harvest_start_time=now(),
    )  # fmt: skip
    make_jobs(database)
    assert tables.one("SELECT harvest_from FROM oai_job") == "2020-01-01"


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ({"frequency": "every day and night"}, "every day and night"),
        ({"frequency": "0 0 31 2 *"}, "0 0 31 2"),
        ({"frequency": "daily", "time_zone": "../../etc"}, "../../etc"),
        ({"harvest_to": "2026-13-01"}, "2026-13-01"),
        ({"files_per_dir": 0}, "files_per_dir"),
        ({"end_date": datetime(2000, 1, 1, tzinfo=UTC)}, "2000-01-01"),
    ],
)
def test_an_invalid_schedule_is_rejected_with_the_reason_and_gets_no_job(
    database: Database, tables: Tables, columns: dict[str, Any], found: str
) -> None:
    schedule(tables, **columns)
    make_jobs(database)
    assert state(tables) == 4
    assert found in tables.one("SELECT state_reason FROM oai_recurring_job")
    assert due_times(tables) == []


@pytest.mark.parametrize("value", ["infinity", "-infinity", "20000-01-01", "0044-03-15 BC"])
def test_the_table_refuses_times_out_of_range(tables: Tables, value: str) -> None:
    with pytest.raises(IntegrityError, match="start_date"):
        schedule(tables, start_date=value)


def test_setting_the_state_to_new_plans_the_schedule_again(database: Database, tables: Tables) -> None:
    schedule(tables, start_date=now() + HOUR, frequency="every 6 hours")
    make_jobs(database)
    start = now() + 2 * HOUR
    tables("UPDATE oai_recurring_job SET start_date = :start, state = 0", start=start)
    make_jobs(database)
    assert due_times(tables) == [start]


@pytest.mark.parametrize(("overlap", "at_once"), [("skip", False), ("queue", True)])
def test_a_run_due_while_the_last_one_ran_is_skipped_or_queued_as_configured(
    database: Database, tables: Tables, overlap: str, *, at_once: bool
) -> None:
    start = now() - timedelta(days=10)
    schedule(tables, start_date=start, frequency="every 6 hours", overlap=overlap)
    tables("UPDATE oai_recurring_job SET state = 1, last_due = now() - interval '20 hours'")
    make_jobs(database)
    assert (due_times(tables)[0] <= now()) is at_once
    tables("DELETE FROM oai_job")
    make_jobs(database)
    (due,) = due_times(tables)
    assert due > now()
    assert (due - start) % (6 * HOUR) == timedelta(0)


def test_missed_runs_are_not_made_up_for_after_the_end_date(database: Database, tables: Tables) -> None:
    schedule(
        tables, start_date=now() - timedelta(days=10), end_date=now() - HOUR, frequency="hourly",
        overlap="queue", state=1, last_due=now() - 3 * HOUR,
    )  # fmt: skip
    make_jobs(database)
    assert due_times(tables) == []


def test_jobs_have_their_schedules_priority_and_owner(database: Database, tables: Tables) -> None:
    schedule(tables, priority=-7, owner="library")
    make_jobs(database)
    assert tuple(tables("SELECT priority, owner FROM oai_job")[0]) == (-7, "library")


def test_planning_one_schedule_does_not_read_all_jobs(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables(
        "INSERT INTO oai_recurring_job (repository_id, frequency, state)"
        " SELECT :repository, 'daily', 1 FROM generate_series(1, 2000)",
        repository=repository,
    )
    tables(
        "INSERT INTO oai_job (repository_id, recurring_id, harvest_start_time)"
        " SELECT repository_id, id, now() + interval '1 day' FROM oai_recurring_job"
    )
    tables("UPDATE oai_recurring_job SET state = 0 WHERE id = 1")
    with work_of(database, "oai_job") as work, database.session() as session:
        assert make_job(session, 1, SETTINGS) is not None
        session.commit()
    assert tables.one("SELECT count(*) FROM oai_job") == 2000
    assert (len(work) > 1, [rows for rows in work if rows > 20]) == (True, [])


def test_planning_a_schedule_reads_only_its_own_runs(database: Database, tables: Tables) -> None:
    last_due = now() - 3 * HOUR
    number = schedule(
        tables, frequency="hourly", start_date=last_due - HOUR, overlap="queue", state=1, last_due=last_due
    )
    tables(
        "INSERT INTO oai_history (repository_id, recurring_id, job_id, harvest_start_time, status, verdict)"
        " SELECT 1, :number + 1 + run % 500, run, now(), 'failed', 'failed'"
        " FROM generate_series(1, 5000) AS run",
        number=number,
    )
    tables("ANALYZE oai_history")
    with work_of(database, "FROM oai_history") as work, database.session() as session:
        assert not is_begun(session, number)
        assert make_job(session, number, SETTINGS) is not None
        session.commit()
    assert (len(work) >= 3, [rows for rows in work if rows > 20]) == (True, [])


def test_a_schedule_without_a_job_gets_one_although_others_have_jobs(
    database: Database, tables: Tables
) -> None:
    for name in "abc":
        repository = tables.repository(f"https://{name}.example/")
        tables.add("oai_recurring_job", repository_id=repository, frequency="hourly")
    make_jobs(database)
    tables("DELETE FROM oai_job WHERE recurring_id = 2")
    make_jobs(database)
    jobs = tables("SELECT recurring_id FROM oai_job ORDER BY recurring_id")
    assert [row.recurring_id for row in jobs] == [1, 2, 3]


def test_a_schedule_is_planned_from_now_after_the_clock_was_ahead(database: Database, tables: Tables) -> None:
    schedule(tables, frequency="every 1 hours")
    make_jobs(database)
    tables("DELETE FROM oai_job")
    _note_run(tables, ended=now() + 48 * HOUR)
    _postpone(tables)
    assert _replan(database) == [1]
    make_jobs(database)
    (due,) = due_times(tables)
    assert now() < due <= now() + HOUR
    assert tables.one("SELECT count(*) FROM oai_history WHERE status IN ('missed', 'skipped')") == 0
    # Its run is still in the future, but not its plan.
    tables("UPDATE oai_recurring_job SET failures = 5, last_due = now()")
    tables("DELETE FROM oai_job")
    make_jobs(database)
    assert (_replan(database), len(due_times(tables))) == ([], 1)


def test_a_retry_and_its_repository_stop_waiting_after_the_clock_was_ahead(
    database: Database, tables: Tables
) -> None:
    schedule(tables, frequency="every 1 hours")
    make_jobs(database)
    _note_run(tables, ended=now() + 48 * HOUR)
    tables("UPDATE oai_job SET attempt = 1, harvest_start_time = now() + interval '49 hours'")
    tables("UPDATE oai_repository SET not_before = now() + interval '49 hours'")
    assert _replan(database) == []
    assert due_times(tables)[0] <= now()
    assert tables.one("SELECT not_before FROM oai_repository") is None


@pytest.mark.parametrize(
    ("hours", "change"),
    [
        (-1, "SELECT"),  # a user deleted the jobs before
        (24 * 365, "UPDATE oai_job SET attempt = 1"),  # a pause of two days is not from then
        (48, "UPDATE oai_job SET harvest_start_time = harvest_start_time + interval '1 minute'"),
    ],
)
def test_jobs_that_are_due_later_on_purpose_are_not_replanned(
    database: Database, tables: Tables, hours: int, change: str
) -> None:
    schedule(tables, frequency="every 1 hours")
    make_jobs(database)
    _note_run(tables, ended=now() + hours * HOUR)
    _postpone(tables)
    tables(change)
    before = due_times(tables)
    _replan(database)
    make_jobs(database)
    assert due_times(tables) == before


def _replan(database: Database) -> list[int]:
    """Plan again, as a manager does when it takes the lead."""
    with database.session() as session:
        found = replan_after_wrong_clock(session, SETTINGS)
        session.commit()
    return list(found)


def _note_run(tables: Tables, *, ended: datetime) -> None:
    tables.add(
        "oai_history", repository_id=1, recurring_id=1, status="completed",
        harvest_start_time=ended, harvest_end_time=ended,
    )  # fmt: skip


def _postpone(tables: Tables) -> None:
    """Let the schedule's planned job be due two days later, or add one."""
    tables("UPDATE oai_recurring_job SET last_due = now() + interval '2 days'")
    if not due_times(tables):
        tables.add("oai_job", repository_id=1, recurring_id=1)
    tables("UPDATE oai_job SET harvest_start_time = (SELECT last_due FROM oai_recurring_job)")
