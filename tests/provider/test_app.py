"""The provider over HTTP: methods, headers, compression, hostile bytes, and behaviour under load."""

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import psycopg
import pytest
from aiohttp import ClientResponse, FormData
from psycopg import sql
from pytest_aiohttp import AiohttpClient
from yarl import URL

from oai.database import Database, open_database
from oai.settings import Settings
from provider.app import create_app
from tests.provider.answer import read_reply
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, Kept, Provider, reply, small_pages

IDENTIFY = "/oai?verb=Identify"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", IDENTIFY, 200),
        ("POST", IDENTIFY, 200),
        ("HEAD", IDENTIFY, 200),
        ("GET", "/oai", 200),
        ("POST", "/oai", 200),
        ("PUT", IDENTIFY, 405),
        ("DELETE", "/oai", 405),
        ("PATCH", "/oai", 405),
        ("OPTIONS", "/oai", 405),
        ("GET", "/", 302),
        ("GET", "/oai/", 404),
        ("GET", "/OAI?verb=Identify", 404),
        ("POST", "/other", 404),
    ],
)
async def test_only_get_head_and_post_of_the_oai_path_are_answered(
    reading: Provider, method: str, path: str, status: int
) -> None:
    response = await reading.client.request(method, path, allow_redirects=False)
    assert response.status == status
    if status == 405:
        assert set(response.headers["Allow"].split(",")) == {"GET", "HEAD", "POST"}


@pytest.fixture(scope="module")
def filled(kept: Kept) -> None:
    """One document, for tests that only read it."""
    kept.archive().add()


@pytest.mark.usefixtures("filled")
async def test_head_returns_the_headers_of_get_without_a_body(reading: Provider) -> None:
    plain = {"Accept-Encoding": "identity"}
    path = "/oai?verb=ListRecords&metadataPrefix=oai_dc"
    whole = await reading.client.get(path, headers=plain)
    head = await reading.client.head(path, headers=plain)
    assert await head.read() == b""
    assert head.headers["Content-Type"] == whole.headers["Content-Type"] == "text/xml; charset=utf-8"
    assert head.headers["Content-Length"] == whole.headers["Content-Length"]


