"""What the overview reads of the runs of a partner."""

import pytest
from sqlalchemy import text

from oai.database import Database
from tests.plans import work_of
from web.auth.access import repositories_of
from web.overview.situation import attention

_FAILED_RUNS = """
INSERT INTO web_organisation (name, short_name) VALUES ('Knihovna', 'knav');
INSERT INTO oai_repository (base_url, base_dir)
SELECT 'https://' || number || '.example/', number::text FROM generate_series(1, 200) AS number;
INSERT INTO web_repository_owner (repository_id, organisation_id)
SELECT repository_id, 1 FROM oai_repository WHERE repository_id % 4 = 0;
INSERT INTO oai_history (repository_id, harvest_start_time, harvest_end_time, status)
SELECT repository_id, now(), now(), CASE WHEN number % 3 = 1 THEN 'completed' ELSE 'failed' END
FROM generate_series(1, 30) AS number, oai_repository;
ANALYZE oai_repository, web_repository_owner, oai_history;
"""


@pytest.mark.copied_database("changes statistics")
def test_the_failed_runs_of_a_partner_are_read_once_for_all_repositories(database: Database) -> None:
    with database.session() as session:
        session.execute(text(_FAILED_RUNS))
        with work_of(database, "oai_history") as work:
            found = attention(session, repositories_of(1))
    assert (found.failed.total, found.muted.total) == (50, 0)
    # 6,000 runs; once for each of 50 repositories, the failed ones are 200,000.
    assert (len(work), max(work) < 50_000) == (2, True)
