"""Locks of repositories: rows, written by SQL, that keep harvests off while an external index is built.

A harvest that begins takes the repository first and reads the locks then; an indexer inserts its row first
and looks for harvests then. Whatever the order, one of the two sees the other.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, delete, exists, func, select
from sqlalchemy.engine import Connection
from sqlalchemy.orm import Session

from harvester.models import RepositoryLock
from harvester.reading.errors import RepositoryLockedError
from oai.datestamps import format_datestamp
from oai.errors import UsageError

REMOVAL: Final = "zatva repository remove"
"""The holder while a repository is being removed; this lock is not cleared."""
_HOLDS = RepositoryLock.expires > func.now()


def is_locked(repository_id: Any) -> ColumnElement[bool]:  # noqa: ANN401 a number or a column
    """Return the SQL condition that an unexpired lock holds the repository."""
    return exists().where(RepositoryLock.repository_id == repository_id, _HOLDS)


def find_locks(
    session: Session, repository_ids: Collection[int] | None = None
) -> Mapping[int, RepositoryLock]:
    """Return the unexpired lock of each of the repositories (None: of all); the last to expire of several."""
    query = select(RepositoryLock).where(_HOLDS)
    if repository_ids is not None:
        query = query.where(RepositoryLock.repository_id.in_(repository_ids))
    rows = session.scalars(query.order_by(RepositoryLock.expires, RepositoryLock.holder))
    return {row.repository_id: row for row in rows}


def find_lock(session: Session, repository_id: int) -> RepositoryLock | None:
    """Return the unexpired lock of the repository that expires last; None if it is not locked."""
    return find_locks(session, [repository_id]).get(repository_id)


def being_removed(session: Session, repository_ids: Collection[int] | None = None) -> set[int]:
    """Return those of the repositories (None: of all) that are being removed."""
    query = select(RepositoryLock.repository_id).where(RepositoryLock.holder == REMOVAL)
    if repository_ids is not None:
        query = query.where(RepositoryLock.repository_id.in_(repository_ids))
    return set(session.scalars(query))


def refuse_removed(session: Session, repository_id: int) -> None:
    """Raise UsageError if the repository is being removed."""
    if being_removed(session, [repository_id]):
        raise UsageError(
            "repository %(number)s is being removed; if that was interrupted, remove it again",
            number=repository_id,
        )


def check_unlocked(connection: Connection, repository_id: int) -> None:
    """Raise RepositoryLockedError if an unexpired lock holds the repository."""
    query = (
        select(RepositoryLock.holder, RepositoryLock.reason, RepositoryLock.expires)
        .where(RepositoryLock.repository_id == repository_id, _HOLDS)
        .order_by(RepositoryLock.expires.desc(), RepositoryLock.holder.desc())
        .limit(1)
    )
    found = connection.execute(query).first()
    if found is None:
        return
    facts = {
        "number": repository_id,
        "holder": found.holder,
        "reason": found.reason,
        "until": format_datestamp(found.expires),
    }
    if found.holder == REMOVAL:
        raise RepositoryLockedError(
            "repository %(number)s is being removed; if that was interrupted, remove it again", **facts
        )
    raise RepositoryLockedError(
        "repository %(number)s is locked by %(holder)s until %(until)s: %(reason)s; try again when the"
        " lock is gone, or clear it with `zatva repository unlock %(number)s`",
        **facts,
    )


def clear_locks(session: Session, repository_id: int) -> list[str]:
    """Delete the locks of a repository and return their holders. The caller commits.

    Raises UsageError if it has none, and if it is being removed: a harvest would find only some of its rows.
    """
    refuse_removed(session, repository_id)
    gone = delete(RepositoryLock).where(RepositoryLock.repository_id == repository_id)
    holders = sorted(session.scalars(gone.returning(RepositoryLock.holder)))
    if not holders:
        raise UsageError("repository %(number)s is not locked", number=repository_id)
    return holders


def remove_expired(session: Session) -> Sequence[RepositoryLock]:
    """Delete the expired locks of all repositories and return them. The caller commits."""
    return session.scalars(delete(RepositoryLock).where(~_HOLDS).returning(RepositoryLock)).all()
