"""Before a plan is saved: what a run takes, what it clashes with, and when the server is quickest."""

import json
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select, text

from harvester.models import History, Repository
from manager.leader.planner import make_job
from manager.models import Job, RecurringJob
from manager.schedules.service import add_schedule, database_now
from manager.schedules.what_if import RunSize, WhatIf, clashes_of_new, forecast, what_if
from oai.database import Database
from oai.sections import ManagerSettings
from tests.commands import zatva
from web.schedules.forms import PlanForm

NOW = datetime(2030, 1, 1, 1, 0, tzinfo=UTC)


@pytest.fixture
def repository(database: Database) -> int:
    with database.session() as session:
        row = Repository(base_url="https://one.example/oai", base_dir="one")
        session.add(row)
        session.commit()
        return row.repository_id


def ask(database: Database, repository: int, *dues: datetime, **more: object) -> WhatIf:
    with database.session() as session:
        return what_if(session, repository, "oai_dc", None, dues, UTC, **more)  # type: ignore[arg-type]


def a_run(database: Database, repository: int, seconds: float, records: int, **columns: object) -> None:
    began = datetime.now(UTC).replace(hour=3, minute=0, second=0, microsecond=0) - timedelta(days=2)
    values = {
        "repository_id": repository,
        "status": "completed",
        "verdict": "complete",
        "metadata_prefix": "oai_dc",
        "harvest_start_time": began,
        "harvest_end_time": began + timedelta(seconds=seconds),
        "record_count": records,
        "requests": records // 10,
        **columns,
    }
    with database.session() as session:
        session.add(History(**values))
        session.commit()


def test_without_a_history_there_are_no_estimates(database: Database, repository: int) -> None:
    found = ask(database, repository, NOW)
    assert (found.runs, found.usual, found.largest, found.quickest) == (0, None, None, None)
    assert list(found.clashes) == []


def test_a_repository_that_is_not_added_yet_clashes_with_others_of_its_server(
    database: Database, repository: int
) -> None:
    with database.session() as session:
        schedule = add_schedule(
            session, repository_id=repository, metadata_prefix="oai_dc", frequency="daily at 01:00"
        )
        session.commit()
        dues = [datetime.now(UTC).replace(hour=1, minute=10) + timedelta(days=4)]
        (clash,) = clashes_of_new(session, "https://one.example/other/oai", dues)
        assert (clash.recurring_id, clash.same_repository) == (schedule.id, False)
        assert clashes_of_new(session, "https://two.example/oai", dues) == []
        assert clashes_of_new(session, "https://one.example/other/oai", []) == []


def test_the_usual_and_the_largest_run_are_those_of_complete_runs(
    database: Database, repository: int
) -> None:
    a_run(database, repository, 900, 10_000)
    for seconds in (60, 80, 70):
        a_run(database, repository, seconds, 100)
    a_run(database, repository, 5, 1, verdict="failed", status="failed")
    a_run(database, repository, 5, 1, metadata_prefix="marc21")
    a_run(database, repository, 5, 1, set_spec="books")
    found = ask(database, repository)
    assert (found.runs, found.usual) == (4, RunSize(seconds=75, records=100, requests=10))
    assert found.largest == RunSize(seconds=900, records=10_000, requests=1000)


def test_schedules_of_the_same_server_clash_if_their_runs_overlap(
    database: Database, repository: int
) -> None:
    with database.session() as session:
        beside = Repository(base_url="https://ONE.example:8443/other", base_dir="beside")
        elsewhere = Repository(base_url="https://notone.example/oai", base_dir="elsewhere")
        session.add_all([beside, elsewhere])
        session.flush()

        def planned(one: int, frequency: str) -> int:
            row = add_schedule(session, repository_id=one, frequency=frequency, metadata_prefix="marc21")
            row.start_date = NOW - timedelta(days=30)
            return row.id

        same = planned(repository, "daily at 01:10")
        near = planned(beside.repository_id, "daily at 00:45")
        planned(beside.repository_id, "daily at 02:00")
        planned(elsewhere.repository_id, "daily at 01:00")
        ours = planned(repository, "daily at 01:00")
        session.commit()

    found = ask(database, repository, NOW, NOW + timedelta(days=1), schedule=ours)
    assert [(one.recurring_id, one.same_repository) for one in found.clashes] == [(same, True), (near, False)]
    assert found.clashes[1].at == NOW - timedelta(minutes=15), "it is still running then"


