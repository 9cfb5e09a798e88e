"""Rows of repositories are made once and replaced whole, whoever else does the same at that moment."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from harvester.models import OaiSet, Repository
from harvester.reading.answers import SetInfo
from harvester.recognition import RepositoryFacts
from harvester.repositories import add_repository, ensure_repository, note_facts
from oai.database import Database

URL = "http://archive.example/oai"
_WAITING = text(
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)
Result = TypeVar("Result")


@pytest.fixture
def beside() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def at_once(
    database: Database,
    pool: ThreadPoolExecutor,
    first: Callable[[Session], Result],
    second: Callable[[Session], Result],
) -> tuple[Result, Result]:
    """Do the second in a transaction that begins while the first one's is open."""

    def work() -> Result:
        with database.session() as session:
            result = second(session)
            session.commit()
            return result

    with database.session() as session:
        result = first(session)
        other = pool.submit(work)
        _until_it_waits(database, other)
        session.commit()
    return result, other.result(60)


def _until_it_waits(database: Database, work: "Future[Result]") -> None:
    end = time.monotonic() + 60
    with database.session() as session:
        while not work.done() and not session.scalar(_WAITING):
            session.rollback()
            assert time.monotonic() < end
            time.sleep(0.01)


def test_two_harvests_of_a_new_address_get_the_same_repository(
    database: Database, beside: ThreadPoolExecutor
) -> None:
    def ensure(session: Session) -> int:
        return ensure_repository(session, base_url=URL, base_dir=None).repository_id

    first, second = at_once(database, beside, ensure, ensure)
    assert first == second
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(Repository)) == 1


def test_two_that_note_what_a_repository_says_replace_each_other(
    database: Database, beside: ThreadPoolExecutor
) -> None:
    with database.session() as session:
        number = add_repository(session, base_url=URL).repository_id
        session.commit()
    facts = RepositoryFacts(sets=[SetInfo(set_spec="maps", set_name="Maps")])

    def note(session: Session) -> None:
        note_facts(session, number, facts)

    at_once(database, beside, note, note)
    with database.session() as session:
        assert session.scalars(select(OaiSet.set_spec)).all() == ["maps"]
