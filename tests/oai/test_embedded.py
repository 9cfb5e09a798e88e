"""The embedded PostgreSQL: shared by processes, stopped after the last one, closed to other users."""

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from sqlalchemy import URL, text

from oai import keeper
from oai.database import open_database
from oai.embedded import EmbeddedServer, cluster_folder
from oai.errors import DatabaseNotReadyError
from oai.settings import Settings

_USER = """
import sys, time, pathlib
from oai.embedded import EmbeddedServer
server = EmbeddedServer(pathlib.Path(sys.argv[1]))
server.acquire()
print("ready", flush=True)
sys.stdin.read()
server.release()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder inside a private folder, with a server that was created, used and stopped."""
    closed = tmp_path_factory.mktemp("closed")
    closed.chmod(0o700)
    folder = closed / "data"
    server = EmbeddedServer(folder)
    server.acquire()
    server.release()
    yield folder
    shutil.rmtree(cluster_folder(folder))


@pytest.fixture
def data(made: Path) -> Iterator[Path]:
    """The same folder with the server stopped before and after each test."""
    yield made
    keeper.stop(cluster_folder(made))


def _answers(url: URL) -> bool:
    try:
        with psycopg.connect(url.set(drivername="postgresql").render_as_string()) as connection:
            return connection.execute("SELECT 1").fetchone() == (1,)
    except psycopg.OperationalError:
        return False


def _another_user(data: Path) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", _USER, str(data)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_the_server_stops_with_its_last_user_and_keeps_its_data(data: Path) -> None:
    first, second = EmbeddedServer(data), EmbeddedServer(data)
    first.acquire()
    second.acquire()
    first.release()
    assert _answers(second.url)
    with psycopg.connect(second.url.set(drivername="postgresql").render_as_string()) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS n")
    second.release()
    assert keeper.postmaster_pid(cluster_folder(data)) is None
    first.acquire()
    with psycopg.connect(first.url.set(drivername="postgresql").render_as_string()) as connection:
        assert connection.execute("SELECT n FROM kept").fetchone() == (42,)
    first.release()
    assert "checkpoint" not in (cluster_folder(data) / "server.log").read_text(), "it would only grow"


def test_the_server_stops_when_its_only_user_is_killed(data: Path) -> None:
    process = _another_user(data)
    pid = keeper.postmaster_pid(cluster_folder(data))
    assert pid is not None
    with process:
        process.kill()
    deadline = time.monotonic() + 60
    while keeper.postmaster_pid(cluster_folder(data)):
        assert time.monotonic() < deadline, "the keeper did not stop the server"
        time.sleep(0.05)


def test_the_end_of_one_user_does_not_affect_another(data: Path) -> None:
    server = EmbeddedServer(data)
    server.acquire()
    with _another_user(data) as other:
        other.kill()
    assert _answers(server.url)
    server.release()


def test_a_killed_server_is_started_again(data: Path) -> None:
    server = EmbeddedServer(data)
    server.acquire()
    pid = keeper.postmaster_pid(cluster_folder(data))
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    again = EmbeddedServer(data)
    again.acquire()
    assert _answers(again.url)
    again.release()
    server.release()


_BOTH = ("postmaster.pid", ".s.PGSQL.5432.lock")
"""The files with the process id of a server, of which the second is in the folder of its socket."""


