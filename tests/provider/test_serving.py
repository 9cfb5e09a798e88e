"""`zatva provider serve` as real processes: it starts, shares its port, and ends as it should."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oai.database import Database
from tests.provider.answer import Reply, read_reply
from tests.provider.archive import Archive

SECONDS = 60.0


class Served:
    """A running `zatva provider serve`."""

    def __init__(self, environment: dict[str, str], *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "zatva", "provider", "serve", *options],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )

    def address(self) -> str:
        """Where it says that it listens, once it does."""
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


@pytest.fixture
def serve(environment: dict[str, str]) -> Iterator[Serve]:
    """Starts providers on free ports, and ends them after the test."""
    started: list[Served] = []

    def start(*options: str) -> Served:
        port = () if "--port" in options else ("--port", "0")
        started.append(Served(environment, *port, *options))
        return started[-1]

    yield start
    for served in started:
        if served.process.poll() is None:
            served.end()
        assert served.process.stderr is not None
        served.process.stderr.close()


def ask(address: str, query: str = "verb=Identify") -> Reply:
    with urllib.request.urlopen(f"{address}?{query}", timeout=SECONDS) as response:  # noqa: S310 our own address
        return read_reply(response.read())


def until(condition: Callable[[], Any]) -> Any:
    """Wait for the condition, and give what it gives."""
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


@pytest.mark.parametrize("processes", ["1", "2"])
def test_it_tells_its_address_answers_and_ends_on_sigterm(serve: Serve, processes: str) -> None:
    served = serve("--processes", processes)
    address = served.address()
    assert address.startswith("http://127.0.0.1:")
    assert ask(address).texts("//o:baseURL") == [address]
    children = served.children()
    assert served.end() == 0
    assert not any(map(alive, children))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_exit_code_0(serve: Serve, number: signal.Signals) -> None:
    served = serve()
    served.address()
    served.process.send_signal(number)
    assert served.process.wait(SECONDS) == 0


def test_the_base_url_can_be_given(serve: Serve) -> None:
    served = serve("--base-url", "https://archive.example/oai")
    assert ask(served.address()).texts("//o:baseURL") == ["https://archive.example/oai"]


def test_the_base_url_can_be_set(environment: dict[str, str], serve: Serve) -> None:
    environment["ZATVA_PROVIDER__BASE_URL"] = "https://set.example/oai"
    served = serve()
    assert ask(served.address()).texts("//o:baseURL") == ["https://set.example/oai"]


def test_open_answers_are_finished_first(serve: Serve, archive: Archive, database: Database) -> None:
    archive.add()
    served = serve()
    address = served.address()
    answers: list[Reply] = []
    asking = threading.Thread(target=lambda: answers.append(ask(address)))
    with psycopg.connect(database.conninfo) as connection:
        connection.execute("LOCK TABLE document IN ACCESS EXCLUSIVE MODE")
        asking.start()
        until(lambda: waiting_for_the_lock(database))
        served.process.send_signal(signal.SIGTERM)
        until(lambda: refuses_connections(address))
        connection.rollback()
    asking.join(SECONDS)
    assert served.process.wait(SECONDS) == 0
    assert [answer.codes for answer in answers] == [[]]


def waiting_for_the_lock(database: Database) -> bool:
    with psycopg.connect(database.conninfo) as connection:
        return bool(connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount)


def refuses_connections(address: str) -> bool:
    host, _, port = address.removeprefix("http://").partition("/")[0].partition(":")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()
    except ConnectionRefusedError:
        return True
    return False


def test_several_processes_share_the_port(serve: Serve) -> None:
    served = serve("--processes", "3")
    address = served.address()
    assert len(served.children()) == 3
    for _ in range(20):
        assert not ask(address).codes
    port = int(address.rpartition(":")[2].partition("/")[0])
    listening = [
        line
        for line in Path("/proc/net/tcp").read_text().splitlines()[1:]
        if line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A"
    ]
    assert len(listening) == 3


def test_a_killed_parent_takes_its_processes_along(serve: Serve) -> None:
    served = serve("--processes", "2")
    served.address()
    children = served.children()
    assert len(children) == 2
    served.process.kill()
    served.process.wait(SECONDS)
    until(lambda: not any(map(alive, children)))


def test_a_killed_process_is_replaced(serve: Serve) -> None:
    served = serve("--processes", "2")
    address = served.address()
    first, second = served.children()
    os.kill(first, signal.SIGKILL)
    until(lambda: len(served.children() - {first, second}) == 1)
    until(lambda: len(served.children()) == 2)
    assert second in served.children()
    assert not ask(address).codes


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_port_that_is_taken_is_refused(serve: Serve, processes: str) -> None:
    first = serve("--processes", processes)
    port = first.address().rpartition(":")[2].partition("/")[0]
    second = serve("--processes", processes, "--port", port)
    _, said = second.process.communicate(timeout=SECONDS)
    assert second.process.returncode == 2
    assert f"port {port}" in said
    assert "--port" in said


@pytest.mark.parametrize("processes", ["1", "2"])
def test_without_a_database_it_says_so_once(
    environment: dict[str, str], serve: Serve, processes: str
) -> None:
    environment["ZATVA_DATABASE_URL"] = "postgresql://127.0.0.1:1/nowhere"
    served = serve("--processes", processes)
    _, said = served.process.communicate(timeout=SECONDS)
    assert served.process.returncode == 6
    assert said.count("nowhere") == 1


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--processes", "0"), "--processes"),
        (("--base-url", "archive.example"), "'archive.example'"),
        (("--host", "192.0.2.1"), "'192.0.2.1'"),
        (("--host", "no.such.host.invalid"), "'no.such.host.invalid'"),
        (("--port", "99999"), "99999"),
    ],
)
def test_what_is_impossible_is_refused(serve: Serve, options: tuple[str, ...], named: str) -> None:
    served = serve(*options)
    _, said = served.process.communicate(timeout=SECONDS)
    assert served.process.returncode == 2
    assert named in said
    assert "Traceback" not in said
