"""One harvest of a repository at a time, over all processes and machines that share the database."""

import contextlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Row, text
from sqlalchemy.exc import OperationalError

from harvester.reading.errors import RepositoryBusyError
from oai.database import Database

_CLASS = 0x5A52  # "ZR": keeps our keys apart from others' advisory locks
_WAIT = "3s"
_HOLDER = text(
    """
    SELECT process_id, host FROM oai_harvest
    WHERE repository_id = :id AND process_id IS NOT NULL ORDER BY updated DESC LIMIT 1
    """
)


_HELD = text(
    """
    SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 2
                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
                   AND classid = :class AND objid = :id)
    """
)


def is_held(database: Database, repository_id: int) -> bool:
    """Whether some process holds the repository at this moment."""
    with database.session() as session:
        return bool(session.execute(_HELD, {"class": _CLASS, "id": repository_id}).scalar_one())


@contextlib.contextmanager
def only_harvest(database: Database, repository_id: int) -> Iterator[None]:
    """Hold the repository for the block; the server gives it back however this process ends.

    Raises RepositoryBusyError when another process still holds it after three seconds.
    """
    key = {"class": _CLASS, "id": repository_id}
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text(f"SET lock_timeout = '{_WAIT}'"))
        try:
            connection.execute(text("SELECT pg_advisory_lock(:class, :id)"), key)
        except OperationalError:
            holder = connection.execute(_HOLDER, {"id": repository_id}).first()
            raise _busy(repository_id, holder) from None
        try:
            yield
        finally:
            connection.execute(text("SELECT pg_advisory_unlock(:class, :id)"), key)
            connection.execute(text("RESET lock_timeout"))


def _busy(repository_id: int, holder: Row[Any] | None) -> RepositoryBusyError:
    if holder is None:
        return RepositoryBusyError(
            "repository %(number)s is being harvested; try again when that harvest has ended",
            number=repository_id,
        )
    return RepositoryBusyError(
        "repository %(number)s is being harvested by process %(process)s on %(host)s; try again "
        "when that harvest has ended",
        number=repository_id,
        process=holder.process_id,
        host=holder.host,
    )
