"""Partners who request more than their share of the workers."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import RunStatus
from manager.leader.planner import make_job, without_job
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.schedules.service import database_now, run_now
from oai.database import Database
from oai.datestamps import utc_now
from oai.sections import ManagerSettings
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.web.api.conftest import Using, using
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.auth.organisations import find_organisation, give_repository

__all__ = ["using"]

FORM = {"metadata_prefix": "oai_dc", "time_zone": "UTC"}
TOO_OFTEN = (
    "every minute",
    "every 899 seconds",
    "* * * * *",
    "0,1 3 1 1 *",
    "0,5 3 29 2 *",
    "55,0 0,23 1,31 * *",
)
OFTEN_ENOUGH = ("", "every 15 minutes", "*/15 * * * *", "monthly on 31 at 03:00", "0 0 29 2 *", "daily")
LATER = datetime(2126, 1, 1, tzinfo=UTC)
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)


def _given(server: Server, **columns: Any) -> int:
    """Return the id of a schedule of Olga's organisation that an administrator created."""
    with server.database.session() as session:
        repository = a_repository(session)
        organisation = find_organisation(session, "mzk")
        assert organisation is not None
        give_repository(session, repository.repository_id, organisation.organisation_id)
        schedule = a_schedule(session, repository, **columns)
        session.commit()
        return schedule.id


def _plans(database: Database) -> list[tuple[str | None, int]]:
    with database.session() as session:
        rows = session.execute(
            select(RecurringJob.frequency, RecurringJob.priority).order_by(RecurringJob.id)
        )
        return [(row.frequency, row.priority) for row in rows]


async def test_schedules_of_a_partner_below_the_minimum_interval_are_refused(
    server: Server, owner: Browser
) -> None:
    number = _given(server)
    asked = [(f"/schedules/{number}/edit", frequency) for frequency in TOO_OFTEN]

    for path, frequency in (("/schedules/new?repository=1", TOO_OFTEN[0]), *asked):
        status, page, _ = await owner.post(path, {**FORM, "frequency": frequency})
        refused = (status, "at least 15 are allowed" in page, 'id="frequency-fault"' in page)
        assert refused == (422, True, True), (path, frequency)
    assert _plans(server.database) == [("daily at 02:30", 0)]


async def test_schedules_of_a_partner_at_the_minimum_interval_are_accepted(
    server: Server, owner: Browser
) -> None:
    number = _given(server)

    for frequency in OFTEN_ENOUGH:
        status, page, _ = await owner.post(f"/schedules/{number}/edit", {**FORM, "frequency": frequency})
        assert status == 303, (frequency, page)
        assert _plans(server.database) == [(frequency, 0)]


async def test_a_partner_cannot_set_a_priority_above_others(server: Server, owner: Browser) -> None:
    number = _given(server)
    form = {**FORM, "frequency": "daily", "priority": "1"}

    for path in ("/schedules/new?repository=1", f"/schedules/{number}/edit"):
        status, page, _ = await owner.post(path, form)
        assert (status, "only an administrator" in page, 'id="priority-fault"' in page) == (422, True, True)
    status, page, _ = await owner.post(f"/schedules/{number}/edit", {**form, "priority": "-5"})
    assert status == 303, page
    assert _plans(server.database) == [("daily", -5)]


@pytest.mark.parametrize(
    ("pointer", "plan"),
    [("/frequency", {"frequency": "every minute"}), ("/priority", {"frequency": "daily", "priority": 1000})],
)
async def test_the_limits_of_partners_apply_to_the_api(
    server: Server, using: Using, pointer: str, plan: dict[str, object]
) -> None:
    number = _given(server)
    body = {"repository_id": 1, "metadata_prefix": "oai_dc", **plan}

    async with using("Olga") as program:
        for method, path in (("POST", "/schedules"), ("PUT", f"/schedules/{number}")):
            answer = await program.ask(method, path, body)
            assert (answer.status, [one["pointer"] for one in answer.body["errors"]]) == (422, [pointer])
    assert _plans(server.database) == [("daily at 02:30", 0)]


async def test_the_limits_of_partners_apply_to_the_wizard(server: Server, owner: Browser) -> None:
    async with serve(FakeRepository(items=many(3))) as served:
        form = {**FORM, "base_url": served.url, "base_dir": "telc", "do": "save", "frequency": "every minute"}
        status, page, _ = await owner.post("/repositories/new", form)

    assert (status, "at least 15 are allowed" in page) == (422, True)
    with server.database.session() as session:
        assert session.scalars(select(Repository)).all() == []


