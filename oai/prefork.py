"""Processes forked from one that has imported their modules: `python -P -m oai.prefork DESCRIPTOR MODULE`.

Each of them is a process of its own, as if it had been started by `python -m`, but it does not spend its
first half second on imports. The server has no thread, no connection and no event loop, none of which would
survive a fork, and is itself never forked from a process that has.

A request is one packet on the socket with that descriptor: the module and its words, environment, folder and
options as JSON, and four descriptors: the standard ones, and one on which the process writes its id and the
server, later, the exit code, a line each. The server ends when the other end of the socket is closed.
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import resource
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn

from oai.child import module_command, number_of_threads

_MOST: Final = 1 << 20
"""Maximum size of a request in bytes."""
_STANDARD: Final = 3


def server_command(descriptor: int, module: str) -> tuple[str, ...]:
    """Return the command of a server that imports the module and takes requests on the descriptor."""
    return module_command(__name__, str(descriptor), module)


def request(
    server: socket.socket,
    words: Sequence[str],
    environment: Mapping[str, str],
    standard: Sequence[int],
    *,
    folder: str,
    new_session: bool = False,
    files: tuple[int, int] | None = None,
) -> socket.socket:
    """Request a process that runs the module `words[0]` with the other words; returns the end of its reports.

    `standard` are the descriptors of its input, output and errors; `files` are its soft and its hard limit of
    open files. If the reports end before the line with its id, it could not be started. Raises OSError if the
    server has ended.
    """
    asked = {
        "words": list(words),
        "environment": dict(environment),
        "folder": folder,
        "new_session": new_session,
        "files": files,
    }
    ours, theirs = socket.socketpair()
    try:
        with theirs:
            socket.send_fds(server, [json.dumps(asked).encode()], [*standard, theirs.fileno()])
    except BaseException:
        ours.close()
        raise
    return ours


def serve(requests: socket.socket, *, begin: Callable[[], None] = lambda: None) -> NoReturn:
    """Serve requests until their sender has closed its end; each process calls `begin` first.

    All modules must have been imported. Exits with a message if this process has threads.
    """
    if (number_of_threads() or 1) > 1:
        sys.exit("processes cannot be forked from this one: an imported module has started a thread")
    gc.collect()
    gc.freeze()
    with requests:
        module, *sys.argv[1:] = _words_of_a_process(requests)
    begin()
    ended: SystemExit | None = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stopped:
        ended = stopped
    _end(ended)


def _words_of_a_process(requests: socket.socket) -> list[str]:
    """Serve requests; returns only in a new process, with the words of its request."""
    reports: dict[int, int] = {}
    with _ends_of_children() as ends:
        while True:
            ready, _, _ = select.select([requests.fileno(), ends], [], [])
            if ends in ready:
                os.read(ends, select.PIPE_BUF)
                _report_ended(reports)
            if requests.fileno() not in ready:
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, _MOST, _STANDARD + 1)
            if not message:
                sys.exit()
            process_id = _fork()
            if process_id == 0:
                break
            if process_id is not None:
                reports[process_id] = os.dup(descriptors[_STANDARD])
            _close(descriptors)
    _close(reports.values())
    asked = json.loads(message)
    _become(asked, descriptors)
    return [str(word) for word in asked["words"]]


@contextlib.contextmanager
def _ends_of_children() -> Iterator[int]:
    """Give the descriptor on which a byte arrives whenever a child has ended."""
    ends, write = os.pipe()
    os.set_blocking(write, False)
    # Without a handler, Python would not write to the descriptor. An interrupt is for the requests' sender.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(write)
    try:
        yield ends
    finally:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, interrupted)
        _close((ends, write))


def _fork() -> int | None:
    """Return the child's id, 0 in the child, and None if the system has no room for another process."""
    try:
        return os.fork()
    except OSError as error:
        sys.stderr.write(f"no process could be forked: {error}\n")
        return None


def _report_ended(reports: dict[int, int]) -> None:
    """Write the exit codes of the children that have ended; a signal's number is negative."""
    with contextlib.suppress(ChildProcessError):  # there is no child
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            report = reports.pop(ended[0])
            with contextlib.suppress(BrokenPipeError):  # its requester no longer waits
                os.write(report, b"%d\n" % os.waitstatus_to_exitcode(ended[1]))
            os.close(report)


def _become(asked: Mapping[str, Any], descriptors: Sequence[int]) -> None:
    """Take over the request's descriptors, environment, folder and limits, and report the process id."""
    for standard, descriptor in enumerate(descriptors[:_STANDARD]):
        os.dup2(descriptor, standard)
    if asked["new_session"]:
        os.setsid()
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    if asked["files"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, asked["files"])
    # Last: a requester that knows the id may signal the process group, which must exist by then.
    os.write(descriptors[_STANDARD], b"%d\n" % os.getpid())
    _close(descriptors)


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _end(stopped: SystemExit | None) -> NoReturn:
    """End as the interpreter does, but do not take the modules apart: that copies all inherited pages."""
    code = stopped.code if stopped else 0
    if isinstance(code, str):
        sys.stderr.write(f"{code}\n")  # as the interpreter does
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 waits for threads; as multiprocessing ends
    atexit._run_exitfuncs()  # noqa: SLF001
    for output in (sys.stdout, sys.stderr):
        with contextlib.suppress(BrokenPipeError):
            output.flush()
    os._exit(int(code or 0))


if __name__ == "__main__":
    importlib.import_module(sys.argv[2])
    serve(socket.socket(fileno=int(sys.argv[1])))
