"""The whole way with real processes: archive file, index, provider, harvest, XML files, manager, history."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from sqlalchemy import func, select, text, update

from harvester.models import History, Record, Repository
from manager.models import Job, JobStatus, RecurringJob
from oai.database import Database
from oai.vocabulary import OAI_NAMESPACE
from provider.holdings.mark import advance_mark
from provider.models import Document
from tests.commands import results
from tests.end_to_end.processes import alive, eventually, running
from zatva.sample import write_archive

_PAGES = 60


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write_archive(tmp_path / "archive", pages=_PAGES)
    return tmp_path / "archive"


@pytest.fixture
def indexed(archive: Path, environment: dict[str, str], database: Database) -> Path:
    """The archive, indexed with datestamps in the past, so that no test waits for the publishing margin."""
    results(environment, "provider", "index", archive, "--jobs", "1")
    make_due(database)
    return archive


@pytest.fixture
def base_url(indexed: Path, environment: dict[str, str], tmp_path: Path) -> Iterator[str]:
    """A provider that serves the archive, in answers of seven records."""
    del indexed
    serving = {**environment, "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "7"}
    with running(
        serving, tmp_path / "provider.log", "provider", "serve", "--port", "0", ready="provider at"
    ) as (_, address):
        yield address


def make_due(database: Database) -> None:
    with database.session() as session:
        session.execute(update(Document).values(datestamp=func.date_trunc("second", func.now())))
        session.execute(text("UPDATE document_collection SET datestamp = date_trunc('second', now())"))
        session.commit()
        advance_mark(session)


def _records(folder: Path) -> dict[str, etree._Element]:
    found = {}
    for path in folder.rglob("*.xml"):
        root = etree.parse(path).getroot()
        assert root.tag == f"{{{OAI_NAMESPACE}}}record"
        found[str(root.findtext(f"{{{OAI_NAMESPACE}}}header/{{{OAI_NAMESPACE}}}identifier"))] = root
    return found


def _counts(result: dict[str, Any]) -> dict[str, int]:
    return {name: result[name] for name in ("records", "new", "updated", "unchanged", "deleted", "invalid")}


def test_an_archive_is_harvested_by_a_schedule_inserted_by_sql_and_by_command(
    base_url: str, environment: dict[str, str], tmp_path: Path, database: Database
) -> None:
    store = Path(environment["ZATVA_DATA"]) / "store" / "by-hand"
    repository = _check_schedule_by_sql(base_url, environment, tmp_path, database)
    assert len(_records(store)) == _PAGES
    _check_tables(database, store)

    again = results(environment, "harvest", repository, "--full")[-1]
    assert _counts(again) == {
        "records": _PAGES, "new": 0, "updated": 0, "unchanged": _PAGES, "deleted": 0, "invalid": 0,
    }  # fmt: skip
    _check_hidden(repository, store, environment, database)


def test_a_harvest_by_command_stores_a_file_and_a_row_for_each_document_of_the_set(
    base_url: str, indexed: Path, environment: dict[str, str], tmp_path: Path, database: Database
) -> None:
    def state() -> list[tuple[object, ...]]:
        with database.session() as session:
            return [tuple(row) for row in session.execute(text("SELECT * FROM document ORDER BY id"))]

    before = state()
    assert len(before) == _PAGES
    results(environment, "provider", "index", indexed, "--jobs", "1")
    assert state() == before, "indexing again changes nothing"

    out = tmp_path / "out"
    first = results(environment, "harvest", base_url, "--out", out, "--set", "mimetype:text")[-1]
    number = len(_records(out))
    assert 0 < number < _PAGES
    assert first["verdict"] == "complete"
    assert _counts(first) == {
        "records": number, "new": number, "updated": 0, "unchanged": 0, "deleted": 0, "invalid": 0,
    }  # fmt: skip
    _check_tables(database, out)


def _check_schedule_by_sql(
    base_url: str, environment: dict[str, str], tmp_path: Path, database: Database
) -> str:
    """Insert a repository with a schedule, check that the manager harvests it, and return its number."""
    with database.session() as session:
        repository = session.scalar(
            text(
                "WITH added AS (INSERT INTO oai_repository (base_url, base_dir) VALUES (:url, 'by-hand')"
                " RETURNING repository_id)"
                " INSERT INTO oai_recurring_job (repository_id, frequency)"
                " SELECT repository_id, 'every 1 hours' FROM added RETURNING repository_id"
            ),
            {"url": base_url},
        )
        session.commit()
    with running(environment, tmp_path / "manager.log", "manager", "run", ready="manager"):
        history = eventually(lambda: _history(database), "a history row")
        following = eventually(lambda: _job(database), "the next job")
    assert (history.status, history.verdict, history.new_count) == ("completed", "complete", _PAGES)
    with database.session() as session:
        assert following.recurring_id == session.scalar(select(RecurringJob.id))
    assert following.harvest_start_time > history.harvest_end_time
    return str(repository)


def _check_tables(database: Database, store: Path) -> None:
    """Check that the rows of records name exactly the files in the folder."""
    with database.session() as session:
        rows = session.execute(select(Record.identifier, Record.filename)).all()
    assert {str(path.relative_to(store)) for path in store.rglob("*.xml")} == {row.filename for row in rows}
    assert {row.identifier for row in rows} == _records(store).keys()


def _check_hidden(repository: str, store: Path, environment: dict[str, str], database: Database) -> None:
    """Hide a document at the provider, check that the next harvest deletes its record, and unhide it."""
    before = _records(store)
    gone = next(iter(before))
    results(environment, "provider", "hide", gone)
    with database.session() as session:
        due = session.scalar(select(func.max(Document.datestamp)))
        eventually(lambda: session.scalar(select(func.clock_timestamp() >= due)), "the deletion to be due")
    result = results(environment, "harvest", repository)[-1]
    assert (result["verdict"], result["deleted"]) == ("complete", 1)
    assert _records(store).keys() == before.keys() - {gone}
    results(environment, "provider", "unhide", gone)
    with database.session() as session:
        assert session.scalar(select(func.count()).where(Document.deleted)) == 0


def _job(database: Database) -> Job | None:
    """Return the only job once it is scheduled, not while it is the running one."""
    with database.session() as session:
        return session.scalars(select(Job).where(Job.status == JobStatus.SCHEDULED)).one_or_none()


def _history(database: Database) -> History | None:
    with database.session() as session:
        return session.scalars(select(History).order_by(History.history_id)).first()


@pytest.mark.long  # `manager/test_manager_process` and `test_chaos` have both, `notices` the message
def test_a_killed_harvester_is_reported_and_retried_and_ends_with_the_manager(
    environment: dict[str, str], tmp_path: Path, database: Database
) -> None:
    with database.session() as session:
        # No server answers there, so the harvester stays in its first request.
        repository = Repository(base_url="http://127.0.0.1:9/oai", base_dir="silent")
        session.add(repository)
        session.flush()
        session.add(RecurringJob(repository_id=repository.repository_id, frequency="every 1 hours"))
        session.commit()
    waiting = {**environment, "ZATVA_HARVESTER__RETRIES": "50", "ZATVA_MANAGER__RETRY_MINUTES": "0.01"}
    with running(waiting, tmp_path / "manager.log", "manager", "run", ready="manager") as (manager, _):
        first = eventually(lambda: _harvester(database, but_not=None), "a harvester's process")
        os.kill(first, signal.SIGKILL)
        history = eventually(lambda: _history(database), "a history row")
        assert history.status in {"failed", "lost"}
        assert str(first) in (history.failure_reason or "")
        second = eventually(lambda: _harvester(database, but_not=first), "the harvester's next try")
        manager.kill()
        manager.wait()
        eventually(lambda: not alive(second), "the harvester to end with its manager")


def _harvester(database: Database, *, but_not: int | None) -> int | None:
    with database.session() as session:
        pid = session.scalar(select(Job.process_id).where(Job.status == JobStatus.IN_PROGRESS))
    return pid if pid is not None and pid != but_not and alive(pid) else None
