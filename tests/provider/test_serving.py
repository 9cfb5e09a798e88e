"""`zatva provider serve` as real processes: it starts, shares its port, and ends as it should."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from oai.database import Database
from tests.provider.answer import Reply, read_reply
from tests.provider.archive import Archive
from tests.provider.raw import get

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


def test_processes_can_be_replaced_one_by_one_while_a_list_is_read(
    environment: dict[str, str], serve: Serve, archive: Archive
) -> None:
    """Any process goes on with the tokens of any other, the new ones included."""
    environment["ZATVA_PROVIDER__HEADERS_PER_ANSWER"] = "1"
    identifiers = archive.add_many(60)
    served = serve("--processes", "2")
    address = served.address()
    reading = ListReading(address)
    for pid in sorted(served.children()):
        reading.go_on(10)
        os.kill(pid, signal.SIGTERM)
        until_replaced(served, pid)
    assert reading.to_the_end() == identifiers


def until_replaced(served: Served, pid: int) -> None:
    until(lambda: pid not in served.children() and len(served.children()) == 2)


class ListReading:
    """Reads a list page by page, each over a new connection, which any process may take."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._query = "verb=ListIdentifiers&metadataPrefix=oai_dc"
        self.identifiers: list[str] = []

    def go_on(self, pages: int) -> None:
        for _ in range(pages):
            page = self._page()
            self.identifiers += page.identifiers
            self._query = f"verb=ListIdentifiers&resumptionToken={page.token}" if page.token else ""

    def to_the_end(self) -> list[str]:
        while self._query:
            self.go_on(1)
        return self.identifiers

    def _page(self) -> Reply:
        # A connection that waits to be accepted by a process that ends is reset by the kernel.
        for _ in range(20):
            try:
                return ask(self._address, self._query)
            except (ConnectionError, urllib.error.URLError):
                continue
        pytest.fail("nobody answers")


def test_an_answer_that_is_read_slowly_is_finished_before_the_end(serve: Serve, archive: Archive) -> None:
    for number in range(200):
        archive.add(f"http://example.cz/{number}/" + "a" * 20_000)
    served = serve()
    port = int(served.address().rpartition(":")[2].partition("/")[0])
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(get("verb=ListRecords&metadataPrefix=oai_dc", "Connection: close"))
        received = client.recv(1000)
        served.process.send_signal(signal.SIGTERM)
        until(lambda: refuses_connections(f"http://127.0.0.1:{port}/"))
        assert served.process.poll() is None
        while piece := client.recv(65_536):
            received += piece
    assert received.endswith(b"</OAI-PMH>\n")
    assert served.process.wait(SECONDS) == 0


def test_each_process_has_a_port_for_its_figures(environment: dict[str, str], serve: Serve) -> None:
    first = two_free_ports()
    environment["ZATVA_PROVIDER__METRICS_PORT"] = str(first)
    served = serve("--processes", "2")
    address = served.address()
    (killed, *_) = served.children()
    for _ in range(10):
        ask(address)
    assert sum(map(identified, (first, first + 1))) == 10
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(served.children() - {killed}) == 2)
    until(lambda: not any(refuses_connections(f"http://127.0.0.1:{port}/") for port in (first, first + 1)))


def two_free_ports() -> int:
    """The first of two ports side by side that nobody listens on."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port


def identified(port: int) -> int:
    """How many Identify requests the figures at the port tell."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as response:
        told = re.search(rb'requests_total.outcome="ok",request="Identify". (\d+)', response.read())
    return int(told[1]) if told else 0


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
