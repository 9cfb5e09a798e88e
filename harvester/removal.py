"""Removal of a repository in pieces, so that no transaction takes long, however many rows there are.

A row of `oai_repository_lock` marks the repository meanwhile: it keeps harvests off, and survives an
interruption. Removing the repository again completes the removal.
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from sqlalchemy import TextClause, delete, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from harvester.harvest.checkpoint import hold_until_commit
from harvester.locks import REMOVAL
from harvester.models import Repository, RepositoryLock
from harvester.repositories import get_repository
from oai.database import Database

ROWS_AT_ONCE: Final = 10_000
_BEFORE_ALL: Final = uuid.UUID(int=0)
# Records precede what is derived from them, so that an import that still runs adds nothing.
_LARGE: Final[Mapping[str, Mapping[str, object]]] = {
    "oai_record": {"metadata_prefix": "", "identifier_key": _BEFORE_ALL},
    "oai_quarantine": {"metadata_prefix": "", "fault_key": _BEFORE_ALL},
    "bibliographic_record": {"metadata_prefix": "", "identifier_key": _BEFORE_ALL},
    "bibliographic_omission": {"metadata_prefix": "", "identifier_key": _BEFORE_ALL},
    "oai_history": {"history_id": 0},
}
"""The large tables, with the columns that follow the repository in an index, and values before all others.

Rows of all other tables, and any that were missed here, are deleted with the repository's row.
"""


def _piece(table: str, keys: Iterable[str]) -> TextClause:
    # Index entries of deleted rows stay while any transaction, such as a backup of hours, may see the rows.
    # So that a piece does not pass over all of them, it begins where the last piece began: the rows of that
    # one are found dead, which marks their entries. Without marks, the statement that deletes the repository
    # would visit each row again.
    columns, values = ", ".join(keys), ", ".join(f":{key}" for key in keys)
    return text(
        f"""
        WITH piece AS MATERIALIZED (
            SELECT ctid AS place, {columns} FROM {table}
            WHERE repository_id = :repository_id AND ({columns}) > ({values})
            ORDER BY {columns} LIMIT :most
        ), gone AS (DELETE FROM {table} WHERE ctid = ANY(ARRAY(SELECT place FROM piece)))
        SELECT {columns}, (SELECT count(*) FROM piece) AS deleted
        FROM piece ORDER BY {", ".join(f"{key} DESC" for key in keys)} LIMIT 1
        """  # noqa: S608 our own tables
    )


_PIECES: Final = {table: _piece(table, keys) for table, keys in _LARGE.items()}
# In the order of the index: otherwise each piece might read and sort all that is left.
_BY_INDEX: Final = text("SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
# What the last statement passes over is not limited if an old transaction has prevented the marks.
_UNLIMITED: Final = text("SET LOCAL statement_timeout = 0")


def remove_repository(database: Database, repository_id: int) -> None:
    """Remove the repository with all its rows; keep its files. Commits by itself, in pieces.

    Raises UsageError if there is none, and RepositoryBusyError while it is harvested.
    """
    with database.session() as session:
        begin_removal(session, repository_id)
        session.commit()
        removal = Removal(repository_id=repository_id)
        while not removal.remove_piece(session):
            session.commit()
        session.commit()


def begin_removal(session: Session, repository_id: int) -> None:
    """Mark the repository as being removed: no harvest begins, and it is not shown. The caller commits.

    Raises UsageError if there is none, and RepositoryBusyError while it is harvested.
    """
    get_repository(session, repository_id)
    # A harvest takes the repository first and reads its locks then, so it ends before this, or sees the row.
    hold_until_commit(session, repository_id)
    session.execute(
        insert(RepositoryLock)
        .values(
            repository_id=repository_id,
            holder=REMOVAL,
            reason="the repository is being removed; remove it again if that was interrupted",
            expires=text("now() + interval '100 years'"),
        )
        .on_conflict_do_nothing()
    )


@dataclass(kw_only=True)
class Removal:
    """A removal that has begun, and how far it is."""

    repository_id: int
    rows_at_once: int = ROWS_AT_ONCE
    _after: dict[str, Mapping[str, object]] = field(default_factory=lambda: dict(_LARGE))
    """By table: where the last piece began, and the next one begins."""
    _reached: dict[str, Mapping[str, object]] = field(default_factory=lambda: dict(_LARGE))
    """By table: where the last piece ended."""

    def remove_piece(self, session: Session) -> bool:
        """Delete some of the repository's rows; return whether it is gone.

        The caller commits, and calls it again until then; after an exception, it begins with a new object.
        """
        number = self.repository_id
        is_marked = select(RepositoryLock.locked).filter_by(repository_id=number, holder=REMOVAL)
        # The row lock makes two removals of one repository take turns: a piece that deletes nothing because
        # the other one has deleted its rows would be taken for the last one.
        if session.scalar(is_marked.with_for_update()) is None:
            if session.scalar(select(Repository.repository_id).filter_by(repository_id=number)) is None:
                return True
            begin_removal(session, number)  # the mark was deleted by SQL
            return False
        session.execute(_BY_INDEX)
        left = self.rows_at_once
        for table, piece in _PIECES.items():
            left -= self._delete(session, table, piece, left)
            if left <= 0:
                return False
        session.execute(_UNLIMITED)
        session.execute(delete(Repository).where(Repository.repository_id == number))
        return True

    def _delete(self, session: Session, table: str, piece: TextClause, most: int) -> int:
        values = {"repository_id": self.repository_id, "most": most, **self._after[table]}
        last = session.execute(piece, values).mappings().first()
        if last is None:
            return 0
        self._after[table] = self._reached[table]
        self._reached[table] = {key: last[key] for key in _LARGE[table]}
        return int(last["deleted"])
