"""Schedules as commands and pages handle them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manager.models import RecurringState
from manager.schedules import service as schedules
from manager.schedules.service import find_schedules
from oai.database import Database
from oai.errors import UsageError
from tests.manager.conftest import Tables
from tests.manager.test_recurring import due_times, make_jobs


def add(database: Database, **columns: Any) -> int:
    with database.session() as session:
        schedule = schedules.add_schedule(session, **columns)
        session.commit()
        return schedule.id


def change(database: Database, number: int, **columns: Any) -> None:
    with database.session() as session:
        schedules.change_schedule(session, number, **columns)
        session.commit()


def test_a_schedule_is_added_with_the_given_values_and_defaults(database: Database, tables: Tables) -> None:
    add(database, repository_id=tables.repository(), frequency="hourly", set_spec="a:b", start_date=None)
    (row,) = tables("SELECT * FROM oai_recurring_job")
    assert (row.frequency, row.set_spec, row.metadata_prefix) == ("hourly", "a:b", "oai_dc")
    assert (row.state, row.validation, row.method, row.incremental) == (0, 2, 0, True)
    assert row.start_date is not None


@pytest.mark.parametrize(
    "columns",
    [
        {"frequency": "never"},
        {"time_zone": "Moon"},
        {"harvest_from": "1.1.2026"},
        {"method": 2},
        {"validation": 3},
        {"start_date": datetime(2026, 1, 1)},  # noqa: DTZ001 that is what is refused
        {"start_date": datetime(2026, 1, 2, tzinfo=UTC), "end_date": datetime(2026, 1, 1, tzinfo=UTC)},
        {"state": 1},
        {"repository_id": 999},
    ],
)
def test_an_invalid_schedule_is_refused_and_not_added(
    database: Database, tables: Tables, columns: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        add(database, **{"repository_id": tables.repository(), **columns})
    assert tables("SELECT FROM oai_recurring_job") == []


def test_a_change_replaces_the_planned_job(database: Database, tables: Tables) -> None:
    start = datetime.now(UTC) + timedelta(days=40)
    number = add(database, repository_id=tables.repository(), frequency="daily", start_date=start)
    make_jobs(database)
    sooner = start - timedelta(days=30)
    change(database, number, start_date=sooner, set_spec="other")
    make_jobs(database)
    assert due_times(tables) == [sooner]
    assert tables.one("SELECT set_spec FROM oai_job") == "other"


def test_an_invalid_change_is_refused_and_changes_nothing(database: Database, tables: Tables) -> None:
    number = add(database, repository_id=tables.repository(), frequency="daily")
    with pytest.raises(UsageError):
        change(database, number, frequency="never")
    assert tables.one("SELECT frequency FROM oai_recurring_job") == "daily"


def test_a_paused_schedule_loses_its_planned_job_and_gets_one_when_resumed(
    database: Database, tables: Tables
) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    number = add(database, repository_id=tables.repository(), frequency="daily", start_date=start)
    make_jobs(database)
    with database.session() as session:
        schedules.pause_schedule(session, number)
        session.commit()
    make_jobs(database)
    assert due_times(tables) == []
    with database.session() as session:
        schedules.resume_schedule(session, number)
        session.commit()
    make_jobs(database)
    assert due_times(tables) == [start]


def test_removing_a_schedule_removes_its_waiting_jobs_and_keeps_running_ones(
    database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    number = add(database, repository_id=repository, frequency="daily")
    for status in (0, 1, 2):
        tables.add("oai_job", repository_id=repository, recurring_id=number, status=status)
    with database.session() as session:
        schedules.remove_schedule(session, number)
        session.commit()
    assert [tuple(row) for row in tables("SELECT status, recurring_id FROM oai_job")] == [(1, None)]


def test_run_now_adds_a_due_job_with_the_schedules_parameters(database: Database, tables: Tables) -> None:
    number = add(database, repository_id=tables.repository(), frequency="0 0 1 1 *", metadata_prefix="mods")
    with database.session() as session:
        job = schedules.run_now(session, number)
        session.commit()
        assert (job.recurring_id, job.metadata_prefix, job.status) == (number, "mods", 0)
    assert due_times(tables)[0] <= datetime.now(UTC)


@pytest.mark.parametrize("action", [schedules.run_now, schedules.remove_schedule, schedules.pause_schedule])
def test_an_unknown_schedule_is_refused(database: Database, action: Any) -> None:
    with database.session() as session, pytest.raises(UsageError, match="schedule 77"):
        action(session, 77)


def test_the_list_shows_state_and_next_due_time(database: Database, tables: Tables) -> None:
    start = datetime.now(UTC) + timedelta(days=1)
    first = tables.repository("https://a.example/")
    add(database, repository_id=first, frequency="daily", start_date=start)
    make_jobs(database)
    add(database, repository_id=tables.repository("https://b.example/"))
    with database.session() as session:
        views = find_schedules(session)
        only = find_schedules(session, repository_id=first)
    assert [(view.repository_name, view.state, view.next_due) for view in views] == [
        ("https://a.example/", "recurring", start),
        ("https://b.example/", "new", None),
    ]
    assert [view.schedule.repository_id for view in only] == [first]


def test_every_state_has_its_word(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    for state in RecurringState:
        tables.add("oai_recurring_job", repository_id=repository, state=state.value)
    with database.session() as session:
        words = [view.state for view in find_schedules(session)]
    assert words == ["new", "recurring", "one-off", "paused", "set aside", "suspended"]


@pytest.mark.parametrize("priority", [-1000, 0, 1000])
def test_a_priority_is_a_number_up_to_a_thousand(database: Database, tables: Tables, priority: int) -> None:
    add(database, repository_id=tables.repository(), priority=priority)
    assert tables.one("SELECT priority FROM oai_recurring_job") == priority


@pytest.mark.parametrize("priority", [-1001, 1001])
def test_a_priority_beyond_a_thousand_is_rejected(database: Database, tables: Tables, priority: int) -> None:
    with pytest.raises(UsageError, match="from -1000 to 1000"):
        add(database, repository_id=tables.repository(), priority=priority)
