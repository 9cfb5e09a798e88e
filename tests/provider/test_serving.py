"""`zatva provider serve` as real processes: start, responses and termination."""

import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from oai.database import Database
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from provider.storage.places import place_given
from tests.provider.archive import Archive
from tests.provider.archives import Page, write_pages
from tests.provider.raw import get
from tests.provider.served import SECONDS, Serve, alive, ask, refuses_connections, until
from tests.provider.storage.fault_proxy import fault_proxy
from tests.provider.storage.file_server import file_server


@pytest.mark.parametrize("processes", ["1", "2"])
def test_the_command_prints_its_address_answers_and_ends_on_sigterm(serve: Serve, processes: str) -> None:
    served = serve("--processes", processes)
    address = served.address()
    assert address.startswith("http://127.0.0.1:")
    assert ask(address).texts("//o:baseURL") == [address]
    children = served.children()
    assert served.end() == 0
    assert not any(map(alive, children))


def test_an_interrupt_ends_the_command_with_exit_code_0(serve: Serve) -> None:
    served = serve()
    served.address()
    served.process.send_signal(signal.SIGINT)
    assert served.process.wait(SECONDS) == 0


def test_the_base_url_can_be_set_by_an_option(serve: Serve) -> None:
    served = serve("--base-url", "https://archive.example/oai")
    assert ask(served.address()).texts("//o:baseURL") == ["https://archive.example/oai"]


def test_the_base_url_can_be_set_by_a_setting(environment: dict[str, str], serve: Serve) -> None:
    environment["ZATVA_PROVIDER__BASE_URL"] = "https://set.example/oai"
    served = serve()
    assert ask(served.address()).texts("//o:baseURL") == ["https://set.example/oai"]


def test_open_responses_are_completed_before_the_end(
    serve: Serve, archive: Archive, database: Database
) -> None:
    archive.add()
    served = serve()
    address = served.address()
    answers = []
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


def test_the_command_ends_although_an_archive_file_server_does_not_answer(
    serve: Serve, database: Database, tmp_path: Path
) -> None:
    write_pages(tmp_path / "x.warc.gz", [Page(url="http://a.example/")])
    with file_server(tmp_path) as port, fault_proxy("127.0.0.1", port) as faults:
        index_file(database, place_given(f"{faults.address}/x.warc.gz"), IndexOptions(margin=1))
        with database.session() as session:
            key = session.scalars(select(Document.key)).one().hex
        served = serve()
        address = served.address().removesuffix("/oai")
        faults.asked.clear()
        faults.held = threading.Event()
        answers: list[int] = []
        asking = threading.Thread(target=lambda: answers.append(status_of(f"{address}/archive/{key}")))
        asking.start()
        until(lambda: faults.asked)
        code = served.end()
        faults.held.set()
        asking.join(SECONDS)
    assert (code, answers) == (0, [503])


def status_of(url: str) -> int:
    with pytest.raises(urllib.error.HTTPError) as refused, urllib.request.urlopen(url, timeout=SECONDS):  # noqa: S310 our own address
        pass
    refused.value.close()
    return refused.value.code


def waiting_for_the_lock(database: Database) -> bool:
    with psycopg.connect(database.conninfo) as connection:
        return bool(connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount)


@pytest.mark.parametrize(("records", "length"), [(60, 20_000), (40, 400)], ids=["large", "all in memory"])
def test_a_slowly_read_response_is_completed_before_the_end(
    serve: Serve, archive: Archive, records: int, length: int
) -> None:
    for number in range(records):
        archive.add(f"http://example.cz/{number}/" + "a" * length)
    served = serve()
    port = int(served.address().rpartition(":")[2].partition("/")[0])
    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", port))
        client.sendall(get("verb=ListRecords&metadataPrefix=oai_dc", "Connection: close"))
        received = client.recv(1000)
        served.process.send_signal(signal.SIGTERM)
        until(lambda: refuses_connections(f"http://127.0.0.1:{port}/"))
        with pytest.raises(subprocess.TimeoutExpired):
            served.process.wait(0.3)
        while piece := client.recv(65_536):
            received += piece
    assert received.endswith(b"</OAI-PMH>\n")
    assert served.process.wait(SECONDS) == 0


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_occupied_port_is_refused(serve: Serve, processes: str) -> None:
    first = serve("--processes", processes)
    port = first.address().rpartition(":")[2].partition("/")[0]
    second = serve("--processes", processes, "--port", port)
    _, errors = second.process.communicate(timeout=SECONDS)
    assert second.process.returncode == 2
    assert f"port {port}" in errors
    assert "--port" in errors


@pytest.mark.parametrize("processes", ["1", "2"])
def test_an_unreachable_database_is_reported_once(
    environment: dict[str, str], serve: Serve, processes: str
) -> None:
    environment["ZATVA_DATABASE_URL"] = "postgresql://127.0.0.1:1/nowhere"
    served = serve("--processes", processes)
    _, errors = served.process.communicate(timeout=SECONDS)
    assert served.process.returncode == 6
    assert errors.count("nowhere") == 1


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
def test_invalid_options_are_refused(serve: Serve, options: tuple[str, ...], named: str) -> None:
    served = serve(*options)
    _, errors = served.process.communicate(timeout=SECONDS)
    assert served.process.returncode == 2
    assert named in errors
    assert "Traceback" not in errors
