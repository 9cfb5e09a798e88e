"""Fixtures of all tests: a real PostgreSQL, with a fresh copy of the migrated database for each test."""

import contextlib
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
from sqlalchemy import URL, Engine, event, make_url

from oai.database import Database, open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.settings import Settings
from tests.chromium import PATIENCE, connected, shared
from tests.inspector import Inspector, inspecting

_TEMPLATE = "zatva_template"
_MEMORY = Path("/dev/shm")  # noqa: S108 memory file system of Linux; names in it are made by mkdtemp
_ROOM = 2 * 2**30
"""Bytes that must be free in memory for database files to be placed there."""
_PREFIX = "zatva-tests-"
"""Prefix of the directory names, followed by the process id."""
_CARELESS = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
"""Settings of a server without durability on power loss and without old tables."""
_HANGING_SECONDS = 600
"""A test that has not ended by then fails with the stacks of its threads, and its process is replaced.

An exception would not do: at the end of a test, asyncio waits for threads, and one of them may be what hangs.
"""
COPIED = "copied_database"
"""Marks tests for which a database that was emptied differs from a new one."""
_numbers = itertools.count(1)

# The duration of an example depends on the machine and its load, not on the code.
hypothesis.settings.register_profile("zatva", deadline=None, max_examples=50)
hypothesis.settings.register_profile("long", deadline=None, max_examples=300)
hypothesis.settings.load_profile("zatva")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of this test suite."""
    parser.addoption("--freeze", action="store_true", help="write the files in tests/interfaces/frozen")
    parser.addoption("--long", action="store_true", help="property and kill tests with many more examples")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the number of examples, before the modules with property tests are imported."""
    config.addinivalue_line("markers", f"{COPIED}(reason): needs a copy of the template, not a used database")
    _use(_processors())
    gc.disable()  # nothing is garbage yet; scanning all that is collected takes a sixth of the time
    if config.getoption("--long"):
        hypothesis.settings.load_profile("long")


def _processors() -> set[int]:
    """Return the processors to use: one for each process of xdist, all for others and for those beyond.

    A test, its servers and its database wait for each other in turn. On a virtual machine, waking a process
    on another processor takes several times as long as on the same one: `SELECT 1` took 290 µs and 75 µs.
    """
    every = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    return {every[int(worker)]} if worker and int(worker) < len(every) else set(every)


def _use(processors: set[int]) -> None:
    if processors:
        os.sched_setaffinity(0, processors)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests that only `--long` runs, limit the time of the others, and put the slowest first."""
    if not config.getoption("--long"):
        _leave_out_long(config, items)
        for item in items:
            item.add_marker(pytest.mark.timeout(_HANGING_SECONDS, method="thread"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = _longest_first(items, processes)


def pytest_collection_finish() -> None:
    """Exempt permanent objects (thousands of tests, all modules) from garbage collection.

    The collector would scan them again and again, which takes a quarter of the time of most tests.
    """
    gc.collect()
    gc.freeze()
    gc.enable()


def _longest_first(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Put the marked tests at the head of each process's part, so that none runs alone at the end.

    xdist gives each process one part of the list, and idle processes take tests from the tails of others.
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
    """Deselect tests that take a minute or more on two processors."""
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not item.get_closest_marker("long")]


@pytest.fixture(scope="session")
def quick_folder() -> Iterator[Path]:
    """Yield a directory for servers without durability: in memory if it has room (tests copy databases)."""
    roomy = _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _ROOM
    place = _MEMORY if roomy else Path(tempfile.gettempdir())
    _remove_leftovers(place)
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=place))
    folder.chmod(
        0o711
    )  # a server started by root runs under another account, which must traverse the directory
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def server_url(quick_folder: Path) -> Iterator[URL]:
    """Yield the URL of the run's server: `ZATVA_TEST_DATABASE_URL`, or an embedded one without durability."""
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
    """Remove directories of killed runs; the keepers of their servers have stopped the servers."""
    for left in place.glob(f"{_PREFIX}*-*"):
        try:
            os.kill(int(left.name.removeprefix(_PREFIX).partition("-")[0]), 0)
        except ProcessLookupError:
            shutil.rmtree(left, ignore_errors=True)  # another run may remove it at the same time
        except PermissionError:
            continue  # the process exists and belongs to another user


def make_careless(server: URL) -> None:
    """Configure a server to write without waiting for the disk."""
    settings = [f"ALTER SYSTEM SET {name} = {value}" for name, value in _CARELESS.items()]
    _execute(server, *settings, "SELECT pg_reload_conf()")


