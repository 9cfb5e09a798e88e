"""Indexing runs in the tables: files that were queued together, and the progress of each.

Each step is a compare-and-swap on the file's state, so that two workers never process the same file, and
a file is never requeued twice.
"""

from collections.abc import Sequence
from typing import Final

from sqlalchemy import exists, func, insert, select, update
from sqlalchemy.orm import Session

from oai.failures import Failure, failure_columns
from provider.indexing.indexer import FileReport
from provider.indexing.models import IndexFile, IndexFileState, IndexRun
from provider.storage.places import Place, stored_path

MOST_TRIES: Final = 3
"""Maximum number of attempts for a file whose worker or process is killed."""


def add_run(session: Session, run: IndexRun, files: Sequence[tuple[Place, int]]) -> list[int]:
    """Add a run with its files (place and bytes) in this order; return the files' ids. The caller commits."""
    session.add(run)
    session.flush()
    rows = [{"run_id": run.id, "path": stored_path(path), "size": size} for path, size in files]
    session.execute(insert(IndexFile), rows)
    return list(
        session.scalars(select(IndexFile.id).where(IndexFile.run_id == run.id).order_by(IndexFile.id))
    )


def claim(session: Session, file_id: int, host: str) -> bool:
    """Claim a waiting file for this host; return whether it was still waiting. The caller commits."""
    taken = (
        update(IndexFile)
        .where(IndexFile.id == file_id, IndexFile.state == IndexFileState.WAITING)
        .values(
            state=IndexFileState.RUNNING,
            host=host,
            tries=IndexFile.tries + 1,
            started=func.clock_timestamp(),
            ended=None,
            reason=None,
            **failure_columns(None),
        )
        .returning(IndexFile.id)
    )
    return session.scalar(taken) is not None


def settle(session: Session, file_id: int, report: FileReport) -> None:
    """Store the result of a running file; it failed if it could not be read. The caller commits."""
    merged = report.merged
    problem = None if report.indexed else merged.problems[0]
    session.execute(
        update(IndexFile)
        .where(IndexFile.id == file_id, IndexFile.state == IndexFileState.RUNNING)
        .values(
            state=IndexFileState.DONE if report.indexed else IndexFileState.FAILED,
            reason=problem.reason if problem else None,
            **failure_columns(problem.failure if problem else None),
            ended=func.clock_timestamp(),
            new=merged.new,
            unchanged=merged.unchanged,
            moved=merged.moved,
            duplicates=merged.duplicates,
            problems=len(merged.problems),
        )
    )


def is_over(session: Session, file_id: int) -> bool:
    """Return whether no file of this file's run waits or is being indexed."""
    run = select(IndexFile.run_id).where(IndexFile.id == file_id).scalar_subquery()
    left = (IndexFileState.WAITING, IndexFileState.RUNNING)
    return not session.scalar(select(exists().where(IndexFile.run_id == run, IndexFile.state.in_(left))))


def give_back(session: Session, file_id: int, failure: Failure, reason: str, *, at_fault: bool) -> bool:
    """Return an abandoned file to waiting; return whether it waits and the caller has to queue it again.

    `reason` is the technical reason in English, which is stored beside the failure.
    If the file itself may be `at_fault`, for example because its process was killed, it fails after a few
    attempts. The caller commits.
    """
    # FOR UPDATE: of two processes that return the same file at once, the second one sees the first one's
    # result.
    row = session.get(IndexFile, file_id, with_for_update=True, populate_existing=True)
    if row is None or row.state in {IndexFileState.DONE, IndexFileState.FAILED}:
        return False
    row.reason, row.failure_code, row.failure_facts = reason, failure.code.value, dict(failure.facts)
    if at_fault and row.tries >= MOST_TRIES:
        row.state = IndexFileState.FAILED
        row.ended = func.clock_timestamp()
        return False
    row.state = IndexFileState.WAITING
    session.flush()
    return True