async def test_the_limits_of_partners_do_not_apply_to_administrators(
    server: Server, administrator: Browser
) -> None:
    number = _given(server)
    form = {**FORM, "frequency": "every minute", "priority": "7"}

    status, page, _ = await administrator.post(f"/schedules/{number}/edit", form)

    assert status == 303, page
    assert _plans(server.database) == [("every minute", 7)]


async def test_forecasts_omit_due_times_below_the_minimum_interval(
    server: Server, administrator: Browser, using: Using
) -> None:
    hour = (utc_now() + timedelta(hours=12)).hour  # of the current hour, a part has passed
    number = _given(server, frequency=f"0,5 {hour} * * *")
    plan = {"metadata_prefix": "oai_dc", "time_zone": "UTC", "frequency": "every 10 minutes"}

    pages = [
        (await administrator.post(path, {**plan, "start_date": "2126-01-01T01:00", "do": "show-plan"}))[1]
        for path in ("/schedules/new?repository=1", f"/schedules/{number}/edit")
    ]
    _, week = await administrator.get("/schedules?view=week")
    async with using("Olga") as program:
        body = {**plan, "repository_id": 1, "frequency": f"0,10,20,30 {hour} * * *"}
        forecast = await program.ask("POST", "/schedules/forecast", body)

    for page in pages:
        due = [f"T{clock}:00Z" in page for clock in ("01:00", "01:10", "01:20", "01:40")]
        assert due == [True, False, True, True]
    assert (f"T{hour:02}:00:00Z" in week, f"T{hour:02}:05:00Z" in week) == (True, False)
    assert {run[11:16] for run in forecast.body["runs"]} == {f"{hour:02}:00", f"{hour:02}:20"}


async def test_the_forecast_of_a_changed_schedule_respects_the_minimum_interval(
    server: Server, administrator: Browser
) -> None:
    number, now = _given(server), utc_now()
    with server.database.session() as session:
        session.get_one(RecurringJob, number).last_due = LATER
        session.commit()

    form = {**FORM, "frequency": "every minute", "start_date": "2026-01-01T00:00", "do": "show-plan"}
    _, page, _ = await administrator.post(f"/schedules/{number}/edit", form)

    first = re.findall(r'<li><time datetime="([^"]+)"', page)[0]
    assert datetime.fromisoformat(first) >= now + timedelta(minutes=15)


async def test_the_page_of_a_schedule_shows_its_minimum_interval(
    server: Server, owner: Browser, administrator: Browser
) -> None:
    number = _given(server)
    with server.database.session() as session:
        free = a_schedule(session, a_repository(session, folder="free")).id
        session.commit()

    for browser in (owner, administrator):
        assert "at least 15 minutes apart" in (await browser.get(f"/schedules/{number}/edit"))[1]
    assert "minutes apart" not in (await administrator.get(f"/schedules/{free}/edit"))[1]


def _by_sql(session: Session, last_due: datetime, held_by: str | None) -> RecurringJob:
    schedule = RecurringJob(
        repository_id=a_repository(session).repository_id,
        metadata_prefix="oai_dc",
        frequency="every minute",
        start_date=LONG_AGO,
        last_due=last_due,
        state=RecurringState.RECURRING,
        priority=1000,
        owner=held_by,
    )
    session.add(schedule)
    session.flush()
    return schedule


@pytest.mark.parametrize(("held_by", "minutes", "priority"), [("mzk", 15, 0), (None, 1, 1000)])
def test_a_schedule_inserted_by_sql_runs_at_the_minimum_interval_of_its_owner(
    database: Database, held_by: str | None, minutes: int, priority: int
) -> None:
    last_due = LATER
    with database.session() as session:
        schedule = _by_sql(session, last_due, held_by)
        make_job(session, schedule.id, ManagerSettings())
        job = session.scalars(select(Job)).one()

        assert (job.harvest_start_time - last_due, job.priority) == (timedelta(minutes=minutes), priority)
        assert run_now(session, schedule.id).priority == priority
        assert (schedule.frequency, schedule.priority) == ("every minute", 1000)


def test_due_times_below_the_minimum_interval_are_not_counted_as_missed(database: Database) -> None:
    with database.session() as session:
        last_due = database_now(session).replace(second=0, microsecond=0) - timedelta(minutes=65)
        schedule = _by_sql(session, last_due, "mzk")
        make_job(session, schedule.id, ManagerSettings())

        missed = session.scalars(select(History)).one()
        assert (missed.status, missed.evidence["due_times"]) == (RunStatus.MISSED, 4)


