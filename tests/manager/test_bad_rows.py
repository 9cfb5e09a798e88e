"""Invalid rows inserted by plain SQL: refused by the table, or rejected with the reason."""

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.exc import DataError, IntegrityError

from manager.leader.dispatcher import launch_due
from manager.worker.settlement import settle_orphans
from oai.database import Database
from oai.sections import ManagerSettings
from oai.settings import Settings
from tests.manager.conftest import Tables, managing, rule_files, until
from tests.manager.test_recurring import make_jobs

SETTINGS = ManagerSettings()


def tick(database: Database) -> None:
    """Run the leader's functions once."""
    make_jobs(database)
    for function in (launch_due, settle_orphans):
        with database.session() as session:
            function(session, SETTINGS)
            session.commit()


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("oai_recurring_job", {"start_date": "infinity"}),
    ("oai_recurring_job", {"end_date": "-infinity"}),
    ("oai_recurring_job", {"last_due": "infinity"}),
    ("oai_recurring_job", {"date_added": "12000-01-01"}),
    ("oai_recurring_job", {"state": 6}),
    ("oai_recurring_job", {"state": -1}),
    ("oai_recurring_job", {"method": 2}),
    ("oai_recurring_job", {"validation": 3}),
    ("oai_recurring_job", {"overlap": "both"}),
    ("oai_recurring_job", {"priority": 1001}),
    ("oai_recurring_job", {"repository_id": 999}),
    ("oai_recurring_job", {"repository_id": None}),
    ("oai_recurring_job", {"time_zone": None}),
    ("oai_recurring_job", {"metadata_prefix": None}),
    ("oai_job", {"harvest_start_time": "infinity"}),
    ("oai_job", {"started": "infinity"}),
    ("oai_job", {"status": 9}),
    ("oai_job", {"status": -1}),
    ("oai_job", {"harvest_method": 2}),
    ("oai_job", {"validation": 3}),
    ("oai_job", {"priority": -1001}),
    ("oai_job", {"repository_id": 999}),
    ("oai_job", {"recurring_id": 999}),
]


def test_tables_refuse_invalid_values(tables: Tables) -> None:
    own = {"repository_id": tables.repository()}
    for table, columns in REFUSED:
        with pytest.raises((IntegrityError, DataError)):
            tables.add(table, **{**own, **columns})
        assert tables(f"SELECT FROM {table}") == [], columns


IN_BOTH: list[tuple[dict[str, Any], str]] = [
    ({"harvest_from": "yesterday"}, "harvest_from: 'yesterday'"),
    ({"harvest_to": "2026-02-30"}, "harvest_to: '2026-02-30'"),
    ({"harvest_from": "2026-02-01", "harvest_to": "2026-01-01"}, "before harvest_from"),
    ({"files_per_dir": 0}, "files_per_dir 0"),
    ({"slice": "week"}, "slice 'week'"),
    ({"metadata_prefix": ""}, "metadata_prefix ''"),
    ({"metadata_prefix": "oai dc"}, "metadata_prefix 'oai dc'"),
    ({"filter_file_path": "rules.xml"}, "give the absolute path"),
    ({"filter_file_path": "/no/such/file.xml"}, "/no/such/file.xml"),
    ({"normalize_file_path": "/"}, "normalize_file_path '/'"),
    ({"normalize_file_path": "/dev/null"}, "normalize_file_path '/dev/null'"),
]
IN_SCHEDULES: list[tuple[dict[str, Any], str]] = [
    ({"frequency": "now and then"}, "'now and then'"),
    ({"frequency": "\x01"}, "frequency"),
    ({"frequency": "0 0 31 2 *"}, "bad day-of-month"),
    ({"frequency": "every 3660 days", "start_date": datetime(8999, 1, 1, tzinfo=UTC)}, ""),
    ({"time_zone": "Moon"}, "'Moon'"),
    ({"time_zone": ""}, "time zone ''"),
    ({"time_zone": "../../etc/passwd"}, "'../../etc/passwd'"),
    ({"time_zone": "x" * 5000}, "time zone"),
    ({"end_date": datetime(2000, 1, 1, tzinfo=UTC)}, "before the start"),
]


def test_an_invalid_schedule_is_rejected_with_the_reason(database: Database, tables: Tables) -> None:
    cases = [*IN_BOTH, *(case for case in IN_SCHEDULES if case[1])]
    repository = tables.repository()
    for columns, _ in (*cases, ({}, "")):
        tables.add("oai_recurring_job", repository_id=repository, **columns)
    tick(database)
    *bad, good = tables("SELECT state, state_reason FROM oai_recurring_job ORDER BY id")
    for (columns, message), row in zip(cases, bad, strict=True):
        assert (row.state, message in row.state_reason) == (4, True), (columns, row.state_reason)
    assert good.state == 2
    assert len(tables("SELECT FROM oai_job")) == 1