@contextlib.contextmanager
def _number_reused(cluster: Path, *names: str) -> Iterator[subprocess.Popen[str]]:
    """Run another program under the server's account, with the process number in a lost server's files."""
    account = cluster.stat().st_uid if os.geteuid() == 0 else None
    with subprocess.Popen(
        ["/x/postgres", "-c", "echo ready; read line", "postgres", "-D", "/x"], executable="/bin/sh",
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/", user=account,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        for file in (cluster / name for name in names):
            file.write_text(f"{process.pid}\n{file.read_text().partition(chr(10))[2]}")
        yield process
        process.kill()


def _kill_server(cluster: Path) -> None:
    pid = keeper.postmaster_pid(cluster)
    assert pid is not None
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    for one in (pid, *children):
        os.kill(one, signal.SIGKILL)


def test_an_open_database_starts_a_killed_server_again(data: Path) -> None:
    with open_database(Settings(data=data, database_url=None), check_tables=False) as database:
        assert database.read(lambda session: session.scalar(text("SELECT 1"))) == 1
        _kill_server(cluster_folder(data))
        assert database.read(lambda session: session.scalar(text("SELECT 2"))) == 2
    assert keeper.postmaster_pid(cluster_folder(data)) is None, "the last user stops it, as before"


@pytest.mark.skipif(sys.platform != "linux", reason="other programs are recognised by /proc")
@pytest.mark.parametrize("names", [_BOTH[:1], _BOTH[1:], _BOTH])
@pytest.mark.parametrize("ask", [True, False])
def test_another_program_with_the_process_number_of_a_lost_server_is_ignored(
    data: Path, names: tuple[str, ...], *, ask: bool
) -> None:
    first, again = EmbeddedServer(data), EmbeddedServer(data)
    first.acquire()
    cluster = cluster_folder(data)
    _kill_server(cluster)
    with _number_reused(cluster, *names) as foreign:
        again.acquire(ask=ask)
        assert _answers(again.url)
        assert keeper.postmaster_pid(cluster) not in (None, foreign.pid)
        again.release()
        first.release()
        assert foreign.poll() is None, "the other program was sent a signal"
    assert keeper.postmaster_pid(cluster) is None


def test_a_running_server_is_found_by_another_path(data: Path, tmp_path: Path) -> None:
    server = EmbeddedServer(data)
    server.acquire()
    cluster = cluster_folder(data)
    keeper.remove_stale_files(cluster, cluster)
    assert all((cluster / name).exists() for name in _BOTH)
    alias = tmp_path / "alias"
    alias.symlink_to(cluster)
    assert keeper.postmaster_pid(alias) == keeper.postmaster_pid(cluster) is not None
    server.release()


@pytest.mark.skipif(sys.platform != "linux", reason="other programs are recognised by /proc")
@pytest.mark.parametrize("names", [_BOTH[:1], _BOTH])
def test_a_running_server_is_not_started_twice_even_if_its_files_are_wrong(
    data: Path, names: tuple[str, ...]
) -> None:
    server, second = EmbeddedServer(data), EmbeddedServer(data, going_seconds=0)
    server.acquire()
    cluster = cluster_folder(data)
    right = (cluster / "postmaster.pid").read_text()
    with _number_reused(cluster, *names), pytest.raises(DatabaseNotReadyError):
        second.acquire()
    assert "pre-existing shared memory block" in (cluster / "server.log").read_text()
    (cluster / "postmaster.pid").write_text(right)
    assert _answers(server.url)
    second.release()
    server.release()
    assert keeper.postmaster_pid(cluster) is None


@pytest.mark.skipif(sys.platform != "linux", reason="other programs are recognised by /proc")
def test_a_stale_socket_lock_in_another_folder_is_removed(tmp_path: Path) -> None:
    lock = tmp_path / "sockets" / _BOTH[1]
    lock.parent.mkdir()
    lock.write_text(f"{os.getpid()}\n{tmp_path}\n")
    keeper.remove_stale_files(tmp_path, lock.parent)
    assert not lock.exists()


@pytest.mark.parametrize(
    ("name", "environment"),
    [
        ("é".encode(), {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
        ("é".encode("latin-1"), {"LC_ALL": "C.UTF-8"}),
    ],
)
def test_a_data_folder_with_a_name_outside_the_locale_encoding_is_used(
    name: bytes, environment: dict[str, str]
) -> None:
    # Not inside a private folder, because the server of root would then use another folder.
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)
        program = [sys.executable, "-c", _USER, str(Path(folder) / os.fsdecode(name))]
        ended = subprocess.run(
            program, env={**os.environ, **environment}, input="", capture_output=True, text=True, check=False
        )
        assert ended.stdout == "ready\n", ended.stderr
        assert ended.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start the server as another user")
def test_a_user_without_passwd_entry_gets_an_error_with_advice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry = SimpleNamespace(pw_uid=54321, pw_gid=54321)
    monkeypatch.setattr(pwd, "getpwnam", lambda _: entry)
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        with pytest.raises(
            DatabaseNotReadyError, match=r"user does not exist; add an entry .* or set database_url"
        ):
            EmbeddedServer(Path(folder) / "data").acquire()


def test_the_server_of_another_user_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "postgres").mkdir()
    other = os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: other)
    with pytest.raises(DatabaseNotReadyError, match=r"belongs to the user .*; run the command as that user"):
        EmbeddedServer(tmp_path).acquire()
    assert [file.name for file in tmp_path.iterdir()] == ["postgres"]


def test_a_missing_database_is_created_when_the_server_is_checked(data: Path) -> None:
    first, second = EmbeddedServer(data), EmbeddedServer(data)
    first.acquire()
    maintenance = first.url.set(drivername="postgresql", database="postgres").render_as_string()
    with psycopg.connect(maintenance, autocommit=True) as connection:
        connection.execute("DROP DATABASE zatva")  # as if the process that started it had been killed before
    second.acquire(ask=False)
    assert second.url == first.url
    assert not _answers(second.url)
    second.ask()
    assert _answers(second.url)
    second.release()
    first.release()


def test_a_server_that_refuses_connections_is_reported_with_the_reason(data: Path) -> None:
    server, second = EmbeddedServer(data), EmbeddedServer(data, going_seconds=0)
    server.acquire()
    cluster = cluster_folder(data)
    rules = (cluster / "pg_hba.conf").read_text()
    _set_rules(cluster, "local all all reject\n")
    while _answers(server.url):
        time.sleep(0.01)
    with pytest.raises(
        DatabaseNotReadyError, match=r"does not accept connections: .*pg_hba.conf rejects"
    ) as raised:
        second.acquire()
    assert "\n" not in str(raised.value)
    _set_rules(cluster, rules)
    while not _answers(server.url):
        time.sleep(0.01)
    second.release()
    server.release()


def _set_rules(cluster: Path, rules: str) -> None:
    """Set the access rules of the running server."""
    (cluster / "pg_hba.conf").write_text(rules)
    os.kill(keeper.postmaster_pid(cluster) or 0, signal.SIGHUP)


def test_a_server_that_hangs_is_reported(data: Path) -> None:
    server, second = EmbeddedServer(data), EmbeddedServer(data, going_seconds=0)
    server.acquire()
    pid = keeper.postmaster_pid(cluster_folder(data))
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(DatabaseNotReadyError, match=rf"process {pid}\) .*timeout expired"):
            second.acquire()
    finally:
        os.kill(pid, signal.SIGCONT)
    second.release()
    server.release()


def test_the_folders_of_the_server_stay_closed_to_other_users(data: Path) -> None:
    assert data.parent.stat().st_mode & 0o777 == 0o700
    assert cluster_folder(data).stat().st_mode & 0o077 == 0
