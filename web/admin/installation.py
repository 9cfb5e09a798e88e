"""How the installation is: the database's size and version, room on the disks, this process; for one page."""

import os
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from oai import migrations
from oai.settings import Settings

_LITTLE: Final = 1024**3
"""Bytes of free room below which somebody should look."""
_LARGEST: Final = 8
_SIZES: Final = text(
    """
    SELECT relname, pg_total_relation_size(relid), n_live_tup FROM pg_stat_user_tables
    ORDER BY 2 DESC, 1 LIMIT :most
    """
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its bytes with its indexes, and about how many rows it has."""

    name: str
    size: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class DatabaseFacts:
    """What the database server says."""

    version: str
    size: int
    connections: int
    most_connections: int
    revision: str | None
    tables: Sequence[Table]

    @property
    def is_current(self) -> bool:
        """Whether the tables are those of this version."""
        return self.revision == migrations.head()


@dataclass(frozen=True, kw_only=True)
class Room:
    """A folder's disk, in bytes."""

    folder: Path
    total: int
    free: int

    @property
    def is_little(self) -> bool:
        """Whether somebody should look."""
        return self.free < _LITTLE


def database_facts(session: Session) -> DatabaseFacts:
    """Ask the server."""
    told = session.execute(
        text(
            "SELECT current_setting('server_version'), pg_database_size(current_database()), "
            "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()), "
            "current_setting('max_connections')::int"
        )
    ).one()
    tables = session.execute(_SIZES, {"most": _LARGEST}).all()
    return DatabaseFacts(
        version=told[0],
        size=told[1],
        connections=told[2],
        most_connections=told[3],
        revision=migrations.current(session.connection()),
        tables=[Table(name=name, size=size, rows=rows) for name, size, rows in tables],
    )


def rooms(settings: Settings) -> list[Room]:
    """The disks of the data folder and, where it is another one, of the store."""
    found: list[Room] = []
    for folder in (settings.data, settings.store):
        there = next(step for step in (folder, *folder.absolute().parents) if step.exists())
        usage = shutil.disk_usage(there)
        if not any((room.total, room.free) == (usage.total, usage.free) for room in found):
            found.append(Room(folder=folder, total=usage.total, free=usage.free))
    return found


def process_words() -> tuple[str, str, int]:
    """The program's version, and the host and process that it runs as."""
    try:
        ours = version("zatva")
    except PackageNotFoundError:
        ours = "?"
    return ours, socket.gethostname(), os.getpid()
