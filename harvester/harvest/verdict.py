"""Judges from evidence whether everything requested has been received."""

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from harvester.vocabulary import RunStatus, Verdict
from oai.console import counted
from oai.failures import Failure, FailureCode


class End(StrEnum):
    """How a list, and with it the run, ended."""

    NO_TOKEN = "no token"  # noqa: S105 not a password
    EMPTY_TOKEN = "empty token"  # noqa: S105 not a password
    NO_RECORDS_MATCH = "noRecordsMatch"
    NO_RECORDS_MATCH_LATE = "noRecordsMatch in the middle"
    NO_NEXT_PAGE = "no next page"
    """Its last page has a token that is refused, or that leads to an empty page with the same token."""
    BROKEN_OFF = "broken off"
    GAVE_UP = "gave up"
    SAMPLE = "sample"
    HELD = "held"
    INTERRUPTED = "interrupted"
    LIMIT = "limit"
    """A limit was reached: earlier records are stored, and a run with a higher limit resumes there."""
    NO_ROOM = "no room"
    """A quota or the disk floor stopped it: a later run resumes there once there is room."""
    ERROR = "error"


PROPER = frozenset(
    {End.NO_TOKEN, End.EMPTY_TOKEN, End.NO_RECORDS_MATCH, End.NO_RECORDS_MATCH_LATE, End.NO_NEXT_PAGE}
)
"""Ends after which nothing is left to resume."""
_UNKNOWN = Failure(code=FailureCode.OTHER)
_UNCERTAIN = frozenset(
    {
        FailureCode.LIST_ENDED_ABRUPTLY,
        FailureCode.LIST_ENDED_BY_ERROR,
        FailureCode.LIST_UNCONFIRMED,
        FailureCode.TOKENS_REFUSED,
    }
)
_CUT_SHORT = frozenset({End.INTERRUPTED, End.BROKEN_OFF, End.GAVE_UP, End.LIMIT, End.NO_ROOM})


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The evidence for a verdict. Numbers of records refer to the whole run, over all its lists."""

    end: End
    """End of the last list, or of the run."""
    listed: int
    """Entries of the lists, including repeated and unreadable ones."""
    changes: int
    """Records that were new, updated or deleted."""
    refused: int = 0
    """Records and parts of answers that could not be read or fetched."""
    unread: int = 0
    """Date ranges that could not be listed, so that their records are unknown."""
    unread_for: Failure = _UNKNOWN
    """Why the first one could not be listed."""
    mended: int = 0
    """Unreadable parts of answers whose records could be fetched individually."""
    missing: int = 0
    """Records that the server announced (completeListSize) but did not list."""
    unconfirmed: int = 0
    """Lists with repaired parts, or with a token on the last page, whose size the server did not state."""
    tokens_refused: int = 0
    """Those of the unconfirmed lists whose first token was refused, however often they were requested."""
    abrupt: int = 0
    """Lists that ended with a full page and no resumptionToken element."""
    late_no_match: int = 0
    """Lists that ended with noRecordsMatch instead of a last page, before everything announced was listed."""
    complete_list_size: int | None = None
    """completeListSize as the server last stated it; the server may revise it (section 3.5)."""
    revised: int = 0
    repeated: int = 0
    empty_pages: int = 0
    """Pages with a token but without records."""
    lists: int = 0
    """Lists that ended: one, or one per slice."""
    windows_left: int = 0
    restarts: int = 0
    """Number of times a list started again: its token had expired, or it changed while it was read."""
    taken_up: int = 0
    """Number of times a list was instead continued from a later datestamp."""
    halvings: int = 0
    isolation_requests: int = 0
    tombstones: int = 0
    resumed_at: int = 0
    """Records of the run before it was resumed."""
    held: str | None = None
    """What the run would do but may not without a person's approval."""
    lost: str | None = None
    """The process that ran the harvest before and ended without writing an outcome."""

    @property
    def stored(self) -> bool:
        """Whether at least one readable record was received."""
        return self.listed > self.refused

    @property
    def unanswered(self) -> bool:
        """Whether no entry was listed because date ranges could not be."""
        return bool(self.unread) and not self.listed

    @property
    def sampled(self) -> bool:
        """Whether a sample was received, and nothing that was requested for it is missing."""
        return self.end is End.SAMPLE and not self.refused and not self.unread

    def as_json(self) -> dict[str, Any]:
        """Return the JSON value for the history, which has the cause in `failure_facts`."""
        return {name: value for name, value in asdict(self).items() if name != "unread_for"}


