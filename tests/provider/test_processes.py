"""Several processes under one parent: they share a port, are replaced, and end with the parent."""

import os
import re
import signal
import socket
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.provider.answer import Reply
from tests.provider.archive import Archive
from tests.provider.served import SECONDS, Serve, Served, alive, ask, refuses_connections, until


def test_processes_share_the_port_and_a_killed_one_is_replaced(serve: Serve) -> None:
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
    before = served.children()
    killed = min(before)
    os.kill(killed, signal.SIGKILL)
    until(lambda: len(served.children() - before) == 1)
    until(lambda: served.children() & before == before - {killed})
    assert not ask(address).codes


def test_the_processes_of_a_killed_parent_end(serve: Serve) -> None:
    served = serve("--processes", "2")
    served.address()
    children = served.children()
    assert len(children) == 2
    served.process.kill()
    served.process.wait(SECONDS)
    until(lambda: not any(map(alive, children)))


def test_processes_can_be_replaced_in_turn_while_a_list_is_read(
    environment: dict[str, str], serve: Serve, archive: Archive
) -> None:
    """Every process accepts the tokens of all others, including new ones."""
    environment["ZATVA_PROVIDER__HEADERS_PER_ANSWER"] = "1"
    identifiers = archive.add_many(24)
    served = serve("--processes", "2")
    address = served.address()
    reading = ListReading(address)
    for pid in sorted(served.children()):
        reading.go_on(4)
        os.kill(pid, signal.SIGTERM)
        until_replaced(served, pid)
    assert reading.to_the_end() == identifiers


def until_replaced(served: Served, pid: int) -> None:
    until(lambda: pid not in served.children() and len(served.children()) == 2)


class ListReading:
    """Reads a list page by page, each over a new connection, which any process may accept."""

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


def test_each_process_serves_metrics_at_its_own_port(environment: dict[str, str], serve: Serve) -> None:
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
    """Return the first of two adjacent free ports."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as first:
            port: int = first.getsockname()[1]
            try:
                socket.create_server(("127.0.0.1", port + 1)).close()
            except OSError:
                continue
            return port


def identified(port: int) -> int:
    """Return the number of Identify requests in the metrics at the port."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=SECONDS) as response:
        count = re.search(rb'requests_total.outcome="ok",request="Identify". (\d+)', response.read())
    return int(count[1]) if count else 0
