"""A process that works for another: it is asked on standard input, and answers on standard output.

Requests and answers are pickled. The process is deaf to what asks its parent to stop, and ends with it.
"""

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import IO, Any

from oai.errors import required

_PIPE_BYTES = 1024**2
"""So few writes take a request or an answer; more is not allowed to everyone."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


class CompanionEndedError(Exception):
    """The process ended before it had answered; `status` is its exit status, below 0 the signal's number."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with {status}")
        self.status = status


class Companion:
    """The other process, as its parent sees it; start it in a thread that lives as long as it.

    `module` is run with the arguments, and with the parent's process id behind them; it calls `serve`. Open
    `files` are handed to it under the same descriptors.
    """

    def __init__(self, module: str, *arguments: str, files: Sequence[int] = ()) -> None:
        # Without -P, a folder that happens to be called like one of our packages would be taken for it.
        command = [sys.executable, "-P", "-m", module, *arguments, str(os.getpid())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=files
        )
        self._requests = required(self._process.stdin, "a pipe was requested")
        self._answers = required(self._process.stdout, "a pipe was requested")
        for pipe in (self._requests, self._answers):
            _widen(pipe)

    @property
    def number(self) -> int:
        """The process's id."""
        return self._process.pid

    def close(self) -> None:
        """End the process, which has answered all it was asked."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._process.wait()
        self._answers.close()

    def kill(self) -> None:
        """End the process at once, whatever it does; nothing it makes outlives it."""
        self._process.kill()
        self.close()

    def send(self, *request: object) -> None:
        """Ask for something. Raises CompanionEndedError."""
        try:
            self._requests.write(pickle.dumps(request))
            self._requests.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> Any:  # noqa: ANN401 the caller knows what it has asked for
        """The next answer. Raises CompanionEndedError."""
        try:
            return pickle.load(self._answers)  # noqa: S301 our own process's
        except (EOFError, pickle.UnpicklingError):  # the latter where it was killed within an answer
            raise self._ended() from None

    def _ended(self) -> CompanionEndedError:
        return CompanionEndedError(self._process.wait())


Answer = Callable[[object], None]
"""Sends an answer to the parent."""


def serve(work: Callable[..., None]) -> None:
    """Do what standard input asks for until it ends: `work(answer, *request)` answers each request."""
    outlive_no_parent(int(sys.argv[-1]))
    with contextlib.suppress(EOFError):
        while True:
            work(_answer, *pickle.load(sys.stdin.buffer))  # noqa: S301 from our own parent


def _answer(answer: object) -> None:
    sys.stdout.buffer.write(pickle.dumps(answer))
    sys.stdout.buffer.flush()


def _widen(pipe: IO[bytes]) -> None:
    if sys.platform == "linux":
        import fcntl  # noqa: PLC0415 other systems lack it

        with contextlib.suppress(OSError):
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def outlive_no_parent(parent: int) -> None:
    """Be deaf to what asks the parent to stop, which finishes what it began, and end when it is killed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)
