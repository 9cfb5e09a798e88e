"""What the harvester's tests share."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from oai.database import Database
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
