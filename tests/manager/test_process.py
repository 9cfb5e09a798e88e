"""Processes that a worker starts."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from manager.worker.process import HarvestProcess, PreforkServer
from oai.child import module_command
from tests.manager.conftest import alive, until

PROGRAM = "import sys; sys.stderr.write('first\\n' + 4000 * 'x' + '\\nlast'); sys.exit(3)"
linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are forked on Linux only")


@contextlib.asynccontextmanager
async def serving(module: str = "json") -> AsyncIterator[PreforkServer]:
    """A server that is closed at the end, with its id known once it has started a process."""
    server = PreforkServer(module)
    try:
        yield server
    finally:
        await server.close()


async def started(server: PreforkServer, word: object, **environment: str) -> HarvestProcess:
    """A process of the module `tests.manager.preforked`."""
    command = module_command("tests.manager.preforked", str(word))
    return await HarvestProcess.start(command, environment, server)


def parent_of(process: HarvestProcess) -> int:
    """The process id of its parent (Linux)."""
    return int(Path(f"/proc/{process.process_id}/stat").read_text().rpartition(")")[2].split()[1])


def environment_of(process: HarvestProcess) -> bytes:
    """Its environment, as other processes of its account can read it (Linux)."""
    return Path(f"/proc/{process.process_id}/environ").read_bytes()


async def test_the_end_of_the_standard_error_of_a_process_is_kept() -> None:
    process = await HarvestProcess.start([sys.executable, "-c", PROGRAM], {})
    outcome = await process.wait()
    assert outcome.exit_code == 3
    assert outcome.stderr == 3995 * "x" + "\nlast"


@linux
async def test_forked_processes_end_with_their_own_exit_codes() -> None:
    async with serving() as server:
        processes = await asyncio.gather(*(started(server, code) for code in range(20)))
        outcomes = await asyncio.gather(*(process.wait() for process in processes))
    assert [outcome.exit_code for outcome in outcomes] == list(range(20))


@linux
async def test_a_forked_process_has_its_own_environment_group_and_no_other_descriptors() -> None:
    async with serving() as server:
        waiting = await started(server, "wait")
        outcome = await (await started(server, "about", NAME="příklad")).wait()
        waiting.kill()
        assert (await waiting.wait()).exit_code == -signal.SIGKILL
    # The environment, the folder, no descriptors but the standard ones, and a group of its own (code 0).
    assert outcome.stderr.startswith(f"příklad {Path.cwd()} [0, 1, 2] ")
    assert outcome.stderr.endswith(" True"), "Ctrl-C must end it as usual"
    assert outcome.exit_code == 0


@linux
async def test_processes_start_in_the_root_folder_if_the_working_folder_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed = tmp_path / "removed"
    removed.mkdir()
    monkeypatch.chdir(removed)
    removed.rmdir()
    async with serving() as server:
        forked = await (await started(server, "about", NAME="forked")).wait()
    program = "import os, sys; sys.stderr.write(os.getcwd())"
    new = await (await HarvestProcess.start([sys.executable, "-c", program], {})).wait()
    assert (forked.stderr[:9], new.stderr) == ("forked / ", "/")


@linux
async def test_the_environment_of_a_forked_process_cannot_be_read_from_outside() -> None:
    async with serving() as server:
        process = await started(
            server, "wait", ZATVA_DATABASE_URL="postgresql://zatva:secret@127.0.0.1/zatva"
        )
        shown = environment_of(process)
        process.kill()
        await process.wait()
    assert b"secret" not in shown


@linux
async def test_a_process_whose_server_is_killed_ends_and_the_next_one_has_a_new_server() -> None:
    async with serving() as server:
        process = await started(server, "wait")
        os.kill(parent_of(process), signal.SIGKILL)
        assert (await process.wait()).exit_code == -signal.SIGKILL
        await until(lambda: not alive(process.process_id))
        assert (await (await started(server, 7)).wait()).exit_code == 7


@linux
async def test_a_server_ends_with_its_worker_and_leaves_running_processes_alone() -> None:
    async with serving() as server:
        process = await started(server, "wait")
        parent = parent_of(process)
    assert not alive(parent)
    assert alive(process.process_id)
    process.kill()
    await process.wait()


@linux
async def test_an_interpreter_is_started_if_the_server_cannot_fork(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving("tests.manager.threaded") as server:
        process = await started(server, "wait")
        assert parent_of(process) == os.getpid()
        process.kill()
        await process.wait()
    assert "starting a new interpreter instead" in caplog.text
