"""Idle and slowly sending clients do not block any server, whichever command runs it."""

import contextlib
import http.client
import resource
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from manager.models import Job
from oai.database import Database
from oai.settings import Settings
from tests.end_to_end.processes import eventually, running
from tests.web.rows import a_repository
from web.auth.sign_in import make_link
from web.auth.users import add_user
from web.models import Role

_IDLE = 300
_ELSEWHERE = "127.0.0.2"
"""Another client's address; idle clients come from 127.0.0.1."""
_PATIENCE = 60.0
_LITTLE = 20_000
"""Bytes; one traceback of asyncio's has 900."""
_FEW_FILES = (256, 256)
_PROVIDER, _DASHBOARD = "provider at", "dashboard at"
_PORT, _BOTH = ("--port", "0"), ("--port", "0", "--web-port", "0")
_COMMANDS = {
    "provider serve": (("provider", "serve", *_PORT), (_PROVIDER,)),
    "web serve": (("web", "serve", *_PORT), (_DASHBOARD,)),
    "serve": (("serve", *_BOTH), (_PROVIDER, _DASHBOARD)),
}
_EACH_COMMAND = pytest.mark.parametrize(("command", "message"), _COMMANDS.values(), ids=_COMMANDS.keys())
_BOTH_SERVERS = pytest.mark.parametrize(
    ("command", "message"),
    [
        pytest.param(*words, id=name, marks=[] if name == "serve" else pytest.mark.long)
        for name, words in _COMMANDS.items()
    ],
)
"""Both servers in one process, which have the limits that each of them has alone."""
_PAGES = {_PROVIDER: "/oai?verb=Identify", _DASHBOARD: "/sign-in"}
_FORMS = {_PROVIDER: "/oai", _DASHBOARD: "/sign-in"}


@dataclass(frozen=True, kw_only=True)
class Running:
    """A server process and the ports of its servers."""

    pid: int
    log: Path
    ports: Mapping[str, int]

    def ask(self, message: str, path: str, *, source: str = _ELSEWHERE) -> int:
        """Return the status of a page requested over a new connection."""
        asking = http.client.HTTPConnection(
            "127.0.0.1", self.ports[message], timeout=_PATIENCE, source_address=(source, 0)
        )
        with contextlib.closing(asking):
            asking.request("GET", path)
            return asking.getresponse().status

    def logged(self) -> str:
        return self.log.read_text()


@contextlib.contextmanager
def _server(
    environment: Mapping[str, str],
    folder: Path,
    command: Sequence[str],
    message: Sequence[str],
    *,
    files: tuple[int, int] = _FEW_FILES,
    **settings: object,
) -> Iterator[Running]:
    """The server of a command, which trusts no proxy; `settings` are those of provider and dashboard."""
    all_settings = {"trusted_proxies": "[]", **settings}
    own = {
        f"ZATVA_{section}__{name.upper()}": str(value)
        for section in ("PROVIDER", "WEB")
        for name, value in all_settings.items()
    }
    log = folder / "server.log"
    with running({**environment, **own}, log, *command, ready=message[-1], files=files) as (process, _):
        lines = log.read_text().splitlines()
        addresses = {word: line.split()[-1] for line in lines for word in message if word in line}
        ports = {word: urlsplit(address).port or 0 for word, address in addresses.items()}
        yield Running(pid=process.pid, log=log, ports=ports)


