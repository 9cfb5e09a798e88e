"""What to do when a list breaks: a pure choice from what broke, and what the list has shown of itself."""

from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum

from harvester.reading.errors import (
    ClientError,
    EndlessListError,
    NotOaiPmhError,
    OaiError,
)
from harvester.running.fetching import is_of_the_answer
from harvester.running.watching import ListWatch
from harvester.running.windows import Calendar, Window
from oai.datestamps import parse_datestamp
from oai.errors import RemoteError
from oai.failures import Failure, FailureCode
from oai.vocabulary import ErrorCode

_MOST_RESTARTS = 3
_TOKEN_REFUSED = frozenset({ErrorCode.BAD_RESUMPTION_TOKEN, ErrorCode.BAD_ARGUMENT})


class Remedy(StrEnum):
    """How the harvest goes on."""

    NONE = "end the run"
    NOTHING_THERE = "the window is empty"
    ENDED_EARLY = "treat the list as ended, unconfirmed"
    AGAIN = "start the list again"
    TAKE_UP = "continue from the largest datestamp"
    WHOLE_DAYS = "request again with whole days as bounds"
    DIVIDE = "divide the window around what cannot be read"

    @property
    def takes_time(self) -> bool:
        """Whether it counts as work around a fault, for which a run has so much time only."""
        return self in _TAKE_TIME


_TAKE_TIME = frozenset({Remedy.AGAIN, Remedy.TAKE_UP, Remedy.DIVIDE})


class RecoveryTimeError(RemoteError):
    """Working around faults has taken as long as a run may spend on it; `failure` has the limit."""

    def __init__(self, base_url: str, limit: float) -> None:
        facts = {"limit": round(limit), "setting": "harvester.max_recovery_seconds"}
        self.failure = Failure(code=FailureCode.RECOVERY_TIME, facts=facts)
        super().__init__(f"{base_url}: {self.failure.sentence()}")


@dataclass(frozen=True, kw_only=True)
class Breakage:
    """What broke, and where."""

    error: ClientError
    window: Window
    watch: ListWatch
    with_token: bool
    """Whether the request that failed had a token."""
    first: bool
    """Whether nothing at all of the repository's records has been read so far, in this run or before."""
    restarts: int
    """How often the list began again."""
    orderly: bool
    """Whether the list is in the order of datestamps, and nothing of the run speaks against it."""
    loose: bool


def remedy(broken: Breakage) -> Remedy:
    """What to do. A strict run recovers from expired tokens only, for they are no fault of an answer."""
    error = broken.error
    if isinstance(error, OaiError):
        return _after_oai_error(broken, error)
    if not broken.loose or not is_of_the_answer(error):
        return Remedy.NONE
    # Each shorter window would have as many pages with nothing new; a circle has a token that leads there.
    if isinstance(error, EndlessListError) and _has_nothing_new(error):
        return Remedy.NONE
    # A whole repository that answers with HTML or 404 is no OAI-PMH repository, not one with a bad record.
    if broken.first and not _may_be_one_record(error):
        return Remedy.NONE
    return Remedy.DIVIDE


def take_up(window: Window, watch: ListWatch, calendar: Calendar, overlap: float) -> Window | None:
    """The window again from the last page's first datestamp, less the overlap (seconds).

    None where the list is not in the order of datestamps, or that would be where it began.
    """
    if not watch.orderly:
        return None
    settled = parse_datestamp(watch.settled).moment
    for moment in (settled - timedelta(seconds=overlap), settled):
        from_ = calendar.write(moment)
        if window.from_ is None or moment > parse_datestamp(window.from_).moment:
            first = window.first_from if window.taken_up else window.from_
            return replace(window, from_=from_, taken_up=True, first_from=first)
    return None


def begin_again(window: Window) -> Window:
    """The window as it was before it was taken up from a later datestamp."""
    if not window.taken_up:
        return window
    return replace(window, from_=window.first_from, taken_up=False, first_from=None)


def _after_oai_error(broken: Breakage, error: OaiError) -> Remedy:
    if error.code == ErrorCode.NO_RECORDS_MATCH:
        if not broken.with_token and not broken.watch.pages:
            return Remedy.NOTHING_THERE
        return Remedy.DIVIDE if broken.loose and broken.watch.missing else Remedy.ENDED_EARLY
    if error.code == ErrorCode.BAD_ARGUMENT and not broken.with_token and broken.window.in_seconds:
        return Remedy.WHOLE_DAYS
    if not broken.with_token or error.code not in _TOKEN_REFUSED:
        return Remedy.NONE
    if broken.restarts >= _MOST_RESTARTS:
        return Remedy.DIVIDE
    return Remedy.TAKE_UP if broken.orderly else Remedy.AGAIN


def _has_nothing_new(error: EndlessListError) -> bool:
    return error.failure is not None and error.failure.code is not FailureCode.LIST_IN_CIRCLES


def _may_be_one_record(error: ClientError) -> bool:
    """Whether an answer that is the first of all may fail for one record's sake."""
    status = getattr(error, "status", 500)
    return not isinstance(error, NotOaiPmhError) and status >= 500  # noqa: PLR2004 HTTP's server errors