@pytest.fixture(scope="session")
def maintenance(server_url: URL) -> Iterator[psycopg.Connection]:
    """Yield a connection that creates and drops databases; reconnecting is a quarter of that time."""
    with psycopg.connect(conninfo(server_url), autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(
    maintenance: psycopg.Connection, server_url: URL, tmp_path_factory: pytest.TempPathFactory
) -> str:
    """Return the name of a migrated database, which tests copy: `ZATVA_TEST_TEMPLATE`, or a new one."""
    given = os.environ.get("ZATVA_TEST_TEMPLATE")
    if given:
        return given
    name = f"{_TEMPLATE}_{os.getpid()}"
    create_template(maintenance, server_url, name, tmp_path_factory.mktemp("template"))
    return name


def create_template(maintenance: psycopg.Connection, server: URL, name: str, data: Path) -> None:
    """Create a migrated database on a server; `data` is the data directory to migrate with."""
    maintenance.execute(f"DROP DATABASE IF EXISTS {name}")
    maintenance.execute(f"CREATE DATABASE {name}")
    with open_database(settings_for(server.set(database=name), data)):
        pass


@pytest.fixture
def settings(copied_settings: Settings) -> Settings:
    """Return settings for one test; most folders have a database that is used again instead."""
    return copied_settings


@pytest.fixture
def copied_settings(
    maintenance: psycopg.Connection, server_url: URL, template: str, tmp_path: Path
) -> Iterator[Settings]:
    """Return settings for one test: a database and a data directory of its own."""
    with _copied(maintenance, server_url, template, tmp_path / "data") as settings:
        yield settings


@pytest.fixture(scope="module")
def shared_settings(
    maintenance: psycopg.Connection,
    server_url: URL,
    template: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Settings]:
    """Return settings for a module whose tests only read, or have repositories of their own."""
    with _copied(maintenance, server_url, template, tmp_path_factory.mktemp("shared")) as settings:
        yield settings


@contextlib.contextmanager
def _copied(maintenance: psycopg.Connection, server: URL, template: str, data: Path) -> Iterator[Settings]:
    """Yield settings with a copy of the template, which is dropped at the end."""
    name = f"zatva_test_{os.getpid()}_{next(_numbers)}"
    maintenance.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    yield settings_for(server.set(database=name), data)
    maintenance.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
def engine(server_url: URL, template: str, quick_folder: Path) -> Iterator[Engine]:
    """Yield an engine that connects to the database that its URL names at that moment.

    All tests of a process share it, because it keeps compiled statements: without them a test spends a
    fifth of its time compiling the same ones again.
    """
    settings = settings_for(server_url.set(database=template), quick_folder)
    with open_database(settings, check_tables=False) as database:
        engine = database.engine

        @event.listens_for(engine, "do_connect")
        def _choose(_dialect: object, _record: object, _words: object, parameters: dict[str, object]) -> None:
            parameters["dbname"] = engine.url.database

        yield engine


@pytest.fixture
def database(engine: Engine, settings: Settings) -> Database:
    """Open the test's database. Its schema is not checked again, because it is a copy of the template's."""
    return opened(engine, settings)


def opened(engine: Engine, settings: Settings) -> Database:
    """Let the engine connect to the database of these settings; what it is connected to already may stay."""
    assert settings.database_url is not None
    url = make_url(settings.database_url.get_secret_value())
    if engine.url.database != url.database:
        engine.dispose()
        engine.url = engine.url.set(database=url.database)
    return Database(engine=engine)


@pytest.fixture
def environment(settings: Settings) -> dict[str, str]:
    """Return the environment of a real process that uses the test's database and data directory."""
    assert settings.database_url is not None
    return {
        **os.environ,
        "ZATVA_DATABASE_URL": settings.database_url.get_secret_value(),
        "ZATVA_DATA": str(settings.data),
    }


@pytest.fixture(scope="session")
def browser_address() -> Iterator[str]:
    """Yield the address of this process's browser, shared because starting it is slower than most tests."""
    with shared() as address:
        yield address


@pytest.fixture
async def chromium(browser_address: str) -> AsyncIterator[Browser]:
    """Connect to a real browser. It keeps no state: each context is a new profile and ends with the test."""
    async for browser in connected(browser_address):
        yield browser


@pytest.fixture
async def context(chromium: Browser) -> AsyncIterator[BrowserContext]:
    """Open a new profile of a user in Prague."""
    context = await chromium.new_context(timezone_id="Europe/Prague", locale="en-GB")
    context.set_default_timeout(PATIENCE)
    yield context
    await context.close()


@pytest.fixture
async def page(context: BrowserContext) -> Page:
    """Open a tab."""
    return await context.new_page()


@pytest.fixture
async def inspector(context: BrowserContext, request: pytest.FixtureRequest) -> Inspector:
    """One that looks at pages in a tab."""
    return await inspecting(context, long=request.config.getoption("--long"))


def settings_for(url: URL, data: Path) -> Settings:
    """Settings with a database and a data directory."""
    settings = Settings(data=data, database_url=SecretStr(url.render_as_string(hide_password=False)))
    # Sections that are not given are the class's default objects; a test that changes one must not change
    # them for all tests of its process.
    return settings.model_copy(deep=True)


def conninfo(url: URL) -> str:
    """Return a URL in the form that psycopg reads."""
    return url.set(drivername="postgresql").render_as_string(hide_password=False)


def _execute(url: URL, *statements: str) -> None:
    with psycopg.connect(conninfo(url), autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement)
