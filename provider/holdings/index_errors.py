"""Indexing errors, page by page: files that failed, and records that cannot be read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from oai.failures import Failure
from oai.models import from_row
from provider.holdings.status import RunFile, is_lost, run_file
from provider.indexing.models import IndexFile, IndexFileState, IndexRun
from provider.models import Arc, ArcProblem


@dataclass(frozen=True, kw_only=True)
class FileProblem:
    """A place in an archive file that could not be read or indexed."""

    id: int
    file: str
    offset: int
    """Byte offset in the file as stored, compressed or not."""
    reason: str
    failure: Failure

    @property
    def failure_code(self) -> str:
        """Return the code of the failure."""
        return self.failure.code

    @property
    def failure_facts(self) -> Mapping[str, Any]:
        """Return the facts of the failure."""
        return self.failure.facts


def find_problems(session: Session, *, limit: int, before: int | None = None) -> Sequence[FileProblem]:
    """Return problems older than the one numbered `before`, newest first."""
    query = select(ArcProblem, Arc).join(Arc, Arc.id == ArcProblem.arc_id)
    if before is not None:
        query = query.where(ArcProblem.id < before)
    rows = session.execute(query.order_by(ArcProblem.id.desc()).limit(limit))
    return [from_row(FileProblem, problem, file=arc.place) for problem, arc in rows]


def find_run_files(
    session: Session, run_id: int, *, limit: int | None = None, after: int = 0, troubled: bool = False
) -> Sequence[RunFile]:
    """Return the files of a run in order, after the number `after`; with `troubled` only those with faults.

    Raises UsageError if the run does not exist.
    """
    if session.get(IndexRun, run_id) is None:
        raise UsageError(f"no indexing run {run_id}; list runs with `zatva provider status`")
    query = select(IndexFile, is_lost()).where(IndexFile.run_id == run_id, IndexFile.id > after)
    if troubled:
        query = query.where((IndexFile.state == IndexFileState.FAILED) | (IndexFile.problems > 0))
    rows = session.execute(query.order_by(IndexFile.id).limit(limit))
    return [run_file(row, lost=lost) for row, lost in rows]
