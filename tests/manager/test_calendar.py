"""The schedules that are due in a period, in groups."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manager.schedules.calendar import DueGroups, due_groups
from oai.database import Database
from tests.manager.conftest import Tables

NOW = datetime(2026, 5, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def due(database: Database, **options: Any) -> DueGroups:
    with database.session() as session:
        return due_groups(session, NOW, NOW + 7 * DAY, **{"limit": 9, "named": 9, **options})


def schedule(tables: Tables, **columns: Any) -> None:
    number = tables.one("SELECT count(*) FROM oai_repository")
    repository = tables.repository(f"https://{number}.example/")
    tables.add("oai_recurring_job", **{"repository_id": repository, "state": 1, **columns})


def test_without_schedules_no_groups_are_due_or_left_out(database: Database) -> None:
    assert due(database) == DueGroups(groups=[], left_out=0)


@pytest.mark.parametrize(
    ("frequency", "start", "expected"),
    [
        ("06:00", NOW - DAY, [None]),
        ("06:00", NOW, [None]),
        ("06:00", NOW + DAY, [NOW + DAY]),
        ("0 6 * * *", NOW - DAY, [None]),
        ("every 6 hours", NOW - DAY, [NOW - DAY]),
        ("every 6 hours", NOW + 7 * DAY, []),
        ("every 6 hours", NOW + 8 * DAY, []),
    ],
)
def test_the_start_is_shown_for_intervals_and_for_schedules_that_begin_later(
    database: Database, tables: Tables, frequency: str, start: datetime, expected: list[datetime | None]
) -> None:
    schedule(tables, frequency=frequency, start_date=start)
    assert [group.start for group in due(database).groups] == expected


@pytest.mark.parametrize(
    ("end", "expected"), [(NOW + DAY, NOW + DAY), (NOW + 7 * DAY, None), (NOW + 8 * DAY, None)]
)
def test_an_end_within_the_period_is_shown(
    database: Database, tables: Tables, end: datetime, expected: datetime | None
) -> None:
    schedule(tables, frequency="06:00", start_date=NOW - DAY, end_date=end)
    assert [group.end for group in due(database).groups] == [expected]


def test_schedules_beyond_the_limit_are_counted(database: Database, tables: Tables) -> None:
    for frequency in ("06:00", "06:00", "07:00", "08:00"):
        schedule(tables, frequency=frequency, start_date=NOW - DAY)
    found = due(database, limit=1, named=1)
    assert [(group.schedules, group.first) for group in found.groups] == [(2, (1,))]
    assert found.left_out == 2


@pytest.mark.parametrize(
    ("moment", "expected"), [(NOW - DAY, []), (NOW, [NOW]), (NOW + DAY, [NOW + DAY]), (NOW + 7 * DAY, [])]
)
def test_a_schedule_that_runs_once_is_due_with_its_job(
    database: Database, tables: Tables, moment: datetime, expected: list[datetime]
) -> None:
    schedule(tables, frequency="", start_date=NOW - DAY)
    tables.add("oai_job", repository_id=1, recurring_id=1, harvest_start_time=moment)
    assert [group.start for group in due(database).groups] == expected
