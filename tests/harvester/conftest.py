"""What the harvester's tests share."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import URL, Engine, event

from harvester.harvest import checkpoint
from oai.database import Database, open_database
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.library import Library
from tests.reused import ReusedDatabase


@pytest.fixture(scope="session")
def reused(maintenance: psycopg.Connection, server_url: URL, template: str) -> Iterator[ReusedDatabase]:
    """Yield the database that the tests of this folder use one after the other."""
    made = ReusedDatabase(maintenance, server_url, template)
    yield made
    made.close()


@pytest.fixture(scope="session")
def backends(engine: Engine) -> set[int]:
    """The server processes of the engine's connections."""
    found: set[int] = set()

    @event.listens_for(engine, "connect")
    def _note(connection: psycopg.Connection, _record: object) -> None:
        found.add(connection.info.backend_pid)

    @event.listens_for(engine, "close")
    def _forget(connection: psycopg.Connection, _record: object) -> None:
        found.discard(connection.info.backend_pid)

    return found


@pytest.fixture
def settings(
    reused: ReusedDatabase, engine: Engine, backends: set[int], tmp_path: Path
) -> Iterator[Settings]:
    """Return settings for one test: an empty database, and a data directory of its own."""
    url = reused.open()
    if engine.url != url:
        engine.dispose()
        engine.url = url
    address = SecretStr(url.render_as_string(hide_password=False))
    # Sections that are not given are the class's default objects; a test that changes one must not change
    # them for all tests of its process.
    yield Settings(data=tmp_path / "data", database_url=address).model_copy(deep=True)
    reused.empty(frozenset(backends), engine.dispose)


@pytest.fixture
def database(engine: Engine, settings: Settings) -> Database:
    """Open the test's database. Its schema is not checked again, because it is a copy of the template's."""
    del settings
    return Database(engine=engine)


@pytest.fixture
async def library(
    database: Database, settings: Settings, environment: dict[str, str], tmp_path: Path
) -> AsyncIterator[Library]:
    async with serve(FakeRepository(items=many(25), now="2024-06-01T12:00:00Z")) as fake:
        made = Library(database, settings, fake, tmp_path / "out", dict(environment))
        made.change_settings(retries=0, max_wait=1.0, first_delay=0.01)
        yield made


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let harvests in this process wait for a repository that another one holds for a moment only."""
    monkeypatch.setattr(checkpoint, "BUSY_WAIT", "100ms")


@pytest.fixture(scope="module")
def shared_database(shared_settings: Settings) -> Iterator[Database]:
    """Open the database that the tests of a module share."""
    with open_database(shared_settings) as database:
        yield database