def test_the_quickest_hour_of_a_server_is_found_from_times_of_requests(
    database: Database, repository: int
) -> None:
    """Each run takes two hours; its pace is 1 s for a request in the first hour, 0.5 in the second."""
    pace = [[0, 0, 0], [3599, 10, 3599], [7198, 20, 10_797]]
    a_run(database, repository, 7200, 100, pace=pace)
    assert ask(database, repository).quickest is None, "two hours are too few"
    began = datetime.now(UTC).replace(hour=9, minute=0, second=0, microsecond=0) - timedelta(days=2)
    a_run(database, repository, 60, 100, pace=[[0, 0, 0], [60, 10, 30]], harvest_start_time=began)
    found = ask(database, repository)
    assert {hour: round(seconds, 1) for hour, seconds in found.hours.items()} == {3: 1.0, 4: 0.5, 9: 2.0}
    assert found.quickest == 4


@pytest.mark.parametrize("frequency", ["every 6 hours", "daily at 02:30", "weekly"])
@pytest.mark.parametrize("start", [None, datetime(2026, 1, 1, 0, 0, 30, tzinfo=UTC)])
def test_the_first_run_of_a_forecast_is_the_one_that_the_manager_plans(
    database: Database, repository: int, frequency: str, start: datetime | None
) -> None:
    with database.session() as session:
        schedule = add_schedule(session, repository_id=repository, frequency=frequency, start_date=start)
        now = database_now(session)
        dues, _ = forecast(session, schedule, now=now, partner_minutes=15)
        plan = PlanForm.model_validate({"frequency": frequency, "start_date": start})
        make_job(session, schedule.id, ManagerSettings())
        planned = session.scalars(select(Job.harvest_start_time)).one()
        assert (dues[0], plan.next_runs(now)[0], plan.times_within_week(now)[0]) == (planned,) * 3


def test_a_dry_run_says_that_the_duration_of_the_first_run_is_not_known(
    repository: int, environment: dict[str, str]
) -> None:
    forecast = zatva(environment, "schedule", "add", str(repository), "--frequency", "hourly", "--dry-run")
    assert "\nhow long a run takes is not known before the first complete run" in forecast.stdout


@pytest.mark.parametrize(
    ("options", "runs", "words"),
    [
        (
            ("--start", "2124-04-20T12:00:00Z"),
            ["2124-04-21T02:30:00+00:00"],
            "it would run 2124-04-21 02:30Z\n",
        ),
        (("--start", "2025-01-01", "--end", "2025-02-01"), [], "it would not run\n"),
    ],
)
def test_a_dry_run_names_the_first_due_time_however_late_it_is(
    repository: int, environment: dict[str, str], options: tuple[str, ...], runs: list[str], words: str
) -> None:
    asked = ("schedule", "add", str(repository), "--frequency", "daily at 02:30", *options, "--dry-run")
    assert f"not added; {words}" in zatva(environment, *asked).stdout
    assert json.loads(zatva(environment, *asked, "--json").stdout)["runs"] == runs


@pytest.mark.copied_database("it changes a setting of the database")
def test_a_dry_run_shows_the_forecast_and_writes_nothing(
    database: Database, repository: int, environment: dict[str, str]
) -> None:
    for seconds in (60, 80, 70):
        a_run(database, repository, seconds, 100)
    with database.session() as session:
        add_schedule(session, repository_id=repository, metadata_prefix="marc21", frequency="every hour")
        name = session.scalar(text("SELECT current_database()"))
        session.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
        session.commit()
    asked = ("schedule", "add", str(repository), "--frequency", "every hour", "--dry-run")

    forecast = zatva(environment, *asked)
    facts = json.loads(zatva(environment, *asked, "--json").stdout)

    assert forecast.returncode == 0, forecast.stderr
    assert "a run takes about 70 s, 10 requests, 100 records" in forecast.stdout
    assert "schedule 1: https://one.example/oai (the same repository: one of both waits)" in forecast.stdout
    assert (facts["complete_runs"], len(facts["runs"]), len(facts["clashes"])) == (3, 3, 1)
    with database.session() as session:
        assert session.scalars(select(RecurringJob.metadata_prefix)).all() == ["marc21"]
        assert (
            session.scalars(text("SELECT count(*) FROM web_audit WHERE action LIKE 'schedule%'")).one() == 0
        )
