import asyncio
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import TryLaterError, UsageError
from oai.executor import DatabaseExecutor
from tests.web.conftest import Browser
from web.auth.organisations import add_organisation
from web.site.keys import THREADS, open_executor

_WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
)


@pytest.fixture
def threads(database: Database) -> Iterator[DatabaseExecutor]:
    threads = open_executor(database, waiting=1)
    yield threads
    threads.close()


def _add(session: Session, name: str, *, fails: bool = False) -> None:
    session.execute(text("INSERT INTO web_user (name) VALUES (:name)"), {"name": name})
    if fails:
        raise ValueError(name)


def _names(session: Session) -> list[str]:
    return list(session.scalars(text("SELECT name FROM web_user")))


async def test_work_is_committed_when_it_returns_and_rolled_back_when_it_raises(
    threads: DatabaseExecutor,
) -> None:
    await threads.run(_add, "kept")
    with pytest.raises(ValueError, match="lost"):
        await threads.run(_add, "lost", fails=True)

    assert await threads.run(_names) == ["kept"]


async def test_work_beyond_the_limit_of_waiting_work_is_refused_with_try_later(
    threads: DatabaseExecutor,
) -> None:
    go_on = threading.Event()
    busy = [asyncio.create_task(threads.run(lambda _: go_on.wait(60))) for _ in range(THREADS + 1)]
    await asyncio.sleep(0)

    with pytest.raises(TryLaterError, match="busy"):
        await threads.run(_names)

    go_on.set()
    assert all(await asyncio.gather(*busy))
    assert await threads.run(_names) == []


async def test_the_second_of_two_concurrent_uses_of_a_name_is_refused_as_taken(
    threads: DatabaseExecutor, database: Database
) -> None:
    def waits(session: Session) -> bool:
        return bool(session.scalar(text(_WAITING)))

    with database.session() as session:
        add_organisation(session, short_name="mzk")
        second = asyncio.create_task(threads.run(add_organisation, short_name="mzk"))
        while not await threads.run(waits):
            assert not second.done()
            await asyncio.sleep(0.01)
        session.commit()
    with pytest.raises(UsageError, match="mzk"):
        await second


async def test_a_conflict_that_recurs_in_the_second_attempt_is_raised(threads: DatabaseExecutor) -> None:
    await threads.run(_add, "taken")
    with pytest.raises(IntegrityError, match="duplicate key"):
        await threads.run(_add, "taken")


async def test_150_concurrent_requests_are_all_answered(viewer: Browser) -> None:
    answers = await asyncio.gather(*(viewer.get("/account") for _ in range(150)))

    assert {status for status, _ in answers} == {200}
