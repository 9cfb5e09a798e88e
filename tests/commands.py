"""`zatva` commands for tests: separate processes, forked from one that has imported the modules."""

import asyncio
import atexit
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PATIENCE = 120.0

Done = subprocess.CompletedProcess[str]


def zatva(environment: Mapping[str, str], *words: str | Path, folder: Path | None = None) -> Done:
    """Run the command to its end and return its output as text; a command is killed after two minutes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        command = list(map(str, words))
        ours, theirs = socket.socketpair()
        with ours, theirs, Path(os.devnull).open() as nothing:
            asked = {"words": command, "environment": dict(environment), "folder": str(folder or Path.cwd())}
            descriptors = [nothing.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
            socket.send_fds(_forking(), [json.dumps(asked).encode()], descriptors)
            theirs.close()
            code = _ended(ours, command)
        return subprocess.CompletedProcess(command, code, _text(out), _text(err))


async def zatva_beside(environment: Mapping[str, str], *words: str | Path) -> Done:
    """Run the command likewise, while servers on the test's event loop answer it."""
    return await asyncio.to_thread(zatva, environment, *words)


def results(environment: Mapping[str, str], *words: str | Path, expect: int = 0) -> list[Any]:
    """Return the objects that a command prints with `--json`, once it has ended with the expected code."""
    done = zatva(environment, *words, "--json")
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def _ended(ours: socket.socket, command: list[str]) -> int:
    ours.settimeout(_PATIENCE)
    with ours.makefile("r") as lines:
        process_id = int(lines.readline())
        try:
            return int(lines.readline())
        except TimeoutError:
            os.kill(process_id, 9)
            raise subprocess.TimeoutExpired(command, _PATIENCE) from None


def _text(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode()
    return text


@functools.cache
def _forking() -> socket.socket:
    """Return the socket for requests of commands; the serving process ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        words = (sys.executable, "-W", "error", "-m", "tests.forking", str(theirs.fileno()))
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(process.wait, _PATIENCE)
    atexit.register(ours.close)
    return ours
