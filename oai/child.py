"""Child processes: how they are started, one that works for its parent, memory, and interruptions."""

import contextlib
import ctypes
import gc
import multiprocessing
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkContext, SpawnContext
from pathlib import Path
from typing import IO, Any

from oai.errors import ExitCode, TryLaterError, required
from oai.failures import Failure, FailureCode

_PIPE_BYTES = 1024**2
"""Pipe size with which a request or an answer takes few writes; unprivileged users get no more."""
_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG of Linux's prctl
_NEW_OBJECTS = 50_000
"""Created between two garbage collections; Python's default of 700 is a page of seventy records."""
_LOOK_SECONDS = 0.2
_STANDARD_INPUT = 0
_STOP_SECONDS = 10.0
"""For a process to finish what it does after its parent has ended."""
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's mallopt
_SAFE_PATH = "PYTHONSAFEPATH"
_THREADS = Path("/proc/self/task")


def module_command(module: str, *arguments: str) -> tuple[str, ...]:
    """Return the command that runs one of our modules as a process.

    Without -P, a folder that has the name of one of our packages would be imported instead.
    """
    return (sys.executable, "-P", "-m", module, *arguments)


def words_of_module(command: Sequence[str]) -> Sequence[str]:
    """Return the module and the arguments of a command that `module_command` made."""
    return command[len(module_command("")) - 1 :]


@contextlib.contextmanager
def spawning() -> Iterator[SpawnContext]:
    """Give multiprocessing's context for the block, whose processes import nothing from the working folder.

    They start as `python -c`, which looks there first, and -P is passed on only if this process has it: one
    that a script such as `zatva` started has not. The variable counts for all that the process starts
    meanwhile, so hooks must not be run within the block.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield multiprocessing.get_context("spawn")
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


@contextlib.contextmanager
def forking_or_spawning() -> Iterator[ForkContext | SpawnContext]:
    """Give a context like `spawning`; its processes are forked, without importing modules, if that is safe.

    It is not safe if this process has threads; clients of object stores start some.
    """
    if number_of_threads() == 1:
        yield multiprocessing.get_context("fork")
    else:
        with spawning() as context:
            yield context


def number_of_threads() -> int | None:
    """Return how many threads this process has, those of libraries included; None where it is not known.

    A fork of a process with several lacks all but one, with the locks that the others hold.
    """
    return len(list(_THREADS.iterdir())) if _THREADS.exists() else None


class CompanionEndedError(Exception):
    """The process ended before it had answered; `status` is its exit status, negative for a signal."""

    def __init__(self, status: int) -> None:
        super().__init__(f"ended with {status}")
        self.status = status


class ProcessKilledError(TryLaterError):
    """A process that worked for this one was killed by signal 9, which no memory limit of ours sends."""

    def __init__(self, work: str, number: int) -> None:
        super().__init__(
            f"the process that {work} was ended by signal 9; the machine has probably run out of memory; "
            "run the command again later, which resumes a harvest"
        )
        facts = {"number": number, "host": socket.gethostname(), "signal": int(signal.SIGKILL)}
        self.failure = Failure(code=FailureCode.PROCESS_SIGNALLED, facts=facts)


class Companion:
    """The other process as its parent sees it; start it in a thread that outlives it.

    `module` is run with the arguments, followed by the parent's process id; it calls `serve`. Open `files`
    are passed to it under the same descriptors. One thread at a time may use it: answers carry no number, and
    arrive in the order of the requests.
    """

    def __init__(self, module: str, *arguments: str, files: Sequence[int] = ()) -> None:
        command = module_command(module, *arguments, str(os.getpid()))
        # Until it calls `end_with_parent`, it would end with a traceback.
        with interrupts_held_back(signal.SIGTERM):
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=files
            )
        self._requests = required(self._process.stdin, "a pipe was requested")
        self._answers = required(self._process.stdout, "a pipe was requested")
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
    end_with_parent(int(sys.argv[-1]))
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


def end_with_parent(parent: int) -> None:
    """Ignore signals that ask the parent to stop, which finishes its work; end if the parent is killed."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        # The parent may have ended before the call above took effect.
        sys.exit(1)


def end_with_input() -> None:
    """Let the end of standard input, which the parent holds open, stop this process; then end it."""
    threading.Thread(target=_wait_for_input, name="parent", daemon=True).start()


def _wait_for_input() -> None:
    # Not through sys.stdin: this thread would hold its lock when the interpreter exits.
    with contextlib.suppress(OSError):
        while os.read(_STANDARD_INPUT, 4096):
            pass
    # A signal, because an asyncio event must not be set from another thread.
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_STOP_SECONDS)
    os._exit(ExitCode.INTERRUPTED)


def end_with_pool() -> None:
    """End this process of a multiprocessing pool as soon as its parent has ended, even if it was killed."""
    threading.Thread(target=_wait_for_pool, name="parent", daemon=True).start()


def _wait_for_pool() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def collect_garbage_seldom(new_objects: int = _NEW_OBJECTS) -> None:
    """Collect garbage seldom: pages create many objects but no reference cycles, and each collection costs.

    `new_objects` is the number of objects that are created between two collections.
    """
    gc.freeze()
    gc.set_threshold(new_objects, 20, 20)


def share_memory() -> None:
    """Let the threads take memory from one arena: what one frees of a page, the next can use at once.

    Of its own accord glibc gives each thread an arena, and a harvest then has a tenth more at its peak.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has neither it nor arenas
        if mallopt is not None:
            mallopt(_ARENA_MAX, 1)


def limit_memory(most: int, *, mapped: int = 0) -> None:
    """Let this process take at most so many bytes more than it has now; beyond that it raises MemoryError.

    `mapped` bytes of a file may be mapped into memory besides; they are the file's. Systems other than Linux
    do not hold to such limits, so there the process looks after its own size, and ends.
    """
    if sys.platform == "linux":
        size, _, _, _, _, data, _ = map(int, Path("/proc/self/statm").read_text().split())
        # Address space has the file's pages, and room that threads reserve and never use; data have neither.
        _lower(resource.RLIMIT_AS, size * resource.getpagesize() + most + mapped)
        _lower(resource.RLIMIT_DATA, data * resource.getpagesize() + most)
    else:
        begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        threading.Thread(target=_watch_size, args=(begun + most,), daemon=True).start()


def _lower(limit: int, most: int) -> None:
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _watch_size(most: int) -> None:
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)


@contextlib.contextmanager
def interrupts_held_back(*others: signal.Signals) -> Iterator[None]:
    """Start the block's processes deaf to Ctrl-C and to a closed terminal: the parent alone decides.

    It does so once the block is over. `others` are further signals to which they are deaf.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, *others})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
