"""The files of an indexing run."""

from pathlib import Path

import pytest
from sqlalchemy import text

from manager.index_queue import queue_found
from oai.database import Database
from oai.errors import UsageError
from provider.holdings.index_errors import find_run_files
from provider.indexing.models import IndexFile, IndexRun
from tests.plans import work_of


def test_the_files_of_an_indexing_run_are_listed_in_pages_and_by_fault(database: Database) -> None:
    with database.session() as session:
        runs = [IndexRun(host="here", again=False) for _ in range(2)]
        session.add_all(runs)
        session.flush()
        for run in runs:
            for state, problems in (("done", 0), ("failed", 0), ("done", 2), ("waiting", 0)):
                path = f"/{run.id}/{state}/{problems}"
                session.add(IndexFile(run_id=run.id, path=path, size=1, state=state, problems=problems))
        session.flush()
        first = runs[0].id

        every = find_run_files(session, first, limit=9)
        assert [file.path for file in every] == [
            f"/{first}/{name}" for name in ("done/0", "failed/0", "done/2", "waiting/0")
        ]
        assert find_run_files(session, first, limit=2) == every[:2]
        assert find_run_files(session, first, limit=9, after=every[1].id) == every[2:]
        assert find_run_files(session, first, limit=9, troubled=True) == every[1:3]
        with pytest.raises(UsageError, match="no indexing run 99"):
            find_run_files(session, 99, limit=1)


@pytest.mark.copied_database("has no statistics")
def test_a_page_of_just_queued_files_does_not_scan_all_files(database: Database, tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.warc.gz" for number in range(3000)]
    with database.session() as session:
        run = queue_found(session, files, collection=None, again=True)
        assert run is not None
        session.execute(text("DELETE FROM procrastinate_jobs"))
        with work_of(database, "index_file") as work:
            assert len(find_run_files(session, run, limit=50)) == 50
    # The index of the queue still has each of its deleted rows.
    assert max(work) < 5000
