"""Real `zatva` processes for tests: servers for the length of a block."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from tests.commands import Process

Found = TypeVar("Found")

_DEADLINE = 120.0
_ZATVA = (sys.executable, "-W", "error", "-m", "zatva")


@contextlib.contextmanager
def running(
    environment: Mapping[str, str],
    log: Path,
    *arguments: str,
    ready: str,
    files: tuple[int, int] | None = None,
    fresh: bool = False,
) -> Iterator[tuple[subprocess.Popen[bytes] | Process, str]]:
    """Start a server, wait for a line with `ready` in its log, give the process and the rest of the line.

    `files` are the soft and the hard limit of open files. `fresh` starts an interpreter, as users do. At the
    end of the block the server is asked to end, and has to do so.
    """
    process: subprocess.Popen[bytes] | Process
    with log.open("wb") as file:
        if fresh:
            process = subprocess.Popen(
                [*_ZATVA, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        else:
            process = Process(environment, *arguments, stdout=file, stderr=file, files=files)
    with process:
        try:
            yield process, eventually(lambda: _said(process, log, ready), f"a line with {ready!r}")
        finally:
            process.terminate()
            try:
                process.wait(_DEADLINE)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def _said(process: subprocess.Popen[bytes] | Process, log: Path, ready: str) -> str | None:
    text = log.read_text()
    assert process.poll() is None, text
    for line in text.splitlines():
        if ready in line:
            return line.partition(ready)[2].strip()
    return None


def eventually(look: Callable[[], Found | None], what: str) -> Found:
    """Repeat the look-up until it returns a true value; fail after two minutes."""
    deadline = time.monotonic() + _DEADLINE
    while True:
        found = look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.1)


def alive(pid: int) -> bool:
    """Whether a process lives; one that has ended and only waits to be collected does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/status")
    return not (status.exists() and "State:\tZ" in status.read_text())