def _settled(server: Server, *, ended: bool) -> None:
    """Plan as the manager does; then let the jobs run, or succeed a minute after they began."""
    with server.database.session() as session:
        for number in without_job(session):
            make_job(session, number, ManagerSettings())
        for job in session.scalars(select(Job).where(Job.harvest_start_time <= database_now(session))):
            job.status = JobStatus.IN_PROGRESS
            if ended:
                a_run(session, session.get_one(Repository, job.repository_id), harvest_start_time=utc_now())
                session.delete(job)
        session.commit()


async def test_only_one_of_a_partners_simultaneous_run_requests_is_accepted(
    server: Server, using: Using, administrator: Browser
) -> None:
    number = _given(server)

    async with using("Olga") as program:
        answers = await asyncio.gather(*(program.post(f"/schedules/{number}/run") for _ in range(8)))
        assert sorted(answer.status for answer in answers) == [201, *7 * [409]]
        _settled(server, ended=False)
        refused = await program.post(f"/schedules/{number}/run")
    assert (refused.status, "due or in progress" in refused.body["detail"]) == (409, True)
    assert (await administrator.post(f"/schedules/{number}/run"))[0] == 303


@pytest.mark.parametrize("ended", [False, True])
async def test_a_partner_does_not_repeat_a_one_off_by_changing_its_start(
    server: Server, using: Using, *, ended: bool
) -> None:
    number = _given(server, frequency=None, start_date=LATER)
    body = {"repository_id": 1, "metadata_prefix": "oai_dc"}
    path = f"/schedules/{number}"

    async with using("Olga") as program:
        for _ in range(2):
            now = {**body, "start_date": datetime.now(UTC).isoformat()}
            assert (await program.ask("PUT", path, now)).status == 200, "it has not begun"
        _settled(server, ended=ended)
        again = await program.ask("PUT", path, {**body, "start_date": datetime.now(UTC).isoformat()})
        edited = await program.ask("PUT", path, {**now, "priority": -1})
    assert (again.status, [one["pointer"] for one in again.body["errors"]]) == (422, ["/frequency"])
    assert (edited.status, edited.body["priority"]) == (200, -1), edited.body
    with server.database.session() as session:
        assert len(session.scalars(select(Job)).all()) == (0 if ended else 1)


@pytest.mark.parametrize("path", ["/schedules/1/sample", "/repositories/1/sample"])
async def test_samples_of_a_partner_respect_the_minimum_interval(
    server: Server, using: Using, path: str
) -> None:
    _given(server)
    body = {"records": 100_000, **({} if "schedules" in path else {"metadata_prefix": "oai_dc"})}

    async with using("Olga") as program:
        statuses = [(await program.post(path, body)).status for _ in range(2)]
        _settled(server, ended=True)
        statuses.append((await program.post(path, body)).status)
    assert statuses == [201, 409, 409]


async def test_the_pages_refuse_a_second_sample_and_a_second_harvest_of_a_partner(
    server: Server, owner: Browser
) -> None:
    number = _given(server)
    form = {"metadata_prefix": "oai_dc"}

    assert (await owner.post("/repositories/1/harvest", form))[0] == 303
    for path, sent in (
        ("/repositories/1/harvest", form),
        ("/repositories/1/harvest", {**form, "records": "10"}),
        (f"/schedules/{number}/sample", {"records": "10"}),
    ):
        status, page, _ = await owner.post(path, sent)
        assert (status, "due or in progress" in page) == (409, True), path


async def test_a_partner_runs_all_schedules_of_a_repository_together(server: Server, owner: Browser) -> None:
    _given(server)
    with server.database.session() as session:
        a_schedule(session, session.get_one(Repository, 1), set_spec="maps")
        session.commit()

    assert (await owner.post("/repositories/selected/run", {"repository": "1"}))[0] == 303
    again = await owner.post("/repositories/selected/run", {"repository": "1"})
    assert (again[0], "due or in progress" in again[1]) == (200, True)
    with server.database.session() as session:
        assert len(session.scalars(select(Job)).all()) == 2


def test_a_partner_plans_single_runs_of_several_sets_together(database: Database) -> None:
    with database.session() as session:
        repository = a_repository(session)
        for spec in ("books", "maps"):
            a_schedule(session, repository, frequency=None, set_spec=spec, partner_minutes=15)
        assert len(session.scalars(select(RecurringJob)).all()) == 2
