"""`zatva provider serve` as a real process, with functions to inspect it."""

import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commands import Process
from tests.provider.answer import Reply, read_reply

SECONDS = 60.0


class Served:
    """A running `zatva provider serve`."""

    def __init__(self, environment: dict[str, str], *options: str) -> None:
        self.process = Process(environment, "provider", "serve", *options, stderr=subprocess.PIPE)

    def address(self) -> str:
        """Wait until it listens; return the address that it prints."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if line.startswith("provider at "):
                return line.split()[-1]
        pytest.fail(f"ended with {self.process.wait()} before it listened")

    def children(self) -> set[int]:
        path = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return set(map(int, path.read_text().split()))

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)


Serve = Callable[..., Served]


def ask(address: str, query: str = "verb=Identify") -> Reply:
    with urllib.request.urlopen(f"{address}?{query}", timeout=SECONDS) as response:  # noqa: S310 our own address
        return read_reply(response.read())


def until(condition: Callable[[], Any]) -> Any:
    """Wait until the condition returns a true value, and return it."""
    deadline = time.monotonic() + SECONDS
    while not (met := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return met


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def refuses_connections(address: str) -> bool:
    host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()
    except (ConnectionRefusedError, ConnectionResetError):  # reset: it closed while the connection was made
        return True
    return False
