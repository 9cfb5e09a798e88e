"""Fixtures of the provider's tests: an archive to fill, and the provider over HTTP on a separate port."""

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request
from pytest_aiohttp import AiohttpClient
from sqlalchemy import Engine
from yarl import URL

from oai.database import Database, open_database
from oai.settings import Settings
from provider.app import create_app
from tests.conftest import opened
from tests.provider.answer import Reply, read_reply
from tests.provider.archive import Archive
from tests.provider.served import Serve, Served
from tests.provider.shared_server import SharedServer, shared_server
from tests.reused_database import backends, reused, settings

__all__ = ["backends", "reused", "settings"]

BASE_URL = "http://archive.example/oai"


@dataclass(frozen=True, kw_only=True)
class Provider:
    """A served provider."""

    client: TestClient[Request, Application]

    async def ask(self, **arguments: str) -> Reply:
        """Ask by GET; `from_` stands for `from`."""
        parameters = {name.rstrip("_"): value for name, value in arguments.items()}
        return await reply(await self.client.get("/oai", params=parameters))

    async def ask_raw(self, query: str) -> Reply:
        """Ask by GET with a query string that is sent as it is."""
        return await reply(await self.client.get(URL(f"/oai?{query}", encoded=True)))

    async def pages(self, **arguments: str) -> Sequence[Reply]:
        """Ask for a list and follow its tokens to the end."""
        found = [await self.ask(**arguments)]
        while found[-1].token:
            found.append(await self.ask(verb=arguments["verb"], resumptionToken=found[-1].token))
            assert len(found) < 1000
        return found

    async def listed(self, **arguments: str) -> list[str]:
        """The identifiers of a list in all its pages, the same as headers and as records."""
        headers, records = [
            await self._identifiers(verb, arguments) for verb in ("ListIdentifiers", "ListRecords")
        ]
        assert headers == records
        return headers

    async def _identifiers(self, verb: str, arguments: dict[str, str]) -> list[str]:
        pages = await self.pages(verb=verb, metadataPrefix="oai_dc", **arguments)
        return [identifier for page in pages for identifier in page.identifiers]


async def reply(response: ClientResponse) -> Reply:
    """The valid OAI-PMH answer in a response."""
    assert response.status == 200, await response.text()
    assert response.headers["Content-Type"] == "text/xml; charset=utf-8"
    return read_reply(await response.read())


@pytest.fixture
def archive(database: Database, settings: Settings) -> Archive:
    return Archive(database, settings)


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A database that is filled once, for the tests of a module that only read it."""

    settings: Settings
    engine: Engine

    def open(self) -> Database:
        """Let the engine that all tests of a process share connect to it."""
        return opened(self.engine, self.settings)

    def archive(self) -> Archive:
        """The archive in it, to be filled."""
        return Archive(self.open(), self.settings)


@pytest.fixture(scope="module")
def kept(shared_settings: Settings, engine: Engine) -> Kept:
    """An empty database per module, filled by its fixtures; this saves a third of a small test's time."""
    return Kept(settings=shared_settings, engine=engine)


@pytest.fixture(scope="module")
def kept_environment(kept: Kept) -> dict[str, str]:
    """The environment of a real process that only reads the module's database."""
    assert kept.settings.database_url is not None
    return {
        **os.environ,
        "ZATVA_DATABASE_URL": kept.settings.database_url.get_secret_value(),
        "ZATVA_DATA": str(kept.settings.data),
    }


@pytest.fixture
def kept_database(kept: Kept) -> Database:
    """The module's database, for a test that only reads it."""
    return kept.open()


@pytest.fixture(scope="module")
def standing_server(kept: Kept) -> Iterator[SharedServer]:
    """The provider with the same small pages, on the module's database, with separate connections."""
    with open_database(kept.settings, check_tables=False) as database:
        app = create_app(small_pages(kept.settings), database, base_url=BASE_URL)
        with shared_server(app) as server:
            yield server


@pytest.fixture
async def reading(standing_server: SharedServer) -> AsyncIterator[Provider]:
    """A separate client of the module's provider, for a test that only reads."""
    async with TestClient(standing_server) as client:
        yield Provider(client=client)


@pytest.fixture
async def provider(database: Database, settings: Settings, aiohttp_client: AiohttpClient) -> Provider:
    """The provider with pages of three records, four headers and five sets, each made on request."""
    return Provider(
        client=await aiohttp_client(create_app(small_pages(settings), database, base_url=BASE_URL))
    )


def small_pages(settings: Settings, **changes: object) -> Settings:
    """These settings with small pages and the provider's settings changed."""
    sizes: dict[str, object] = {
        "records_per_answer": 3,
        "headers_per_answer": 4,
        "sets_per_answer": 5,
        "pages_ahead": False,
    }
    sizes |= changes
    return settings.model_copy(update={"provider": settings.provider.model_copy(update=sizes)})


@pytest.fixture
def serve(environment: dict[str, str]) -> Iterator[Serve]:
    """Starts providers on free ports, and ends them after the test."""
    started: list[Served] = []

    def start(*options: str) -> Served:
        port = () if "--port" in options else ("--port", "0")
        started.append(Served(environment, *port, *options))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()
