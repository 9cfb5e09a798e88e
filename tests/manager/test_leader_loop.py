"""What the leader does for jobs whose worker is lost, and how long its calls last."""

import asyncio
import threading
from typing import Any

import pytest
import sqlalchemy as sa

from manager import queue
from manager.leader import loop
from oai.database import Database
from oai.outage import Outage
from oai.sections import ManagerSettings
from oai.settings import Settings
from tests.manager.conftest import until


def test_the_jobs_of_lost_workers_are_settled_but_not_those_of_the_leader_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[tuple[str, int]] = []
    monkeypatch.setattr(queue, "stalled", lambda *_, **__: {71: 1, 72: 2, 73: 3})
    monkeypatch.setattr(loop, "end_silent", lambda *_, **__: False)
    monkeypatch.setattr(loop, "settle_lost", lambda _, job_id, __: done.append(("settled", job_id)))
    monkeypatch.setattr(queue, "forget_lost", lambda _, number: done.append(("forgotten", number)))
    session: Any = None
    loop._settle_stalled(session, ManagerSettings(), frozenset({2}))  # noqa: SLF001 one duty of many
    assert done == [("settled", 1), ("forgotten", 71), ("settled", 3), ("forgotten", 73)]


async def test_the_duration_of_a_call_that_does_not_return_is_reported() -> None:
    calls: list[str] = []
    entered, left = asyncio.Event(), asyncio.Event()

    async def launch() -> None:
        entered.set()
        await left.wait()

    async def settle() -> None:
        calls.append("settle")

    async with loop.ticking(
        {launch: 60.0, settle: 0.01}, ending=threading.Event(), outage=Outage()
    ) as seconds:
        await entered.wait()
        before = seconds()["launch"]
        await until(lambda: len(calls) >= 3)
        assert seconds()["launch"] > before
        assert seconds()["settle"] == 0.0
        left.set()
        await until(lambda: not seconds()["launch"])


async def test_a_failing_function_is_called_again_and_the_loop_waits_for_running_calls() -> None:
    calls: list[str] = []
    entered, left, ending = asyncio.Event(), asyncio.Event(), threading.Event()

    async def launch() -> None:
        entered.set()
        await left.wait()
        calls.append("launched")

    async def settle() -> None:
        calls.append("settle")
        raise ValueError("something of ours")

    async with loop.ticking({launch: 0.001, settle: 0.001}, ending=ending, outage=Outage()):
        await entered.wait()
        await until(lambda: calls.count("settle") >= 3)
        asyncio.get_running_loop().call_later(0.01, left.set)
    assert (calls.count("launched"), ending.is_set()) == (1, True)
    ended = len(calls)
    await asyncio.sleep(0.01)
    assert len(calls) == ended


class CountedOutage(Outage):
    failures = 0

    def failed(self, reason: str) -> None:
        self.failures += 1
        super().failed(reason)


async def test_a_manager_that_cannot_lead_logs_one_line_for_all_attempts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    outage = CountedOutage(clock=lambda: 0.0)
    engine = sa.create_engine("postgresql+psycopg://zatva@127.0.0.1:1/zatva")
    unreachable = Database(engine=engine, outage=outage)
    unused: Any = None
    settings = Settings(manager=ManagerSettings(tick_seconds=0.01))
    manager = loop.Manager(settings, unreachable, unused, unused, drain=asyncio.Event())
    leading = asyncio.create_task(manager.lead())
    await until(lambda: outage.failures >= 3)
    leading.cancel()
    await asyncio.wait([leading])
    (line,) = caplog.messages
    assert line.startswith("the database does not answer: connection")
