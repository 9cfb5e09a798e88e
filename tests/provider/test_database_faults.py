"""A running provider whose database stops and starts again."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from oai import keeper
from oai.database import open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.settings import Settings
from tests.provider.archive import Archive
from tests.provider.listening import app_of, eventually, listening, status_of
from tests.provider.raw import get


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Settings]:
    """Settings with an embedded server that the test may stop."""
    data = tmp_path / "own"
    data.mkdir(mode=0o711)
    yield Settings(data=data)
    keeper.stop(cluster_folder(data))
    shutil.rmtree(cluster_folder(data))


async def test_a_provider_recovers_after_its_database_is_stopped_and_started(own_server: Settings) -> None:
    restarted = EmbeddedServer(own_server.data)
    seen: set[int] = set()
    with open_database(own_server, pool_size=4, statement_seconds=30) as database:
        Archive(database, own_server).add_many(20)
        async with listening(app_of(database, own_server)) as port:
            stopping = asyncio.Event()
            asking = [asyncio.create_task(keep_asking(port, stopping, seen)) for _ in range(6)]
            await eventually(lambda: 200 in seen)
            await asyncio.to_thread(keeper.stop, cluster_folder(own_server.data))
            await eventually(lambda: 503 in seen)
            for _ in range(6):
                assert await status_of(port) == 503
            assert await status_of(port, get("", path="/healthz")) == 200
            assert await status_of(port, get("", path="/readyz")) == 503
            await asyncio.to_thread(restarted.acquire)
            stopping.set()
            await asyncio.gather(*asking)
            assert seen == {200, 503}
            assert await status_of(port) == 200
            assert await status_of(port, get("", path="/readyz")) == 200
    restarted.release()


async def keep_asking(port: int, stopping: asyncio.Event, seen: set[int]) -> None:
    """Ask again and again, and note the statuses."""
    while not stopping.is_set():
        seen.add(await status_of(port, get("verb=ListRecords&metadataPrefix=oai_dc")))
