"""Estimated starts, durations and positions of jobs."""

import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manager.jobs import views as jobs
from manager.jobs.estimates import Capacity, TimedJob, starts
from manager.jobs.reasons import Code, WaitReason
from manager.jobs.views import JobView
from oai.database import Database
from oai.datestamps import format_datestamp
from oai.settings import Settings
from tests.manager.conftest import Tables, managing, until


def views(database: Database) -> dict[int, JobView]:
    with database.session() as session:
        return {view.job_id: view for view in jobs.list_jobs(session)}


def worker(tables: Tables, concurrency: int) -> None:
    tables(
        "INSERT INTO oai_worker (host, process_id, concurrency, good_until)"
        " VALUES ('here', 1, :places, now() + interval '1 hour')",
        places=concurrency,
    )


def schedule(tables: Tables, seconds: float | None) -> dict[str, Any]:
    """Return the columns of a job whose schedule, of a new repository, usually takes that many seconds."""
    number = tables.one("SELECT count(*) FROM oai_repository")
    repository = tables.repository(f"https://{number}.example/")
    tables.add("oai_recurring_job", repository_id=repository, usual_seconds=seconds, state=3)
    return {"repository_id": repository, "recurring_id": tables.one("SELECT max(id) FROM oai_recurring_job")}


def from_now(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - datetime.now(UTC)).total_seconds()


def test_jobs_are_estimated_to_begin_in_order_as_workers_become_free(
    database: Database, tables: Tables
) -> None:
    worker(tables, 1)
    long, short = schedule(tables, 100), schedule(tables, 10)
    started = datetime.now(UTC) - timedelta(seconds=40)
    tables.add("oai_job", **long, status=1, process_id=5, started=started)
    tables.add("oai_job", **short)
    tables.add("oai_job", **schedule(tables, 50), priority=5)
    found = views(database)
    assert found[1].estimate.seconds == pytest.approx(60, abs=3)
    assert (found[3].estimate.position, found[2].estimate.position) == (1, 2)
    assert from_now(found[3].estimate.start) == pytest.approx(60, abs=3)
    assert from_now(found[2].estimate.start) == pytest.approx(110, abs=3)


def test_a_job_is_estimated_to_begin_after_the_previous_job_of_its_repository(
    database: Database, tables: Tables
) -> None:
    worker(tables, 5)
    columns = schedule(tables, 100)
    tables.add("oai_job", **columns)
    tables.add("oai_job", **columns)
    found = views(database)
    assert from_now(found[1].estimate.start) == pytest.approx(0, abs=3)
    assert from_now(found[2].estimate.start) == pytest.approx(100, abs=3)


def test_a_job_that_is_due_later_is_estimated_to_begin_then(database: Database, tables: Tables) -> None:
    worker(tables, 1)
    due = datetime.now(UTC) + timedelta(hours=1)
    tables.add("oai_job", **schedule(tables, 10), harvest_start_time=due)
    assert views(database)[1].estimate.start == due


def test_without_workers_a_job_has_no_estimated_start(database: Database, tables: Tables) -> None:
    tables.add("oai_job", **schedule(tables, 10))
    estimate = views(database)[1].estimate
    assert (estimate.position, estimate.start, estimate.seconds) == (1, None, 10)


def test_a_job_behind_a_harvest_of_unknown_length_has_no_estimated_start(
    database: Database, tables: Tables
) -> None:
    worker(tables, 1)
    tables.add("oai_job", repository_id=tables.repository("https://x.example/"), status=1, process_id=5)
    tables.add("oai_job", repository_id=tables.repository("https://y.example/"))
    assert views(database)[2].estimate.start is None


def test_a_running_harvest_is_estimated_by_its_own_rate_if_its_list_size_is_known(
    database: Database, tables: Tables
) -> None:
    columns = schedule(tables, 9999)
    tables.add("oai_job", **columns, status=1, process_id=5, started=datetime.now(UTC))
    tables.add(
        "oai_harvest", repository_id=columns["repository_id"], metadata_prefix="oai_dc", job_id=1,
        counts='{"records": 1000}', complete_list_size=3000, records_per_second=20,
    )  # fmt: skip
    assert views(database)[1].estimate.seconds == pytest.approx(100)


