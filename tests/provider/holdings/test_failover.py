"""The primary is killed while changes are published, and a synchronous replica takes its place."""

import functools
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from oai.database import Database
from oai.errors import ZatvaError
from provider.holdings.mark import advance_mark, begin_at_mark, begin_at_replicas_mark
from provider.holdings.publication import publish
from tests.provider.holdings.replicated import Replicated, replicated
from tests.provider.served import until

_TABLE = """
CREATE TABLE published (number uuid PRIMARY KEY DEFAULT gen_random_uuid(), dated timestamptz NOT NULL)
"""
_PUBLISHERS = 3

Look = tuple[datetime, set[object]]


@dataclass
class Scene:
    """State that the publishing and the reading threads share."""

    primary: Database
    looked_at: list[Database]
    """Replicas, and last the primary."""
    acknowledged: list[object] = field(default_factory=list)
    looks: list[Look] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)

    def keep(self, step: Callable[[random.Random], None], seed: int) -> None:
        """Repeat a step until it is over, whatever happens to the servers."""
        chance = random.Random(seed)
        while not self.over.is_set():
            try:
                step(chance)
            except (SQLAlchemyError, ZatvaError):
                time.sleep(0.02)

    def publish(self, chance: random.Random) -> None:
        made: list[object] = []

        def change(dated: datetime) -> None:
            statement = text("INSERT INTO published (dated) VALUES (:dated) RETURNING number")
            made[:] = [session.execute(statement, {"dated": dated}).scalar_one()]
            time.sleep(chance.random() * 0.05)

        with self.primary.session() as session:
            publish(session, change, margin=0.6)
            self.acknowledged += made
            advance_mark(session)

    def look(self, chance: random.Random) -> None:
        database = chance.choice(self.looked_at)
        with database.session() as session:
            begin = begin_at_mark if database is self.primary else begin_at_replicas_mark
            mark = begin(session)
            seen = {row.number for row in session.execute(text("SELECT number FROM published"))}
        self.looks.append((mark, seen))


@pytest.mark.slow
@pytest.mark.parametrize("failovers", [1, pytest.param(20, marks=pytest.mark.long)])
def test_after_a_failover_to_a_synchronous_replica_no_change_is_missed(
    quick_folder: Path, failovers: int
) -> None:
    looks = 0
    for _ in range(failovers):
        with replicated(quick_folder, copies=2) as servers:
            looks += _fail_over(servers)
    # The figure is the result of the run.
    print(f"{looks} looks in {failovers} failovers, none broken, nothing acknowledged lost")  # noqa: T201


def _fail_over(servers: Replicated) -> int:
    with servers.primary.session() as session:
        session.execute(text(_TABLE))
        session.commit()
    servers.wait_for_all()
    for copy in servers.copies:
        until(functools.partial(_has_table, copy.database))
    scene = Scene(servers.primary, [*(copy.database for copy in servers.copies), servers.primary])
    steps = [*[scene.publish] * _PUBLISHERS, scene.look]
    # The steps end before the pool waits for them, also after an error.
    with ThreadPoolExecutor(len(steps)) as pool, ExitStack() as stack:
        stack.callback(scene.over.set)
        running = [pool.submit(scene.keep, step, seed) for seed, step in enumerate(steps)]
        until(lambda: len(scene.acknowledged) > 20)
        servers.stop_sending()
        time.sleep(0.3)  # no copy has received what is acknowledged now
        servers.kill_primary()
        shown = max(mark for mark, _ in scene.looks)
        promoted, other = servers.fail_over()
        opened = stack.enter_context(promoted.as_primary())
        scene.primary, scene.looked_at = opened, [other.database, opened]
        known = len(scene.acknowledged)
        until(lambda: len(scene.acknowledged) > known + 20 and scene.looks[-1][0] > shown)
        scene.over.set()
        for one in running:
            one.result()
        return _checked(scene)


def _checked(scene: Scene) -> int:
    """Compare the observations with the rows at the end; return the number of observations."""
    with scene.primary.session() as session:
        dated = {
            row.number: row.dated for row in session.execute(text("SELECT number, dated FROM published"))
        }
    assert set(scene.acknowledged) <= dated.keys()
    for mark, seen in scene.looks:
        assert seen <= dated.keys()
        assert not [number for number, moment in dated.items() if moment <= mark and number not in seen]
    return len(scene.looks)


def _has_table(database: Database) -> bool:
    with database.session() as session:
        return session.scalar(text("SELECT to_regclass('published')")) is not None
