"""A process that works for its parent: requests arrive on standard input, answers leave on standard output.

Requests and answers are pickled. The process ignores signals that ask its parent to stop, and ends with the
parent.
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

_PIPE_BYTES = 1024**2
"""Pipe size with which a request or an answer takes few writes; unprivileged users get no more."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


class CompanionEndedError(Exception):
    """The process ended before it had answered; `status` is its exit status, negative for a signal."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with {status}")
        self.status = status


class Companion:
    """The other process as its parent sees it; start it in a thread that outlives it.

    `module` is run with the arguments, followed by the parent's process id; it calls `serve`. Open `files`
    are passed to it under the same descriptors. One thread at a time may use it: answers carry no number, and
    arrive in the order of the requests.
    """

    def __init__(self, module: str, *arguments: str, files: Sequence[int] = ()) -> None:
        # Without -P, a folder that has the name of one of our packages would be imported instead.
        command = [sys.executable, "-P", "-m", module, *arguments, str(os.getpid())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=files
        )
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 pipes
        self._requests, self._answers = self._process.stdin, self._process.stdout
        for pipe in (self._requests, self._answers):
            _widen(pipe)

    @property
    def number(self) -> int:
        """The process id."""
        return self._process.pid

    def close(self) -> None:
        """End the process, which has answered all requests."""
        with contextlib.suppress(BrokenPipeError):
            self._requests.close()
        self._process.wait()
        self._answers.close()

    def kill(self) -> None:
        """Kill the process, whatever it is doing; nothing that it creates outlives it."""
        self._process.kill()
        self.close()

    def send(self, *request: object) -> None:
        """Send a request. Raises CompanionEndedError."""
        try:
            self._requests.write(pickle.dumps(request))
            self._requests.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> Any:  # noqa: ANN401 depends on the request
        """Return the next answer. Raises CompanionEndedError."""
        try:
            return pickle.load(self._answers)  # noqa: S301 from our own process
        except (EOFError, pickle.UnpicklingError):  # the latter if it was killed within an answer
            raise self._ended() from None

    def _ended(self) -> CompanionEndedError:
        return CompanionEndedError(self._process.wait())


Answer = Callable[[object], None]
"""Sends an answer to the parent."""


def serve(work: Callable[..., None]) -> None:
    """Serve the requests on standard input until it ends: `work(answer, *request)` answers each request."""
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
    """Ignore signals that ask the parent to stop, which finishes its work; end if the parent is killed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent may have ended before the call above took effect.
        sys.exit(1)
