"""Whether everything that was asked for is here, judged from evidence."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from harvester.vocabulary import RunStatus
from oai.failures import Failure, FailureCode


class Verdict(StrEnum):
    """Whether everything asked for is here."""

    COMPLETE = "complete"
    PARTIAL = "partial"
    FAILED = "failed"


class End(StrEnum):
    """How a list, or with it the run, ended."""

    NO_TOKEN = "no token"  # noqa: S105 a protocol word, not a password
    EMPTY_TOKEN = "empty token"  # noqa: S105 a protocol word, not a password
    NO_RECORDS_MATCH = "noRecordsMatch"
    NO_RECORDS_MATCH_LATE = "noRecordsMatch in the middle"
    BROKEN_OFF = "broken off"
    GAVE_UP = "gave up"
    SAMPLE = "sample"
    HELD = "held"
    INTERRUPTED = "interrupted"
    LIMIT = "limit"
    """A limit was met: what came before it is stored, and a run with a higher limit resumes there."""
    ERROR = "error"


PROPER = frozenset({End.NO_TOKEN, End.EMPTY_TOKEN, End.NO_RECORDS_MATCH, End.NO_RECORDS_MATCH_LATE})
"""Ends after which nothing is left to go on from."""
_CUT_SHORT = frozenset({End.INTERRUPTED, End.BROKEN_OFF, End.GAVE_UP, End.LIMIT})


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a verdict rests on. Numbers of records are of the whole run, over all its lists."""

    end: End
    """Of the last list, or of the run."""
    listed: int
    """Entries of the lists, repeated and unreadable ones included."""
    changes: int
    """Records that were new, updated or deleted."""
    refused: int = 0
    """Records and parts of answers that could not be read or fetched."""
    mended: int = 0
    """Parts of answers that could not be read, of which the records that they name could be fetched."""
    missing: int = 0
    """Records that the server announced (completeListSize) and did not list."""
    unconfirmed: int = 0
    """Lists with something mended or taken up again of which the server did not say how long they are."""
    abrupt: int = 0
    """Lists that ended with a full page and no resumptionToken element."""
    late_no_match: int = 0
    """Lists that ended in noRecordsMatch instead of a last page, and did not have all that was announced."""
    complete_list_size: int | None = None
    """As the server said last; it may revise it (section 3.5)."""
    revised: int = 0
    repeated: int = 0
    empty_pages: int = 0
    """Pages without a record that gave a token."""
    lists: int = 0
    """Lists that came to an end: one, or one for each slice."""
    windows_left: int = 0
    restarts: int = 0
    """How often a list had to begin again, for its token was no longer good."""
    taken_up: int = 0
    """How often one was taken up again from the largest datestamp instead."""
    halvings: int = 0
    isolation_requests: int = 0
    tombstones: int = 0
    resumed_at: int = 0
    """Records that the run had before it was resumed."""
    held: str | None = None
    """What the run would do and may not without a person's yes."""
    lost: str | None = None
    """The process that had the run before, and ended without a word."""

    @property
    def stored(self) -> bool:
        """Whether any record came that could be read."""
        return self.listed > self.refused

    def as_json(self) -> dict[str, Any]:
        """For the history."""
        return asdict(self)


def judge(evidence: Evidence) -> tuple[Verdict, RunStatus]:
    """The verdict, and the run's status in the words that pages and tables share.

    Complete means that nothing speaks against it: every list came to its end, had as many different records
    as the server announced, and nothing was left out.
    """
    if evidence.held:
        return Verdict.PARTIAL, RunStatus.HELD
    if evidence.end is End.ERROR or (evidence.end is End.LIMIT and not evidence.stored):
        return Verdict.FAILED, RunStatus.FAILED
    if evidence.end in _CUT_SHORT or (evidence.windows_left and evidence.end is not End.SAMPLE):
        return Verdict.PARTIAL, RunStatus.INCOMPLETE
    sample = evidence.end is End.SAMPLE
    if evidence.refused or (doubts(evidence) and not sample):
        return Verdict.PARTIAL, RunStatus.COMPLETED_WITH_ERRORS
    if sample:
        return Verdict.PARTIAL, RunStatus.COMPLETED
    changed = evidence.changes or evidence.tombstones
    return Verdict.COMPLETE, RunStatus.COMPLETED if changed else RunStatus.NO_CHANGES


def doubts(evidence: Evidence) -> dict[str, Failure]:
    """What speaks against completeness although the lists ended, by technical words for it."""
    found = {}
    if evidence.held:
        found[evidence.held] = Failure(code=FailureCode.HELD)
    if evidence.missing:
        words = f"{evidence.missing:,} records that the repository announced are missing"
        found[words] = Failure(code=FailureCode.RECORDS_MISSING, facts={"count": evidence.missing})
    if evidence.abrupt:
        words = "a list ended with a full page and without the empty resumptionToken of a last page"
        found[words] = Failure(code=FailureCode.LIST_ENDED_ABRUPTLY)
    if evidence.late_no_match:
        words = "a list ended in noRecordsMatch instead of a last page"
        found[words] = Failure(code=FailureCode.LIST_ENDED_BY_ERROR)
    if evidence.unconfirmed:
        words = "an answer was broken, and the repository does not say how many records there are"
        found[words] = Failure(code=FailureCode.LIST_UNCONFIRMED)
    return found
