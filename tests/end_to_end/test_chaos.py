"""All services as processes on one machine, while some of them are killed, suspended and replaced.

A database with two synchronous replicas, two managers, three workers, two providers, harvesters, an indexer.
The test kills the leading manager, a worker, a provider and the primary, suspends a worker and a replica for
some time, lets the disks of the primary and of the harvests hang, and cuts the workers off from all
databases: first no bytes pass, then the connections end with data in transit. No record is lost, none is
in the stores twice, and harvesters of the providers miss nothing.
"""

import asyncio
import json
import random
import re
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr

from oai.database import open_database
from oai.settings import Settings
from tests.end_to_end.partition import Partition, partition
from tests.end_to_end.processes import running
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
from tests.provider.holdings.replicated import Replicated, replicated
from tests.provider.workload import Workload

_STILL_SECONDS = 1.0
_PAUSE = 1.0
"""Seconds between two harvests of the providers, which leave the processors to the other parts."""
_PAGES = 20
"""Most pages of a file that is indexed."""
_REPOSITORIES = 2
Trouble = Callable[[], Coroutine[None, None, None]]


@pytest.mark.slow
@pytest.mark.parametrize("schedules", [10, pytest.param(200, marks=pytest.mark.long)])
async def test_no_record_is_lost_while_processes_are_killed_and_suspended(
    quick_folder: Path, environment: dict[str, str], tmp_path: Path, schedules: int
) -> None:
    with replicated(quick_folder, copies=2) as servers:
        servers.wait_for_all()
        settings = Settings(data=tmp_path / "data", database_url=SecretStr(servers.address))
        environment |= {
            **SETTINGS,
            "ZATVA_MANAGER__TICK_SECONDS": "0.5",
            "ZATVA_DATABASE_URL": servers.address,
            "ZATVA_DATA": str(settings.data),
            "ZATVA_PROVIDER__REPLICA_URLS": json.dumps([copy.address for copy in servers.copies]),
        }
        sockets = [servers.folder, *(copy.folder for copy in servers.copies)]
        async with partition(quick_folder, sockets) as (network, places):
            with open_database(settings) as database, ExitStack() as providers:
                scene = Scene(environment, servers, Tables(database), tmp_path, providers)
                scene.network, scene.places = network, places
                await scene.run(settings, schedules)
            assert network.connections > 0, "the workers' connections take another way"
    assert leftovers(settings.data) == []


class Scene:
    """The processes, and the faults they are given."""

    def __init__(
        self,
        environment: dict[str, str],
        servers: Replicated,
        tables: Tables,
        folder: Path,
        providers: ExitStack,
    ) -> None:
        self._environment = environment
        self._servers = servers
        self._tables = tables
        self._folder = folder
        self._stack = providers
        self.network = Partition()
        self.places: dict[str, str] = {}
        """Folders of the sockets on the workers' side of the network, by those of the servers."""
        self._kills: list[Callable[[], None]] = []
        self._workload = Workload([], pause=_PAUSE, pages=_PAGES)

    async def run(self, settings: Settings, schedules: int) -> None:
        """Run all processes with faults, and check the result."""
        seed = random.randrange(10**6)
        for _ in range(2):
            self._start_provider()
        with ThreadPoolExecutor(2) as pool:
            working = [
                pool.submit(self._workload.keep_indexing, settings, self._folder),
                pool.submit(self._workload.keep_harvesting),
            ]
            try:
                await self._harvest(random.Random(seed), schedules, f"seed {seed}")
            finally:
                self._workload.over.set()
            for one in working:
                one.result()
        await until(self._workload.has_everything, patience=PATIENCE)

    def _start_provider(self) -> None:
        command = ("provider", "serve", "--port", "0")
        log = self._folder / f"provider-{len(self._kills)}.log"
        started = self._stack.enter_context(running(self._environment, log, *command, ready="provider at"))
        self._kills.append(started[0].kill)
        self._workload.addresses.append(started[1])

    async def _harvest(self, chance: random.Random, schedules: int, seed: str) -> None:
        async with repositories(self._tables, _REPOSITORIES) as harvested, receiver() as webhooks:
            self._tables.add("notice_rule", kind="always", channel="webhook", target=webhooks.url)
            address = self._servers.address
            for server, place in self.places.items():
                address = re.sub(rf"{re.escape(server)}(?=[,&])", place, address)
            far = {"ZATVA_DATABASE_URL": address}
            async with Processes(
                self._environment, self._tables, managers=2, workers=3, of_workers=far
            ) as processes:
                plan(self._tables, schedules, real=False, repositories=_REPOSITORIES)
                await self._disturb(chance, schedules, processes)
                await rest(self._tables, schedules)
        judge(self._tables, harvested, webhooks, schedules, seed)

    async def _disturb(self, chance: random.Random, schedules: int, processes: Processes) -> None:
        troubles: list[Trouble] = [
            processes.kill_the_leader,
            processes.kill_a_worker,
            partial(self._stop_a_worker, processes),
            self._kill_a_provider,
            self._stop_a_replica,
            self._hang_the_disk_of_the_primary,
            partial(self._hang_the_disk_of_the_store, processes),
            partial(self.network.last, _STILL_SECONDS),
            self._fail_over,
        ]
        chance.shuffle(troubles)
        moments = sorted(chance.sample(range(1, schedules), len(troubles)))
        for moment, trouble in zip(moments, troubles, strict=True):
            await until(partial(came_to, self._tables, moment), patience=PATIENCE)
            await trouble()

    async def _stop_a_worker(self, processes: Processes) -> None:
        with processes.stopped_worker():
            await asyncio.sleep(_STILL_SECONDS)

    async def _kill_a_provider(self) -> None:
        """Kill a provider, and start another one, as a service manager does."""
        del self._workload.addresses[0]
        self._kills[0]()
        await asyncio.to_thread(self._start_provider)

    async def _stop_a_replica(self) -> None:
        """Suspend a server that is still a replica."""
        copy = next(copy for copy in self._servers.copies if copy.is_replica())
        with copy.stopped():
            await asyncio.sleep(_STILL_SECONDS)

    async def _hang_the_disk_of_the_primary(self) -> None:
        """Suspend the server that is the primary now."""
        promoted = next((copy for copy in self._servers.copies if not copy.is_replica()), None)
        with promoted.stopped() if promoted else self._servers.stopped_primary():
            await asyncio.sleep(_STILL_SECONDS)

    async def _hang_the_disk_of_the_store(self, processes: Processes) -> None:
        with processes.stopped_writers():
            await asyncio.sleep(_STILL_SECONDS)

    async def _fail_over(self) -> None:
        await asyncio.to_thread(self._servers.kill_primary)
        await asyncio.to_thread(self._servers.fail_over)
