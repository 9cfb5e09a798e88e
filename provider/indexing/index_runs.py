"""Indexing runs in the tables: files that were queued together, and how far each of them is.

Each step is a compare-and-swap on the file's state, so that no two workers have one file in hand, and none is
put back twice.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from sqlalchemy import func, insert, select, update
from sqlalchemy.orm import Session

from provider.indexing.indexer import FileReport
from provider.models import IndexFile, IndexFileState, IndexRun

MOST_TRIES: Final = 3
"""How often a file is begun whose worker or process ends by force."""


def add_run(session: Session, run: IndexRun, files: Sequence[tuple[Path, int]]) -> list[int]:
    """Add a run with its files (path and bytes), in this order; gives the files' ids. The caller commits."""
    session.add(run)
    session.flush()
    rows = [{"run_id": run.id, "path": str(path), "size": size} for path, size in files]
    session.execute(insert(IndexFile), rows)
    return list(
        session.scalars(select(IndexFile.id).where(IndexFile.run_id == run.id).order_by(IndexFile.id))
    )


def claim(session: Session, file_id: int, host: str) -> bool:
    """Take a waiting file for this host; whether it was still waiting. The caller commits."""
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
        )
        .returning(IndexFile.id)
    )
    return session.scalar(taken) is not None


def settle(session: Session, file_id: int, report: FileReport) -> None:
    """Write down what became of a file that ran; it failed if it could not be read. The caller commits."""
    merged = report.merged
    session.execute(
        update(IndexFile)
        .where(IndexFile.id == file_id, IndexFile.state == IndexFileState.RUNNING)
        .values(
            state=IndexFileState.DONE if report.indexed else IndexFileState.FAILED,
            reason=None if report.indexed else merged.problems[0].reason,
            ended=func.clock_timestamp(),
            new=merged.new,
            unchanged=merged.unchanged,
            moved=merged.moved,
            duplicates=merged.duplicates,
            problems=len(merged.problems),
        )
    )


def give_back(session: Session, file_id: int, reason: str, *, at_fault: bool) -> bool:
    """Let a file that nobody indexes any more wait again; whether it does, for somebody has to queue it then.

    Where the file may be `at_fault` itself, as when its process was killed, it fails after a few tries. The
    caller commits.
    """
    row = session.get(IndexFile, file_id, with_for_update=True, populate_existing=True)
    if row is None or row.state in {IndexFileState.DONE, IndexFileState.FAILED}:
        return False
    row.reason = reason
    if at_fault and row.tries >= MOST_TRIES:
        row.state = IndexFileState.FAILED
        row.ended = func.clock_timestamp()
        return False
    row.state = IndexFileState.WAITING
    session.flush()
    return True
