"""A repository is removed in pieces and not harvested meanwhile; interrupted removals are completed."""

import pytest
from sqlalchemy import text

from harvester.harvest.checkpoint import only_harvest
from harvester.locks import being_removed, clear_locks
from harvester.reading.errors import RepositoryBusyError, RepositoryLockedError
from harvester.removal import Removal, begin_removal, remove_repository
from harvester.repositories import add_repository, get_repository
from oai.database import Database
from oai.errors import UsageError

_RECORDS = 25
_FILL = (
    """
    INSERT INTO oai_record (repository_id, identifier, identifier_key, datestamp, metadata_prefix)
    SELECT number, 'oai:' || at, CAST(md5('oai:' || at) AS uuid), '2024-01-01', 'oai_dc'
    FROM unnest(ARRAY[1, 2]) AS number, generate_series(1, 25) AS at
    """,
    "INSERT INTO oai_set_mapping SELECT record_id, 'all' FROM oai_record",
    """
    INSERT INTO oai_quarantine
        (repository_id, metadata_prefix, fault_key, reason, url, raw, raw_size, last_run)
    SELECT number, 'oai_dc', CAST(md5('oai:' || at) AS uuid), 'bad', 'http://a.example', '', 0, now()
    FROM unnest(ARRAY[1, 2]) AS number, generate_series(1, 25) AS at
    """,
    """
    INSERT INTO oai_history (repository_id, harvest_start_time, status)
    SELECT number, now(), 'completed' FROM unnest(ARRAY[1, 2]) AS number, generate_series(1, 25)
    """,
)
_TABLES = ("oai_record", "oai_set_mapping", "oai_quarantine", "oai_history")


@pytest.fixture
def filled(database: Database) -> Database:
    """Fill a database with two repositories of as many records, sets, errors and runs."""
    with database.session() as session:
        for name in ("a", "b"):
            add_repository(session, base_url=f"http://{name}.example/oai")
        for statement in _FILL:
            session.execute(text(statement))
        session.commit()
    return database


def _counts(database: Database) -> list[int]:
    with database.session() as session:
        return [
            int(session.scalar(text(f"SELECT count(*) FROM {table}")) or 0)  # noqa: S608 our own tables
            for table in _TABLES
        ]


def _piece(database: Database, removal: Removal) -> bool:
    with database.session() as session:
        gone = removal.remove_piece(session)
        session.commit()
    return gone


def _begin(database: Database) -> Removal:
    with database.session() as session:
        begin_removal(session, 1)
        session.commit()
    return Removal(repository_id=1, rows_at_once=10)


def test_no_piece_deletes_more_rows_than_allowed_and_the_other_repository_stays_complete(
    filled: Database,
) -> None:
    removal = _begin(filled)
    before, pieces = sum(_counts(filled)), 0
    while not _piece(filled, removal):
        # Two rows for each record, because the row of its set is deleted with it.
        assert before - sum(_counts(filled)) <= 20
        before, pieces = sum(_counts(filled)), pieces + 1
    assert pieces == 3 * _RECORDS // 10
    assert _counts(filled) == [_RECORDS] * len(_TABLES)
    with filled.session() as session, pytest.raises(UsageError, match="no repository 1"):
        get_repository(session, 1)


def test_an_interrupted_removal_prevents_harvests_and_is_completed_by_the_next_one(filled: Database) -> None:
    removal = _begin(filled)
    assert not _piece(filled, removal)
    words = "^repository 1 is being removed; if that was interrupted, remove it again$"
    with pytest.raises(RepositoryLockedError, match=words), only_harvest(filled, 1):
        pass
    with filled.session() as session:
        with pytest.raises(UsageError, match=words):
            clear_locks(session, 1)
        assert being_removed(session, [1, 2]) == {1}
    remove_repository(filled, 1)
    assert _counts(filled) == [_RECORDS] * len(_TABLES)


def test_no_row_is_removed_while_the_repository_is_harvested(filled: Database) -> None:
    with only_harvest(filled, 1), pytest.raises(RepositoryBusyError):
        remove_repository(filled, 1)
    assert _counts(filled) == [2 * _RECORDS] * len(_TABLES)
    with filled.session() as session:
        assert being_removed(session, [1]) == set()


def test_a_removal_whose_mark_was_deleted_marks_the_repository_again(filled: Database) -> None:
    removal = _begin(filled)
    with filled.session() as session:
        session.execute(text("DELETE FROM oai_repository_lock"))
        session.commit()
    assert not _piece(filled, removal)
    with filled.session() as session:
        assert being_removed(session, [1]) == {1}
    assert _counts(filled) == [2 * _RECORDS] * len(_TABLES)


def test_a_removal_ends_when_a_concurrent_one_has_finished(filled: Database) -> None:
    removal = _begin(filled)
    remove_repository(filled, 1)
    assert _piece(filled, removal)
    with pytest.raises(UsageError, match="no repository 1"):
        remove_repository(filled, 1)
