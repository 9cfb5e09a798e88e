"""The processes of workers, forked from one that has imported all modules, as the tests' commands are.

They are the same processes otherwise; an interpreter that imports a harvester or an indexer takes one to two
seconds of processor time. That workers start them themselves is tested in `test_process.py` and with
`zatva manager` and `zatva worker` in `test_with_the_harvester.py`, `test_indexing.py` and `test_soak.py`.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from manager.worker import process
from manager.worker.process import PreforkServer
from oai import prefork
from oai.child import module_command, words_of_module

STAND_IN = module_command("tests.manager.stand_in")
_BEGINNING = module_command("")[:-1]


class _Running(PreforkServer):
    """A server that runs already."""

    def __init__(self, requests: socket.socket) -> None:
        super().__init__()
        self._given = requests

    def _running(self) -> socket.socket:
        return self._given


def fork_from(requests: socket.socket, change: Callable[[Any, str, Any], None] = setattr) -> None:
    """Let the workers of this process start our modules by requests on the socket, and programs as usual."""
    server = _Running(requests)
    start = process.started

    async def forked(
        command: Sequence[str], environment: Mapping[str, str], _: PreforkServer | None, **standard: int
    ) -> object:
        if tuple(command[: len(_BEGINNING)]) != _BEGINNING:
            return await start(command, environment, None, **standard)
        return await server.start(words_of_module(command), environment, **standard)

    change(process, "started", forked)


def fork_from_here() -> None:
    """Let the workers of this process, which has no threads yet, start our modules by forking it as it is."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        os.setsid()  # signals for the terminal's group are not for this one
        ours.close()
        prefork.serve(theirs)
    theirs.close()
    fork_from(ours)
