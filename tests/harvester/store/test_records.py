"""What the tables themselves enforce: a record has a repository and is deleted with it."""

import threading
from collections.abc import Callable

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from harvester.removal import Removal, begin_removal, remove_repository
from harvester.repositories import add_repository
from oai.database import Database

_ADD = text(
    """
    INSERT INTO oai_record (repository_id, identifier, identifier_key, datestamp, metadata_prefix)
    SELECT repository, name, CAST(md5(name) AS uuid), '2024-01-01', 'oai_dc'
    FROM unnest(CAST(:repositories AS integer[])) AS repository, unnest(CAST(:names AS text[])) AS name
    """
)
_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


def _repository(database: Database, name: str = "a") -> int:
    with database.session() as session:
        number = add_repository(session, base_url=f"http://{name}.example/oai").repository_id
        session.commit()
    return number


def _add(session: Session, *repositories: int) -> None:
    session.execute(_ADD, {"repositories": list(repositories), "names": ["one", "two"]})


def _count(database: Database, table: str = "oai_record") -> int:
    with database.session() as session:
        return int(session.scalar(text(f"SELECT count(*) FROM {table}")) or 0)  # noqa: S608 our own tables


def test_records_without_a_repository_are_rejected(database: Database) -> None:
    number = _repository(database)
    with (
        database.session() as session,
        pytest.raises(IntegrityError, match=f"no repository {number + 1}, so"),
    ):
        _add(session, number, number + 1)
    assert _count(database) == 0


def test_a_record_stays_in_its_repository(database: Database) -> None:
    first, second = _repository(database), _repository(database, "b")
    with database.session() as session:
        _add(session, first)
        session.execute(text("UPDATE oai_record SET repository_id = :same"), {"same": first})
        with pytest.raises(IntegrityError, match="stays in its repository"):
            session.execute(text("UPDATE oai_record SET repository_id = :other"), {"other": second})


def test_records_and_their_sets_are_deleted_with_their_repository(database: Database) -> None:
    first, second = _repository(database), _repository(database, "b")
    with database.session() as session:
        _add(session, first, second)
        session.execute(text("INSERT INTO oai_set_mapping SELECT record_id, 'all' FROM oai_record"))
        session.commit()
    remove_repository(database, first)
    with database.session() as session:
        left = session.scalars(
            text("SELECT repository_id FROM oai_record JOIN oai_set_mapping USING (record_id)")
        )
        assert left.all() == [second, second]
    assert _count(database, "oai_set_mapping") == 2


def test_removing_a_repository_waits_for_the_writer_of_its_records(database: Database) -> None:
    number = _repository(database)
    with database.session() as writing:
        _add(writing, number)
        removing = _Beside(database, lambda _session: remove_repository(database, number))
        removing.wait_for_lock()
        writing.commit()
    assert removing.fault() is None
    assert _count(database) == 0


def test_writing_records_waits_for_the_removal_of_their_repository(database: Database) -> None:
    number = _repository(database)
    with database.session() as removing:
        begin_removal(removing, number)
        assert Removal(repository_id=number).remove_piece(removing)
        writing = _Beside(database, lambda session: _add(session, number))
        writing.wait_for_lock()
        removing.commit()
    assert isinstance(writing.fault(), IntegrityError)
    assert _count(database) == 0


class _Beside:
    """Runs and commits work in its own session and thread."""

    def __init__(self, database: Database, work: Callable[[Session], None]) -> None:
        self._database, self._work = database, work
        self._fault: Exception | None = None
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def wait_for_lock(self) -> None:
        """Return when it waits for another session."""
        with self._database.session() as session:
            while not session.scalar(_WAITING):
                assert self._thread.is_alive(), self._fault
                session.rollback()

    def fault(self) -> Exception | None:
        """Return the error that it raised, once it has ended."""
        self._thread.join(timeout=30)
        assert not self._thread.is_alive()
        return self._fault

    def _run(self) -> None:
        try:
            with self._database.session() as session:
                self._work(session)
                session.commit()
        except Exception as error:  # noqa: BLE001 the test looks at it
            self._fault = error
