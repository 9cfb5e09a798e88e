"""Many schedules while managers and workers are killed and the database restarts: each due run happens once.

Everything is a process: managers, workers, database, harvesters. One schedule of each repository is
harvested by the harvester itself, over HTTP; the others by a small one, because starting a hundred real ones
takes minutes of two cores. With `--long` there are a hundred, and all are real.
"""

import asyncio
import random
import shutil
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from oai import keeper
from oai.database import Database, open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.settings import Settings
from tests.conftest import make_careless
from tests.manager.conftest import Tables, until
from tests.manager.notices.receiver import receiver
from tests.manager.soak import (
    PATIENCE,
    SETTINGS,
    Processes,
    came_to,
    judge,
    leftovers,
    plan,
    repositories,
    rest,
)


class OwnServer:
    """A database server for this test only, which it may restart."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._embedded = EmbeddedServer(data)
        self._embedded.acquire()
        self.url = self._embedded.url

    def restart(self) -> None:
        """Stop it as an administrator does: connections are cut, open transactions rolled back."""
        keeper.stop(cluster_folder(self._data))
        again = EmbeddedServer(self._data)
        again.acquire()
        self._embedded.release()
        self._embedded = again

    def end(self) -> None:
        self._embedded.release()
        shutil.rmtree(cluster_folder(self._data))
        shutil.rmtree(self._data)


@pytest.fixture
def own_server(quick_folder: Path) -> Iterator[OwnServer]:
    server = OwnServer(quick_folder / "own")
    make_careless(server.url)
    yield server
    server.end()


@pytest.mark.long  # `end_to_end/test_chaos` judges the same, with more troubles
@pytest.mark.parametrize(("schedules", "real"), [(20, False), (100, True)])
async def test_every_due_run_happens_once_although_processes_and_database_end(
    own_server: OwnServer, environment: dict[str, str], tmp_path: Path, schedules: int, *, real: bool
) -> None:
    seed = random.randrange(10**6)
    settings = Settings(
        data=tmp_path / "data", database_url=SecretStr(own_server.url.render_as_string(hide_password=False))
    )
    assert settings.database_url is not None
    environment |= {
        **SETTINGS,
        "ZATVA_DATABASE_URL": settings.database_url.get_secret_value(),
        "ZATVA_DATA": str(settings.data),
    }
    with open_database(settings) as database:
        tables = Tables(database)
        async with repositories(tables) as served, receiver() as webhooks:
            tables.add("notice_rule", kind="always", channel="webhook", target=webhooks.url)
            async with Processes(environment, tables, managers=2, workers=3) as processes:
                plan(tables, schedules, real=real)
                chance = random.Random(seed)
                moments = sorted(chance.sample(range(5, schedules * 3 // 4), 3))
                await disturb(chance, moments, tables, processes, own_server, database)
                await rest(tables, schedules)
        judge(tables, served, webhooks, schedules, f"seed {seed}")
    assert leftovers(settings.data) == []


async def disturb(
    chance: random.Random,
    moments: Sequence[int],
    tables: Tables,
    processes: Processes,
    server: OwnServer,
    database: Database,
) -> None:
    """Kill the leader, kill a worker and restart the database, in any order, each after so many runs."""

    async def restart() -> None:
        await asyncio.to_thread(server.restart)
        database.engine.dispose()

    troubles: list[Callable[[], Awaitable[None]]] = [
        processes.kill_the_leader,
        processes.kill_a_worker,
        restart,
    ]
    chance.shuffle(troubles)
    for moment, trouble in zip(moments, troubles, strict=True):
        await until(partial(came_to, tables, moment), patience=PATIENCE)
        await trouble()
