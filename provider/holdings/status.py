"""What the archive's tables hold, in figures that are kept while loading."""

from dataclasses import dataclass, fields
from datetime import datetime

from sqlalchemy import ColumnElement, exists, func, select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings.lost_files import is_lost
from provider.indexing.first_load import missing_indexes
from provider.models import (
    UNLISTED,
    Arc,
    ArcProblem,
    Collection,
    Document,
    Domain,
    IndexFile,
    IndexFileState,
    IndexRun,
    Mimetype,
)

_LOST = "its task is no longer in the queue; queue the file again"


@dataclass(frozen=True, kw_only=True)
class ArchiveStatus:
    """Totals; nothing is counted row by row but hidden documents, which have an index of their own."""

    documents: int
    """Hidden ones included."""
    hidden: int
    files: int
    problems: int
    """Places in archive files that could not be read or taken."""
    domains: int
    mimetypes: int
    collections: int
    last_published: datetime | None
    """Latest datestamp, UTC; a few seconds ahead of the clock just after a change."""
    last_indexed: datetime | None
    """When a file was last indexed, UTC."""
    unseen_files: int
    """Files that only a CDX file has told of."""
    missing_indexes: tuple[str, ...]
    """Indexes that a first load has still to build; lists are slow without them."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """How far the files are that were queued together (`zatva provider index --queue`)."""

    run_id: int
    queued: datetime
    host: str
    """The machine where it was asked for."""
    collection: str | None
    waiting: int
    """Those that are lost included."""
    lost: int
    """Files that wait for a task which is no longer in the queue."""
    running: int
    done: int
    failed: int
    new: int
    """Documents."""
    problems: int
    bytes_done: int
    bytes_total: int


@dataclass(frozen=True, kw_only=True)
class RunFile:
    """One file of a run."""

    path: str
    state: str
    reason: str | None
    host: str | None
    started: datetime | None
    ended: datetime | None
    new: int
    unchanged: int
    moved: int
    duplicates: int
    problems: int


def archive_status(session: Session) -> ArchiveStatus:
    """The figures as they are now."""

    def number(of: type[object]) -> int:
        return session.scalar(select(func.count()).select_from(of)) or 0

    return ArchiveStatus(
        documents=int(session.scalar(select(func.sum(Arc.documents))) or 0),
        hidden=session.scalar(select(func.count()).where(Document.deleted)) or 0,
        files=number(Arc),
        problems=number(ArcProblem),
        domains=number(Domain),
        mimetypes=number(Mimetype),
        collections=number(Collection),
        last_published=session.scalar(
            select(func.max(Document.datestamp)).where(Document.datestamp < UNLISTED)
        ),
        last_indexed=session.scalar(select(func.max(Arc.indexed))),
        unseen_files=session.scalar(select(func.count()).where(Arc.path.is_(None))) or 0,
        missing_indexes=tuple(missing_indexes(session)),
    )


def run_statuses(session: Session, *, most: int = 20, before: int | None = None) -> list[RunStatus]:
    """The latest runs, the last one first; those before the one numbered `before`."""
    numbers = _run_numbers()
    # A run whose files are gone has nothing to tell, and is to take no place on a page.
    filled = exists().where(IndexFile.run_id == IndexRun.id)
    latest = select(IndexRun.id).where(filled).order_by(IndexRun.id.desc()).limit(most)
    if before is not None:
        latest = latest.where(IndexRun.id < before)
    rows = session.execute(
        select(IndexRun, *(number.label(name) for name, number in numbers.items()))
        .join(IndexFile, IndexFile.run_id == IndexRun.id)
        .where(IndexRun.id.in_(latest))
        .group_by(IndexRun.id)
        .order_by(IndexRun.id.desc())
    )
    return [
        RunStatus(
            run_id=row.IndexRun.id,
            queued=row.IndexRun.queued,
            host=row.IndexRun.host,
            collection=row.IndexRun.collection,
            **{name: int(getattr(row, name)) for name in numbers},
        )
        for row in rows
    ]


def _run_numbers() -> dict[str, ColumnElement[int]]:
    """What is counted of each run, by the names that `RunStatus` has for it."""
    over = IndexFile.state.in_((IndexFileState.DONE, IndexFileState.FAILED))
    return {
        **{state.value: func.count().filter(IndexFile.state == state) for state in IndexFileState},
        "lost": func.count().filter(is_lost()),
        "new": func.sum(IndexFile.new),
        "problems": func.sum(IndexFile.problems),
        "bytes_done": func.coalesce(func.sum(IndexFile.size).filter(over), 0),
        "bytes_total": func.coalesce(func.sum(IndexFile.size), 0),
    }


def run_status(session: Session, run_id: int) -> list[RunFile]:
    """The files of a run in their order. Raises UsageError where there is no such run."""
    if session.get(IndexRun, run_id) is None:
        raise UsageError(f"no indexing run {run_id}; list runs with `zatva provider status`")
    rows = session.execute(
        select(IndexFile, is_lost()).where(IndexFile.run_id == run_id).order_by(IndexFile.id)
    )
    return [run_file(row, lost=lost) for row, lost in rows]


def run_file(row: IndexFile, *, lost: bool) -> RunFile:
    """The file as a value; one that nobody will index any more is told so."""
    values = {one.name: getattr(row, one.name) for one in fields(RunFile)}
    return RunFile(**values | ({"reason": _LOST} if lost else {}))
