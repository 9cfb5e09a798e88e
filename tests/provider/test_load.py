"""Slow clients, clients that disconnect, and clients that send too many requests."""

import asyncio
import threading
from pathlib import Path

import pytest
from aiohttp import ClientSession

from oai.connections import CONNECTIONS
from oai.database import Database, open_database
from oai.settings import Settings
from provider.http.admission import ADMISSION, Admission
from provider.http.middleware import OBSERVERS
from provider.http.query_cancellation import Statements
from tests.provider.archive import Archive
from tests.provider.listening import (
    IDENTIFY,
    SECONDS,
    app_of,
    eventually,
    listening,
    locked,
    status_of,
    waiting_statements,
)
from tests.provider.raw import connect, get


def long_records(archive: Archive, number: int) -> None:
    """Records that fill the buffers between server and client."""
    for index in range(number):
        archive.add(f"http://example.cz/{index}/" + "a" * 2000, title="t" * 200_000)


async def test_the_statement_of_a_client_that_disconnects_is_cancelled(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add()
    with open_database(settings, pool_size=1, statement_seconds=3600) as own:
        app = app_of(own, settings, threads=1)
        async with listening(app) as port, locked(database):
            leaving = await connect(port)
            leaving.writer.write(get("verb=ListRecords&metadataPrefix=oai_dc"))
            await waiting_statements(database, 1)
            await leaving.close()
            # The lock is still held: only cancelling ends the statement.
            await waiting_statements(database, 0)
            await eventually(lambda: app[ADMISSION].working == 0)
            assert await status_of(port, get("verb=ListMetadataFormats")) == 200


async def test_a_waiting_request_of_a_client_that_disconnects_is_dropped(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add()
    app = app_of(database, settings, threads=1, wait_seconds=60)
    async with listening(app) as port:
        async with locked(database):
            working = asyncio.create_task(status_of(port))
            await waiting_statements(database, 1)
            leaving = await connect(port)
            leaving.writer.write(IDENTIFY)
            await eventually(lambda: app[ADMISSION].waiting == 1)
            await leaving.close()
            await eventually(lambda: app[ADMISSION].waiting == 0)
        assert await working == 200
        assert await status_of(port) == 200


async def test_a_slow_reader_occupies_no_thread_and_is_disconnected(
    archive: Archive, database: Database, settings: Settings
) -> None:
    long_records(archive, 30)
    app = app_of(database, settings, threads=1, records_per_answer=30, slow_seconds=1, slow_rate=10**9)
    async with listening(app) as port:
        slow = await connect(port, receive_buffer=4096)
        slow.writer.write(get("verb=ListRecords&metadataPrefix=oai_dc", "Accept-Encoding: identity"))
        assert (await slow.reader.readline()).split()[1] == b"200"
        assert app[ADMISSION].working == 0
        assert await status_of(port) == 200
        await eventually(lambda: app[CONNECTIONS].slowness.cut_off == 1)
        received = await slow.rest()
        assert len(received) < 30 * 200_000
        await slow.close()


async def test_a_reader_at_the_minimum_rate_gets_the_complete_response(
    archive: Archive, database: Database, settings: Settings
) -> None:
    long_records(archive, 5)
    app = app_of(database, settings, records_per_answer=5, slow_seconds=0.4, slow_rate=1000)
    async with listening(app) as port:
        slow = await connect(port, receive_buffer=4096)
        slow.writer.write(
            get("verb=ListRecords&metadataPrefix=oai_dc", "Accept-Encoding: identity", "Connection: close")
        )
        received = b""
        while piece := await slow.reader.read(65_536):
            received += piece
            await asyncio.sleep(0.01)
        assert received.endswith(b"</OAI-PMH>\n")
        assert app[CONNECTIONS].slowness.cut_off == 0
        await slow.close()


@pytest.mark.parametrize("sent", [b"", b"GET /oai?verb=Ident", IDENTIFY[:-2], IDENTIFY + b"GET"])
async def test_a_connection_without_a_complete_request_is_closed(
    database: Database, settings: Settings, sent: bytes
) -> None:
    async with listening(app_of(database, settings, idle_seconds=0.3)) as port:
        client = await connect(port)
        client.writer.write(sent)
        await asyncio.wait_for(client.rest(), SECONDS)
        await client.close()


async def test_a_connection_with_slowly_sent_headers_is_closed(
    database: Database, settings: Settings
) -> None:
    async with listening(app_of(database, settings, idle_seconds=0.3)) as port:
        client = await connect(port)
        client.writer.write(b"GET /oai?verb=Identify HTTP/1.1\r\n")
        ending = asyncio.create_task(client.rest())
        number = 0
        while not ending.done():
            number += 1
            client.writer.write(f"X-{number}: y\r\n".encode())
            await asyncio.wait([ending], timeout=0.05)
            assert number < 500
        await client.close()


async def test_a_slowly_sent_form_is_answered_with_408(database: Database, settings: Settings) -> None:
    async with listening(app_of(database, settings, body_seconds=0.3)) as port:
        client = await connect(port)
        client.writer.write(
            b"POST /oai HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n"
            b"Content-Length: 1000\r\n\r\nverb="
        )
        line = await asyncio.wait_for(client.reader.readline(), SECONDS)
        assert line.split()[1] == b"408"
        await client.close()


async def test_only_the_client_over_its_limit_gets_503(
    archive: Archive, database: Database, settings: Settings
) -> None:
    archive.add()
    app = app_of(database, settings, client_requests=1, threads=2)
    greedy, other = (get("verb=Identify", f"X-Forwarded-For: 192.0.2.{n}") for n in (1, 2))
    async with listening(app) as port:
        async with locked(database):
            first = asyncio.create_task(status_of(port, greedy))
            await waiting_statements(database, 1)
            assert await status_of(port, greedy) == 503
            second = asyncio.create_task(status_of(port, other))
            await waiting_statements(database, 2)
        assert list(await asyncio.gather(first, second)) == [200, 200]
        assert await status_of(port, greedy) == 200


async def test_an_unread_response_counts_as_a_running_request(
    archive: Archive, database: Database, settings: Settings
) -> None:
    long_records(archive, 30)
    app = app_of(database, settings, client_requests=1, records_per_answer=30)
    whose = "X-Forwarded-For: 192.0.2.1"
    async with listening(app) as port:
        slow = await connect(port, receive_buffer=4096)
        slow.writer.write(get("verb=ListRecords&metadataPrefix=oai_dc", whose, "Accept-Encoding: identity"))
        await slow.reader.readline()
        assert await status_of(port, get("verb=Identify", whose)) == 503
        await slow.close()
        await eventually(lambda: app[OBSERVERS].limits.remembered == 0)
        assert await status_of(port, get("verb=Identify", whose)) == 200


async def test_the_trusted_proxy_itself_is_not_limited(database: Database, settings: Settings) -> None:
    app = app_of(database, settings, client_rate=1)
    async with listening(app) as port:
        assert [await status_of(port) for _ in range(3)] == [200, 200, 200]


async def test_x_forwarded_for_of_an_untrusted_sender_is_ignored(
    database: Database, settings: Settings
) -> None:
    app = app_of(database, settings, client_rate=1, trusted_proxies=())
    async with listening(app) as port:
        forged = [get("verb=Identify", f"X-Forwarded-For: 192.0.2.{number}") for number in range(3)]
        assert [await status_of(port, sent) for sent in forged] == [200, 503, 503]


async def test_a_503_response_has_retry_after_and_the_reason(database: Database, settings: Settings) -> None:
    app = app_of(database, settings, client_rate=1, trusted_proxies=())
    async with listening(app) as port, ClientSession() as session:
        answers = [await session.get(f"http://127.0.0.1:{port}/oai?verb=Identify") for _ in range(2)]
        assert answers[1].status == 503
        assert 0 < int(answers[1].headers["Retry-After"]) <= 60
        assert "more than 1 requests in a minute" in await answers[1].text()


async def test_many_clients_get_no_error_but_503_and_all_resources_are_released(
    archive: Archive, settings: Settings
) -> None:
    identifiers = archive.add_many(8)
    with open_database(settings, pool_size=2, statement_seconds=30) as own:
        app = app_of(own, settings, threads=2, waiting_room=8, wait_seconds=1)
        async with listening(app) as port:
            assert await status_of(port) == 200
            before = open_resources()
            async with ClientSession(f"http://127.0.0.1:{port}") as session:
                lists = [read_out(session) for _ in range(16)]
                records = get_records(session, identifiers)
                statuses = set.union(*await asyncio.gather(*lists, records))
            assert statuses <= {200, 503}
            assert 200 in statuses
            await eventually(lambda: app[ADMISSION].working == app[ADMISSION].waiting == 0)
            assert app[OBSERVERS].limits.remembered == 0
            await eventually(lambda: open_resources()[0] <= before[0] and open_resources()[2] <= before[2])
            # The pool's second thread and the resolver's may have been started.
            assert open_resources()[1] <= before[1] + 4


def open_resources() -> tuple[int, int, int]:
    """Return the present numbers of tasks, threads and open files."""
    return len(asyncio.all_tasks()), threading.active_count(), len(list(Path("/proc/self/fd").iterdir()))


async def read_out(session: ClientSession) -> set[int]:
    """Read a list to its end, repeating refused requests; return the statuses."""
    statuses, query = set(), {"verb": "ListIdentifiers", "metadataPrefix": "oai_dc"}
    while query:
        async with session.get("/oai", params=query) as response:
            statuses.add(response.status)
            text = await response.text()
        if response.status == 200:
            token = text.partition("<resumptionToken")[2].partition(">")[2].partition("<")[0]
            query = {"verb": "ListIdentifiers", "resumptionToken": token} if token else {}
    return statuses


async def get_records(session: ClientSession, identifiers: list[str]) -> set[int]:
    statuses = set()
    for identifier in identifiers:
        query = {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": identifier}
        async with session.get("/oai", params=query) as response:
            statuses.add(response.status)
    return statuses


async def test_lists_and_look_ups_use_at_most_half_of_the_threads(database: Database) -> None:
    doors = Admission(threads=4, waiting_room=10, wait_seconds=20, statements=Statements([database.engine]))
    begun, over = threading.Semaphore(0), threading.Event()

    def page() -> None:
        begun.release()
        over.wait(20)

    pages = [asyncio.create_task(doors.run(page, lengthy=True)) for _ in range(4)]
    await asyncio.to_thread(begun.acquire)
    look_ups = [asyncio.create_task(doors.run(page, lengthy=True, look_up=True)) for _ in range(4)]
    await asyncio.to_thread(begun.acquire)
    assert await doors.run(lambda: "at once") == "at once"
    assert (doors.working, doors.waiting) == (2, 6)
    over.set()
    await asyncio.gather(*pages, *look_ups)
    await doors.close()
    assert (doors.working, doors.waiting) == (0, 0)