def test_a_job_is_not_estimated_to_begin_before_the_not_before_time(
    database: Database, tables: Tables
) -> None:
    worker(tables, 1)
    waiting = '{"code": "not before", "until": "2050-01-01T00:00:00Z"}'
    tables.add("oai_job", **schedule(tables, 10), waiting=waiting)
    assert views(database)[1].estimate.start == datetime(2050, 1, 1, tzinfo=UTC)


def test_a_job_due_in_a_maintenance_window_is_estimated_to_begin_at_its_end(
    database: Database, tables: Tables
) -> None:
    worker(tables, 5)
    maintained, other = schedule(tables, 10), schedule(tables, 10)
    now = datetime.now(UTC).replace(microsecond=0)
    within, end, after = (now + timedelta(hours=hours) for hours in (1, 4, 5))
    window = {"kind": "maintenance", "repository_id": maintained["repository_id"]}
    tables.add("mute", **window, starts=now + timedelta(hours=2), ends=end)
    tables.add("mute", **window, starts=now + timedelta(minutes=30), ends=now + timedelta(hours=2))
    tables.add("oai_job", **maintained, harvest_start_time=within, attempt=1)
    tables.add("oai_job", **maintained, harvest_start_time=after)
    tables.add("oai_job", **other, harvest_start_time=within)
    found = views(database)
    until_end = WaitReason(code=Code.MAINTENANCE, facts={"until": format_datestamp(end)})
    assert (found[1].reason, found[1].estimate.start) == (until_end, end)
    for number, begin in ((2, after), (3, within)):
        due = WaitReason(code=Code.DUE, facts={"at": format_datestamp(begin)})
        assert (found[number].reason, found[number].estimate.start) == (due, begin)


def test_a_paused_job_has_no_position(database: Database, tables: Tables) -> None:
    worker(tables, 1)
    tables.add("oai_job", **schedule(tables, 10), status=4)
    tables.add("oai_job", **schedule(tables, 10))
    found = views(database)
    assert found[1].estimate.position is None
    assert found[2].estimate.position == 1


def at_one_host(tables: Tables, *paths: str, seconds: float) -> list[dict[str, Any]]:
    """Return the columns of jobs of repositories on one host; their schedules usually take this long."""
    columns = []
    for path in paths:
        repository = tables.repository(f"https://busy.example/{path}")
        tables.add("oai_recurring_job", repository_id=repository, usual_seconds=seconds, state=3)
        number = tables.one("SELECT max(id) FROM oai_recurring_job")
        columns.append({"repository_id": repository, "recurring_id": number})
    return columns


def limits(tables: Tables, *, per_host: int = 100, overall: int | None = None) -> None:
    """Store limits as the leading manager does."""
    tables.add("oai_leader", number=1, host="h", process_id=1, per_host=per_host, overall=overall)


def test_a_job_that_waits_for_its_host_does_not_delay_jobs_of_other_hosts(
    database: Database, tables: Tables
) -> None:
    worker(tables, 2)
    limits(tables, per_host=1)
    for columns in at_one_host(tables, "a", "b", "c", seconds=100):
        tables.add("oai_job", **columns)
    tables.add("oai_job", **schedule(tables, 30))
    found = views(database)
    expected = {1: (1, 0), 2: (3, 100), 3: (4, 200), 4: (2, 0)}
    for number, (position, start) in expected.items():
        assert found[number].estimate.position == position
        assert from_now(found[number].estimate.start) == pytest.approx(start, abs=3)


def test_the_overall_limit_delays_a_job_although_workers_are_free(database: Database, tables: Tables) -> None:
    worker(tables, 9)
    limits(tables, overall=1)
    tables.add("oai_job", **schedule(tables, 60), status=1, process_id=5, started=datetime.now(UTC))
    tables.add("oai_job", **schedule(tables, 60))
    assert from_now(views(database)[2].estimate.start) == pytest.approx(60, abs=3)


def test_a_hosts_turn_goes_to_another_repository_if_the_next_one_is_busy(
    database: Database, tables: Tables
) -> None:
    worker(tables, 9)
    limits(tables, per_host=2)
    long, other = at_one_host(tables, "a", "b", seconds=100)
    for columns in (long, long, other, other):
        tables.add("oai_job", **columns)
    found = views(database)
    begins = [from_now(found[number].estimate.start) for number in (1, 2, 3, 4)]
    assert begins == pytest.approx([0, 100, 0, 100], abs=3)


