"""Figures about the archive, from counts that are kept while loading."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Text,
    and_,
    column,
    func,
    literal,
    literal_column,
    select,
    table,
    true,
    update,
)
from sqlalchemy.orm import Session, aliased

from oai.cli import Invocation
from oai.datestamps import utc_now
from oai.failures import Failure, FailureCode, failure_columns
from oai.models import from_row
from provider.holdings.url_key_state import keys_complete, unused_indexes
from provider.indexing.first_load import missing_indexes
from provider.indexing.models import IndexFile, IndexFileState, IndexRun
from provider.models import UNLISTED, Arc, ArcProblem, Collection, Document, DocumentMonth, Domain, Mimetype

_REGISTERED: Final = 2
_IDLE: Final = timedelta(minutes=30)
"""Without a file that ends or runs for so long, a queue with waiting files is stuck."""
_MOST: Final = 1000

_SET_COLUMNS: Final = {"set_spec": "Set", "name": "Name", "documents": "Documents"}
QUEUE: Final = "index"
"""The queue in which each task names a row of `index_file`, as `file_id`."""
_TASKS: Final = table("procrastinate_jobs", column("status"), column("args"))
_FILE_ID: Final = func.jsonb_extract_path_text(_TASKS.c.args, literal_column("'file_id'"))
_LOST_REASON: Final = "its task was no longer in the queue; the file was queued again"
_LOST: Final = "its task is no longer in the queue; queue the file again"
_TASK_LOST: Final = Failure(code=FailureCode.ARCHIVE_TASK_LOST)


def by_month(session: Session) -> list[dict[str, Any]]:
    """Return `month` (YYYY-MM, UTC), `type` and `documents` for each month of capture and major type."""
    rows = session.execute(
        select(DocumentMonth.month, Mimetype.name, DocumentMonth.documents)
        .join(Mimetype, Mimetype.id == DocumentMonth.mime_major_id)
        .order_by(DocumentMonth.month, Mimetype.name)
    )
    return [
        {"month": f"{row.month.year:04}-{row.month:%m}", "type": row.name, "documents": row.documents}
        for row in rows
    ]


def by_type(session: Session) -> list[dict[str, Any]]:
    """Return `set_spec`, `name`, `documents` for each major and full type; each after its major type."""
    return _sets(session, select(Mimetype).order_by(Mimetype.set_spec))


def by_domain(session: Session) -> list[dict[str, Any]]:
    """Return the same for top-level and registered domains, the thousand largest, largest first."""
    largest = Domain.documents.desc()
    return _sets(
        session,
        select(Domain).where(Domain.level <= _REGISTERED).order_by(largest, Domain.set_spec).limit(_MOST),
    )


def by_collection(session: Session) -> list[dict[str, Any]]:
    """Return the same for collections, each after its parent."""
    return _sets(session, select(Collection).order_by(Collection.set_spec))


def _sets(session: Session, query: Any) -> list[dict[str, Any]]:  # noqa: ANN401 of any of the trees
    return [{name: getattr(row, name) for name in _SET_COLUMNS} for row in session.scalars(query)]


_NOTHING: Final = "no documents indexed yet"
_MONTH_COLUMNS: Final = {"month": "Month", "type": "Type", "documents": "Documents"}
_VIEWS: Final[dict[str, tuple[Callable[[Session], Sequence[dict[str, Any]]], dict[str, str]]]] = {
    "month": (by_month, _MONTH_COLUMNS),
    "type": (by_type, _SET_COLUMNS),
    "domain": (by_domain, _SET_COLUMNS),
    "collection": (by_collection, _SET_COLUMNS),
}


def show_statistics(invocation: Invocation) -> None:
    """`provider statistics`: show one of the views as a table."""
    view, columns = _VIEWS[invocation.arguments.by]
    with invocation.session() as session:
        rows = view(session)
    by = invocation.arguments.by
    empty = "no collections yet; see `zatva provider collection --help`" if by == "collection" else _NOTHING
    invocation.console.table(rows, columns, empty=empty)


def is_lost() -> ColumnElement[bool]:
    """Return the condition for a row of `index_file` that waits although it has no task."""
    # Looked up in `ix_procrastinate_jobs_file`, without a condition for which another index could be read. To
    # EXISTS, PostgreSQL would prefer to read the whole queue for each page.
    task = select(literal(1)).where(
        _TASKS.c.status.cast(Text).in_(("todo", "doing")),
        IndexFile.id.cast(Text) == _FILE_ID,
    )
    return and_(
        IndexFile.state == IndexFileState.WAITING,
        task.correlate(IndexFile).limit(1).scalar_subquery().is_(None),
    )


def give_up_lost(session: Session, paths: Sequence[str]) -> int:
    """Mark lost files with these paths as failed, because they are queued again; return how many.

    The caller commits.
    """
    given_up = (
        update(IndexFile)
        .where(IndexFile.path == func.any(literal(list(paths), ARRAY(Text))), is_lost())
        .values(
            state=IndexFileState.FAILED,
            reason=_LOST_REASON,
            **failure_columns(_TASK_LOST),
            ended=func.clock_timestamp(),
        )
        .returning(IndexFile.id)
    )
    return len(session.scalars(given_up).all())


@dataclass(frozen=True, kw_only=True)
class ArchiveStatus:
    """Totals; only hidden documents are counted row by row, through an index for them."""

    documents: int
    """Including hidden ones."""
    hidden: int
    files: int
    problems: int
    """Places in archive files that could not be read or indexed."""
    domains: int
    mimetypes: int
    collections: int
    last_published: datetime | None
    """Latest datestamp, UTC; a few seconds ahead of the clock just after a change."""
    last_indexed: datetime | None
    """When a file was last indexed, UTC."""
    unseen_files: int
    """Files that only a CDX file has listed."""
    missing_indexes: tuple[str, ...]
    """Indexes that a first load still has to build; lists are slow without them."""
    url_keys_complete: bool
    """Whether look-ups use URL keys; if not, documents of an earlier version lack them."""
    unused_indexes: tuple[str, ...]
    """Indexes that are no longer used; `zatva provider reindex-keys` removes them."""


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """Progress of files that were queued together (`zatva provider index --queue`)."""

    run_id: int
    queued: datetime
    host: str
    """The machine from which it was requested."""
    collection: str | None
    waiting: int
    """Including lost ones."""
    lost: int
    """Files that wait for a task that is no longer in the queue."""
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

    id: int
    path: str
    state: str
    reason: str | None
    failure_code: str | None
    failure_facts: Mapping[str, Any] | None
    host: str | None
    started: datetime | None
    ended: datetime | None
    new: int
    unchanged: int
    moved: int
    duplicates: int
    problems: int

    @property
    def failure(self) -> Failure | None:
        """Return why it failed, or waits again."""
        if self.failure_code is None and self.reason:
            return Failure(code=FailureCode.ARCHIVE_OTHER)
        return Failure.stored(self.failure_code, self.failure_facts)


def archive_status(session: Session) -> ArchiveStatus:
    """Return the current figures."""

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
        url_keys_complete=keys_complete(session),
        unused_indexes=unused_indexes(session),
    )


@dataclass(frozen=True, kw_only=True)
class IndexBacklog:
    """What waits to be indexed, and whether it moves."""

    waiting: int
    running: int
    lost: int
    """Files whose tasks are no longer in the queue."""
    since: datetime | None
    """When the oldest waiting file was queued, or the last file ended, whichever is later."""

    @property
    def state(self) -> str:
        """The judgement: fine, behind, or stuck."""
        if not self.waiting:
            return "fine"
        idle = self.since is not None and utc_now() - self.since > _IDLE
        return "stuck" if self.lost or (not self.running and idle) else "behind"


def index_backlog(session: Session) -> IndexBacklog:
    """Return what waits to be indexed."""
    waits = IndexFile.state == IndexFileState.WAITING
    row = session.execute(
        select(
            func.count().filter(waits),
            func.count().filter(IndexFile.state == IndexFileState.RUNNING),
            func.count().filter(is_lost()),
            func.greatest(func.min(IndexRun.queued).filter(waits), func.max(IndexFile.ended)),
        ).join(IndexRun, IndexRun.id == IndexFile.run_id)
    ).one()
    return IndexBacklog(waiting=row[0], running=row[1], lost=row[2], since=row[3])


def run_statuses(session: Session, *, limit: int = 20, before: int | None = None) -> list[RunStatus]:
    """Return the latest runs, newest first; those before the one numbered `before`."""
    # A run whose files have been deleted has nothing to show, and must not take space on a page.
    a_file = select(IndexFile.id).where(IndexFile.run_id == IndexRun.id).correlate(IndexRun).limit(1)
    latest = select(IndexRun).where(a_file.scalar_subquery().is_not(None))
    if before is not None:
        latest = latest.where(IndexRun.id < before)
    run = aliased(IndexRun, latest.order_by(IndexRun.id.desc()).limit(limit).subquery())
    # Counted run by run: a join might read the files of all runs.
    named = [number.label(name) for name, number in _run_numbers().items()]
    numbers = select(*named).where(IndexFile.run_id == run.id).lateral()
    rows = session.execute(select(run, numbers).join(numbers, true()).order_by(run.id.desc()))
    return [
        RunStatus(
            run_id=run.id,
            queued=run.queued,
            host=run.host,
            collection=run.collection,
            **{name: int(value) for name, value in zip(numbers.c.keys(), counts, strict=True)},
        )
        for run, *counts in rows
    ]


def _run_numbers() -> dict[str, ColumnElement[int]]:
    """Return the counts of each run, by the names in `RunStatus`."""
    over = IndexFile.state.in_((IndexFileState.DONE, IndexFileState.FAILED))
    return {
        **{state.value: func.count().filter(IndexFile.state == state) for state in IndexFileState},
        "lost": func.count().filter(is_lost()),
        "new": func.sum(IndexFile.new),
        "problems": func.sum(IndexFile.problems),
        "bytes_done": func.coalesce(func.sum(IndexFile.size).filter(over), 0),
        "bytes_total": func.coalesce(func.sum(IndexFile.size), 0),
    }


def run_file(row: IndexFile, *, lost: bool) -> RunFile:
    """Return the file as a value; a lost file gets that as its reason."""
    return from_row(RunFile, row, **({"reason": _LOST, **failure_columns(_TASK_LOST)} if lost else {}))
