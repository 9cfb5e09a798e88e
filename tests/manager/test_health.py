"""Health, readiness and metrics of a manager, over HTTP."""

import asyncio
import contextlib
import socket
import threading
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import aiohttp
import pytest
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import generate_latest
from sqlalchemy import create_engine, text

from manager.health import create_app, health, read_figures, registry_of
from oai.database import Database
from oai.errors import UsageError
from oai.executor import DatabaseExecutor
from oai.probes import server_state
from oai.sections import HarvesterSettings
from oai.settings import Settings
from tests.manager.conftest import Tables, managing, until
from tests.ports import free_port


@dataclass(frozen=True, kw_only=True)
class State:
    """The state of a manager: whether it leads, and how long its calls have lasted."""

    leading: bool

    def leads(self) -> bool:
        return self.leading

    def call_seconds(self) -> dict[str, float]:
        return {"launch": 42.0}


@contextlib.asynccontextmanager
async def asking(database: Database, *, leads: bool) -> AsyncIterator[TestClient]:  # type: ignore[type-arg]
    with DatabaseExecutor(database, threads=2, name="manager-database") as transactions:
        app = create_app(transactions, State(leading=leads), HarvesterSettings())
        async with TestClient(TestServer(app)) as client:
            yield client


async def test_a_manager_that_leads_or_stands_by_is_ready(database: Database) -> None:
    for leads, words in ((True, "leads"), (False, "stands by")):
        async with asking(database, leads=leads) as client:
            answer = await client.get("/readyz")
            assert (answer.status, await answer.text()) == (200, f"ready: {words}\n")


