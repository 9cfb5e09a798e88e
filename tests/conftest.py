"""What all tests share: a real PostgreSQL, with a fresh copy of the migrated database for each test."""

import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis
import psycopg
import pytest
from playwright.async_api import Browser, BrowserContext, Page
from pydantic import SecretStr
from sqlalchemy import URL, make_url

from oai.database import Database, open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.settings import Settings
from tests.chromium import PATIENCE, connected, shared
from tests.inspector import Inspector, inspecting

_TEMPLATE = "zatva_template"
_MEMORY = Path("/dev/shm")  # noqa: S108 Linux has its memory there; names in it are made by mkdtemp
_ROOM = 2 * 2**30
"""Bytes that must be free in memory before servers are put there."""
_PREFIX = "zatva-tests-"
"""What its folders' names begin with; the process id comes next."""
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
"""Settings of a server that may forget on power loss, and has no tables that grow old."""
_numbers = itertools.count(1)

# How long an example takes tells of the machine and what else it does, not of the code.
hypothesis.settings.register_profile("zatva", deadline=None)
hypothesis.settings.load_profile("zatva")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this suite."""
    parser.addoption("--freeze", action="store_true", help="write the files in tests/interfaces/frozen")
    parser.addoption("--long", action="store_true", help="property and kill tests with many more examples")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what `--long` alone runs, and begin with what takes longest."""
    if not config.getoption("--long"):
        _leave_out_long(config, items)
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = _longest_first(items, processes)


def pytest_collection_finish() -> None:
    """Let the collector of garbage pass over what stays anyway: thousands of tests, and all modules.

    It would look at all of that again and again, which is a quarter of the time of most tests.
    """
    gc.collect()
    gc.freeze()


def _longest_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """The marked ones at the head of each process's part, so that none of them runs alone at the end.

    xdist gives each process one part of the list, and lets those that are done take from the tails of others.
    """
    slow = [item for item in items if item.get_closest_marker("slow")]
    others = iter([item for item in items if not item.get_closest_marker("slow")])
    ordered: list[pytest.Item] = []
    for process in range(processes):
        size = (len(items) - len(ordered)) // (processes - process)
        heads = slow[process::processes]
        ordered += [*heads, *itertools.islice(others, max(0, size - len(heads)))]
    return ordered + list(others)


def _leave_out_long(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take away what takes a minute or more of two processors."""
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(scope="session")
def quick_folder() -> Iterator[Path]:
    """A folder for servers that may forget: in memory where there is room, for tests copy databases."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    place = _MEMORY if roomy else Path(tempfile.gettempdir())
    _remove_leftovers(place)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    folder.chmod(0o711)  # root's server has an account of its own, which must pass
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server_url(quick_folder: Path) -> Iterator[URL]:
    """The run's server: `ZATVA_TEST_DATABASE_URL`, or an embedded one that forgets on power loss."""
    given = os.environ.get("ZATVA_TEST_DATABASE_URL")
    if given:
        yield make_url(given)
        return
    data = quick_folder / "server"
    server = EmbeddedServer(data)
    server.acquire()
    make_careless(server.url)
    yield server.url
    server.release()
    shutil.rmtree(cluster_folder(data))


def _remove_leftovers(place: Path) -> None:
    """Give back what runs took that were killed; their servers' keepers have stopped the servers."""
    for left in place.glob(f"{_PREFIX}*-*"):
        try:
            os.kill(int(left.name.removeprefix(_PREFIX).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)  # another run may do the same
        except PermissionError:
            continue  # another user's, and alive


def make_careless(server: URL) -> None:
    """Let a server write without waiting for the disk."""
    settings = [f"ALTER SYSTEM SET {name} = {value}" for name, value in _CARELESS.items()]
    _execute(server, *settings, "SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def maintenance(server_url: URL) -> Iterator[psycopg.Connection]:
    """A connection to make and drop databases by; a fresh one each time would take a quarter of that time."""
    with psycopg.connect(_conninfo(server_url), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(
    maintenance: psycopg.Connection, server_url: URL, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """A migrated database that tests copy."""
    name = f"{_TEMPLATE}_{os.getpid()}"
    maintenance.execute(f"DROP DATABASE IF EXISTS {name}")
    maintenance.execute(f"CREATE DATABASE {name}")
    url = server_url.set(database=name)
    with open_database(_settings(url, tmp_path_factory.mktemp("template"))):
        pass
    return name


@pytest.fixture
def settings(
    maintenance: psycopg.Connection, server_url: URL, template: str, tmp_path: Path
) -> Iterator[Settings]:
    """Settings for one test: its own database, its own data folder."""
    name = f"zatva_test_{os.getpid()}_{next(_numbers)}"
    maintenance.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    yield _settings(server_url.set(database=name), tmp_path / "data")
    maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def database(settings: Settings) -> Iterator[Database]:
    """The test's database, open. Its tables are those of the template, so they are not looked at again."""
    with open_database(settings, check_tables=False) as database:
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


@pytest.fixture(scope="session")
def browser_address() -> Iterator[str]:
    """Where this process has its browser, one for all tests: to start it takes longer than most of them."""
    with shared() as address:
        yield address


@pytest.fixture
async def chromium(browser_address: str) -> AsyncIterator[Browser]:
    """A real browser. It has no memory: each context is a profile of its own, and ends with the test."""
    async for browser in connected(browser_address):
        yield browser


@pytest.fixture
async def context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """A fresh profile of a user in Prague."""
    context = await chromium.new_context(timezone_id="Europe/Prague", locale="en-GB")
    context.set_default_timeout(PATIENCE)
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    """A tab."""
    return await context.new_page()


@pytest.fixture
async def inspector(context: BrowserContext) -> Inspector:
    """One that looks at pages in a tab."""
    return await inspecting(context)


def _settings(url: URL, data: Path) -> Settings:
    return Settings(data=data, database_url=SecretStr(url.render_as_string(hide_password=False)))


def _conninfo(url: URL) -> str:
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _execute(url: URL, *statements: str) -> None:
    with psycopg.connect(_conninfo(url), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
