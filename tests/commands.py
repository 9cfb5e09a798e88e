"""`zatva` commands for tests: separate processes, forked from one that has imported the modules."""

import asyncio
import atexit
import contextlib
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from oai import prefork

_PATIENCE = 120.0

Done = subprocess.CompletedProcess[str]


class Process:
    """A process that runs one of our modules as `python -m MODULE WORD …` does, without its first second.

    It has the methods of `subprocess.Popen` that tests use. It is not a child of this process: its parent
    reports its exit code.
    """

    def __init__(
        self,
        environment: Mapping[str, str],
        *words: str | Path,
        module: str = "zatva",
        folder: Path | None = None,
        stdin: IO[Any] | None = None,
        stdout: IO[Any] | int | None = None,
        stderr: IO[Any] | int | None = None,
        files: tuple[int, int] | None = None,
    ) -> None:
        """Start it. Input is empty unless given; outputs are files, `subprocess.PIPE`, or discarded.

        `files` are the soft and the hard limit of open files.
        """
        self.returncode: int | None = None
        self.command = [module, *map(str, words)]
        with contextlib.ExitStack() as closed, Path(os.devnull).open("r+") as nothing:
            self.stdout, out = _output(stdout or nothing, closed)
            self.stderr, err = _output(stderr or nothing, closed)
            self._reports = prefork.request(
                forking(),
                self.command,
                environment,
                ((stdin or nothing).fileno(), out, err),
                folder=str(folder or Path.cwd()),
                files=files,
            )
        self._reports.settimeout(_PATIENCE)
        self._unread = b""
        self.pid = self._report()

    def poll(self) -> int | None:
        """Return the exit code, or None while it runs."""
        if self.returncode is None and (self._unread or select.select([self._reports], [], [], 0)[0]):
            self.wait()
        return self.returncode

    def wait(self, timeout: float = _PATIENCE) -> int:
        """Return the exit code once it has ended. Raises TimeoutExpired."""
        if self.returncode is None:
            self._reports.settimeout(timeout)
            try:
                self.returncode = self._report()
            except TimeoutError:
                raise subprocess.TimeoutExpired(self.command, timeout) from None
            self._reports.close()
        return self.returncode

    def communicate(self, timeout: float = _PATIENCE) -> tuple[str, str]:
        """Return what it wrote to its pipes until it ended; it is killed when the time is over."""
        timer = threading.Timer(timeout, self.kill)
        timer.start()
        # One pipe after the other: no test has a process that fills both.
        out, err = (pipe.read() if pipe else "" for pipe in (self.stdout, self.stderr))
        self.wait(timeout)
        timer.cancel()
        self._close()
        return out, err

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # its end may not have been reported yet
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kill it."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()

    def _report(self) -> int:
        while b"\n" not in self._unread:
            received = self._reports.recv(64)
            assert received, "the process that starts commands has ended"
            self._unread += received
        line, _, self._unread = self._unread.partition(b"\n")
        return int(line)


def _output(given: IO[Any] | int, closed: contextlib.ExitStack) -> tuple[IO[str] | None, int]:
    """Return our end of a pipe, if there is one, and the descriptor for the process."""
    if not isinstance(given, int):
        return None, given.fileno()
    ours, theirs = os.pipe()
    closed.callback(os.close, theirs)
    return os.fdopen(ours), theirs


def zatva(environment: Mapping[str, str], *words: str | Path, folder: Path | None = None) -> Done:
    """Run the command to its end and return its output as text; a command is killed after two minutes."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = Process(environment, *words, folder=folder, stdout=out, stderr=err)
        try:
            code = process.wait()
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return subprocess.CompletedProcess(process.command, code, _text(out), _text(err))


async def zatva_beside(environment: Mapping[str, str], *words: str | Path) -> Done:
    """Run the command likewise, while servers on the test's event loop answer it."""
    return await asyncio.to_thread(zatva, environment, *words)


def results(environment: Mapping[str, str], *words: str | Path, expect: int = 0) -> list[Any]:
    """Return the objects that a command prints with `--json`, once it has ended with the expected code."""
    done = zatva(environment, *words, "--json")
    assert done.returncode == expect, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return [json.loads(line) for line in done.stdout.splitlines()]


def _text(file: Any) -> str:
    file.seek(0)
    text: str = file.read().decode()
    return text


@functools.cache
def forking() -> socket.socket:
    """Return the socket for requests of commands; the serving process ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        words = (sys.executable, "-W", "error", "-m", "tests.forking", str(theirs.fileno()))
        process = subprocess.Popen(words, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    atexit.register(process.wait, _PATIENCE)
    atexit.register(ours.close)
    return ours