async def test_a_manager_without_its_database_is_alive_but_not_ready() -> None:
    gone = Database(engine=create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none"))
    async with asking(gone, leads=False) as client:
        statuses = [(await client.get(path)).status for path in ("/healthz", "/readyz", "/metrics")]
    assert statuses == [200, 503, 503]


async def test_metrics_count_due_late_running_and_failed_jobs(database: Database, tables: Tables) -> None:
    repository = tables.repository()
    for status, due in (
        (0, "-10 seconds"),
        (0, "-10 minutes"),
        (2, "-5 minutes"),
        (1, "-1 hour"),
        (4, "-2 hours"),
        (8, "-3 hours"),
        (0, "1 hour"),
    ):
        tables.add("oai_job", repository_id=repository, status=status)
        tables(
            "UPDATE oai_job SET harvest_start_time = now() + CAST(:due AS interval)"
            " WHERE job_id = (SELECT max(job_id) FROM oai_job)",
            due=due,
        )
    for ended in ("now", "2020-01-01T00:00Z"):
        tables.add(
            "oai_history",
            repository_id=repository,
            status="failed",
            harvest_start_time="now",
            harvest_end_time=ended,
        )
    tables.add("notice", occasion="failing", channel="mail", target="a@b.example", facts="{}")
    tried = {"tries": 1, "last_error": "no mail server"}
    tables.add("notice", occasion="failing", channel="mail", target="a@b.example", facts="{}", **tried)
    tables.add("disk_sample", host="one", folder="/data", at="now", total=10**11, free=4 * 10**9)
    tables.add("disk_sample", host="one", folder="/small", at="now", total=10**10, free=4 * 10**9)
    async with asking(database, leads=True) as client:
        answer = await client.get("/metrics")
        lines = (await answer.text()).splitlines()
    figures = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert answer.content_type == "text/plain"
    expected = {
        "zatva_manager_jobs_due": 3, "zatva_manager_jobs_late": 2, "zatva_manager_jobs_running": 1,
        "zatva_manager_leads": 1, "zatva_manager_led": 0,
        'zatva_manager_call_seconds{function="launch"}': 42, 'zatva_manager_ended{status="failed"}': 1,
        'zatva_manager_ended{status="lost"}': 0, 'zatva_manager_notices{state="waiting"}': 2,
        'zatva_manager_notices{state="given up"}': 0, "zatva_manager_notices_retried": 1,
        'zatva_disk_floor_bytes{folder="/data",host="one"}': 5 * 10**9,
        'zatva_disk_floor_bytes{folder="/small",host="one"}': 5 * 10**8,
    }  # fmt: skip
    assert {name: float(figures[name]) for name in expected} == expected
    assert 600 <= float(figures["zatva_manager_lag_seconds"]) < 1200


@pytest.mark.parametrize(
    "reason",
    [
        "UPDATE oai_repository SET not_before = now() + interval '1 hour'",
        "INSERT INTO oai_repository_lock (repository_id, holder, reason) VALUES (1, 'an index', 'new')",
        "INSERT INTO mute (kind, starts, ends) VALUES ('maintenance', now(), now() + interval '1 hour')",
    ],
)
def test_a_job_that_waits_for_its_repository_is_not_late(
    database: Database, tables: Tables, reason: str
) -> None:
    tables.add("oai_job", repository_id=tables.repository())
    tables("UPDATE oai_job SET harvest_start_time = now() - interval '10 minutes'")
    with database.session() as session:
        assert read_figures(session).late == 1
    tables(reason)
    with database.session() as session:
        figures = read_figures(session)
    assert (figures.due, figures.late, figures.status.late, figures.lag) == (1, 0, 0, 0)


@contextlib.contextmanager
def lock_of_an_idle_session(database: Database, *, seconds: float = 0) -> Iterator[int]:
    """Lock the jobs until a statement has waited for them for so long; yields the holder's process id."""
    wait = text("SELECT count(*) FROM oai_job")
    with ThreadPoolExecutor(1) as pool, database.engine.connect() as holder:
        holder.execute(text("LOCK TABLE oai_job IN ACCESS EXCLUSIVE MODE"))
        waiting = pool.submit(database.read, lambda session: session.execute(wait).all())
        while database.read(server_state).lock_seconds <= seconds:
            assert not waiting.done()
            time.sleep(0.02)
        yield holder.scalar(text("SELECT pg_backend_pid()")) or 0
        holder.rollback()


async def test_a_manager_with_a_locked_table_is_ready_and_metrics_show_the_lock_wait(
    database: Database,
) -> None:
    with lock_of_an_idle_session(database) as process:
        async with asking(database, leads=True) as client:
            answers = [await client.get(path) for path in ("/readyz", "/metrics")]
            assert [answer.status for answer in answers] == [200, 200]
            metrics = await answers[1].text()
        state = database.read(server_state)
    assert "zatva_manager_leads 1.0" in metrics
    assert "zatva_manager_led" not in metrics
    assert "zatva_manager_lock_wait_seconds 0.0\n" not in metrics
    assert state.lock_holder.startswith(f"PostgreSQL's process {process} (")
    assert state.lock_advice.endswith(f"SELECT pg_terminate_backend({process})")


async def test_the_leader_logs_which_session_blocks_statements(
    quick: Settings, database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("manager.leader.loop.LONG_WAIT", 0.0001)
    with contextlib.ExitStack() as lock:
        process = lock.enter_context(lock_of_an_idle_session(database))
        async with managing(quick, database):
            try:
                await until(lambda: f"process {process} (" in caplog.text)
            finally:
                # The manager's own transactions wait for the lock, and its end waits for them.
                lock.close()


async def test_readiness_does_not_wait_for_the_managers_own_transactions(
    settings: Settings, database: Database
) -> None:
    port = free_port()
    ours = settings.manager.model_copy(update={"health_port": port})
    listening = settings.model_copy(update={"manager": ours})
    may_end = threading.Event()
    with DatabaseExecutor(database, threads=1, name="manager-database") as transactions:
        busy = asyncio.create_task(transactions.run(lambda _: may_end.wait()))
        async with health(listening, transactions, State(leading=True)), aiohttp.ClientSession() as session:
            try:
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    assert answer.status == 200
            finally:
                may_end.set()
        await busy


def test_the_servers_free_connections_are_counted(database: Database, tables: Tables) -> None:
    most = int(tables.one("SELECT current_setting('max_connections')"))
    assert 0 < database.read(server_state).connections_free < most


async def test_the_health_server_is_optional_and_a_port_in_use_is_reported(
    settings: Settings, database: Database
) -> None:
    with (
        DatabaseExecutor(database, threads=2, name="manager-database") as transactions,
        socket.socket() as taken,
    ):
        async with health(settings, transactions, State(leading=True)):
            pass
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ours = settings.manager.model_copy(update={"health_port": port})
        listening = settings.model_copy(update={"manager": ours})
        with pytest.raises(UsageError, match=r"manager\.health_port"):
            async with health(listening, transactions, State(leading=True)):
                pass


async def test_a_running_manager_answers_on_its_health_port(quick: Settings, database: Database) -> None:
    port = free_port()
    listening = quick.manager.model_copy(update={"health_port": port})
    async with (
        managing(quick.model_copy(update={"manager": listening}), database),
        aiohttp.ClientSession() as session,
    ):

        async def ready() -> str:
            with contextlib.suppress(aiohttp.ClientError):
                async with session.get(f"http://127.0.0.1:{port}/readyz") as answer:
                    return await answer.text()
            return ""

        state = ""
        for _ in range(200):
            state = await ready()
            if state == "ready: leads\n":
                break
            await asyncio.sleep(0.05)
        assert state == "ready: leads\n"


def test_metrics_of_an_empty_database_are_zero(database: Database) -> None:
    with database.session() as session:
        figures, server = read_figures(session), server_state(session)
    assert (figures.due, figures.late, figures.running, figures.lag) == (0, 0, 0, 0)
    registry = registry_of(figures, HarvesterSettings(), server=server, leads=False)
    assert b"zatva_manager_lag_seconds 0.0" in generate_latest(registry)