@contextlib.contextmanager
def _idle(port: int, number: int) -> Iterator[list[socket.socket]]:
    """Open this number of connections without sending anything."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), _PATIENCE))
            for _ in range(number)
        ]


def _is_closed(client: socket.socket) -> bool:
    """Whether the server has closed it; nothing is expected on it."""
    client.setblocking(False)  # noqa: FBT003 its only argument
    try:
        return not client.recv(1000)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def _wait_for_answer(server: Running, part: str, *, source: str) -> None:
    """Ask for the page until it is served.

    While idle connections of the same address are still being accepted, they push out older ones, among
    them one whose request the server has not read yet.
    """

    last: list[object] = ["nothing"]

    def answered() -> bool:
        try:
            last[0] = server.ask(part, _PAGES[part], source=source)
        except ConnectionError as error:
            last[0] = error
        return last[0] == 200

    try:
        eventually(answered, "an answer")
    except AssertionError as error:
        error.add_note(f"the {part} answered {last[0]!r} last; its log:\n{server.logged()}")
        raise


@_BOTH_SERVERS
def test_requests_are_served_while_idle_clients_hold_many_connections(
    shared_environment: dict[str, str], tmp_path: Path, command: tuple[str, ...], message: tuple[str, ...]
) -> None:
    with _server(shared_environment, tmp_path, command, message) as server, contextlib.ExitStack() as stack:
        for part in message:
            stack.enter_context(_idle(server.ports[part], _IDLE))
        for part in message:
            assert server.ask(part, _PAGES[part]) == 200
            _wait_for_answer(server, part, source="127.0.0.1")
        assert len(server.logged()) < _LITTLE
        assert "Too many open files" not in server.logged()
        assert "Traceback" not in server.logged()


@pytest.mark.parametrize(
    ("command", "message"),
    [(("provider", "serve", *_PORT), _PROVIDER), (("web", "serve", *_PORT), _DASHBOARD)],
    ids=["provider serve", "web serve"],
)
def test_a_server_without_free_file_descriptors_logs_it_once_and_continues(
    shared_environment: dict[str, str], tmp_path: Path, command: tuple[str, ...], message: str
) -> None:
    with _server(shared_environment, tmp_path, command, (message,), files=(1024, 1024)) as server:
        assert server.ask(message, "/healthz") == 200
        # Fewer than the server expected at its start, as when other work holds files open.
        in_use = max(int(file.name) for file in Path(f"/proc/{server.pid}/fd").iterdir())
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (in_use + 20, in_use + 20))
        # More than there is room for; after each failure, asyncio accepts none for a second.
        with _idle(server.ports[message], 50):
            assert server.ask(message, "/healthz") == 200
        assert server.logged().count("cannot accept connections: Too many open files") == 1
        assert "Traceback" not in server.logged()
        assert len(server.logged()) < _LITTLE


@_BOTH_SERVERS
def test_slowly_sending_clients_are_disconnected(
    shared_environment: dict[str, str], tmp_path: Path, command: tuple[str, ...], message: tuple[str, ...]
) -> None:
    with _server(shared_environment, tmp_path, command, message, idle_seconds=1, body_seconds=1) as server:
        for part in message:
            with _idle(server.ports[part], 2) as (heads, forms):
                heads.sendall(b"GET / HTTP/1.1\r\n")
                forms.sendall(
                    f"POST {_FORMS[part]} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"
                    "Content-Type: application/x-www-form-urlencoded\r\n\r\n".encode()
                )
                _drip_until_closed(heads, b"X-Header: y\r\n")
                answered = _drip_until_closed(forms, b"a")
            assert answered.startswith(b"HTTP/1.1 408 ")
        assert "Traceback" not in server.logged()


def _drip_until_closed(client: socket.socket, drop: bytes) -> bytes:
    """What the server answers until it closes the connection."""
    client.settimeout(0.1)
    answered, deadline = b"", time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        try:
            client.sendall(drop)
            piece = client.recv(10_000)
        except TimeoutError:
            continue
        except ConnectionError:
            return answered
        if not piece:
            return answered
        answered += piece
    pytest.fail("the server still listens")


def test_an_event_stream_is_kept_while_idle_clients_are_disconnected(
    environment: dict[str, str], tmp_path: Path, database: Database, settings: Settings
) -> None:
    with database.session() as session:
        add_user(session, "Viktor", Role.VIEWER)
        link = make_link(session, settings, "Viktor", "http://dashboard")
        session.commit()
    with _server(environment, tmp_path, ("serve", *_BOTH), (_DASHBOARD,), idle_seconds=1) as server:
        port = server.ports[_DASHBOARD]
        following = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
        with contextlib.closing(following):
            following.request("GET", "/events?topics=jobs", headers={"Cookie": _signed_in(port, link)})
            stream = following.getresponse()
            assert stream.status == 200
            for _ in range(2):
                # The idle limit has closed each of them, so that enough time has passed on any machine.
                with _idle(port, 1) as (idle,):
                    eventually(lambda: _is_closed(idle), "the idle limit")
            with _idle(port, _IDLE):
                assert server.ask(_DASHBOARD, "/sign-in") == 200
            with database.session() as session:
                session.add(Job(repository_id=a_repository(session, name="Late library").repository_id))
                session.commit()
            assert any(b"Late library" in line for line in stream)


def _signed_in(port: int, link: str) -> str:
    """The cookie of a fresh session."""
    token = link.partition("token=")[2]
    asking = http.client.HTTPConnection("127.0.0.1", port, timeout=_PATIENCE)
    with contextlib.closing(asking):
        asking.request("GET", f"/sign-in?token={token}")
        page = asking.getresponse()
        form = page.read().decode().partition('name="csrf_token" value="')[2].partition('"')[0]
        cookie = (page.getheader("Set-Cookie") or "").partition(";")[0]
        headers = {"Cookie": cookie, "Content-Type": "application/x-www-form-urlencoded"}
        asking.request("POST", "/sign-in", f"token={token}&csrf_token={form}", headers)
        answer = asking.getresponse()
        assert answer.status == 303
        return (answer.getheader("Set-Cookie") or "").partition(";")[0]


@_EACH_COMMAND
def test_every_server_raises_its_limit_of_open_files(
    shared_environment: dict[str, str], tmp_path: Path, command: tuple[str, ...], message: tuple[str, ...]
) -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with _server(shared_environment, tmp_path, command, message, files=(128, hard)) as server:
        now, most = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        assert 128 < now <= most
