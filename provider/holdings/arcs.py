"""Rows of archive files, which are identified again when unchanged, moved or compressed differently."""

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

from sqlalchemy import ColumnElement, delete, func, insert, select, text, update
from sqlalchemy.orm import Session

from oai.failures import failure_columns
from provider.models import Arc, ArcProblem, Document
from provider.reading.framing import FramingProblem

UNREAD: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Modification time of a file that has to be read (again): no real file has it."""

_NAME_CLASS: Final = 0x5A4E  # "ZN": separates these keys from other advisory locks
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
    """An archive file as found on disk."""

    path: Path
    """Absolute."""
    size: int
    """Bytes."""
    modified: datetime
    """UTC, to the microsecond."""

    @property
    def name(self) -> str:
        """The name by which the file is identified: the file name without `.gz`."""
        return stored_name(self.path.name)


_URI: Final = "file://"


def stored_path(path: Path) -> str:
    """Return an absolute path as rows and reports have it.

    A path whose bytes are not UTF-8 cannot be stored or printed as text: it becomes a `file:` URI
    (RFC 8089), such as `file:///srv/%E8lanky.warc`, which `path_of` reads back. No absolute path begins so.
    """
    text = str(path)
    return text if _is_utf_8(text) else _URI + quote_from_bytes(os.fsencode(text))


def path_of(stored: str) -> Path:
    """Return the path from the output of `stored_path`."""
    if stored.startswith(_URI):
        return Path(os.fsdecode(unquote_to_bytes(stored.removeprefix(_URI))))
    return Path(stored)


def stored_name(name: str) -> str:
    """Return a file name without `.gz` as `arc.name` has it; percent-encoded if it is not UTF-8."""
    name = name.removesuffix(".gz")
    return name if _is_utf_8(name) else quote_from_bytes(os.fsencode(name))


def _is_utf_8(text: str) -> bool:
    """Return whether the name of a file is text: the bytes of others are surrogates in it (PEP 383)."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def is_file(named: str) -> ColumnElement[bool]:
    """Return the condition for archive files that a user names: by name, with or without `.gz`, or path."""
    if named.startswith("/"):
        return Arc.path == stored_path(Path(named))
    if named.startswith(_URI):
        return Arc.path == named
    return Arc.name == stored_name(named)


@dataclass(frozen=True, kw_only=True)
class Home:
    """The row assigned to an archive file."""

    arc_id: int
    known: bool
    """The row existed before, and may have documents."""
    moved: bool
    """The row belonged to a missing file with the same name."""


def look_at(path: Path) -> ArchiveFile:
    """Return size and modification time of a file.

    Raises OSError if it cannot be read or is not a regular file.
    """
    facts = path.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(f"{stored_path(path)} is not a regular file")
    return ArchiveFile(
        path=path,
        size=facts.st_size,
        modified=UNREAD + timedelta(microseconds=facts.st_mtime_ns // 1000),
    )


def find_unchanged(session: Session, file: ArchiveFile) -> Arc | None:
    """Return the row of a file that was completely indexed in its current state."""
    state = (Arc.size == file.size, Arc.modified == file.modified)
    return session.scalar(select(Arc).where(Arc.path == stored_path(file.path), *state))


def lock_name(session: Session, name: str) -> None:
    """Prevent others from finding or creating rows for files of this name until the transaction ends.

    Between the search for a row and its creation, another loader may create it: with the same path, or
    without a path from another CDX file, which no key forbids. This must be the first lock in a
    transaction, so that a waiting transaction never holds a lock that another one needs.
    """
    session.execute(text(_LOCK_NAME), {"class": _NAME_CLASS, "name": name})


def settle(session: Session, file: ArchiveFile, *, whole: bool) -> Home:
    """Return the row for a file whose captures are staged: its own, a moved file's, or a new one.

    A file counts as moved if a file of the same name is missing from its path, or was only listed by a
    CDX file, and shares captures with it or has none. Unless `whole`, the file will be read again next
    time.
    """
    path = stored_path(file.path)
    values = {
        "path": path,
        "name": file.name,
        "size": file.size,
        "modified": file.modified if whole else UNREAD,
        "indexed": func.clock_timestamp(),
    }
    lock_name(session, file.name)
    change = update(Arc).values(values).returning(Arc.id)
    own = session.scalar(change.where(Arc.path == path))
    if own is not None:
        return Home(arc_id=own, known=True, moved=False)
    for row in session.scalars(select(Arc).where(Arc.name == file.name).order_by(Arc.id)).all():
        former = row.path
        if is_gone(former) and (not row.documents or session.scalar(text(_SHARES), {"arc_id": row.id})):
            # Compare-and-swap on the path: another loader may meanwhile have found the same file in a third
            # place.
            own = session.scalar(change.where(Arc.id == row.id, Arc.path.is_not_distinct_from(former)))
            if own is not None:
                return Home(arc_id=own, known=True, moved=former is not None)
    arc_id = session.execute(insert(Arc).values(values).returning(Arc.id)).scalar_one()
    return Home(arc_id=arc_id, known=False, moved=False)


def is_gone(path: str | None) -> bool:
    """Return whether a file is missing from its last known path, or has never been seen."""
    return path is None or not path_of(path).exists()


def save_problems(session: Session, arc_id: int, problems: Sequence[FramingProblem]) -> None:
    """Replace the problems of a file."""
    session.execute(delete(ArcProblem).where(ArcProblem.arc_id == arc_id))
    rows = [
        {
            "arc_id": arc_id,
            "offset": one.offset,
            "reason": one.reason,
            **failure_columns(one.failure),
        }
        for one in problems
    ]
    if rows:
        session.execute(insert(ArcProblem), rows)


def load_problems(session: Session, arc_id: int) -> tuple[FramingProblem, ...]:
    """Return the problems found when the file was last read, in file order."""
    rows = session.scalars(
        select(ArcProblem).where(ArcProblem.arc_id == arc_id).order_by(ArcProblem.offset, ArcProblem.id)
    )
    return tuple(FramingProblem(offset=row.offset, failure=row.failure, reason=row.reason) for row in rows)


def drop_empty(session: Session, arc_ids: Sequence[int]) -> None:
    """Delete rows of missing files that have no documents left."""
    has_documents = select(Document.id).where(Document.arc_id == Arc.id).exists()
    session.execute(delete(Arc).where(Arc.id.in_(arc_ids), Arc.documents == 0, ~has_documents))
