"""What the harvester's tests share."""

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from pydantic import SecretStr
from sqlalchemy import URL

from harvester.harvest import checkpoint
from oai.database import Database, open_database
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.library import Library


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
def shared_settings(
    server_url: URL, template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Settings with a database for a module, whose tests only read or have repositories of their own."""
    name = f"{template}_shared_{os.getpid()}"
    url = server_url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        own = server_url.set(database=name).render_as_string(hide_password=False)
        yield Settings(data=tmp_path_factory.mktemp("shared"), database_url=SecretStr(own))
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def shared_database(shared_settings: Settings) -> Iterator[Database]:
    """That database, open."""
    with open_database(shared_settings) as database:
        yield database
