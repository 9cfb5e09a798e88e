"""A real Z39.50 server: `yaz-ztest` of Debian's package yaz."""

import asyncio
import shutil
import socket
from asyncio.subprocess import DEVNULL
from collections.abc import AsyncIterator
from pathlib import Path

import pytest


@pytest.fixture
async def ztest(tmp_path: Path) -> AsyncIterator[str]:
    """The address of its database; a query for a number finds that many records."""
    program = shutil.which("yaz-ztest")
    if program is None or shutil.which("yaz-client") is None:
        pytest.skip("no YAZ on this machine: install Debian's package yaz to run the Z39.50 tests")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        program, "-S", f"tcp:127.0.0.1:{port}", stdout=DEVNULL, stderr=DEVNULL, cwd=tmp_path
    )
    await _listening(port)
    yield f"z3950://127.0.0.1:{port}/Default"
    process.terminate()
    await process.wait()


async def _listening(port: int) -> None:
    for _ in range(200):
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except ConnectionRefusedError:
            await asyncio.sleep(0.05)
            continue
        writer.close()
        return
    raise AssertionError("yaz-ztest does not listen")
