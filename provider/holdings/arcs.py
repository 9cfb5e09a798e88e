"""Rows of archive files, which are identified again when unchanged, moved or compressed differently."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Row, delete, func, insert, or_, select, text, update
from sqlalchemy.orm import Session

from oai.failures import FailureCode, failure_columns
from provider.models import Arc, ArcProblem, Document
from provider.reading.framing import FramingProblem
from provider.storage.files import UNREAD, ArchiveFile, Presence, look_at, presence
from provider.storage.places import (
    WACZ_SUFFIX,
    Place,
    absolute,
    is_same_file,
    is_stored_place,
    place_of,
    stored_name,
    stored_path,
)

_NAME_CLASS: Final = 0x5A4E  # "ZN": separates these keys from other advisory locks
_LOCK_NAME: Final = "SELECT pg_advisory_xact_lock(:class, hashtext(:name))"
_MOST_NAMES: Final = 20
_ENDING: Final = 3
"""Characters that distinguish `.gz`, `.zst` and `arc`."""
_SHARES: Final = """
SELECT EXISTS (
    SELECT FROM candidate JOIN document USING (key) WHERE document.arc_id = :arc_id
    UNION ALL
    SELECT FROM candidate JOIN document USING ("offset", url) WHERE document.arc_id = :arc_id
        AND date_trunc('second', document.archived) = date_trunc('second', candidate.archived)
)
"""

_LACKING: Final = select(ArcProblem.arc_id).where(
    ArcProblem.failure_code == FailureCode.ARCHIVE_DOCUMENTS_GONE
)
"""Files that no longer had some of their documents when they were read."""


def is_file(named: str) -> ColumnElement[bool]:
    """Return the condition for archive files that a user names: by name, with or without `.gz`, or place.

    A WACZ file stands for all files in it.
    """
    is_wacz = named.lower().endswith(WACZ_SUFFIX)
    if not is_stored_place(named):
        return Arc.path.contains(f"/{named}#", autoescape=True) if is_wacz else Arc.name == stored_name(named)
    place = place_of(named)
    paths = {stored_path(place), stored_path(absolute(place))}  # rows of earlier versions may have `..`
    if is_wacz:
        return or_(*(Arc.path.startswith(f"{path}#", autoescape=True) for path in paths))
    return Arc.path.in_(paths)


@dataclass(frozen=True, kw_only=True)
class AssignedRow:
    """The row assigned to an archive file."""

    arc_id: int
    known: bool
    """The row existed before, and may have documents."""
    moved: bool
    """The row belonged to a missing file with the same name."""
    whole: bool = True
    """The file was read to its end."""


def find_unchanged(session: Session, file: ArchiveFile) -> Arc | None:
    """Return the row of a file that was completely indexed in its current state."""
    # An object that was stored again unchanged has a new date, but its old tag.
    state = Arc.modified == file.modified if file.tag is None else Arc.tag == file.tag
    whole = Arc.modified != UNREAD
    return session.scalar(
        select(Arc).where(Arc.path == stored_path(file.path), Arc.size == file.size, state, whole)
    )


def may_replace_lost(session: Session, row: Arc) -> bool:
    """Return whether a file without documents may be a copy of a missing file, and get its documents.

    Also if its documents have another row, with `..` in its path, and if a file that was read later no
    longer has all of its documents.
    """
    if row.documents or row.path is None:
        return False
    if _rows_with_dots(session, row.name, place_of(row.path)):
        return True
    read_later = select(Arc.id).where(Arc.indexed > row.indexed, Arc.id.in_(_LACKING))
    if session.scalar(select(read_later.exists())):
        return True
    others = select(Arc.path).where(Arc.name == row.name, Arc.id != row.id, Arc.documents > 0)
    return any(presence(path) is Presence.GONE for path in session.scalars(others))


@dataclass(frozen=True, kw_only=True)
class FormerFiles:
    """Ids of files that do not have their documents any more."""

    missing: tuple[int, ...]
    """Missing from their paths."""
    doubtful: tuple[int, ...]
    """Changed since they were read, or read and found to lack some of their documents."""


def find_former_files(session: Session, arc_ids: Sequence[int]) -> FormerFiles:
    """Return which of these files may have lost their documents."""
    columns: tuple[Any, ...] = (
        Arc.id,
        Arc.path,
        Arc.size,
        Arc.modified,
        Arc.tag,
        Arc.id.in_(_LACKING).label("lacks"),
    )
    missing, doubtful = [], []
    for row in session.execute(select(*columns).where(Arc.id.in_(arc_ids)).order_by(Arc.id)):
        has_changed = _has_changed(row)
        if has_changed is None:
            missing.append(row.id)
        elif has_changed or row.lacks:
            doubtful.append(row.id)
    return FormerFiles(missing=tuple(missing), doubtful=tuple(doubtful))


def _has_changed(row: Row[Any]) -> bool | None:
    """Return whether a file has changed since it was read to its end; None if it is missing.

    Looked at once, because each look at an object is a request.
    """
    if row.path is None:
        return None
    try:
        now = look_at(place_of(row.path))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError:
        return False
    same = now.modified == row.modified if now.tag is None else now.tag == row.tag
    return row.modified != UNREAD and not (same and now.size == row.size)


def read_again(session: Session, arc_ids: Sequence[int]) -> None:
    """Have those of these files read again that lack documents, so that what is noted about them is true."""
    lacking = update(Arc).where(Arc.id.in_(arc_ids), Arc.id.in_(_LACKING))
    session.execute(lacking.values(modified=UNREAD))


def find_unplaced(session: Session, name: str, place: Place) -> int | None:
    """Return the id of a file's row that has another path with `..`, otherwise of one without a path."""
    unseen = select(Arc.id).where(Arc.name == name, Arc.path.is_(None)).limit(1)
    return next(iter(_rows_with_dots(session, name, place)), None) or session.scalar(unseen)


