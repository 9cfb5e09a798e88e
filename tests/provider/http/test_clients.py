"""Statistics of clients and their lists: recorded from HTTP requests, and read from the tables."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from aiohttp.test_utils import TestClient, TestServer
from sqlalchemy import event

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.clients.stats import ClientKey, RequestOutcome, Tally
from provider.clients.store import (
    HarvestedList,
    Harvester,
    ListState,
    StatsWriter,
    forget,
    harvested_lists,
    harvesters,
    write_down,
)
from provider.protocol.exchange import ListPosition
from tests.commands import results
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, small_pages

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
DAYS = timedelta(days=2)
LIST = {"verb": "ListRecords", "metadataPrefix": "oai_dc"}


async def asked(
    database: Database, settings: Settings, *requests: dict[str, str], pages: int = 1, **changes: Any
) -> None:
    """Send these requests, follow the last list for this number of pages, and end the provider."""
    app = create_app(small_pages(settings, **changes), database, base_url=BASE_URL)
    headers = {"User-Agent": "Harvester/1", "From": "lib@example.org", "X-Forwarded-For": "192.0.2.77"}
    async with TestClient(TestServer(app), headers=headers) as client:
        for request in requests:
            text = await (await client.get("/oai", params=request)).text()
        for _ in range(pages - 1):
            token = text.partition("<resumptionToken")[2].partition(">")[2].partition("<")[0]
            query = {"verb": "ListRecords", "resumptionToken": token}
            text = await (await client.get("/oai", params=query)).text()


def known(
    database: Database, abandoned_after: timedelta = DAYS
) -> tuple[list[Harvester], list[HarvestedList]]:
    with database.session() as session:
        return (
            harvesters(session, abandoned_after=abandoned_after),
            harvested_lists(session, abandoned_after=abandoned_after),
        )


async def test_requests_errors_and_bytes_of_a_client_are_recorded(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add()
    wrong = {"verb": "GetRecord", "identifier": "x", "metadataPrefix": "unheard-of"}
    await asked(database, settings, {"verb": "Identify"}, {}, {}, wrong)
    ((client,), lists) = known(database)
    assert (client.address, client.user_agent, client.sender) == (
        "192.0.2.77",
        "Harvester/1",
        "lib@example.org",
    )
    assert (client.requests, client.refused) == (4, 0)
    assert client.errors == {"badVerb": 2, "cannotDisseminateFormat": 1, "idDoesNotExist": 1}
    assert client.bytes_sent > 1000
    assert client.first_request <= client.last_request
    assert lists == []


async def test_the_progress_of_a_client_in_a_list_is_recorded(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add_many(8)
    await asked(database, settings, LIST, pages=2)
    ((client,), (list_,)) = known(database)
    assert (list_.verb, list_.metadata_prefix, list_.set_spec) == ("ListRecords", "oai_dc", "")
    assert (list_.requests, list_.passed, list_.complete_size) == (2, 6, 8)
    assert list_.state is ListState.UNDER_WAY
    assert list_.client == client.key
    assert (client.under_way, client.finished, client.abandoned) == (1, 0, 0)


async def test_a_list_read_to_its_end_is_recorded_as_finished(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add_many(8)
    await asked(database, settings, LIST, pages=3)
    ((client,), (list_,)) = known(database)
    assert (list_.state, list_.passed) == (ListState.FINISHED, 8)
    assert client.finished == 1


async def test_a_list_that_is_not_continued_is_recorded_as_abandoned(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add_many(8)
    await asked(database, settings, LIST)
    ((client,), (list_,)) = known(database, abandoned_after=timedelta(seconds=-5))
    assert list_.state is ListState.ABANDONED
    assert client.abandoned == 1


async def test_refused_requests_are_counted(database: Database, settings: Settings) -> None:
    await asked(database, settings, *[{"verb": "Identify"}] * 3, client_rate=1)
    ((client,), _) = known(database)
    assert (client.requests, client.refused) == (3, 2)


async def test_client_addresses_are_truncated_or_omitted_as_configured(
    database: Database, settings: Settings
) -> None:
    await asked(database, settings, {"verb": "Identify"}, client_addresses="truncated")
    await asked(database, settings, {"verb": "Identify"}, client_addresses="none")
    assert {client.address for client in known(database)[0]} == {"192.0.2.0/24", ""}


async def test_a_locked_table_neither_delays_answers_nor_loses_counts(
    database: Database, settings: Settings
) -> None:
    app = create_app(small_pages(settings), database, base_url=BASE_URL)
    async with TestClient(TestServer(app)) as client:
        async with await psycopg.AsyncConnection.connect(database.conninfo) as connection:
            await connection.execute("LOCK TABLE provider_client IN ACCESS EXCLUSIVE MODE")
            # Longer than the attempt to write the counts, which fails because of the lock.
            answers = 0
            keeper = StatsWriter(database, kept=timedelta(days=36_500))
            tally = counted(Tally(clients=9, lists=9), datetime.now(UTC))
            batch = tally.take()
            writing = asyncio.create_task(asyncio.to_thread(keeper.write, batch))
            while not writing.done():
                assert (await client.get("/oai", params={"verb": "Identify"})).status == 200
                answers += 1
                await asyncio.sleep(0.02)
            assert not await writing
            await connection.rollback()
        assert await asyncio.to_thread(keeper.write, batch)
    assert sum(each.requests for each in known(database)[0]) == answers + 1


def counted(tally: Tally, moment: datetime = MOMENT, *, agent: str = "one", page: int = 0) -> Tally:
    """A tally with one page of a list counted."""
    progress = ListPosition(
        metadata_prefix="oai_dc",
        set_spec=None,
        from_=None,
        until=MOMENT,
        cursor=page * 10,
        count=10,
        size=None if page else 100,
        ended=page == 9,
    )
    outcome = RequestOutcome(verb="ListRecords", codes=(), progress=progress)
    client = ClientKey(address="192.0.2.1", user_agent=agent, sender="")
    tally.count(client, moment, sent=10, refused=False, outcome=outcome)
    return tally


def test_counts_of_several_processes_are_added_up(database: Database) -> None:
    processes = [Tally(clients=9, lists=9) for _ in range(2)]
    for page in range(10):
        counted(processes[page % 2], MOMENT + timedelta(minutes=page), page=page)
    for tally in reversed(processes):
        with database.session() as session:
            write_down(session, tally.take())
            session.commit()
    ((client,), (list_,)) = known(database)
    assert (client.requests, client.bytes_sent) == (10, 100)
    assert client.last_request - client.first_request == timedelta(minutes=9)
    assert (list_.requests, list_.passed, list_.complete_size) == (10, 100, 100)
    assert (list_.started, list_.state) == (MOMENT, ListState.FINISHED)


def test_a_batch_is_written_with_one_statement_per_table(database: Database) -> None:
    tally = Tally(clients=900, lists=900)
    for number in range(500):
        counted(tally, agent=str(number))
    with database.session() as session:
        session.connection()
        statements = 0

        def note(*_: object) -> None:
            nonlocal statements
            statements += 1

        event.listen(database.engine, "before_cursor_execute", note)
        write_down(session, tally.take())
        event.remove(database.engine, "before_cursor_execute", note)
        session.commit()
    assert statements == 2
    assert len(known(database)[0]) == 500


def test_only_old_clients_and_lists_are_deleted(database: Database) -> None:
    now = datetime.now(UTC)
    tally = counted(Tally(clients=9, lists=9), now - timedelta(days=91), agent="old")
    counted(tally, now - timedelta(days=89), agent="new")
    with database.session() as session:
        write_down(session, tally.take())
        assert forget(session, timedelta(days=90)) == 2
        session.commit()
    clients, lists = known(database)
    assert [client.user_agent for client in clients] == ["new"]
    assert len(lists) == 1


def test_writing_statistics_deletes_old_ones(database: Database) -> None:
    keeper = StatsWriter(database, kept=timedelta(days=1))
    assert keeper.write(counted(Tally(clients=9, lists=9)).take())
    assert known(database) == ([], [])


def test_the_command_shows_clients_and_lists(database: Database, environment: dict[str, str]) -> None:
    with database.session() as session:
        write_down(session, counted(Tally(clients=9, lists=9)).take())
        session.commit()
    (client,) = shown(environment)
    assert (client["address"], client["requests"], client["abandoned"]) == ("192.0.2.1", 1, 1)
    (list_,) = shown(environment, "--lists")
    assert (list_["user_agent"], list_["passed"], list_["state"]) == ("one", 10, "abandoned")


def shown(environment: dict[str, str], *options: str) -> list[dict[str, Any]]:
    return results(environment, "provider", "harvesters", *options)
