"""The leader's second function: due jobs are queued, and the others have a wait reason."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from manager.leader.dispatcher import launch_due
from manager.worker.claim import ClaimedRun, claim
from oai.database import Database
from oai.sections import ManagerSettings
from tests.manager.conftest import Tables

HOUR = timedelta(hours=1)


def launch(database: Database, **settings: Any) -> list[int]:
    with database.session() as session:
        launched = launch_due(session, ManagerSettings(**settings))
        session.commit()
        return launched


def waiting(tables: Tables, number: int) -> Any:
    return tables.one("SELECT waiting FROM oai_job WHERE job_id = :number", number=number)


def test_a_job_that_is_due_later_is_not_queued(database: Database, tables: Tables) -> None:
    later = datetime.now(UTC) + HOUR
    tables.add("oai_job", repository_id=tables.repository(), harvest_start_time=later)
    assert launch(database) == []
    assert waiting(tables, 1) is None


def test_a_second_job_of_a_repository_waits_with_the_reason_in_its_row(
    database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    for _ in range(2):
        tables.add("oai_job", repository_id=repository)
    assert launch(database) == [1]
    assert waiting(tables, 2) == {"code": "repository", "job": 1}
    tables("DELETE FROM oai_job WHERE job_id = 1")
    assert launch(database) == [2]
    assert waiting(tables, 2) is None


def test_the_limit_per_host_counts_all_its_repositories(database: Database, tables: Tables) -> None:
    for number in range(3):
        tables.add("oai_job", repository_id=tables.repository(f"https://One.example/oai/{number}"))
    assert launch(database, per_host=2) == [1, 2]
    assert waiting(tables, 3) == {"code": "host", "host": "one.example", "limit": 2}


def test_a_job_waits_for_a_retry_after_with_the_reason_in_its_row(database: Database, tables: Tables) -> None:
    until = datetime(2050, 1, 1, tzinfo=UTC)
    repository = tables.repository()
    tables("UPDATE oai_repository SET not_before = :until", until=until)
    tables.add("oai_job", repository_id=repository)
    assert launch(database) == []
    assert waiting(tables, 1) == {"code": "not before", "until": "2050-01-01T00:00:00Z"}
    tables("UPDATE oai_repository SET not_before = now() - interval '1 second'")
    assert launch(database) == [1]


def test_an_infinite_retry_after_does_not_block_other_repositories(
    database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    tables("UPDATE oai_repository SET not_before = 'infinity'")
    tables.add("oai_job", repository_id=tables.repository("https://other.example/"))
    assert launch(database) == [2]


def test_a_job_of_higher_priority_overtakes_queued_jobs(database: Database, tables: Tables) -> None:
    for number in range(3):
        tables.add("oai_job", repository_id=tables.repository(f"https://{number}.example/"))
    launch(database)
    tables.add("oai_job", repository_id=tables.repository("https://urgent.example/"), priority=10)
    launch(database)
    first = "SELECT args ->> 'job_id' FROM procrastinate_jobs ORDER BY priority DESC, id LIMIT 1"
    assert tables.one(first) == "4"


def test_the_queue_is_limited_by_the_concurrency_of_the_workers(database: Database, tables: Tables) -> None:
    for number in range(60):
        tables.add("oai_job", repository_id=tables.repository(f"https://{number}.example/"))
    tables(
        "INSERT INTO oai_worker (host, process_id, concurrency, good_until)"
        " VALUES ('a', 1, 10, now() + interval '1 hour')"
    )
    assert len(launch(database)) == 50
    assert waiting(tables, 60) == {"code": "worker"}


def test_a_job_is_claimed_by_only_one_of_two_workers(database: Database, tables: Tables) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    launch(database)
    with database.session() as session:
        assert claim(session, 1, "here", 5) is not None
        assert claim(session, 1, "there", 6) is None
        session.commit()
    assert tuple(tables("SELECT host, worker_id FROM oai_job")[0]) == ("here", 5)


def claimed(database: Database) -> ClaimedRun:
    launch(database)
    with database.session() as session:
        run = claim(session, 1, "here", 5, overlap=60)
        session.commit()
    assert run is not None
    return run


def from_of(tables: Tables) -> str | None:
    found: str | None = tables.one("SELECT harvest_from FROM oai_job")
    return found


def harvested(
    tables: Tables, watermark: str | None, complete_from: str | None = None, *, restarts: bool = False
) -> None:
    """Add a complete harvest with that watermark."""
    tables.add(
        "oai_harvest", repository_id=tables.repository(), metadata_prefix="oai_dc", watermark=watermark,
        complete_from=complete_from, restarts=restarts,
    )  # fmt: skip
    tables("UPDATE oai_repository SET granularity = 'YYYY-MM-DDThh:mm:ssZ'")


def test_a_claimed_job_shows_the_from_that_the_harvester_computes(database: Database, tables: Tables) -> None:
    harvested(tables, "2026-05-02T00:00:30Z")
    tables.add("oai_job", repository_id=1)
    run = claimed(database)
    assert from_of(tables) == "2026-05-01T23:59:30Z"
    assert not [argument for argument in run.arguments if "harvest-from" in argument]


def test_a_from_that_a_user_wrote_into_the_row_is_passed_to_the_harvester(
    database: Database, tables: Tables
) -> None:
    harvested(tables, "2026-05-02T00:00:30Z")
    tables.add("oai_job", repository_id=1, harvest_from="2020-01-01")
    assert "--harvest-from=2020-01-01" in claimed(database).arguments
    assert from_of(tables) == "2020-01-01"


def begun_schedule(tables: Tables, **columns: str) -> None:
    """Add a schedule that has had a complete harvest."""
    tables.add("oai_recurring_job", repository_id=1, frequency="hourly", state=1, **columns)
    tables.add(
        "oai_history", repository_id=1, recurring_id=1, status="x", verdict="complete",
        harvest_start_time=datetime.now(UTC),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("watermark", "complete_from", "planned", "from_", "floor"),
    [
        ("2026-05-02T00:00:30Z", "2020-01-01", None, "2026-05-01T23:59:30Z", "2020-01-01"),
        ("2026-05-02T00:00:30Z", "2020-01-01", "2026-05-01T23:59:30Z", "2026-05-01T23:59:30Z", "2020-01-01"),
        ("2026-05-02T00:00:30Z", "2021-01-01", "2026-05-01T23:59:30Z", "2020-01-01", "2020-01-01"),
        ("2026-05-02T00:00:30Z", None, None, "2026-05-01T23:59:30Z", None),
        (None, None, "2020-01-01", "2020-01-01", "2020-01-01"),
    ],
)
def test_a_schedule_that_has_begun_continues_from_harvests_that_reach_back_to_its_lower_bound(
    database: Database,
    tables: Tables,
    watermark: str | None,
    complete_from: str | None,
    planned: str | None,
    from_: str,
    floor: str | None,
) -> None:
    harvested(tables, watermark, complete_from)
    begun_schedule(tables, harvest_from="2020-01-01")
    tables.add("oai_job", repository_id=1, recurring_id=1, harvest_from=planned)
    options = [one for one in claimed(database).arguments if one.startswith("--harvest-")]
    assert from_of(tables) == from_
    assert options == ([f"--harvest-floor={floor}"] if floor else [])


@pytest.mark.parametrize(("complete_from", "from_"), [(None, None), ("2019-01-01", "2019-01-01")])
def test_a_schedule_with_a_lower_bound_requests_again_what_was_complete_before(
    database: Database, tables: Tables, complete_from: str | None, from_: str | None
) -> None:
    harvested(tables, None, complete_from, restarts=True)
    begun_schedule(tables, harvest_from="2020-01-01")
    tables.add("oai_job", repository_id=1, recurring_id=1, harvest_from="2026-05-01T23:59:30Z")
    assert "--harvest-floor=2020-01-01" in claimed(database).arguments
    assert from_of(tables) == from_


def test_a_planned_from_is_dropped_if_the_rows_were_rebuilt_afterwards(
    database: Database, tables: Tables
) -> None:
    harvested(tables, None)
    begun_schedule(tables)
    tables.add("oai_job", repository_id=1, recurring_id=1, harvest_from="2026-05-01T23:59:30Z")
    run = claimed(database)
    assert from_of(tables) is None
    assert not [argument for argument in run.arguments if "harvest-from" in argument]


def test_the_first_from_of_a_schedule_is_passed_to_the_harvester(database: Database, tables: Tables) -> None:
    harvested(tables, None)
    tables.add("oai_recurring_job", repository_id=1, frequency="hourly", state=1, harvest_from="2020-01-01")
    tables.add("oai_job", repository_id=1, recurring_id=1, harvest_from="2020-01-01")
    assert "--harvest-from=2020-01-01" in claimed(database).arguments


def test_only_the_job_that_is_claimed_begins(database: Database, tables: Tables) -> None:
    for name in "abc":
        tables.add("oai_job", repository_id=tables.repository(f"https://{name}.example/"))
    launch(database)
    with database.session() as session:
        claimed = claim(session, 2, "here", 5)
        session.commit()
    assert claimed is not None
    assert claimed.job_id == 2
    assert [row.host for row in tables("SELECT host FROM oai_job ORDER BY job_id")] == [None, "here", None]
