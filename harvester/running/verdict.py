"""Whether everything that was asked for is here, judged from evidence."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from harvester.models import RunStatus


class Verdict(StrEnum):
    """Whether everything asked for is here."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"


class End(StrEnum):
    """How a list ended."""

    NO_TOKEN = "no token"  # noqa: S105 a protocol word, not a password
    EMPTY_TOKEN = "empty token"  # noqa: S105 a protocol word, not a password
    NO_RECORDS_MATCH = "noRecordsMatch"
    BROKEN_OFF = "broken off"
    SAMPLE = "sample"
    INTERRUPTED = "interrupted"
    ERROR = "error"


PROPER = frozenset({End.NO_TOKEN, End.EMPTY_TOKEN, End.NO_RECORDS_MATCH})


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a verdict rests on."""

    end: End
    listed: int
    """Entries of the list, repeated and unreadable ones included."""
    changes: int
    """Records that were new, updated or deleted."""
    refused: int = 0
    """Records that could not be read or fetched."""
    complete_list_size: int | None = None
    """As the server said last; it may revise it (section 3.5)."""
    repeated: int = 0
    tombstones: int = 0
    resumed_at: int = 0
    """Records that the run had before it was resumed."""

    @property
    def missing(self) -> int:
        """Records that the server announced and did not list."""
        if self.complete_list_size is None or self.end is End.NO_RECORDS_MATCH:
            return 0
        return max(self.complete_list_size - self.listed, 0)

    def as_json(self) -> dict[str, Any]:
        """For the history."""
        return {**asdict(self), "missing": self.missing}


def judge(evidence: Evidence) -> tuple[Verdict, RunStatus]:
    """The verdict, and the run's status in the words that pages and tables share."""
    if evidence.end is End.ERROR:
        return Verdict.FAILED, RunStatus.FAILED
    if evidence.end in {End.INTERRUPTED, End.BROKEN_OFF}:
        return Verdict.PARTIAL, RunStatus.INCOMPLETE
    if evidence.refused:
        return Verdict.PARTIAL, RunStatus.COMPLETED_WITH_ERRORS
    if evidence.end is End.SAMPLE:
        return Verdict.PARTIAL, RunStatus.COMPLETED
    if evidence.missing:
        return Verdict.PARTIAL, RunStatus.COMPLETED_WITH_ERRORS
    changed = evidence.changes or evidence.tombstones
    return Verdict.COMPLETE, RunStatus.COMPLETED if changed else RunStatus.NO_CHANGES
