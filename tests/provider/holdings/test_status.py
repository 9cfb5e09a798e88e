"""The list of indexing runs."""

import pytest
from sqlalchemy import text

from oai.database import Database
from provider.holdings.status import run_statuses
from tests.plans import work_of

_RUNS = """
INSERT INTO index_run (host, again) SELECT 'here', false FROM generate_series(1, 1500);
INSERT INTO index_file (run_id, path, size) SELECT id, '/' || id, 1 FROM index_run;
INSERT INTO procrastinate_jobs (queue_name, task_name, args)
SELECT 'index', 'index', json_build_object('file_id', id) FROM index_file WHERE id <> 1400;
"""


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.copied_database("has no statistics")
def test_a_page_of_runs_reads_only_its_own_files_and_tasks(database: Database, *, counted: bool) -> None:
    with database.session() as session:
        session.execute(text(_RUNS))
        session.execute(text("ANALYZE index_run, index_file, procrastinate_jobs" if counted else "SELECT"))
        with work_of(database, "index_file") as work:
            runs = run_statuses(session, limit=100, before=1450)
    assert [(run.run_id, run.waiting, run.lost) for run in runs] == [
        (number, 1, int(number == 1400)) for number in range(1449, 1349, -1)
    ]
    assert max(work) < 1000
