"""What a repository's row decides before its harvest starts."""

from datetime import UTC, datetime, timedelta

import pytest

from harvester.harvest.preparation import check_wait, note_wait
from harvester.models import Repository
from harvester.repositories import add_repository
from oai.database import Database
from oai.errors import TryLaterError

NOW = datetime(2024, 6, 1, tzinfo=UTC)


def test_a_repository_is_not_harvested_before_the_time_that_it_named() -> None:
    repository = Repository(base_url="http://x/oai", not_before=NOW)
    with pytest.raises(TryLaterError, match="until 2024-06-01T00:00:00Z"):
        check_wait(repository, NOW - timedelta(seconds=1))
    check_wait(repository, NOW)
    check_wait(repository, NOW + timedelta(seconds=1))


def test_a_wait_of_one_repository_does_not_affect_others(database: Database) -> None:
    with database.session() as session:
        added = [add_repository(session, base_url=f"http://{name}/oai", base_dir=name) for name in "abc"]
        session.flush()
        note_wait(session, added[1].repository_id, NOW)
        session.expire_all()
        assert [one.not_before for one in added] == [None, NOW, None]
