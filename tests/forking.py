"""Commands forked from a process that has read all modules already: `python -m tests.forking DESCRIPTOR`.

Each is a process of its own, as a user's is, but does not spend its first second on reading modules.
A request is one datagram with the command's words, environment and folder, and four descriptors: its
standard ones, and where to tell its process id and later its exit code, a line each.
"""

import gc
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any

from tests.parsers import commands_of
from zatva.cli import build_parser, main

MOST = 1 << 20
"""Bytes that a request may have."""


def _words_of_a_command(requests: socket.socket) -> list[str]:
    """Serve requests; comes back only in a process that is to become a command, with its words."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(requests, MOST, 4)
        if not message:
            sys.exit()  # nobody asks any more
        if os.fork() == 0:
            asked = json.loads(message)
            if _is_command(descriptors):
                _become(asked, descriptors)
                return [str(word) for word in asked["words"]]
        for descriptor in descriptors:
            os.close(descriptor)


def _is_command(descriptors: list[int]) -> bool:
    """Fork once more: the parent stays to tell of its child's id and end, and ends with it."""
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
    sys.argv = ["zatva", *asked["words"]]


if __name__ == "__main__":
    for _, parser in commands_of("zatva", build_parser()):
        importlib.import_module(parser.get_default("handler").partition(":")[0])
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # those that tell of commands are nobody's to wait for
    with socket.socket(fileno=int(sys.argv[1])) as asking:
        words = _words_of_a_command(asking)
    sys.exit(main(words))
