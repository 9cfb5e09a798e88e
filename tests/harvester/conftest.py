"""Fixtures for the harvester's tests."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from harvester.harvest import checkpoint
from oai.database import Database, open_database
from oai.settings import Settings
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.library import Library
from tests.reused_database import backends, reused, settings

__all__ = ["backends", "reused", "settings"]


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
    """Shorten the wait of harvests in this process for a repository that another harvest is using."""
    monkeypatch.setattr(checkpoint, "BUSY_WAIT", "100ms")


@pytest.fixture(scope="module")
def shared_database(shared_settings: Settings) -> Iterator[Database]:
    """Open the database that the tests of a module share."""
    with open_database(shared_settings) as database:
        yield database
