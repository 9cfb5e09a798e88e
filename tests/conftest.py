"""What all tests share: a real PostgreSQL, with a fresh copy of the migrated database for each test."""

import itertools
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from playwright.async_api import Browser, BrowserContext, Page
from pydantic import SecretStr
from sqlalchemy import URL, make_url

from oai.database import Database, open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.settings import Settings
from tests.chromium import launched

_TEMPLATE = "zatva_template"
_numbers = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption("--long", action="store_true", help="property and kill tests with many more examples")


@pytest.fixture(scope="session")
def server_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[URL]:
    """The run's server: `ZATVA_TEST_DATABASE_URL`, or an embedded one that forgets on power loss."""
    given = os.environ.get("ZATVA_TEST_DATABASE_URL")
    if given:
        yield make_url(given)
        return
    data = tmp_path_factory.mktemp("server")
    server = EmbeddedServer(data)
    server.acquire()
    with psycopg.connect(_conninfo(server.url), autocommit=True) as connection:
        connection.execute("ALTER SYSTEM SET fsync = off")
        connection.execute("ALTER SYSTEM SET synchronous_commit = off")
        connection.execute("SELECT pg_reload_conf()")
    yield server.url
    server.release()
    shutil.rmtree(cluster_folder(data))


@pytest.fixture(scope="session")
def template(server_url: URL, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A migrated database that tests copy."""
    name = f"{_TEMPLATE}_{os.getpid()}"
    _execute(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    with open_database(_settings(server_url.set(database=name), tmp_path_factory.mktemp("template"))):
        return name


@pytest.fixture
def settings(server_url: URL, template: str, tmp_path: Path) -> Iterator[Settings]:
    """Settings for one test: its own database, its own data folder."""
    name = f"zatva_test_{os.getpid()}_{next(_numbers)}"
    _execute(server_url, f"CREATE DATABASE {name} TEMPLATE {template}")
    yield _settings(server_url.set(database=name), tmp_path / "data")
    _execute(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    """The test's database, open."""
    with open_database(settings) as database:
        yield database


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    """The environment for a real process that works on the test's database and data folder."""
    assert settings.database_url is not None
    return {
        **os.environ,
        "ZATVA_DATABASE_URL": settings.database_url.get_secret_value(),
        "ZATVA_DATA": str(settings.data),
    }


@pytest.fixture
async def chromium() -> AsyncIterator[Browser]:
    """A real browser."""
    async for browser in launched():
        yield browser


@pytest.fixture
async def context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """A fresh profile of a user in Prague."""
    context = await chromium.new_context(timezone_id="Europe/Prague", locale="en-GB")
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    """A tab."""
    return await context.new_page()


def _settings(url: URL, data: Path) -> Settings:
    return Settings(data=data, database_url=SecretStr(url.render_as_string(hide_password=False)))


def _conninfo(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _execute(url: URL, *statements: str) -> None:
    with psycopg.connect(_conninfo(url), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
