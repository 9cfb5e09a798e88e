"""Workers as rows and as processes: registration, draining, loss; their jobs move to others."""

import asyncio
import os
import signal

import pytest

from manager.leader.lock import leader
from manager.worker import registry
from manager.worker.process import host_name
from manager.worker.registry import manager_status
from oai.database import Database
from oai.errors import ExitCode, UsageError
from oai.settings import Settings
from tests.commands import Process, zatva
from tests.manager.conftest import (
    PATIENCE,
    Tables,
    alive,
    manager_process,
    managing,
    running_process,
    until,
)

WORKER = ("tests.manager.manager_process", "worker")


def in_row(tables: Tables, process: Process) -> int | None:
    """Return the worker's number of this process once it has registered."""
    rows = tables("SELECT worker_id FROM oai_worker WHERE process_id = :number", number=process.pid)
    return rows[0].worker_id if rows else None


def leads(database: Database, process: Process) -> bool:
    with database.session() as session:
        return (leader(session) or "").endswith(f"process {process.pid}")


def has_job(tables: Tables, process: Process) -> bool:
    query = (
        "SELECT FROM oai_job JOIN oai_worker USING (worker_id)"
        " WHERE status = 1 AND oai_worker.process_id = :number"
    )
    return bool(tables(query, number=process.pid))


async def until_the_worker_reads_its_row(tables: Tables) -> None:
    """Wait until the only worker has read its row, as it does before each sign of life."""
    signs: set[object] = set()
    while len(signs) < 3:
        await asyncio.sleep(0.01)
        signs.add(tables.one("SELECT last_sign FROM oai_worker"))


async def test_a_worker_registers_its_host_process_and_load_until_it_ends(
    quick: Settings, database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with managing(quick, database):
        await until(lambda: running_process(tables))
        with database.session() as session:
            (worker,) = manager_status(session).workers
    assert (worker.host, worker.process_id, worker.concurrency) == (host_name(), os.getpid(), 4)
    assert (worker.harvests, worker.draining, worker.lost) == (1, False, False)
    assert tables("SELECT FROM oai_worker") == []


def test_a_silent_worker_is_lost_and_later_removed(database: Database, tables: Tables) -> None:
    add = (
        "INSERT INTO oai_worker (host, process_id, concurrency, last_sign, good_until)"
        " VALUES ('a', 1, 4, now() - :silence * interval '1 s', now() + (10 - :silence) * interval '1 s')"
    )
    for silence in (9, 11, 31):
        tables(add, silence=silence)
    with database.session() as session:
        assert [worker.lost for worker in registry.all_workers(session)] == [False, True, True]
        assert registry.places(session) == 4
        assert registry.forget_lost(session) == [3]


def test_draining_an_unknown_worker_fails_and_drains_no_other_worker(
    database: Database, tables: Tables
) -> None:
    tables("INSERT INTO oai_worker (host, process_id, concurrency, good_until) VALUES ('a', 1, 4, now())")
    with database.session() as session, pytest.raises(UsageError, match="worker 9"):
        registry.drain(session, [1, 9])
    assert tables.one("SELECT draining FROM oai_worker") is False


# Managers that are drained by the signal are in the next two tests.
@pytest.mark.parametrize(
    ("of_manager", "of_worker"),
    [("command", "signal"), pytest.param("signal", "command", marks=pytest.mark.long)],
)
async def test_a_draining_worker_finishes_its_jobs_takes_no_new_ones_and_ends(
    quick_environment: dict[str, str], tables: Tables, of_manager: str, of_worker: str
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    tables("UPDATE oai_job SET status = 2")
    tables.add("oai_job", repository_id=tables.repository("https://other.example/"), status=4)
    async with manager_process(quick_environment) as manager:
        await until(lambda: has_job(tables, manager))
        harvest = await until(lambda: running_process(tables))
        number = await until(lambda: in_row(tables, manager))
        if of_manager == "signal":
            manager.send_signal(signal.SIGUSR1)
        else:
            assert zatva(quick_environment, "worker", "drain", str(number)).returncode == 0
        await until(lambda: tables.one("SELECT draining FROM oai_worker"))
        await until_the_worker_reads_its_row(tables)
        tables("UPDATE oai_job SET status = 0 WHERE job_id = 2")
        await until(lambda: tables.one("SELECT status FROM oai_job WHERE job_id = 2") == 2)
        assert alive(harvest)
        async with manager_process(quick_environment, *WORKER) as worker:
            await until(tables.history)
            assert tables.history() == [("completed", "oai_dc")]
            assert alive(harvest)
            os.kill(harvest, signal.SIGTERM)
            await until(lambda: in_row(tables, manager) is None)
            assert in_row(tables, worker) is not None
            if of_worker == "signal":
                worker.send_signal(signal.SIGUSR1)
            else:
                assert zatva(quick_environment, "worker", "drain", "--all").returncode == 0
            assert await asyncio.to_thread(worker.wait) == 0
        # The manager continues to lead.
        assert manager.returncode is None


async def test_a_draining_manager_hands_over_the_lead_finishes_its_jobs_and_ends(
    quick_environment: dict[str, str], database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with manager_process(quick_environment) as first:
        harvest = await until(lambda: has_job(tables, first) and running_process(tables))
        first.send_signal(signal.SIGUSR1)
        await until(lambda: tables.one("SELECT draining FROM oai_worker"))
        assert leads(database, first)
        async with manager_process(quick_environment) as second:
            await until(lambda: leads(database, second))
            assert first.returncode is None
            assert alive(harvest)
            os.kill(harvest, signal.SIGTERM)
            assert await asyncio.to_thread(first.wait, PATIENCE) == 0
            assert tables.history() == [("incomplete", "long")]


async def test_a_draining_manager_leads_again_when_the_other_manager_is_killed(
    quick_environment: dict[str, str], database: Database, tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with manager_process(quick_environment) as first:
        await until(lambda: has_job(tables, first) and running_process(tables))
        first.send_signal(signal.SIGUSR1)
        async with manager_process(quick_environment) as second:
            await until(lambda: leads(database, second))
            second.kill()
        await until(lambda: leads(database, first))


async def test_the_job_of_a_killed_worker_moves_to_another_worker(
    quick_environment: dict[str, str], tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with manager_process(quick_environment, *WORKER) as first:
        await until(lambda: in_row(tables, first))
        async with manager_process(quick_environment) as manager:
            await until(lambda: has_job(tables, first) or has_job(tables, manager))
            holder = first if has_job(tables, first) else manager
            harvest = await until(lambda: running_process(tables))
            # Whichever of the two is killed, this manager replaces it, as leader and as worker.
            async with manager_process(quick_environment):
                holder.kill()
                await until(lambda: not alive(harvest))
                await until(lambda: running_process(tables) not in {None, harvest})
                assert not has_job(tables, holder)


@pytest.mark.copied_database("changes the revision of the tables")
@pytest.mark.parametrize("role", [("manager", "run"), ("worker",)], ids=["manager", "worker"])
async def test_a_process_of_an_older_version_ends_once_the_tables_are_upgraded(
    quick_environment: dict[str, str], tables: Tables, role: tuple[str, ...]
) -> None:
    async with manager_process(quick_environment, "zatva", *role) as process:
        await until(lambda: in_row(tables, process))
        tables("UPDATE alembic_version SET version_num = '9999'")
        assert await asyncio.to_thread(process.wait) == ExitCode.NOT_READY
    assert tables("SELECT FROM oai_worker") == []
