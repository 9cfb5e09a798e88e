"""Managers as processes: what remains when they end, and which manager takes over."""

import asyncio
import signal

import pytest

from manager.worker.registry import manager_status
from oai.database import Database
from tests.commands import Process
from tests.manager.conftest import Tables, alive, manager_process, running_process, until


def leader(database: Database) -> str | None:
    with database.session() as session:
        return manager_status(session).leader


def stand_bys(database: Database) -> tuple[str, ...]:
    with database.session() as session:
        return tuple(manager_status(session).stand_bys)


def leads(database: Database, process: Process) -> bool:
    return (leader(database) or "").endswith(f"process {process.pid}")


# Control-C is in `test_endings.py`, too.
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
async def test_a_manager_that_is_sent_a_signal_ends_its_harvests_and_exits(
    quick_environment: dict[str, str], tables: Tables, number: signal.Signals
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    async with manager_process(quick_environment) as manager:
        harvest = await until(lambda: running_process(tables))
        manager.send_signal(number)
        assert await asyncio.to_thread(manager.wait) == 0
        assert not alive(harvest)
    assert tables.history() == [("incomplete", "long")]
    assert [row.status for row in tables("SELECT status FROM oai_job")] == [0]


async def test_harvests_of_a_killed_manager_end_and_the_next_manager_retries_them(
    quick_environment: dict[str, str], tables: Tables
) -> None:
    """One harvest notices its end and writes history; the other, which does not, is reported as lost."""
    for number, conduct in enumerate(("long", "stubborn")):
        repository = tables.repository(f"https://example{number}.org/oai")
        tables.add("oai_job", repository_id=repository, metadata_prefix=conduct)
    running = (
        "SELECT process_id FROM oai_job JOIN oai_harvest USING (job_id, process_id) WHERE oai_job.status = 1"
    )
    async with manager_process(quick_environment) as manager:
        await until(lambda: len(tables(running)) == 2)
        harvests = {row.process_id for row in tables(running)}
        manager.kill()
        await asyncio.to_thread(manager.wait)
        await until(lambda: not any(map(alive, harvests)))
    assert tables.history() == [("incomplete", "long")]
    assert [row.status for row in tables("SELECT status FROM oai_job")] == [1, 1]
    async with manager_process(quick_environment):
        await until(lambda: len(tables.history()) == 2)
        assert tables.history()[1] == ("lost", "stubborn")
        assert tables.one("SELECT record_count FROM oai_history WHERE status = 'lost'") == 200
        await until(lambda: not harvests & {None, *(row.process_id for row in tables(running))})
        await until(lambda: len(tables(running)) == 2)
        assert {row.attempt for row in tables("SELECT attempt FROM oai_job")} == {1}


async def test_one_of_two_managers_leads_and_the_other_takes_over(
    quick_environment: dict[str, str], database: Database, tables: Tables
) -> None:
    assert leader(database) is None
    async with manager_process(quick_environment) as first:
        await until(lambda: leads(database, first))
        async with manager_process(quick_environment) as second:
            await until(lambda: stand_bys(database))
            assert leads(database, first)
            first.kill()
            await until(lambda: leads(database, second))
            tables.add("oai_recurring_job", repository_id=tables.repository())
            await until(tables.history)
    assert tables.history() == [("completed", "oai_dc")]
