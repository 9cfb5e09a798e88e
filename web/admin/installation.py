"""State of the installation for the system page: database size and version, free disk space, this process."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from manager.disks import forecast_disks
from manager.notices.models import Notice, NoticeState
from oai import migrations
from oai.datestamps import utc_now
from oai.disk import Disk
from oai.failures import Failure
from oai.sections import HarvesterSettings
from web.site.failures import in_words

_LITTLE: Final = 1024**3
"""Bytes of free disk space below which an administrator should act."""
_SOON: Final = timedelta(days=14)
_WEEK: Final = timedelta(days=7)
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
class DiskSpace:
    """The free space of a disk, and when it will be full."""

    disk: Disk
    full: datetime | None = None
    lack: Failure | None = None
    """What keeps harvests from starting: too little free space, or too few free inodes."""

    @property
    def is_low(self) -> bool:
        """Return whether free space is low enough for an administrator to act."""
        is_soon_full = self.full is not None and self.full < utc_now() + _SOON
        return self.lack is not None or self.disk.free < _LITTLE or is_soon_full

    @property
    def why(self) -> str:
        """Return what keeps harvests from starting, in words; empty if the disk has enough."""
        return in_words(self.lack).what if self.lack is not None else ""


def database_facts(session: Session) -> DatabaseFacts:
    """Query the database server for its facts."""
    row = session.execute(
        text(
            "SELECT current_setting('server_version'), pg_database_size(current_database()), "
            "(SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()), "
            "current_setting('max_connections')::int"
        )
    ).one()
    tables = session.execute(_SIZES, {"most": _LARGEST}).all()
    return DatabaseFacts(
        version=row[0],
        size=row[1],
        connections=row[2],
        most_connections=row[3],
        revision=migrations.current(session.connection()),
        tables=[Table(name=name, size=size, rows=rows) for name, size, rows in tables],
    )


@dataclass(frozen=True, kw_only=True)
class Unsent:
    """Numbers of messages that were not sent."""

    retried: int
    """Those that wait for another attempt after one that failed."""
    given_up: int
    """Those that were given up in the last week."""


def unsent_messages(session: Session) -> Unsent:
    """Count the messages that were not sent."""
    waits = (Notice.ended.is_(None), Notice.tries > 0, Notice.last_error.is_not(None))
    lost = (Notice.state == NoticeState.GIVEN_UP, Notice.ended > func.now() - _WEEK)
    counts = select(func.count().filter(*waits), func.count().filter(*lost)).select_from(Notice)
    retried, given_up = session.execute(counts).one()
    return Unsent(retried=retried, given_up=given_up)


def disk_spaces(session: Session, disks: Sequence[Disk], limits: HarvesterSettings) -> list[DiskSpace]:
    """Return the disks of this host, each with what it lacks, and the estimate of when it will be full."""
    host = socket.gethostname()
    known = {one.folder: one.full for one in forecast_disks(session) if one.host == host}
    floor = (limits.floor_bytes, limits.floor_percent)
    return [DiskSpace(disk=disk, full=known.get(str(disk.folder)), lack=disk.lack(*floor)) for disk in disks]


def process_words() -> tuple[str, str, int]:
    """Return the program's version, and the host name and process id under which it runs."""
    try:
        ours = version("zatva")
    except PackageNotFoundError:
        ours = "?"
    return ours, socket.gethostname(), os.getpid()
