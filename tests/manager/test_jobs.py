"""Jobs and history as lists show them."""

from datetime import UTC, datetime, timedelta

import pytest

from manager.jobs import views as jobs
from manager.jobs.reasons import in_words
from manager.jobs.runs import RunFilter, count_runs, days_of, find_runs, pieces_of
from manager.models import JobStatus
from oai.database import Database
from oai.errors import UsageError
from tests.manager.conftest import Tables
from tests.plans import work_of


def states(database: Database) -> list[tuple[int, str, str | None]]:
    with database.session() as session:
        views = jobs.list_jobs(session)
    return [(view.job_id, view.state, in_words(view.reason) if view.reason else None) for view in views]


def test_each_job_has_a_state_and_each_waiting_job_has_a_reason(database: Database, tables: Tables) -> None:
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


def test_a_harvest_that_waits_for_its_repository_shows_until_when(database: Database, tables: Tables) -> None:
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


@pytest.mark.parametrize(
    ("page", "sign", "rate", "left"),
    [(1, 1, 50, 20), (5, 1, 0, None), (3, 5, 0, None)],
    ids=["just stored a page", "overdue", "stopped"],
)
def test_a_stalled_harvest_has_rate_0_and_no_time_left(
    database: Database, tables: Tables, page: int, sign: int, rate: float, left: float | None
) -> None:
    add_harvest(tables, pages=20, page=page, sign=sign)  # a second for each page
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    assert view.progress is not None
    assert (view.progress.records, view.progress.rate) == (1000, rate)
    assert view.progress.seconds_left == left
    assert view.estimate.seconds == left


def test_a_harvest_of_slow_pages_is_not_stalled_between_them(database: Database, tables: Tables) -> None:
    add_harvest(tables, pages=4, page=5, sign=1)  # 5 seconds for each page
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    assert view.progress is not None
    assert view.progress.rate == 50


def add_harvest(tables: Tables, *, pages: int, page: int, sign: int) -> None:
    """Add a running job with 1,000 of 2,000 records, at 50 per second.

    Its last page was stored `page` seconds ago, and its process gave its last sign `sign` seconds ago.
    """
    now = datetime.now(UTC)
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=7)
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1, records_per_second=50,
        complete_list_size=2000, counts=f'{{"pages": {pages}, "records": 1000}}',
        updated=now - timedelta(seconds=page), last_sign=now - timedelta(seconds=sign),
    )  # fmt: skip


def test_a_paused_job_keeps_its_counts(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=4, last_history=1)
    tables.add("oai_job", repository_id=repository, metadata_prefix="marc21")
    for prefix in ("oai_dc", "marc21"):
        tables.add(
            "oai_harvest", repository_id=repository, metadata_prefix=prefix, run_parameters="{}",
            records_per_second=50, complete_list_size=3000, counts='{"pages": 10, "records": 1000}',
        )  # fmt: skip
    with database.session() as session:
        views = jobs.list_jobs(session)
    paused, other = sorted(views, key=lambda view: view.job_id)
    assert paused.progress is not None
    assert (paused.state, paused.progress.records, paused.progress.complete_list_size) == (
        "paused",
        1000,
        3000,
    )
    assert (paused.progress.rate, paused.progress.seconds_left) == (0, None)
    assert other.progress is None


@pytest.mark.parametrize(("status", "gone"), [(0, True), (2, True), (1, False), (3, False)])
def test_removing_a_job_deletes_a_waiting_job_and_marks_a_running_one(
    database: Database, tables: Tables, status: int, *, gone: bool
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), status=status)
    with database.session() as session:
        assert jobs.remove_job(session, 1) is gone
        session.commit()
    assert [row.status for row in tables("SELECT status FROM oai_job")] == ([] if gone else [3])


def test_removing_an_unknown_job_is_refused(database: Database) -> None:
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


def test_an_interrupted_and_resumed_harvest_is_one_run(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    for continued_by in (2, None):
        tables.add(
            "oai_history", repository_id=repository, status="incomplete", continued_by=continued_by,
            harvest_start_time=datetime.now(UTC),
        )  # fmt: skip
    with database.session() as session:
        assert [view.history.history_id for view in find_runs(session, RunFilter(), limit=9)] == [2]
        assert count_runs(session, RunFilter()) == 1
        assert [day.runs for day in days_of(session, RunFilter(), zone="UTC")] == [1]
        assert [piece.history_id for piece in pieces_of(session, 2)] == [1]
        jobs.remove_history(session, 2)
        assert pieces_of(session, 2) == []


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


def test_only_the_named_running_job_is_stopped(database: Database, tables: Tables) -> None:
    for name in "abc":
        tables.add("oai_job", repository_id=tables.repository(f"https://{name}.example/"), status=1)
    with database.session() as session:
        assert not jobs.remove_job(session, 2)
        session.commit()
    rows = tables("SELECT status FROM oai_job ORDER BY job_id")
    assert [row.status for row in rows] == [JobStatus.IN_PROGRESS, JobStatus.STOPPING, JobStatus.IN_PROGRESS]


def test_only_the_named_waiting_job_is_removed(database: Database, tables: Tables) -> None:
    for name in "abc":
        tables.add("oai_job", repository_id=tables.repository(f"https://{name}.example/"))
    with database.session() as session:
        assert jobs.remove_job(session, 2)
        session.commit()
    assert [row.job_id for row in tables("SELECT job_id FROM oai_job ORDER BY job_id")] == [1, 3]


def test_a_harvest_without_invalid_records_shows_none(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=5)
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1, counts='{"pages": 1}'
    )
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
        assert view.progress is not None
        assert (view.progress.pages, view.progress.records, view.progress.errors) == (1, 0, 0)


def test_the_rate_of_a_slow_harvest_is_a_fraction(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    tables.add("oai_job", repository_id=repository, status=1, process_id=5)
    tables.add(
        "oai_harvest", repository_id=repository, metadata_prefix="oai_dc", job_id=1,
        counts='{"records": 50}', run_started=datetime.now(UTC) - timedelta(seconds=100),
    )  # fmt: skip
    with database.session() as session:
        (view,) = jobs.list_jobs(session)
    assert view.progress is not None
    assert 0 < view.progress.rate <= 0.5


def test_a_page_of_jobs_reads_only_its_own_repositories_and_harvests(
    database: Database, tables: Tables
) -> None:
    tables(
        "INSERT INTO oai_repository (base_url, base_dir)"
        " SELECT 'https://' || number || '.example/', number::text FROM generate_series(1, 2000) AS number"
    )
    tables(
        "INSERT INTO oai_job (repository_id, harvest_start_time)"
        " SELECT repository_id, '2050-01-01Z'::timestamptz + repository_id * interval '1 minute'"
        " FROM oai_repository"
    )
    tables("INSERT INTO oai_harvest (repository_id, metadata_prefix) SELECT job_id, 'oai_dc' FROM oai_job")
    tables("UPDATE oai_harvest SET job_id = 102, set_spec = '' WHERE repository_id = 102")
    tables("ANALYZE oai_repository, oai_job, oai_harvest")
    with database.session() as session:
        first = jobs.list_jobs(session, most=100)
        with work_of(database, "FROM oai_job", "oai_harvest") as work:
            second = jobs.list_jobs(session, after=first[-1].place, most=100)
    assert [view.repository_id for view in second] == list(range(101, 201))
    assert [view.job_id for view in second if view.progress] == [102]
    assert (len(work) >= 2, max(work) < 1500) == (True, True)
