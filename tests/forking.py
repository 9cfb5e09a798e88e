"""Commands forked from a process that has already imported all modules.

`python -m tests.forking DESCRIPTOR`. Each command is a separate process, as for a user, but does not spend
its first second on imports. A request is one datagram with the module and its words, environment, directory
and limits of open files, and four descriptors: the standard ones, and one to which the process id and later
the exit code are written, a line each.
"""

import atexit
import gc
import importlib
import json
import os
import resource
import runpy
import signal
import socket
import sys
import threading
from typing import Any, NoReturn

from sqlalchemy.orm import configure_mappers

from tests.mutation.context import continue_context
from tests.parsers import commands_of
from zatva.cli import build_parser

MOST = 1 << 20
"""Maximum size of a request in bytes."""


def _words_of_a_command(requests: socket.socket) -> list[str]:
    """Serve requests; returns only in a process that becomes a command, with the command's words."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MOST, 4)
        if not message:
            sys.exit()  # the requesting process has ended
        if os.fork() == 0:
            asked = json.loads(message)
            if _is_command(descriptors):
                _become(asked, descriptors)
                return [str(word) for word in asked["words"]]
        for descriptor in descriptors:
            os.close(descriptor)


def _is_command(descriptors: list[int]) -> bool:
    """Fork again: the parent reports its child's id and exit code and then ends; the child returns True."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    process_id = os.fork()
    if process_id == 0:
        return True
    told = descriptors.pop()
    for descriptor in descriptors:
        os.close(descriptor)
    os.write(told, b"%d\n" % process_id)
    _, status = os.waitpid(process_id, 0)
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _become(asked: dict[str, Any], descriptors: list[int]) -> None:
    for standard, descriptor in enumerate(descriptors[:3]):
        os.dup2(descriptor, standard)
    for descriptor in descriptors:
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    if asked["files"]:
        resource.setrlimit(resource.RLIMIT_NOFILE, asked["files"])
    continue_context()


def _end(stopped: SystemExit | None) -> NoReturn:
    """End as the interpreter does, but do not take the modules apart: that copies all inherited pages."""
    code = stopped.code if stopped else 0
    if isinstance(code, str):
        print(code, file=sys.stderr)  # noqa: T201 as the interpreter does
        code = 1
    threading._shutdown()  # type: ignore[attr-defined] # noqa: SLF001 waits for threads, as at a normal end
    atexit._run_exitfuncs()  # noqa: SLF001
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0))


if __name__ == "__main__":
    for _, parser in commands_of("zatva", build_parser()):
        importlib.import_module(parser.get_default("handler").partition(":")[0])
    configure_mappers()
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # reaps the reporting processes automatically
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        words = _words_of_a_command(asking)
    module, *sys.argv[1:] = words
    ended: SystemExit | None = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as stopped:
        ended = stopped
    _end(ended)
