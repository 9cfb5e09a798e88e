"""The clients of one process share their delays and limits for a host."""

import asyncio
from dataclasses import dataclass, field

import pytest

from harvester.client.politeness import HostGates, Politeness
from harvester.client.repository_client import open_client
from oai.sections import HarvesterSettings
from tests.harvester.fake_repository import FakeRepository, many, serve

_URL = "http://host.example/oai"


@dataclass
class Time:
    """A clock that advances only when a caller sleeps."""

    now: float = 1000.0
    slept: list[float] = field(default_factory=list)

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


async def test_the_delay_between_two_requests_starts_at_the_end_of_the_first() -> None:
    time = Time()
    manners = Politeness(delay=2, clock=time, sleep=time.sleep, gates=HostGates())
    starts = []
    for _ in range(3):
        async with manners.turn(_URL):
            starts.append(time.now)
            time.now += 5
    assert starts == [1000, 1007, 1014]


async def test_a_delay_applies_to_all_clients_of_a_host_and_to_no_other_host() -> None:
    time = Time()
    gates = HostGates()
    one = Politeness(delay=2, clock=time, sleep=time.sleep, gates=gates)
    two = Politeness(delay=3, clock=time, sleep=time.sleep, gates=gates)
    async with one.turn(_URL):
        pass
    async with one.turn("http://other.example/"):
        pass
    assert time.slept == []
    async with two.turn("https://user:word@HOST.example/elsewhere"):
        pass
    assert time.slept == [2]


async def test_waiting_requests_are_sent_one_delay_apart() -> None:
    time = Time()
    manners = Politeness(per_host=10, delay=2, clock=time, sleep=time.sleep, gates=HostGates())
    starts = []

    async def ask() -> None:
        async with manners.turn(_URL):
            starts.append(time.now)

    await asyncio.gather(ask(), ask(), ask())
    assert starts == [1000, 1002, 1004]


async def test_the_limit_of_concurrent_requests_to_a_host_applies_to_all_clients_together() -> None:
    under_way = most = 0

    async def count(_: dict[str, str]) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0.01)
        under_way -= 1

    settings = HarvesterSettings(per_host=2)
    async with (
        serve(FakeRepository(items=many(1), before=count)) as repository,
        open_client(repository.url, settings) as one,
        open_client(repository.url, settings) as two,
    ):
        await asyncio.gather(*(client.identify() for client in (one, two) for _ in range(6)))
    assert len(repository.asked) == 12
    assert most == 2


async def test_a_failed_or_cancelled_request_releases_its_turn() -> None:
    manners = Politeness(per_host=1, gates=HostGates())

    async def fail() -> None:
        async with manners.turn(_URL):
            raise OSError("gone")

    async def hang() -> None:
        async with manners.turn(_URL):
            await asyncio.sleep(3600)

    with pytest.raises(OSError, match="gone"):
        await fail()
    hanging = asyncio.create_task(hang())
    await asyncio.sleep(0)
    hanging.cancel()
    await asyncio.gather(hanging, return_exceptions=True)
    async with asyncio.timeout(5), manners.turn(_URL):
        pass
