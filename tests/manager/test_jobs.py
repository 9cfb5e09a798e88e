"""Jobs and history as lists show them."""

from datetime import UTC, datetime, timedelta

import pytest

from manager.jobs import views as jobs
from manager.jobs.reasons import in_words
from manager.jobs.runs import RunFilter, find_runs
from oai.database import Database
from oai.errors import UsageError
from tests.manager.conftest import Tables


def states(database: Database) -> list[tuple[int, str, str | None]]:
    with database.session() as session:
        views = jobs.list_jobs(session)
    return [(view.job_id, view.state, in_words(view.reason) if view.reason else None) for view in views]


def test_each_job_has_a_state_word_and_what_waits_a_reason(database: Database, tables: Tables) -> None:
    first, second = tables.repository(), tables.repository("https://example.net/")
    later = datetime(2050, 1, 2, 3, 4, 5, tzinfo=UTC)
    tables.add("oai_job", repository_id=first, harvest_start_time=later)
    tables.add("oai_job", repository_id=first)
    tables.add("oai_job", repository_id=first, status=2)
    tables.add("oai_job", repository_id=second, status=2)
    tables.add("oai_job", repository_id=first, status=1)
    tables.add("oai_job", repository_id=first, status=1, process_id=7)
    tables.add("oai_job", repository_id=second, status=3, process_id=8)
    tables("DELETE FROM oai_job WHERE job_id = 5")
    assert states(database) == [
        (6, "running", None),
        (7, "stopping", None),
        (2, "queued", "waiting for the manager"),
        (3, "queued", "waiting for a worker"),
        (4, "queued", "waiting for a worker"),
        (1, "queued", "due at 2050-01-02T03:04:05Z"),
    ]


def test_a_job_without_a_process_yet_is_starting(database: Database, tables: Tables) -> None:
    tables.add("oai_job", repository_id=tables.repository(), status=1)
    assert states(database) == [(1, "starting", None)]


def test_a_queued_job_with_nothing_before_it_waits_for_a_worker(database: Database, tables: Tables) -> None:
    tables.add("oai_job", repository_id=tables.repository(), status=2)
    assert states(database) == [(1, "queued", "waiting for a worker")]


def test_a_harvest_that_the_repository_keeps_waiting_says_so(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=7)
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1,
        last_error="waiting until 2026-01-01T21:46:00Z: status 503",
        last_failure='{"code": "waiting", "until": "2026-01-01T21:46:00Z"}',
    )  # fmt: skip
    assert states(database) == [(1, "waiting", "until 2026-01-01T21:46:00Z: status 503")]


def test_live_progress_has_rate_and_time_left(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=7)
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1,
        run_started=datetime.now(UTC) - timedelta(seconds=100), complete_list_size=3000,
        counts='{"pages": 10, "records": 1000, "invalid": 3}',
    )  # fmt: skip
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    progress = view.progress
    assert progress is not None
    assert (progress.pages, progress.records, progress.errors) == (10, 1000, 3)
    assert 5 < progress.rate <= 10
    assert progress.seconds_left == pytest.approx(2000 / progress.rate)


def test_progress_of_another_job_is_not_shown(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=7)
    tables.add("oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=99)
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    assert view.progress is None


@pytest.mark.parametrize(("status", "gone"), [(0, True), (2, True), (1, False), (3, False)])
def test_removing_a_job_removes_what_has_not_begun_and_marks_what_runs(
    database: Database, tables: Tables, status: int, *, gone: bool
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), status=status)
    with database.session() as session:
        assert jobs.remove_job(session, 1) is gone
        session.commit()
    assert [row.status for row in tables("SELECT status FROM oai_job")] == ([] if gone else [3])


def test_an_unknown_job_is_told_of(database: Database) -> None:
    with database.session() as session, pytest.raises(UsageError, match="job 5"):
        jobs.remove_job(session, 5)


def test_history_is_listed_newest_first_in_pages(database: Database, tables: Tables) -> None:
    first, second = tables.repository("https://a.example/"), tables.repository("https://b.example/")
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for number in range(5):
        repository = first if number % 2 else second
        tables.add(
            "oai_history", repository_id=repository, status="completed",
            harvest_start_time=start + timedelta(hours=number),
        )  # fmt: skip
    with database.session() as session:
        page = find_runs(session, RunFilter(), limit=2)
        assert [view.history.history_id for view in page] == [5, 4]
        rest = find_runs(session, RunFilter(), limit=50, before=page[-1].history.history_id)
        assert [view.history.history_id for view in rest] == [3, 2, 1]
        of_one = find_runs(session, RunFilter(repository_id=first), limit=50)
        assert [view.repository_name for view in of_one] == ["https://a.example/"] * 2


def test_a_history_row_is_removed(database: Database, tables: Tables) -> None:
    tables.add(
        "oai_history", repository_id=tables.repository(), status="x", harvest_start_time=datetime.now(UTC)
    )
    with database.session() as session:
        jobs.remove_history(session, 1)
        session.commit()
        with pytest.raises(UsageError, match="no run 1 in the history"):
            jobs.remove_history(session, 1)
    assert tables.history() == []