@pytest.mark.parametrize(
    ("accepted", "compressed"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("deflate, gzip;q=0.5, br", True),
        ("br;q=1.0, gzip ; q=0.001", True),
        ("identity", False),
        ("", False),
        ("br, deflate", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=nonsense", False),
        ("gzip;q=inf", False),
    ],
)
async def test_responses_are_compressed_if_the_client_accepts_gzip(
    reading: Provider,
    accepted: str,
    compressed: bool,  # noqa: FBT001 from the table above
) -> None:
    response = await reading.client.get(
        IDENTIFY, headers={"Accept-Encoding": accepted}, auto_decompress=False
    )
    body = await response.read()
    assert (response.headers.get("Content-Encoding") == "gzip") == compressed
    assert "Accept-Encoding" in response.headers["Vary"].split(", ")
    assert not read_reply(gzip.decompress(body) if compressed else body).codes


@pytest.mark.parametrize(
    ("query", "caching"),
    [
        ("verb=Identify", "no-cache"),
        ("verb=Nonsense", "no-cache"),
        ("verb=ListRecords&metadataPrefix=oai_dc", "no-cache"),
        ("verb=ListRecords&metadataPrefix=oai_dc&until=2999-01-01", "no-cache"),
        ("verb=ListRecords&metadataPrefix=oai_dc&until=2019-01-01", "no-cache"),
        ("verb=ListRecords&metadataPrefix=oai_dc&until=2020-01-01", "public, max-age=3600"),
    ],
)
@pytest.mark.usefixtures("filled")
async def test_only_lists_with_an_until_in_the_past_are_cacheable(
    reading: Provider, query: str, caching: str
) -> None:
    response = await reading.client.get(f"/oai?{query}")
    assert response.headers["Cache-Control"] == caching


async def test_a_page_of_a_token_is_cacheable_for_half_the_lifetime_of_tokens(
    archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add_many(4)
    brief = small_pages(settings, token_hours=0.1)
    provider = Provider(client=await aiohttp_client(create_app(brief, database, base_url=BASE_URL)))
    token = (await provider.ask(verb="ListRecords", metadataPrefix="oai_dc")).token
    response = await provider.client.get(f"/oai?verb=ListRecords&resumptionToken={token}")
    assert response.headers["Cache-Control"] == "public, max-age=180"


async def test_a_form_in_utf8_is_read(reading: Provider) -> None:
    form = {"verb": "ListMetadataFormats", "identifier": "žluťoučký"}
    answer = await reply(await reading.client.post("/oai", data=form))
    assert answer.codes == ["idDoesNotExist"]
    assert answer.request == form


async def test_a_form_that_ends_in_a_line_break_is_read(reading: Provider) -> None:
    answer = await reply(await reading.client.post("/oai", data=b"verb=Identify\r\n", headers=FORM))
    assert not answer.codes


async def test_a_body_of_another_content_type_is_refused_with_415(reading: Provider) -> None:
    multipart = FormData({"verb": "Identify"}, default_to_multipart=True)
    assert (await reading.client.post("/oai", data=multipart)).status == 415
    assert (await reading.client.post("/oai", json={"verb": "Identify"})).status == 415


async def test_a_very_long_body_is_refused(reading: Provider) -> None:
    for encoding, body in (("identity", b"a" * 10**6), ("deflate", zlib.compress(b"a" * 10**6))):
        headers = {**FORM, "Content-Encoding": encoding}
        response = await reading.client.post("/oai", data=body, headers=headers, skip_auto_headers=())
        assert response.status == 413


@asynccontextmanager
async def locked(database: Database) -> AsyncIterator[None]:
    """Lock the table of documents against reading for the block."""
    async with await psycopg.AsyncConnection.connect(database.conninfo) as connection:
        await connection.execute("LOCK TABLE document IN ACCESS EXCLUSIVE MODE")
        yield
        await connection.rollback()


async def served(
    aiohttp_client: AiohttpClient, database: Database, settings: Settings, **changes: object
) -> Provider:
    app = create_app(small_pages(settings, **changes), database, base_url=BASE_URL)
    return Provider(client=await aiohttp_client(app))


def assert_try_later(response: ClientResponse) -> None:
    assert response.status == 503
    assert int(response.headers["Retry-After"]) > 0


async def blocked(database: Database) -> None:
    """Wait until a statement waits for the documents."""
    async with await psycopg.AsyncConnection.connect(database.conninfo, autocommit=True) as connection:
        while not (await connection.execute("SELECT FROM pg_locks WHERE NOT granted")).rowcount:  # noqa: ASYNC110 it is the server's event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("room", [{"waiting_room": 0}, {"waiting_room": 9, "wait_seconds": 0.1}])
async def test_an_overloaded_provider_sends_503_with_retry_after_and_recovers(
    archive: Archive,
    database: Database,
    settings: Settings,
    aiohttp_client: AiohttpClient,
    room: dict[str, float],
) -> None:
    archive.add()
    provider = await served(aiohttp_client, database, settings, threads=1, **room)
    async with locked(database):
        at_work = asyncio.create_task(provider.ask(verb="Identify"))
        await blocked(database)
        assert_try_later(await provider.client.get(IDENTIFY))
        assert_try_later(await provider.client.get(IDENTIFY))
    assert not (await at_work).codes
    assert not (await provider.ask(verb="Identify")).codes


async def test_a_request_that_waits_for_a_thread_gets_one(
    archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add()
    provider = await served(aiohttp_client, database, settings, threads=1, waiting_room=9, wait_seconds=60)
    answers = await asyncio.gather(
        *(provider.ask(verb="ListRecords", metadataPrefix="oai_dc") for _ in range(9))
    )
    assert all(len(answer.identifiers) == 1 for answer in answers)


async def test_a_slow_statement_gets_503_with_retry_after(
    archive: Archive, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add()
    with open_database(settings, pool_size=1, statement_seconds=2) as database:
        provider = await served(aiohttp_client, database, settings, threads=1)
        async with locked(database):
            assert_try_later(await provider.client.get(IDENTIFY))
        assert not (await provider.ask(verb="Identify")).codes
        await provider.client.close()


async def test_an_unavailable_database_gets_503_with_retry_after(
    database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    provider = await served(aiohttp_client, database, settings)
    assert not (await provider.ask(verb="Identify")).codes
    with psycopg.connect(sibling(database, "postgres"), autocommit=True) as connection:
        name = sql.Identifier(database.url.database or "")
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS false").format(name))
        others = "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = %s"
        connection.execute(others, [database.url.database])
        for _ in range(3):
            assert_try_later(await provider.client.get(IDENTIFY))
        connection.execute(sql.SQL("ALTER DATABASE {} ALLOW_CONNECTIONS true").format(name))
    assert not (await provider.ask(verb="Identify")).codes


def sibling(database: Database, name: str) -> str:
    """The address of another database on the same server."""
    url = database.url.set(drivername="postgresql", database=name)
    return url.render_as_string(hide_password=False)


async def test_a_client_that_disconnects_releases_its_place(
    archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    archive.add()
    app = create_app(small_pages(settings, threads=1, waiting_room=9), database, base_url=BASE_URL)
    provider = Provider(client=await aiohttp_client(app, server_kwargs={"handler_cancellation": True}))
    async with locked(database):
        leaving = [asyncio.create_task(provider.client.get(IDENTIFY)) for _ in range(3)]
        await blocked(database)
        for task in leaving:
            task.cancel()
        await asyncio.gather(*leaving, return_exceptions=True)
    assert not (await provider.ask(verb="Identify")).codes


async def test_the_base_url_does_not_depend_on_the_host_header(reading: Provider) -> None:
    response = await reading.client.get(URL(IDENTIFY, encoded=True), headers={"Host": "evil.example"})
    assert (await reply(response)).texts("//o:baseURL") == [BASE_URL]
