from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import inspect, select

from harvester.models import Repository
from harvester.vocabulary import RunStatus
from manager.jobs.runs import RunFilter, days_of, find_runs, usual_of
from manager.models import Job
from manager.schedules.service import sample_repository, sample_schedule
from oai.database import Database
from oai.errors import UsageError
from tests.manager.conftest import Tables
from tests.web.rows import BEGAN, a_repository, a_run, a_schedule


def test_runs_are_filtered_by_each_criterion(database: Database) -> None:
    with database.session() as session:
        telc, knav = a_repository(session), a_repository(session, name="KNAV", folder="knav")
        a_run(session, telc, status=RunStatus.FAILED, failure_reason="100 % broken")
        a_run(session, knav, set_spec="maps")
        a_run(session, knav, metadata_prefix="marc21")

        def found(choice: RunFilter) -> list[int]:
            return [view.history.history_id for view in find_runs(session, choice, limit=10)]

        assert found(RunFilter()) == [3, 2, 1]
        assert found(RunFilter(repository_id=knav.repository_id)) == [3, 2]
        assert found(RunFilter(statuses=frozenset({"failed"}))) == [1]
        assert found(RunFilter(metadata_prefix="marc21")) == [3]
        assert found(RunFilter(words="0 % b")) == [1]
        assert found(RunFilter(words="knav")) == [3, 2]
        assert found(RunFilter(words="MAPS")) == [2]
        assert found(RunFilter(since=BEGAN + timedelta(minutes=2))) == []
        only = select(Repository.repository_id).where(Repository.repository_name == "KNAV")
        assert found(RunFilter(among=only)) == [3, 2]


def test_lists_of_runs_do_not_load_warnings_evidence_and_pace(database: Database) -> None:
    with database.session() as session:
        a_run(session, a_repository(session), warnings=["odd"])
        session.commit()

        (listed,) = find_runs(session, RunFilter(), limit=10)

        assert inspect(listed.history).unloaded == {"warnings", "warning_failures", "evidence", "pace"}
        (whole,) = find_runs(session, RunFilter(), limit=10, whole=True)
        assert whole.history.warnings == ["odd"]


def test_a_day_has_the_status_of_its_worst_run_and_follows_the_time_zone(database: Database) -> None:
    evening = datetime(2026, 1, 2, 23, 30, tzinfo=UTC)
    with database.session() as session:
        telc = a_repository(session)
        for status in (RunStatus.COMPLETED, RunStatus.LOST, RunStatus.NO_CHANGES):
            a_run(
                session,
                telc,
                status=status,
                harvest_end_time=evening,
                record_count=10,
                new_count=2,
                deleted_count=1,
            )

        day = days_of(session, RunFilter(), zone="Europe/Prague")[0]

        assert (day.day, day.worst, day.runs, day.troubled) == (date(2026, 1, 3), "lost", 3, 1)
        assert (day.records, day.new, day.changed, day.changes) == (30, 6, 3, 9)


def test_the_usual_run_is_the_median_of_good_runs_of_the_same_harvest(database: Database) -> None:
    with database.session() as session:
        telc = a_repository(session)
        for minutes in (1, 2, 60):
            a_run(session, telc, harvest_end_time=BEGAN + timedelta(minutes=minutes), record_count=minutes)
        a_run(session, telc, verdict="failed", harvest_end_time=BEGAN + timedelta(days=1))
        a_run(session, telc, set_spec="maps", harvest_end_time=BEGAN + timedelta(days=1))
        last = a_run(session, telc)

        usual = usual_of(session, last)

        assert usual is not None
        assert (usual.runs, usual.seconds, usual.records) == (3, 120.0, 2)


def test_a_sample_is_a_separate_job_with_a_limit_of_records(database: Database) -> None:
    with database.session() as session:
        telc = a_repository(session)
        schedule = a_schedule(session, telc, set_spec="maps")

        job = sample_schedule(session, schedule.id, 10)
        sample_repository(session, telc.repository_id, "oai_dc", 5)

        assert (job.max_records, job.set_spec, job.metadata_prefix, job.recurring_id) == (
            10,
            "maps",
            "marc21",
            None,
        )
        assert session.scalars(select(Job.max_records).order_by(Job.job_id)).all() == [10, 5]


def test_a_sample_of_invalid_size_or_of_an_unknown_object_is_refused(database: Database) -> None:
    with database.session() as session:
        telc = a_repository(session)
        for records in (0, -1, 1_000_000):
            with pytest.raises(UsageError):
                sample_repository(session, telc.repository_id, "oai_dc", records)
        with pytest.raises(UsageError):
            sample_repository(session, 99, "oai_dc", 5)
        with pytest.raises(UsageError):
            sample_schedule(session, 99, 5)


@pytest.mark.parametrize("repository_id", [None, 1])
def test_the_changes_of_a_day_are_new_updated_and_deleted_records(
    database: Database, tables: Tables, repository_id: int | None
) -> None:
    tables.repository()
    for number in (0, 1):
        tables.add(
            "oai_history", repository_id=1, status="completed", record_count=10 * (number + 1),
            harvest_start_time="2026-05-01T01:00Z", harvest_end_time="2026-05-01T02:00Z",
            new_count=1 + number, updated_count=20 + number, deleted_count=300 + number,
        )  # fmt: skip
    with database.session() as session:
        since = datetime(2026, 5, 1, tzinfo=UTC)
        (day,) = days_of(session, RunFilter(since=since, repository_id=repository_id), zone="UTC")
    assert (day.runs, day.records, day.changes) == (2, 30, 321 + 324)
