"""What follows from how a run ended: its evidence, exit code, reason in words, and the next watermark."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from harvester.reading.errors import MalformedAnswerError, ServerBusyError
from harvester.running.progress import Progress
from harvester.running.verdict import PROPER, End, Evidence, Verdict, doubts
from oai.datestamps import format_datestamp, read_moment
from oai.errors import ExitCode, ZatvaError, failure_of
from oai.failures import Failure, FailureCode
from oai.mishaps import mishap

_CHANGES = ("new", "updated", "deleted")
_FROM_TOTALS = (
    "mended", "missing", "unconfirmed", "abrupt", "late_no_match", "revised", "repeated", "empty_pages",
    "lists", "restarts", "taken_up", "halvings",
)  # fmt: skip
_ENDLESS = frozenset({FailureCode.LIST_IN_CIRCLES, FailureCode.NO_NEW_RECORDS})
_ENDS = {
    End.BROKEN_OFF: (
        "an answer was truncated before the end of the list, twice",
        Failure(code=FailureCode.DISCONNECTED),
    ),
    End.GAVE_UP: (
        "the search for the records that break an answer reached the limit isolation_requests",
        Failure(code=FailureCode.REQUESTS_SPENT, facts={"setting": "harvester.isolation_requests"}),
    ),
    End.INTERRUPTED: ("interrupted", Failure(code=FailureCode.INTERRUPTED)),
}


def gather(
    end: End,
    counts: Mapping[str, int],
    progress: Progress,
    *,
    complete_list_size: int | None,
    isolation_requests: int,
    resumed_at: int,
    lost: str | None,
) -> Evidence:
    """The evidence of a run that ends now."""
    return Evidence(
        end=end,
        listed=counts.get("records", 0) + counts.get("invalid", 0),
        changes=sum(counts.get(name, 0) for name in _CHANGES),
        refused=counts.get("invalid", 0),
        complete_list_size=complete_list_size,
        windows_left=len(progress.windows),
        isolation_requests=isolation_requests,
        tombstones=counts.get("tombstones", 0),
        resumed_at=resumed_at,
        lost=lost,
        held=None,
        **{name: progress.totals[name] for name in _FROM_TOTALS},
    )


def watermark(response_date: str | None, run_started: datetime) -> str | None:
    """The responseDate as a UTC datestamp, rounded down to the second; None where it is no date.

    Without it the next run begins where this one did. `run_started` is by our clock, with a time zone.
    """
    try:
        moment = read_moment(response_date or "")
    except ValueError:
        return None
    if moment.tzinfo is None:
        # Local time may be hours ahead of UTC: what changed in these hours must not be passed over.
        moment = min(moment.replace(tzinfo=UTC), run_started)
    return format_datestamp(moment)


def wait_until(error: Exception | None, now: datetime) -> datetime | None:
    """Until when the repository asked to be left alone, where it ended the run by that."""
    if isinstance(error, ServerBusyError) and error.seconds is not None:
        return now + timedelta(seconds=error.seconds)
    return None


def failure_reason(evidence: Evidence, error: Exception | None) -> str | None:
    """Why not everything is here, for people; None where it is, or what is missing was refused one by one."""
    if error is not None:
        return str(mishap(error) or f"{type(error).__name__}: {error}")
    if evidence.end in _ENDS:
        return _ENDS[evidence.end][0]
    return "; ".join(doubts(evidence)) or None if evidence.end is not End.SAMPLE else None


def failure(evidence: Evidence, error: Exception | None) -> Failure | None:
    """The same as a code with facts; of several doubts the first."""
    if error is not None:
        return failure_of(mishap(error) or error)
    if evidence.held:
        return Failure(code=FailureCode.HELD)
    if evidence.end in _ENDS:
        return _ENDS[evidence.end][1]
    return next(iter(doubts(evidence).values()), None) if evidence.end is not End.SAMPLE else None


def resumable(end: End, error: Exception | None) -> bool:
    """Whether the next run may go on where this one ended; an endless list would lead there again."""
    endless = error is not None and failure_of(error).code in _ENDLESS
    return end not in PROPER and end is not End.SAMPLE and not endless


def exit_code(evidence: Evidence, verdict: Verdict, error: Exception | None, *, strict: bool) -> ExitCode:
    """What the shell is told."""
    if error is not None:
        if strict and isinstance(error, MalformedAnswerError):
            return ExitCode.STRICT_CHECK
        return error.exit_code if isinstance(error, ZatvaError) else ExitCode.FAULT
    if evidence.end is End.INTERRUPTED:
        return ExitCode.INTERRUPTED
    if evidence.end is End.BROKEN_OFF:
        return ExitCode.REMOTE_FAILED
    if verdict is Verdict.COMPLETE or (evidence.end is End.SAMPLE and not evidence.refused):
        return ExitCode.DONE
    return ExitCode.STRICT_CHECK if strict else ExitCode.RECORDS_REFUSED