def test_a_job_behind_a_harvest_of_unknown_length_at_its_host_has_no_estimated_start(
    database: Database, tables: Tables
) -> None:
    worker(tables, 9)
    limits(tables, per_host=1)
    tables.add("oai_job", repository_id=tables.repository("https://x.example/a"), status=1, process_id=5)
    tables.add("oai_job", repository_id=tables.repository("https://x.example/b"))
    tables.add("oai_job", **schedule(tables, 10))
    found = views(database)
    assert (found[2].estimate.position, found[2].estimate.start) == (2, None)
    assert found[3].estimate.position == 1


def test_a_job_without_an_estimate_is_not_behind_jobs_that_are_due_later(
    database: Database, tables: Tables
) -> None:
    worker(tables, 2)
    busy, other = schedule(tables, None), schedule(tables, 10)
    later = datetime.now(UTC) + timedelta(minutes=9000)
    tables.add("oai_job", **busy, status=1, process_id=5)
    tables.add("oai_job", **busy)
    tables.add("oai_job", **other, harvest_start_time=later)
    found = views(database)
    assert (found[2].estimate.position, found[2].estimate.start) == (1, None)
    assert (found[3].estimate.position, found[3].estimate.start) == (None, later)


def test_only_jobs_that_could_begin_now_have_a_position(database: Database, tables: Tables) -> None:
    worker(tables, 1)
    maintained, locked = schedule(tables, 10), schedule(tables, 10)
    later = datetime.now(UTC) + timedelta(hours=1)
    tables.add("mute", kind="maintenance", repository_id=maintained["repository_id"], ends=later)
    tables.add("oai_job", **maintained)
    tables.add("oai_job", **locked, waiting='{"code": "locked", "until": "2050-01-01T00:00:00Z"}')
    tables.add("oai_job", **schedule(tables, 10), harvest_start_time=later)
    tables.add("oai_job", **schedule(tables, None), waiting='{"code": "worker"}')
    tables.add("oai_job", **schedule(tables, 10), status=2)
    positions = {number: view.estimate.position for number, view in views(database).items()}
    assert positions == {1: None, 2: None, 3: None, 4: 2, 5: 1}


def test_ten_thousand_jobs_of_one_host_are_estimated_within_two_seconds() -> None:
    now = datetime.now(UTC)
    stays = [
        TimedJob(job_id=number, repository_id=number % 700, host="h", earliest=now, seconds=1)
        for number in range(10_000)
    ]
    begun = time.process_time()
    found = starts(stays, [], Capacity(places=50, per_host=2), now)
    assert time.process_time() - begun < 2
    assert max(found.values()) == now + timedelta(seconds=4999)


async def test_the_leader_stores_its_limits(quick: Settings, database: Database, tables: Tables) -> None:
    own = quick.manager.model_copy(update={"per_host": 3, "overall": 7})
    async with managing(quick.model_copy(update={"manager": own}), database):
        await until(lambda: tables("SELECT FROM oai_leader WHERE per_host = 3 AND overall = 7"))


def test_due_jobs_have_positions_by_priority_and_not_by_age(database: Database, tables: Tables) -> None:
    worker(tables, 1)
    tables.add("oai_job", **schedule(tables, 10), priority=5)
    tables.add("oai_job", **schedule(tables, 10), priority=7)
    found = views(database)
    assert (found[2].estimate.position, found[1].estimate.position) == (1, 2)


def test_the_duration_of_a_job_is_not_estimated_from_other_schedules(
    database: Database, tables: Tables
) -> None:
    tables.add("oai_job", **schedule(tables, 100))
    tables.add("oai_job", repository_id=tables.repository("https://once.example/"))
    tables.add("oai_job", **schedule(tables, None))
    assert [view.estimate.seconds for view in views(database).values()] == [100, None, None]


def test_a_harvest_of_less_than_a_record_a_second_has_an_estimated_end(
    database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=5, started=datetime.now(UTC))
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1,
        counts='{"records": 10}', complete_list_size=30, records_per_second=0.5,
    )  # fmt: skip
    assert views(database)[1].estimate.seconds == pytest.approx(40)
