"""Archive files as rows: known again when they have not changed, were moved, or compressed anew."""

import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.orm import Session

from provider.framing import Problem
from provider.models import Arc, ArcProblem

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

# Where the captures of this file have their place by now, and empty files of the same name.
_RELATED: Final = """
SELECT arc.id, arc.path, arc.name, count(candidate.key) AS captures
FROM arc
JOIN document ON document.arc_id = arc.id
JOIN candidate ON candidate.key = document.key
WHERE arc.path <> :path
GROUP BY arc.id
UNION ALL
SELECT id, path, name, 0 FROM arc WHERE name = :name AND documents = 0 AND path <> :path
ORDER BY captures DESC, id
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
    """The row of an archive file, and the rows of files that are gone and held some of its captures."""

    arc_id: int
    moved: bool
    """The row was that of a file of the same name which is gone."""
    gone: tuple[int, ...]


def look_at(path: Path) -> ArchiveFile:
    """Size and time of a file.

    Raises OSError where it cannot be looked at or is no regular file, and UnicodeEncodeError where its name
    is not in UTF-8 and so cannot be kept.
    """
    str(path).encode()
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(f"{path} is no regular file")
    return ArchiveFile(
        path=path,
        size=facts.st_size,
        modified=_EPOCH + timedelta(microseconds=facts.st_mtime_ns // 1000),
    )


def find_unchanged(session: Session, file: ArchiveFile) -> Arc | None:
    """The row of a file that was wholly indexed as it lies there now."""
    return session.scalar(
        select(Arc).where(Arc.path == str(file.path), Arc.size == file.size, Arc.modified == file.modified)
    )


def settle(session: Session, file: ArchiveFile, *, whole: bool) -> Home:
    """The row for a file whose captures are staged: its own, that of the file it was before, or a new one.

    A file was moved where one of the same name is gone from its place and had captures in common (or nothing
    at all). Unless `whole`, the file will be read again next time.
    """
    related = session.execute(text(_RELATED), {"path": str(file.path), "name": file.name}).all()
    gone = [row for row in related if not Path(row.path).exists()]
    values = {
        "size": file.size,
        "modified": file.modified if whole else _EPOCH,
        "indexed": func.clock_timestamp(),
    }
    change = update(Arc).values(path=str(file.path), name=file.name, **values).returning(Arc.id)
    own = session.scalar(change.where(Arc.path == str(file.path)))
    before = next((row for row in gone if row.name == file.name), None)
    moved = False
    if own is None and before is not None:
        # Another loader may have found the same file at a third place meanwhile.
        own = session.scalar(change.where(Arc.id == before.id, Arc.path == before.path))
        moved = own is not None
    if own is None:
        new = insert(Arc).values(path=str(file.path), name=file.name, **values).returning(Arc.id)
        own = session.execute(new).scalar_one()
    return Home(arc_id=own, moved=moved, gone=tuple({row.id for row in gone if row.captures} - {own}))


def save_problems(session: Session, arc_id: int, problems: Sequence[Problem]) -> None:
    """Put the problems of a file in the place of those it had before."""
    session.execute(delete(ArcProblem).where(ArcProblem.arc_id == arc_id))
    rows = [{"arc_id": arc_id, "offset": one.offset, "reason": one.reason} for one in problems]
    if rows:
        session.execute(insert(ArcProblem), rows)


def load_problems(session: Session, arc_id: int) -> tuple[Problem, ...]:
    """The problems that a file had when it was last read, in its order."""
    rows = session.scalars(
        select(ArcProblem).where(ArcProblem.arc_id == arc_id).order_by(ArcProblem.offset, ArcProblem.id)
    )
    return tuple(Problem(offset=row.offset, reason=row.reason) for row in rows)


def drop_empty(session: Session, arc_ids: Sequence[int]) -> None:
    """Forget files that are gone once they have no documents left."""
    session.execute(delete(Arc).where(Arc.id.in_(arc_ids), Arc.documents == 0))
