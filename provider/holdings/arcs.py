"""Archive files as rows: known again when they have not changed, were moved, or compressed anew."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.orm import Session

from provider.models import Arc, ArcProblem, Document
from provider.reading.framing import FramingProblem

UNREAD: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""The time of change of a file that has to be read (again): no real file has it."""

_NAME_CLASS: Final = 0x5A4E  # "ZN": keeps our keys apart from others' advisory locks
_LOCK_NAME: Final = "SELECT pg_advisory_xact_lock(:class, hashtext(:name))"
_SHARES: Final = """
SELECT EXISTS (
    SELECT FROM candidate JOIN document USING (key) WHERE document.arc_id = :arc_id
    UNION ALL
    SELECT FROM candidate JOIN document USING ("offset", url) WHERE document.arc_id = :arc_id
)
"""


@dataclass(frozen=True, kw_only=True)
class ArchiveFile:
    """An archive file as it lies on the disk."""

    path: Path
    """Absolute."""
    size: int
    """Bytes."""
    modified: datetime
    """UTC, to the microsecond."""

    @property
    def name(self) -> str:
        """By which it is known again: the file name without `.gz`."""
        return self.path.name.removesuffix(".gz")


@dataclass(frozen=True, kw_only=True)
class Home:
    """The row of an archive file."""

    arc_id: int
    known: bool
    """It was there before, and may have documents."""
    moved: bool
    """It was that of a file of the same name which is gone."""


def look_at(path: Path) -> ArchiveFile:
    """Size and time of a file.

    Raises OSError where it cannot be looked at or is no regular file, and UnicodeEncodeError where its name
    is not in UTF-8 and so cannot be kept.
    """
    str(path).encode()
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(f"{path} is not a regular file")
    return ArchiveFile(
        path=path,
        size=facts.st_size,
        modified=UNREAD + timedelta(microseconds=facts.st_mtime_ns // 1000),
    )


def find_unchanged(session: Session, file: ArchiveFile) -> Arc | None:
    """The row of a file that was wholly indexed as it lies there now."""
    return session.scalar(
        select(Arc).where(Arc.path == str(file.path), Arc.size == file.size, Arc.modified == file.modified)
    )


def lock_name(session: Session, name: str) -> None:
    """Let nobody else find or make rows for files of this name until the transaction ends.

    Between looking for a row and making one, another loader may make it: of the same path, or without a path
    from another CDX file, which no key forbids. To be taken first in a transaction, so that nobody who waits
    here holds what another one waits for.
    """
    session.execute(text(_LOCK_NAME), {"class": _NAME_CLASS, "name": name})


def settle(session: Session, file: ArchiveFile, *, whole: bool) -> Home:
    """The row for a file whose captures are staged: its own, that of the file it was before, or a new one.

    A file was moved where one of the same name is gone from its place, or was told of by a CDX file alone,
    and had captures in common or none at all. Unless `whole`, the file will be read again next time.
    """
    values = {
        "path": str(file.path),
        "name": file.name,
        "size": file.size,
        "modified": file.modified if whole else UNREAD,
        "indexed": func.clock_timestamp(),
    }
    lock_name(session, file.name)
    change = update(Arc).values(values).returning(Arc.id)
    own = session.scalar(change.where(Arc.path == str(file.path)))
    if own is not None:
        return Home(arc_id=own, known=True, moved=False)
    for row in session.scalars(select(Arc).where(Arc.name == file.name).order_by(Arc.id)).all():
        path = row.path
        if is_gone(path) and (not row.documents or session.scalar(text(_SHARES), {"arc_id": row.id})):
            # Another loader may have found the same file at a third place meanwhile.
            own = session.scalar(change.where(Arc.id == row.id, Arc.path.is_not_distinct_from(path)))
            if own is not None:
                return Home(arc_id=own, known=True, moved=path is not None)
    arc_id = session.execute(insert(Arc).values(values).returning(Arc.id)).scalar_one()
    return Home(arc_id=arc_id, known=False, moved=False)


def is_gone(path: str | None) -> bool:
    """Whether a file is not where it was last seen, or has never been seen."""
    return path is None or not Path(path).exists()


def save_problems(session: Session, arc_id: int, problems: Sequence[FramingProblem]) -> None:
    """Put the problems of a file in the place of those it had before."""
    session.execute(delete(ArcProblem).where(ArcProblem.arc_id == arc_id))
    rows = [{"arc_id": arc_id, "offset": one.offset, "reason": one.reason} for one in problems]
    if rows:
        session.execute(insert(ArcProblem), rows)


def load_problems(session: Session, arc_id: int) -> tuple[FramingProblem, ...]:
    """The problems that a file had when it was last read, in its order."""
    rows = session.scalars(
        select(ArcProblem).where(ArcProblem.arc_id == arc_id).order_by(ArcProblem.offset, ArcProblem.id)
    )
    return tuple(FramingProblem(offset=row.offset, reason=row.reason) for row in rows)


def drop_empty(session: Session, arc_ids: Sequence[int]) -> None:
    """Forget files that are gone once they have no documents left."""
    has_documents = select(Document.id).where(Document.arc_id == Arc.id).exists()
    session.execute(delete(Arc).where(Arc.id.in_(arc_ids), Arc.documents == 0, ~has_documents))
