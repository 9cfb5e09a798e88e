"""The files of an indexing run."""

import pytest

from oai.database import Database
from oai.errors import UsageError
from provider.holdings.index_errors import find_run_files
from provider.indexing.models import IndexFile, IndexRun


def test_the_files_of_a_run_come_in_pages_or_only_those_with_faults(database: Database) -> None:
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
