"""A primary with a streaming replica, both with the embedded server's programs, for tests."""

import contextlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg
from sqlalchemy import make_url

from oai.database import Database, open_database
from oai.embedded import cluster_folder, run_program
from oai.settings import Settings


@dataclass
class Replicated:
    """A database and its copy."""

    primary: Database
    replica: Database
    _folder: Path

    def pause(self) -> None:
        """Stop replaying: the replica falls behind, although it receives everything."""
        self._tell("SELECT pg_wal_replay_pause()")

    def resume(self) -> None:
        """Replay what was received meanwhile."""
        self._tell("SELECT pg_wal_replay_resume()")

    def promote(self) -> None:
        """Make the replica a primary, and wait until it is one."""
        self._tell("SELECT pg_promote()")

    def _tell(self, statement: str) -> None:
        with psycopg.connect(self.replica.conninfo, autocommit=True) as connection:
            connection.execute(statement.encode())


@contextlib.contextmanager
def replicated(folder: Path) -> Iterator[Replicated]:
    """Run a primary and its replica in a folder that the server's account can pass."""
    data = folder / "primary"
    data.mkdir(mode=0o711)
    settings = Settings(data=data, embedded_replicas=1)
    copy = cluster_folder(data).with_name("replica")
    with open_database(settings, pool_size=20) as primary:
        sockets = primary.url.query["host"]
        assert isinstance(sockets, str)
        account = cluster_folder(data).stat()
        copy.mkdir(mode=0o700)
        os.chown(copy, account.st_uid, account.st_gid)
        run_program(
            "pg_basebackup", "-h", sockets, "-U", "zatva", "-D", str(copy), "-R", "-X", "stream", "-c", "fast"
        )
        here = f"-c listen_addresses='' -c wal_level=replica -c max_connections=200 -k '{copy}'"
        # The primary's sockets are in its folder, and so is the lock file of one.
        (copy / ".s.PGSQL.5432.lock").unlink()
        run_program(
            "pg_ctl", "start", "-w", "-D", str(copy), "-l", str(copy / "server.log"), "-o", here,
        )  # fmt: skip
        try:
            address = make_url(f"postgresql://zatva@/{primary.url.database}?host={copy}")
            url = address.render_as_string(hide_password=False)
            where = Settings(data=folder / "of-replica", database_url=url)
            with open_database(where, pool_size=10, check_tables=False) as replica:
                yield Replicated(primary=primary, replica=replica, _folder=copy)
        finally:
            run_program("pg_ctl", "stop", "-w", "-m", "fast", "-D", str(copy))
            shutil.rmtree(copy)
    shutil.rmtree(cluster_folder(data))