def _rows_with_dots(session: Session, name: str, place: Place) -> list[int]:
    """Return the ids of other rows of a file: earlier versions stored paths with `..`."""
    others = (Arc.name == name, Arc.path.contains("/../"), Arc.path != stored_path(place))
    found = session.execute(select(Arc.id, Arc.path).where(*others).order_by(Arc.id))
    return [row.id for row in found if is_same_file(place_of(row.path), place)]


def shared_names(session: Session) -> list[str]:
    """Return names that several archive files with documents have, in order; twenty at most.

    `a.warc` and `a.warc.gz` have different names here, because replay software looks for the whole name; it
    finds no files in WACZ files.
    """
    shown = func.min(func.coalesce(func.regexp_replace(Arc.path, "^.*/", ""), Arc.listed_name, Arc.name))
    several = (
        select(shown)
        .where(Arc.documents > 0, ~Arc.path.icontains(f"{WACZ_SUFFIX}#", autoescape=True))
        .group_by(Arc.name, func.right(Arc.path, _ENDING))
        .having(func.count() > 1)
    )
    return list(session.scalars(several.distinct().order_by(shown).limit(_MOST_NAMES)))


def lock_name(session: Session, name: str) -> None:
    """Prevent others from finding or creating rows for files of this name until the transaction ends.

    Between the search for a row and its creation, another loader may create it: with the same path, or
    without a path from another CDX file, which no key forbids. This must be the first lock in a
    transaction, so that a waiting transaction never holds a lock that another one needs.
    """
    session.execute(text(_LOCK_NAME), {"class": _NAME_CLASS, "name": name})


def settle(session: Session, file: ArchiveFile, *, whole: bool) -> AssignedRow:
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
        "tag": file.tag,
        "indexed": func.clock_timestamp(),
    }
    lock_name(session, file.name)
    change = update(Arc).values(values).returning(Arc.id)
    own = session.scalar(change.where(Arc.path == path))
    dotted = _rows_with_dots(session, file.name, file.path)
    if own is None and dotted:
        own = session.scalar(change.where(Arc.id == dotted.pop(0)))
    if own is not None:
        _join_rows(session, own, dotted)
        _count_documents(session, own)
        return AssignedRow(arc_id=own, known=True, moved=False, whole=whole)
    for row in session.scalars(select(Arc).where(Arc.name == file.name).order_by(Arc.id)).all():
        former = row.path
        if presence(former) is Presence.GONE and (
            not row.documents or session.scalar(text(_SHARES), {"arc_id": row.id})
        ):
            # Compare-and-swap on the path: another loader may meanwhile have found the same file in a third
            # place.
            own = session.scalar(change.where(Arc.id == row.id, Arc.path.is_not_distinct_from(former)))
            if own is not None:
                return AssignedRow(arc_id=own, known=True, moved=former is not None, whole=whole)
    arc_id = session.execute(insert(Arc).values(values).returning(Arc.id)).scalar_one()
    return AssignedRow(arc_id=arc_id, known=False, moved=False, whole=whole)


def _join_rows(session: Session, own: int, others: Sequence[int]) -> None:
    """Give a row the documents of other rows of the same file, and delete those."""
    if not others:
        return
    session.execute(update(Document).where(Document.arc_id.in_(others)).values(arc_id=own))
    session.execute(update(Arc).where(Arc.id.in_(others)).values(documents=0))
    drop_empty(session, others)


def _count_documents(session: Session, own: int) -> None:
    """Correct a file's number of documents, whose row must be locked: others change documents before it."""
    counted = select(func.count()).where(Document.arc_id == own).scalar_subquery()
    session.execute(update(Arc).where(Arc.id == own, Arc.documents != counted).values(documents=counted))


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
