"""A primary with streaming replicas, all with the embedded server's programs, for tests."""

import asyncio
import contextlib
import functools
import os
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from oai.database import Database, open_database, open_replica
from oai.embedded import cluster_folder, run_program
from oai.keeper import postmaster_lines
from oai.settings import Settings
from provider.protocol.replicas import Replicas
from tests.provider.served import until


@dataclass(frozen=True)
class Copy:
    """A replica."""

    database: Database
    address: str
    folder: Path

    def pause(self) -> None:
        """Stop replaying: the replica falls behind, although it receives everything."""
        self.execute("SELECT pg_wal_replay_pause()")

    def resume(self) -> None:
        """Resume replaying."""
        self.execute("SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        """Make the replica a primary, and wait until it is one."""
        self.execute("SELECT pg_promote()")

    @contextlib.contextmanager
    def as_primary(self) -> Iterator[Database]:
        """Open it for writing, after it has been promoted."""
        with open_database(Settings(database_url=self.address), pool_size=20, check_tables=False) as opened:
            yield opened

    def follow(self, other: "Copy") -> None:
        """Stream from another copy, which has been promoted."""
        self.execute(f"ALTER SYSTEM SET primary_conninfo = '{_conninfo(other.folder, self.folder.name)}'")
        self.execute("SELECT pg_reload_conf()")

    def is_replica(self) -> bool:
        with psycopg.connect(self.database.conninfo, autocommit=True) as connection:
            return connection.execute("SELECT pg_is_in_recovery()").fetchone() == (True,)

    def received(self) -> int:
        """Return how far it has received its primary's log, in bytes."""
        with psycopg.connect(self.database.conninfo, autocommit=True) as connection:
            found = connection.execute("SELECT (pg_last_wal_receive_lsn() - '0/0')::bigint").fetchone()
        return found[0] if found else 0

    def execute(self, statement: str) -> None:
        """Execute a statement; again if it conflicts with what is being replayed."""
        with psycopg.connect(self.database.conninfo, autocommit=True) as connection:
            try:
                connection.execute(statement.encode())
            except psycopg.errors.SerializationFailure:
                connection.execute(statement.encode())

    @contextlib.contextmanager
    def stopped(self) -> Iterator[None]:
        """Freeze all of its processes: connections stay open without an answer."""
        with _stopped(self.folder):
            yield


@dataclass(frozen=True)
class Replicated:
    """A database and its copies."""

    primary: Database
    copies: list[Copy]
    folder: Path

    @property
    def address(self) -> str:
        """Of whichever server is the primary."""
        folders = ",".join([str(self.folder), *(str(copy.folder) for copy in self.copies)])
        name = self.primary.url.database
        return f"postgresql://zatva@/{name}?host={folders}&target_session_attrs=read-write"

    @property
    def replica(self) -> Database:
        """The first copy."""
        return self.copies[0].database

    def wait_for_all(self) -> None:
        """Let commits wait until all copies have written them: after a failover, nothing is missing."""
        names = ", ".join(copy.folder.name for copy in self.copies)
        with psycopg.connect(self.primary.conninfo, autocommit=True) as connection:
            connection.execute(
                f"ALTER SYSTEM SET synchronous_standby_names = 'FIRST {len(self.copies)} ({names})'".encode()
            )
            connection.execute("SELECT pg_reload_conf()")

    def stop_sending(self) -> None:
        """Suspend the processes that send the primary's log to the copies."""
        with psycopg.connect(self.primary.conninfo, autocommit=True) as connection:
            for (pid,) in connection.execute("SELECT pid FROM pg_stat_replication"):
                os.kill(pid, signal.SIGSTOP)

    def stopped_primary(self) -> contextlib.AbstractContextManager[None]:
        """Freeze all of the primary's processes, as a disk that hangs does in the end."""
        return _stopped(self.folder)

    def kill_primary(self) -> None:
        """End all of the primary's processes at once."""
        _signal(_processes(self.folder), signal.SIGKILL)

    def fail_over(self) -> tuple[Copy, Copy]:
        """Promote the one of two copies that has received more; return it, and the one that follows it."""
        promoted, other = sorted(self.copies, key=Copy.received, reverse=True)
        promoted.promote()
        other.follow(promoted)
        return promoted, other


@contextlib.contextmanager
def replicated(folder: Path, *, copies: int = 1) -> Iterator[Replicated]:
    """Run a primary and its copies in a new folder inside of one that the server's account can pass."""
    data = Path(tempfile.mkdtemp(prefix="replicated-", dir=folder))
    data.chmod(0o711)
    cluster = cluster_folder(data)
    subprocess.run(["/bin/cp", "-a", _migrated(folder), cluster], check=True)
    with (
        open_database(Settings(data=data, embedded_replicas=copies), pool_size=20) as primary,
        contextlib.ExitStack() as running,
    ):
        made = [running.enter_context(_copy(primary, cluster, number)) for number in range(copies)]
        yield Replicated(primary=primary, copies=made, folder=cluster)
    shutil.rmtree(cluster)
    shutil.rmtree(data, ignore_errors=True)


@functools.cache
def _migrated(folder: Path) -> Path:
    """Return the folder of a stopped server with a migrated database, which is quicker copied than made."""
    data = Path(tempfile.mkdtemp(prefix="migrated-", dir=folder))
    data.chmod(0o711)
    with open_database(Settings(data=data, embedded_replicas=1)):
        pass
    return cluster_folder(data)


def wait_for_copies(servers: Replicated) -> None:
    """Wait until the copies have everything that the primary has."""
    with psycopg.connect(servers.primary.conninfo) as connection:
        (position,) = connection.execute("SELECT pg_current_wal_lsn()").fetchone() or ("",)
    for copy in servers.copies:
        with psycopg.connect(copy.database.conninfo, autocommit=True) as connection:
            until(functools.partial(_has_replayed, connection, position))


def _has_replayed(connection: psycopg.Connection, position: str) -> bool:
    statement = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
    return connection.execute(statement, (position,)).fetchone() == (True,)


@contextlib.contextmanager
def watched(replicas: Replicas) -> Iterator[None]:
    """Watch replicas in a thread, for tests without an event loop."""
    loop = asyncio.new_event_loop()
    watching = loop.create_task(replicas.watch())
    thread = threading.Thread(target=loop.run_until_complete, args=(asyncio.wait([watching]),))
    thread.start()
    yield
    loop.call_soon_threadsafe(watching.cancel)
    thread.join()
    loop.close()


@contextlib.contextmanager
def _copy(primary: Database, cluster: Path, number: int) -> Iterator[Copy]:
    folder = cluster.with_name(f"{cluster.name}_copy{number}".replace("-", "_"))
    account = cluster.stat()
    folder.mkdir(mode=0o700)
    os.chown(folder, account.st_uid, account.st_gid)
    source = _conninfo(Path(str(primary.url.query["host"])), folder.name)
    run_program("pg_basebackup", "-d", source, "-D", str(folder), "-R", "-X", "stream", "-c", "fast")
    # The primary's sockets are in its folder, and so is the lock file of one.
    (folder / ".s.PGSQL.5432.lock").unlink(missing_ok=True)
    options = (
        f"-c listen_addresses='' -c wal_level=replica -c max_connections=200 -k '{folder}' "
        "-c max_standby_streaming_delay=200ms -c wal_retrieve_retry_interval=200ms"
    )
    run_program("pg_ctl", "start", "-w", "-D", str(folder), "-l", str(folder / "server.log"), "-o", options)
    try:
        url = make_url(f"postgresql://zatva@/{primary.url.database}?host={folder}")
        address = url.render_as_string(hide_password=False)
        with open_replica(address, pool_size=20, statement_seconds=60) as database:
            yield Copy(database=database, address=address, folder=folder)
    finally:
        run_program("pg_ctl", "stop", "-w", "-m", "immediate", "-D", str(folder))
        shutil.rmtree(folder)


def _conninfo(sockets: Path, name: str) -> str:
    return f"host={sockets} user=zatva application_name={name}"


@contextlib.contextmanager
def _stopped(cluster: Path) -> Iterator[None]:
    processes = _processes(cluster)
    _signal(processes, signal.SIGSTOP)
    try:
        yield
    finally:
        _signal(processes, signal.SIGCONT)


def _signal(processes: list[int], number: signal.Signals) -> None:
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):  # a connection's, which was closed meanwhile
            os.kill(pid, number)


def _processes(cluster: Path) -> list[int]:
    """Return the server's process and those that it has started."""
    postmaster = int(postmaster_lines(cluster)[0])
    children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()
    return [postmaster, *map(int, children)]
