"""Which manager leads, and that no other manager writes as the leader."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import text

from manager.leader.lock import (
    Fenced,
    Leadership,
    NotLeadingError,
    check_leader_number,
    fence_all,
    leadership,
    lost,
    managers,
)
from manager.leader.loop import Duties
from manager.models import RecurringJob
from manager.worker.worker import Worker
from oai.database import Database
from oai.executor import DatabaseExecutor
from oai.settings import Settings
from tests.manager.conftest import Tables, manager_process, until

POLL = 0.05
LOST = 600
_CONNECTIONS = (
    "FROM pg_stat_activity WHERE application_name LIKE 'zatva manager on %' AND datname = current_database()"
)
_WAITS_FOR_THE_FENCE = f"SELECT pid {_CONNECTIONS} AND wait_event = 'advisory'"
_CUT = (
    f"SELECT pg_terminate_backend(pid) {_CONNECTIONS} AND pid IN"  # noqa: S608 the test's own words
    " (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND mode = 'ExclusiveLock' AND granted)"
)


@contextlib.asynccontextmanager
async def standing_by(database: Database) -> AsyncIterator["asyncio.Task[int]"]:
    """Run a standby manager; the task returns its leader number once it leads."""

    async def lead() -> int:
        async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as won:
            return won.number

    task = asyncio.create_task(lead())
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def duties(settings: Settings, database: Database, number: int) -> Duties:
    """The duties of the leader with this number."""
    transactions = DatabaseExecutor(database, threads=2, name="manager-database")
    worker = Worker(settings, database, transactions)
    return Duties(settings, database, transactions, Fenced(transactions, number), worker)


async def end_connection(lead: Leadership, tables: Tables) -> None:
    """End the leader's connection, as an administrator or a network failure may."""
    tables("SELECT pg_terminate_backend(:number)", number=lead.connection.info.backend_pid)
    await lost(lead, poll_seconds=POLL)


async def test_each_leadership_has_a_higher_number(database: Database) -> None:
    numbers = []
    for _ in range(2):
        async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as lead:
            numbers.append(lead.number)
    assert numbers == [1, 2]


async def test_what_the_leader_writes_is_committed(database: Database, tables: Tables) -> None:
    number = tables.repository()
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as lead:
        with database.session() as session:
            check_leader_number(session, lead.number)
            session.add(RecurringJob(repository_id=number))
            session.commit()
    assert len(tables("SELECT FROM oai_recurring_job")) == 1


async def test_a_former_leader_cannot_write(database: Database, tables: Tables) -> None:
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as former:
        await end_connection(former, tables)
        async with leadership(database, poll_seconds=POLL, lost_seconds=LOST):
            with database.session() as session, pytest.raises(NotLeadingError, match="leader 2"):
                check_leader_number(session, former.number)


async def test_a_successor_does_not_lead_before_the_former_leaders_transaction_ends(
    database: Database, tables: Tables
) -> None:
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as former:
        with database.session() as session:
            check_leader_number(session, former.number)
            await end_connection(former, tables)
            async with standing_by(database) as successor:
                await until(lambda: tables(_WAITS_FOR_THE_FENCE))
                assert not successor.done()
                assert tables.one("SELECT number FROM oai_leader") == former.number
                session.commit()
                assert await successor == former.number + 1


@pytest.mark.parametrize("lost_before", ["the embargo is lifted", "its documents follow"])
async def test_a_former_leader_does_not_change_access_to_collections(
    settings: Settings, database: Database, tables: Tables, lost_before: str
) -> None:
    ended, unsettled = "2020-01-01T00:00:00Z", lost_before == "its documents follow"
    rule = (
        {"access": "open", "unsettled": ended} if unsettled else {"access": "embargo", "embargo_until": ended}
    )
    tables.add("collection", set_spec="collection:maps", name="Maps", **rule)
    before = tables("SELECT access, unsettled FROM collection")
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as former:
        await end_connection(former, tables)
        async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as present:
            with pytest.raises(NotLeadingError):
                await duties(settings, database, former.number).refresh_access()
            assert tables("SELECT access, unsettled FROM collection") == before
            await duties(settings, database, present.number).refresh_access()
    assert tables("SELECT access, unsettled FROM collection") == [("open", None)]


async def test_a_leader_that_loses_the_lead_cannot_begin_another_transaction(
    database: Database, tables: Tables
) -> None:
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as former:
        with database.session() as session:
            fence_all(session, former.number)
            session.execute(text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('a', 'a')"))
            session.commit()
            await end_connection(former, tables)
            async with leadership(database, poll_seconds=POLL, lost_seconds=LOST):
                with pytest.raises(NotLeadingError):
                    session.execute(text("INSERT INTO oai_repository (base_url, base_dir) VALUES ('b', 'b')"))
    assert tables("SELECT base_url FROM oai_repository") == [("a",)]


async def test_the_leader_and_the_standby_managers_are_listed(database: Database) -> None:
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST), standing_by(database):

        def current_leader() -> Any:
            with database.session() as session:
                present = managers(session)
            return present if present.stand_bys else None

        present = await until(current_leader)
    assert present.leader is not None
    assert len(present.stand_bys) == 1


async def test_a_leader_that_hangs_is_replaced(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    # Like a suspended process, it sends no statements, and its connection stays open.
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as former:
        async with leadership(database, poll_seconds=POLL, lost_seconds=0.2) as present:
            assert present.number == former.number + 1
            with database.session() as session, pytest.raises(NotLeadingError, match="leader 2"):
                check_leader_number(session, former.number)
        await lost(former, poll_seconds=POLL)
    assert "has been silent for more than 0.2 seconds; its connection was ended" in caplog.text


async def test_a_leader_regularly_shows_that_it_does_not_hang(database: Database, tables: Tables) -> None:
    async with leadership(database, poll_seconds=POLL, lost_seconds=LOST) as lead:
        asking = asyncio.create_task(lost(lead, poll_seconds=POLL))
        last = f"SELECT state_change {_CONNECTIONS}"
        first = tables.one(last)
        await until(lambda: tables.one(last) > first)
        asking.cancel()


async def test_a_manager_that_loses_the_lead_during_a_tick_adds_no_duplicate_job(
    quick_environment: dict[str, str], database: Database, tables: Tables
) -> None:
    repository = tables.repository()
    async with manager_process(quick_environment), manager_process(quick_environment):
        await until(lambda: tables.one(f"SELECT count(*) {_CONNECTIONS}") == 2)
        number = await until(lambda: tables("SELECT number FROM oai_leader"))
        with database.engine.begin() as connection:
            connection.exec_driver_sql("LOCK TABLE oai_job IN SHARE MODE")
            tables.add("oai_recurring_job", repository_id=repository, frequency="hourly")
            await until(lambda: tables("SELECT FROM pg_stat_activity WHERE wait_event = 'relation'"))
            tables(_CUT)
            await until(lambda: tables(_WAITS_FOR_THE_FENCE))
            assert tables("SELECT number FROM oai_leader") == number
        await until(lambda: tables("SELECT number FROM oai_leader") > number)
        await until(tables.history)
        await until(lambda: tables("SELECT FROM oai_job WHERE harvest_start_time > now()"))
    assert tables.history() == [("completed", "oai_dc")]
    assert len(tables("SELECT FROM oai_job")) == 1
