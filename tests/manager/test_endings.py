"""However a manager or a worker ends, no harvester remains."""

import asyncio
import contextlib
import os
import pty
import signal
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from manager.leader.dispatcher import launch_due
from oai.database import Database
from oai.settings import Settings
from tests.commands import Process
from tests.manager.conftest import Tables, alive, running_process, until

_HARVESTS = 3

End = Callable[["OnTerminal"], Awaitable[None]]


class OnTerminal:
    """A program that leads a session on a terminal of its own, as one that was typed there."""

    def __init__(self, process_id: int, terminal: int) -> None:
        self.process_id = process_id
        self._terminal = terminal
        asyncio.get_running_loop().add_reader(terminal, self._read)

    def close_terminal(self) -> None:
        """As when the window is closed: the kernel sends SIGHUP, and reads and writes fail."""
        if self._terminal >= 0:
            asyncio.get_running_loop().remove_reader(self._terminal)
            os.close(self._terminal)
            self._terminal = -1

    def _read(self) -> None:
        try:
            output = os.read(self._terminal, 65_536)
        except OSError:
            output = b""
        if not output:
            asyncio.get_running_loop().remove_reader(self._terminal)


@contextlib.asynccontextmanager
async def on_a_terminal(environment: dict[str, str], module: str) -> AsyncIterator[OnTerminal]:
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "wb", buffering=0) as end:
        process = Process(
            environment, module, module="tests.manager.on_terminal", stdin=end, stdout=end, stderr=end
        )
    program = OnTerminal(process.pid, ours)
    try:
        yield program
        await asyncio.to_thread(process.wait, 60)
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        program.close_terminal()


async def by_sigterm(program: OnTerminal) -> None:
    os.kill(program.process_id, signal.SIGTERM)


async def by_sigkill(program: OnTerminal) -> None:
    os.kill(program.process_id, signal.SIGKILL)


async def by_closing_the_terminal(program: OnTerminal) -> None:
    program.close_terminal()


async def by_control_c_twice(program: OnTerminal) -> None:
    os.kill(program.process_id, signal.SIGINT)
    await asyncio.sleep(0.05)
    with contextlib.suppress(ProcessLookupError):
        os.kill(program.process_id, signal.SIGINT)


# SIGTERM runs what the two after SIGKILL run, and alone it is in `test_manager_process.py`.
ENDINGS = [
    pytest.param(by_sigterm, marks=pytest.mark.long),
    by_sigkill,
    by_closing_the_terminal,
    by_control_c_twice,
]
# Signals are handled by the same code in managers and workers.
ENDINGS_OF_A_WORKER = [
    by_sigterm,
    pytest.param(by_sigkill, marks=pytest.mark.long),
    pytest.param(by_closing_the_terminal, marks=pytest.mark.long),
]


def harvests(tables: Tables) -> set[int]:
    """The processes of all the harvests, once they run and listen."""
    rows = tables(
        "SELECT process_id FROM oai_job JOIN oai_harvest USING (job_id, process_id) WHERE oai_job.status = 1"
    )
    return {row.process_id for row in rows} if len(rows) == _HARVESTS else set()


def plan(tables: Tables) -> None:
    for number, conduct in enumerate(("long", "long", "stubborn")):
        repository = tables.repository(f"https://example{number}.org/oai")
        tables.add("oai_job", repository_id=repository, metadata_prefix=conduct)


@pytest.mark.parametrize("end", ENDINGS)
async def test_no_harvester_remains_after_a_manager_ends(
    quick_environment: dict[str, str], tables: Tables, end: End
) -> None:
    plan(tables)
    environment = quick_environment | {"ZATVA_MANAGER__STOP_SECONDS": "0.5"}
    async with on_a_terminal(environment, "tests.manager.manager_process") as manager:
        processes = await until(lambda: harvests(tables))
        await end(manager)
    await until(lambda: not any(map(alive, processes)))


@pytest.mark.parametrize("end", ENDINGS_OF_A_WORKER)
async def test_no_harvester_remains_after_a_worker_ends(
    quick: Settings, quick_environment: dict[str, str], database: Database, tables: Tables, end: End
) -> None:
    plan(tables)
    with database.session() as session:
        assert len(launch_due(session, quick.manager)) == _HARVESTS
        session.commit()
    environment = quick_environment | {"ZATVA_MANAGER__STOP_SECONDS": "0.5"}
    async with on_a_terminal(environment, "tests.manager.worker_process") as worker:
        processes = await until(lambda: harvests(tables))
        await end(worker)
    await until(lambda: not any(map(alive, processes)))


async def test_a_manager_started_with_nohup_continues_after_its_terminal_closes(
    quick_environment: dict[str, str], tables: Tables
) -> None:
    tables.add("oai_job", repository_id=tables.repository(), metadata_prefix="long")
    environment = quick_environment | {"TESTS_IGNORE_SIGHUP": "1"}
    async with on_a_terminal(environment, "tests.manager.manager_process") as manager:
        harvest = await until(lambda: running_process(tables))
        manager.close_terminal()
        tables.add("oai_job", repository_id=tables.repository("https://later.example/oai"))
        await until(tables.history)
        assert alive(manager.process_id)
        assert alive(harvest)
        os.kill(manager.process_id, signal.SIGTERM)
    await until(lambda: not alive(harvest))
