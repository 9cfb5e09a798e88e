"""A pooler between Zatva and PostgreSQL: PgBouncer, and one that drops the options of a connection."""

import contextlib
import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr
from sqlalchemy import text

from oai.database import Database, open_database
from oai.errors import DatabaseNotReadyError
from oai.settings import Settings
from tests.commands import zatva
from tests.ports import free_port


def without_options(packet: bytes) -> bytes:
    """Return the startup packet of a connection without its `options`."""
    words = packet[8:].rstrip(b"\0").split(b"\0")
    kept = [pair for pair in zip(words[::2], words[1::2], strict=True) if pair[0] != b"options"]
    body = packet[4:8] + b"".join(b"%s\0%s\0" % pair for pair in kept) + b"\0"
    return struct.pack(">I", len(body) + 4) + body


def pump(source: socket.socket, target: socket.socket) -> None:
    """Pass on all bytes until one side ends."""
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def serve(listener: socket.socket, server: dict[str, object]) -> None:
    """Accept connections until the listener is closed."""
    host, port = str(server["host"]), int(str(server.get("port", 5432)))
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            if host.startswith("/"):
                upstream = socket.socket(socket.AF_UNIX)
                upstream.connect(f"{host}/.s.PGSQL.{port}")
            else:
                upstream = socket.create_connection((host, port))
            upstream.sendall(without_options(client.recv(65536)))
            for ends in ((client, upstream), (upstream, client)):
                threading.Thread(target=pump, args=ends, daemon=True).start()


@contextlib.contextmanager
def behind_pooler(database: Database) -> Iterator[Database]:
    """Yield the database over a pooler."""
    address = conninfo_to_dict(database.conninfo)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, address), daemon=True).start()
        url = database.url.set(
            drivername="postgresql",
            host="127.0.0.1",
            port=listener.getsockname()[1],
            query={"sslmode": "disable", "gssencmode": "disable"},
        )
        settings = Settings(database_url=url.render_as_string(hide_password=False))
        with open_database(settings, statement_seconds=77) as opened:
            yield opened


def test_options_that_a_pooler_drops_are_set_by_statements(database: Database) -> None:
    name = database.url.database
    with database.engine.connect() as connection:
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET timezone = 'Europe/Prague'"))
        connection.commit()
    asked = ("timezone", "statement_timeout", "default_transaction_isolation", "jit", "temp_buffers")
    with behind_pooler(database) as pooled, pooled.session() as session:
        found = [session.scalar(text(f"SHOW {one}")) for one in asked]
    assert found == ["UTC", "77s", "read committed", "off", "64MB"]


@pytest.fixture
def pgbouncer(database: Database, tmp_path: Path) -> Iterator[Callable[[str], str]]:
    """Starts PgBouncer in the mode given; returns the database's address over it."""
    program = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    if program is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    server = conninfo_to_dict(database.conninfo)
    with contextlib.ExitStack() as ended:

        def start(mode: str) -> str:
            port, file = free_port(), tmp_path / f"{mode}.ini"
            target = " ".join(f"{name}={server[name]}" for name in ("host", "port", "user") if name in server)
            file.write_text(
                f"[databases]\n* = {target}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n"
                f"unix_socket_dir =\nauth_type = any\npool_mode = {mode}\n"
                "ignore_startup_parameters = options\n",
                encoding="utf-8",
            )
            # It refuses to run as root.
            account = ["-u", Path(str(server["host"])).owner()] if os.geteuid() == 0 else []
            process = subprocess.Popen(
                [program, *account, str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            ended.callback(process.wait)
            ended.callback(process.kill)
            wait_for_port(port)
            url = database.url.set(drivername="postgresql", host="127.0.0.1", port=port, query={})
            return url.render_as_string(hide_password=False)

        yield start


def wait_for_port(port: int) -> None:
    """Return when something listens on the port."""
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.02)
        else:
            return


@pytest.mark.copied_database("the pooler keeps connections to it")
@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_a_pooler_that_keeps_no_sessions_is_refused(
    pgbouncer: Callable[[str], str], environment: dict[str, str], mode: str
) -> None:
    pooled = {**environment, "ZATVA_DATABASE_URL": pgbouncer(mode)}
    for words in (["database", "check"], ["doctor"], ["database", "upgrade"], ["job", "history"]):
        done = zatva(pooled, *words)
        said = " ".join((done.stdout + done.stderr).split())
        assert (done.returncode, "not in session mode: set pool_mode = session" in said) == (6, True), said


@contextlib.contextmanager
def busy(address: str, clients: int) -> Iterator[None]:
    """Let so many clients of the pooler execute short statements."""
    ends, begun = threading.Event(), threading.Barrier(clients + 1)

    def work() -> None:
        with psycopg.connect(address, autocommit=True, prepare_threshold=None) as connection:
            connection.execute("SELECT 1")
            begun.wait(60)
            while not ends.is_set():
                connection.execute("SELECT pg_sleep(0.005)")

    with ThreadPoolExecutor(clients) as pool:
        working = [pool.submit(work) for _ in range(clients)]
        begun.wait(60)
        try:
            yield
        finally:
            ends.set()
    for one in working:
        one.result()


@pytest.mark.copied_database("the pooler keeps connections to it")
def test_a_busy_pooler_that_keeps_no_sessions_is_refused(pgbouncer: Callable[[str], str]) -> None:
    """It lends the process that it has just lent to somebody else in between."""
    address = pgbouncer("transaction")
    with busy(address, clients=30):
        for _ in range(5):
            with pytest.raises(DatabaseNotReadyError, match="not in session mode"):
                open_database(Settings(database_url=SecretStr(address))).__enter__()


@pytest.mark.copied_database("the pooler keeps connections to it")
def test_a_busy_pooler_that_keeps_sessions_is_accepted(pgbouncer: Callable[[str], str]) -> None:
    address = pgbouncer("session")
    settings = Settings(database_url=SecretStr(address))
    with busy(address, clients=5), open_database(settings) as opened, opened.session() as session:
        assert session.scalar(text("SELECT 1")) == 1


@pytest.mark.copied_database("the pooler keeps connections to it")
def test_a_pooler_that_keeps_sessions_is_accepted(
    pgbouncer: Callable[[str], str], environment: dict[str, str]
) -> None:
    pooled = {**environment, "ZATVA_DATABASE_URL": pgbouncer("session")}
    for words in (["database", "check"], ["database", "upgrade"], ["job", "history"]):
        done = zatva(pooled, *words)
        assert (done.returncode, done.stderr) == (0, ""), words
