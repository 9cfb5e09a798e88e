"""State of the installation for the system page: database size and version, free disk space, this process."""

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
"""Bytes of free disk space below which an administrator should act."""
_LARGEST: Final = 8
_SIZES: Final = text(
    """
    SELECT relname, pg_total_relation_size(relid), n_live_tup FROM pg_stat_user_tables
    ORDER BY 2 DESC, 1 LIMIT :most
    """
)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A table: its size in bytes, indexes included, and its approximate number of rows."""

    name: str
    size: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class DatabaseFacts:
    """What the database server reports about itself."""

    version: str
    size: int
    connections: int
    most_connections: int
    revision: str | None
    tables: Sequence[Table]

    @property
    def is_current(self) -> bool:
        """Return whether the database schema is at the revision that this version needs."""
        return self.revision == migrations.head()


@dataclass(frozen=True, kw_only=True)
class Room:
    """The disk of a directory: sizes in bytes."""

    folder: Path
    total: int
    free: int

    @property
    def is_little(self) -> bool:
        """Return whether free space is low enough for an administrator to act."""
        return self.free < _LITTLE


def database_facts(session: Session) -> DatabaseFacts:
    """Query the database server for its facts."""
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
    """Return the disk of the data directory and, if it is on a different disk, that of the store."""
    found: list[Room] = []
    for folder in (settings.data, settings.store):
        there = next(step for step in (folder, *folder.absolute().parents) if step.exists())
        usage = shutil.disk_usage(there)
        if not any((room.total, room.free) == (usage.total, usage.free) for room in found):
            found.append(Room(folder=folder, total=usage.total, free=usage.free))
    return found


def process_words() -> tuple[str, str, int]:
    """Return the program's version, and the host name and process id under which it runs."""
    try:
        ours = version("zatva")
    except PackageNotFoundError:
        ours = "?"
    return ours, socket.gethostname(), os.getpid()