@pytest.mark.parametrize("frequency", ["every hour", None])
def test_a_schedule_with_a_missing_rule_file_is_rejected_and_continues_once_resumed(
    database: Database, tables: Tables, tmp_path: Path, frequency: str | None
) -> None:
    tables.ask_for_notices()
    rules, _ = rule_files(tmp_path)
    schedule = {
        "repository_id": tables.repository(),
        "frequency": frequency,
        "filter_file_path": str(rules),
    }
    tables.add("oai_recurring_job", **schedule)
    make_jobs(database)
    assert len(tables("SELECT FROM oai_job")) == 1
    rules.unlink()
    tick(database)
    (row,) = tables("SELECT state, state_reason, state_failure ->> 'code' AS code FROM oai_recurring_job")
    assert (row.state, str(rules) in row.state_reason, row.code is not None) == (4, True, True)
    assert tables("SELECT FROM oai_job") == []
    tick(database)
    assert [occasion for occasion, _ in tables.notices()] == ["set aside"]
    rule_files(tmp_path)
    tables("UPDATE oai_recurring_job SET state = 0")
    tick(database)
    assert len(tables("SELECT FROM oai_job")) == 1


def test_a_rejected_schedule_has_no_next_run(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_recurring_job", repository_id=repository)
    make_jobs(database)
    tables("UPDATE oai_job SET files_per_dir = 0")
    later = datetime.now(UTC) + timedelta(hours=1)
    tables.add("oai_job", repository_id=repository, recurring_id=1, harvest_start_time=later)
    tick(database)
    assert tables.one("SELECT state FROM oai_recurring_job") == 4
    assert tables("SELECT FROM oai_job") == []


def test_a_named_pipe_as_a_rule_file_is_rejected_unread(
    database: Database, tables: Tables, tmp_path: Path
) -> None:
    pipe = str(tmp_path / "rules.xml")
    os.mkfifo(pipe)
    repository = tables.repository()
    for table in ("oai_recurring_job", "oai_job"):
        tables.add(table, repository_id=repository, filter_file_path=pipe)
    tick(database)
    tick(database)
    assert "a named pipe; name a file" in tables.one("SELECT state_reason FROM oai_recurring_job")
    assert "a named pipe; name a file" in tables.one("SELECT waiting ->> 'text' FROM oai_job")


def test_an_invalid_job_is_rejected_with_the_reason(database: Database, tables: Tables) -> None:
    for number, (columns, _) in enumerate((*IN_BOTH, ({}, ""))):
        repository = tables.repository(f"https://example{number}.org/oai")
        tables.add("oai_job", repository_id=repository, **columns)
    tick(database)
    tick(database)
    *bad, good = tables("SELECT status, waiting FROM oai_job ORDER BY job_id")
    for (columns, message), row in zip(IN_BOTH, bad, strict=True):
        assert (row.status, message in row.waiting["text"]) == (8, True), (columns, row.waiting)
    assert good.status == 2


def test_schedules_and_jobs_of_a_repository_with_an_invalid_base_url_are_rejected(
    database: Database, tables: Tables
) -> None:
    base_urls = ("", "nonsense", "ftp://example.org/", "http://", "http://[")
    for base_url in base_urls:
        repository = tables.repository(base_url)
        tables.add("oai_recurring_job", repository_id=repository)
        tables.add("oai_job", repository_id=repository)
    for _ in base_urls:  # to the dispatcher they are on one host, of which it takes a few jobs at a time
        tick(database)
    schedules = tables("SELECT state_reason AS message FROM oai_recurring_job ORDER BY id")
    jobs = tables("SELECT waiting ->> 'text' AS message FROM oai_job ORDER BY job_id")
    for base_url, schedule, job in zip(base_urls, schedules, jobs, strict=True):
        assert repr(base_url) in schedule.message
        assert repr(base_url) in job.message


def test_a_schedule_with_due_times_near_the_last_year_is_planned_or_rejected(
    database: Database, tables: Tables
) -> None:
    late = datetime(8999, 12, 31, tzinfo=UTC)
    tables.add(
        "oai_recurring_job", repository_id=tables.repository(), start_date=datetime(2000, 1, 1, tzinfo=UTC),
        last_due=late, state=1, frequency="monthly",
    )  # fmt: skip
    tick(database)
    assert tables.one("SELECT state FROM oai_recurring_job") in {1, 4}


BECOMES: dict[int, tuple[int | None, str | None]] = {
    1: (2, "lost"),
    2: (2, None),
    3: (None, "killed"),
    4: (4, None),
    5: (4, "killed"),
    6: (None, "killed"),
    7: (0, "failed"),
    8: (8, None),
}
"""By the status of a job: its later status (None: deleted), and the status of its row in the history."""


def test_a_job_inserted_in_any_status_gets_its_expected_status_and_history(
    database: Database, tables: Tables
) -> None:
    of_status = {tables.repository(f"https://example{status}.org/oai"): status for status in BECOMES}
    for repository, status in of_status.items():
        tables.add("oai_job", repository_id=repository, status=status)
    for _ in range(2):  # what was queued without a task is queued again
        tick(database)
    rows = tables("SELECT repository_id, status FROM oai_job")
    left = {of_status[row.repository_id]: row.status for row in rows}
    assert left == {status: becomes for status, (becomes, _) in BECOMES.items() if becomes is not None}
    rows = tables("SELECT repository_id, status FROM oai_history")
    history = {of_status[row.repository_id]: row.status for row in rows}
    assert history == {status: message for status, (_, message) in BECOMES.items() if message is not None}


def test_a_schedule_inserted_in_a_later_state_keeps_that_state(database: Database, tables: Tables) -> None:
    states = [1, 2, 3, 4, 5]
    repository = tables.repository()
    for state in states:
        tables.add("oai_recurring_job", repository_id=repository, frequency="hourly", state=state)
    tick(database)
    assert [row.state for row in tables("SELECT state FROM oai_recurring_job ORDER BY id")] == states
    assert [row.recurring_id for row in tables("SELECT recurring_id FROM oai_job")] == [1]


def test_a_corrected_row_is_used_once_its_state_is_reset(
    database: Database, tables: Tables, tmp_path: Path
) -> None:
    repository = tables.repository()
    tables.add("oai_recurring_job", repository_id=repository, filter_file_path=str(tmp_path / "filters.xml"))
    tables.add("oai_job", repository_id=repository, filter_file_path=str(tmp_path / "filters.xml"))
    tick(database)
    rule_files(tmp_path)
    tables("UPDATE oai_recurring_job SET state = 0")
    tables("UPDATE oai_job SET status = 0")
    tick(database)
    assert tables.one("SELECT state FROM oai_recurring_job") == 2
    assert [row.status for row in tables("SELECT status FROM oai_job ORDER BY job_id")] == [2, 0]


WAITING: list[Callable[[Tables], Any]] = [
    lambda tables: tables("UPDATE oai_job SET waiting = '[1]'"),
    lambda tables: tables('UPDATE oai_job SET waiting = \'{"code": "repository"}\''),
    lambda tables: tables("UPDATE oai_job SET waiting = '{\"code\": 7}'"),
]


@pytest.mark.parametrize("write", WAITING)
def test_an_invalid_wait_reason_is_overwritten(
    database: Database, tables: Tables, write: Callable[[Tables], Any]
) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository)
    tables.add("oai_job", repository_id=repository)
    write(tables)
    tick(database)
    assert tables.one("SELECT waiting FROM oai_job WHERE job_id = 2") == {"code": "repository", "job": 1}


def test_notices_report_rejected_schedules_and_jobs(database: Database, tables: Tables) -> None:
    tables.ask_for_notices()
    repository = tables.repository()
    tables.add("oai_recurring_job", repository_id=repository, time_zone="Moon")
    tables.add("oai_job", repository_id=repository, files_per_dir=0)
    tick(database)
    tick(database)
    assert [occasion for occasion, _ in tables.notices()] == ["set aside", "set aside"]
    assert ["'Moon'" in tables.notices()[0][1], "files_per_dir" in tables.notices()[1][1]] == [True, True]


async def test_valid_rows_are_harvested_among_invalid_rows_of_every_kind(
    quick: Settings, database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    for columns, _ in (*IN_BOTH, *IN_SCHEDULES):
        tables.add("oai_recurring_job", repository_id=repository, **columns)
    for columns, _ in IN_BOTH:
        tables.add("oai_job", repository_id=repository, **columns)
    tables.add("oai_recurring_job", repository_id=repository)
    tables.add("oai_job", repository_id=repository)
    async with managing(quick, database):
        await until(lambda: len(tables.history()) == 2)
        silent = "SELECT count(*) FROM oai_recurring_job WHERE state = 0"
        await until(lambda: tables.one(silent) == 0)
