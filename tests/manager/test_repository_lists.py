from collections.abc import Iterator
from datetime import timedelta

import pytest
from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from harvester.models import History, Repository
from harvester.vocabulary import RunStatus
from manager.models import RecurringState
from manager.repository_lists import Order, RepositoryChoice, RepositoryFilter, list_repositories
from oai.database import Database
from tests.web.rows import BEGAN, a_repository, a_run, a_schedule

MANY = 250


@pytest.fixture
def session(database: Database) -> Iterator[Session]:
    with database.session() as opened:
        yield opened


def _numbers(session: Session, **choice: object) -> list[int]:
    """Return the numbers of all pages of three."""
    found: list[int] = []
    after = None
    while page := list_repositories(session, RepositoryChoice(**choice), limit=3, after=after):  # type: ignore[arg-type]
        found += [one.repository.repository_id for one in page]
        after = page[-1].place
    return found


@pytest.mark.parametrize("descending", [False, True])
def test_pages_of_many_equal_repositories_omit_and_repeat_none(session: Session, *, descending: bool) -> None:
    rows = [
        {"repository_name": "Library", "base_url": f"https://{at}.example/oai", "base_dir": str(at)}
        for at in range(MANY)
    ]
    session.execute(insert(Repository), rows)
    every = list(session.scalars(select(Repository.repository_id).order_by(Repository.repository_id)))
    run = {"harvest_start_time": BEGAN, "harvest_end_time": BEGAN, "status": "failed"}
    session.execute(insert(History), [{"repository_id": number, **run} for number in every[::2]])

    for order in Order:
        choice, found, after = RepositoryChoice(order=order, descending=descending), [], None
        while page := list_repositories(session, choice, limit=70, after=after):
            found += [one.repository.repository_id for one in page]
            after = page[-1].place
        assert sorted(found) == every, order


@pytest.mark.parametrize("descending", [False, True])
def test_names_are_sorted_without_accents_page_by_page(session: Session, *, descending: bool) -> None:
    names = ["Archiv", "Čtenář", "Čtenář", "David", "Ř", "Šumperk", "tábor", "Ústav", "Zlín"]
    for folder, name in enumerate(reversed(names)):
        a_repository(session, name, str(folder))

    found = [
        session.get_one(Repository, number).display_name
        for number in _numbers(session, order=Order.NAME, descending=descending)
    ]

    assert found == (names[::-1] if descending else names)


def test_repositories_are_sorted_by_each_order_and_filtered_by_state(session: Session) -> None:
    never, failed, good = (a_repository(session, name, name) for name in ("b", "C", "a"))
    a_run(session, good, status=RunStatus.FAILED, record_count=90)
    a_run(session, good, record_count=7, harvest_end_time=BEGAN + timedelta(days=1))
    a_run(session, failed, status=RunStatus.FAILED, record_count=8)
    a_schedule(session, good).state = RecurringState.PAUSED
    session.flush()
    n, f, g = (one.repository_id for one in (never, failed, good))

    assert _numbers(session) == [n, f, g]
    assert _numbers(session, order=Order.NAME) == [g, n, f]
    assert _numbers(session, order=Order.STATE) == [f, n, g]
    assert _numbers(session, order=Order.RECORDS, descending=True) == [f, g, n]
    assert _numbers(session, order=Order.LAST, descending=True) == [g, f, n]
    assert _numbers(session, state=RepositoryFilter.TROUBLE) == [f]
    assert _numbers(session, state=RepositoryFilter.NEVER) == [n]
    assert _numbers(session, state=RepositoryFilter.PAUSED) == [g]