def judge(evidence: Evidence) -> tuple[Verdict, RunStatus]:
    """Return the verdict, and the run's status in the words that pages and tables share.

    Complete means that nothing speaks against it: every list ended, had as many different records as the
    server announced, and left none out. A run that could list nothing failed, unless it can be resumed.
    """
    if evidence.held:
        return Verdict.PARTIAL, RunStatus.HELD
    unfinished = evidence.windows_left and evidence.end is not End.SAMPLE
    cut_short = evidence.end in _CUT_SHORT or unfinished
    without_records = evidence.end is End.LIMIT and not evidence.stored
    if evidence.end is End.ERROR or without_records or (evidence.unanswered and not cut_short):
        return Verdict.FAILED, RunStatus.FAILED
    if cut_short:
        return Verdict.PARTIAL, RunStatus.INCOMPLETE
    if evidence.refused or doubts(evidence):
        return Verdict.PARTIAL, RunStatus.COMPLETED_WITH_ERRORS
    if evidence.sampled:
        return Verdict.PARTIAL, RunStatus.COMPLETED
    changed = evidence.changes or evidence.tombstones
    return Verdict.COMPLETE, RunStatus.COMPLETED if changed else RunStatus.NO_CHANGES


def doubts(evidence: Evidence) -> dict[str, Failure]:
    """Return the doubts about completeness of lists that ended, keyed by technical text.

    A sample is not meant to be complete: only what it could not list speaks against it.
    """
    found = {}
    if evidence.unread:
        cause = evidence.unread_for
        words = f"{counted(evidence.unread, 'date range')} could not be listed ({cause.code})"
        found[words] = unlisted(cause, count=evidence.unread)
    if evidence.end is End.SAMPLE:
        return found
    if evidence.held:
        found[evidence.held] = Failure(code=FailureCode.HELD)
    if evidence.windows_left and evidence.end in PROPER:
        were = "was" if evidence.windows_left == 1 else "were"
        words = f"{counted(evidence.windows_left, 'list')} {were} not requested"
        found[words] = Failure(code=FailureCode.INTERRUPTED)
    # Before the records that are missing because of it: the next harvest would not receive them, either.
    if evidence.tokens_refused:
        words = "the repository refuses its own resumption tokens"
        found[words] = Failure(code=FailureCode.TOKENS_REFUSED)
    if evidence.missing:
        are = "is" if evidence.missing == 1 else "are"
        words = f"{counted(evidence.missing, 'record')} that the repository announced {are} missing"
        found[words] = Failure(code=FailureCode.RECORDS_MISSING, facts={"count": evidence.missing})
    if evidence.abrupt:
        words = "a list ended with a full page and without the empty resumptionToken of a last page"
        found[words] = Failure(code=FailureCode.LIST_ENDED_ABRUPTLY)
    if evidence.late_no_match:
        words = "a list ended in noRecordsMatch instead of a last page"
        found[words] = Failure(code=FailureCode.LIST_ENDED_BY_ERROR)
    if evidence.unconfirmed > evidence.tokens_refused:
        words = "an answer was broken, or the last page had a token; the repository does not state a size"
        found[words] = Failure(code=FailureCode.LIST_UNCONFIRMED)
    return found


def is_uncertain(failure_code: str | None, *, rejected: int) -> bool:
    """Return whether a run may have received everything; of several doubts, its code is that of the first.

    `rejected` counts the records that it certainly lacks.
    """
    return failure_code in _UNCERTAIN and not rejected


def unlisted(cause: Failure, **facts: str | int) -> Failure:
    """Return the failure of date ranges that could not be listed because of another failure."""
    url = {"url": cause.facts["url"]} if "url" in cause.facts else {}
    return Failure(code=FailureCode.LIST_PARTLY_READ, facts={**facts, **url, "for": cause.as_json()})
