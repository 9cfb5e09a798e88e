"""Processes of `harvester.isolated` for tests, forked from one that has imported the modules.

The dashboard starts an interpreter for each question to a repository, which spends a second on imports. The
forked process is as separate, has the same limit of memory, and ends in the same ways; `tests/harvester`
has the started one (`test_isolated.py`).
"""

import asyncio
import contextlib
import importlib
import os
import socket
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.commands import Process


@dataclass(frozen=True, kw_only=True)
class Forked:
    """What `harvester.isolated` uses of an asyncio subprocess."""

    process: Process
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader

    async def wait(self) -> int:
        """Return the exit code once it has ended."""
        return await asyncio.to_thread(self.process.wait)


@contextlib.asynccontextmanager
async def forked() -> AsyncIterator[Forked]:
    """Fork a process for the block; it is killed at the end of it."""
    ours, theirs = socket.socketpair()
    with os.fdopen(theirs.detach(), "r+b", buffering=0) as both:
        # Not in a thread, which cannot be cancelled: the process would be left running without its caller.
        process = Process(os.environ, module=__name__, stdin=both, stdout=both, stderr=sys.__stderr__)
    try:
        reader, writer = await asyncio.open_connection(sock=ours)
        try:
            yield Forked(process=process, stdin=writer, stdout=reader)
        finally:
            writer.close()
    finally:
        process.kill()
        await asyncio.to_thread(process.wait)
        ours.close()


if __name__ == "__main__":
    # The process that forks is the parent of this one.
    sys.argv.append(str(os.getppid()))
    importlib.import_module("harvester.isolated").main()
