"""A process that works on files for another: `python -m harvester.store.disk_process FOLDER PARENT`.

Each call to the system gives up the interpreter's lock and has to wait for it again. Beside a thread that
parses pages, a thread that writes thousands of files would wait most of its time, so a process does it.
It reads pickled requests from standard input and answers each on standard output; it ends with its parent.
"""

import contextlib
import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Sequence

from harvester.store.disk import OPEN_AT_ONCE, Disk

_PIPE_BYTES = 1024**2
"""So few writes take a request to the process; more is not allowed to everyone."""
_OURS = 50
"""Descriptors that the process needs besides those of files, at most."""
_FILES_AND_OURS = 2 * 3000 + _OURS
"""A group of pages has up to 3,000 records, and so one sync for them; the next one's are open beside."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl


class DiskProcess:
    """The other process, as its parent sees it; start it in a thread that lives as long as it."""

    def __init__(self, base: str) -> None:
        command = [sys.executable, "-m", __name__, base, str(os.getpid())]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdin is not None and self._process.stdout is not None  # noqa: S101, PT018 pipes
        self._requests, self._answers = self._process.stdin, self._process.stdout
        if sys.platform == "linux":
            import fcntl  # noqa: PLC0415 other systems lack it

            with contextlib.suppress(OSError):
                fcntl.fcntl(self._requests, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)

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

    def missing(self, paths: Sequence[str]) -> list[str]:
        """As `Disk.missing`."""
        return list(self._ask("missing", paths))

    def begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str] = ()) -> None:
        """As `Disk.begin`."""
        self._ask("begin", files, leaving)

    def settle(self) -> None:
        """As `Disk.settle`."""
        self._ask("settle")

    def _ask(self, *request: object) -> Sequence[str]:
        try:
            self._requests.write(pickle.dumps(request))
            self._requests.flush()
            answer: OSError | Sequence[str] | None = pickle.load(self._answers)  # noqa: S301 our own process's
        except (BrokenPipeError, EOFError):
            ended = self._process.wait()
            raise OSError(
                f"the process that writes the record files ended with {ended}; nothing that it had not "
                "finished counts as stored: run the harvest again, it goes on from there"
            ) from None
        if isinstance(answer, OSError):
            raise answer
        return answer or ()


def main() -> None:
    """Do what standard input asks for until it ends."""
    base, parent = sys.argv[1:]
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # The parent is asked to stop as well, and finishes what it has begun.
        signal.signal(number, signal.SIG_IGN)
    _end_with(int(parent))
    disk = Disk(base, open_at_once=_room())
    with contextlib.suppress(EOFError):
        while True:
            work, *arguments = pickle.load(sys.stdin.buffer)  # noqa: S301 from our own parent
            try:
                answer = getattr(disk, work)(*arguments)
            except OSError as error:
                # A write, unlike an open, does not say in its error where it was.
                unplaced = error.errno is not None and error.filename is None
                answer = OSError(error.errno, error.strerror, base) if unplaced else error
            sys.stdout.buffer.write(pickle.dumps(answer))
            sys.stdout.buffer.flush()
    disk.close()


def _room() -> int:
    """How many files this process, which has nothing else open, may have open at a time."""
    if sys.platform == "win32":
        return OPEN_AT_ONCE
    import resource  # noqa: PLC0415 Windows lacks it

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = _FILES_AND_OURS if hard == resource.RLIM_INFINITY else min(hard, _FILES_AND_OURS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return max(most - _OURS, 1)


def _end_with(parent: int) -> None:
    """See that what was begun ends too when the parent is killed: its lock on the files is gone then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


if __name__ == "__main__":
    main()
