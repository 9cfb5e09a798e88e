"""Recovery when a list breaks: chooses a remedy from error and evidence, and divides broken windows."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum

from harvester.client.protocol_client import ProtocolClient
from harvester.harvest.fetch import RequestBudget, is_of_the_answer
from harvester.harvest.list_evidence import ListWatch
from harvester.harvest.plan import RunPlan
from harvester.harvest.source import MissingAnswerError
from harvester.harvest.windows import Calendar, Window, halves, parts_by_datestamps
from harvester.reading.answers import Page
from harvester.reading.errors import (
    AnswerTooLargeError,
    ClientError,
    EndlessListError,
    HttpStatusError,
    NotOaiPmhError,
    OaiError,
)
from oai.datestamps import parse_datestamp
from oai.errors import RemoteError, failure_of
from oai.failures import Failure, FailureCode
from oai.reach import without_credentials
from oai.vocabulary import ErrorCode, Verb

_MOST_RESTARTS = 3
_TOKEN_REFUSED = frozenset({ErrorCode.BAD_RESUMPTION_TOKEN, ErrorCode.BAD_ARGUMENT})
_FEW = 500
"""Up to this number, records are fetched one by one rather than located in shorter windows."""


class Remedy(StrEnum):
    """How the harvest continues."""

    NONE = "end the run"
    NOTHING_THERE = "the window is empty"
    ENDED_EARLY = "treat the list as ended, unconfirmed"
    CONFIRMED = "treat the list as ended, because its size confirms it"
    NO_NEXT_PAGE = "treat the list as ended, unconfirmed, because the token of its last page leads nowhere"
    TOKENS_REFUSED = "treat the list as ended, unconfirmed, because the repository refuses all its tokens"
    AGAIN = "start the list again"
    TAKE_UP = "continue from the largest datestamp"
    OTHER_BOUNDS = "request again without a first datestamp before the earliest one, or in whole days"
    DIVIDE = "divide the window around what cannot be read"

    @property
    def takes_time(self) -> bool:
        """Whether it counts as work around a fault, the time for which is limited per run."""
        return self in _TAKE_TIME


_TAKE_TIME = frozenset({Remedy.AGAIN, Remedy.TAKE_UP, Remedy.DIVIDE})


class RecoveryTimeError(RemoteError):
    """Working around faults has taken the maximum time that a run may spend; `failure` has the limit."""

    def __init__(self, base_url: str, limit: float) -> None:
        facts = {"limit": round(limit), "setting": "harvester.max_recovery_seconds"}
        self.failure = Failure(code=FailureCode.RECOVERY_TIME, facts=facts)
        super().__init__(f"{without_credentials(base_url)}: {self.failure.sentence()}")


class NoListError(Exception):
    """The repository answers requests for lists neither with a page nor with an error of OAI-PMH."""


@dataclass(frozen=True, kw_only=True)
class BrokenAnswer:
    """What broke, and where."""

    error: ClientError
    window: Window
    watch: ListWatch
    with_token: bool
    """Whether the failed request had a token."""
    stored_token: bool = False
    """Whether that token is from an earlier process, so that it may have expired since."""
    first: bool
    """Whether no record of the repository has been read so far, in this run or before its interruption."""
    restarts: int
    """Number of times the list has been started again."""
    orderly: bool
    """Whether the list is sorted by datestamp, with no contrary evidence in the run."""
    before_earliest: bool
    """Whether the window begins before the repository's earliestDatestamp, which some servers refuse."""
    loose: bool


def remedy(broken: BrokenAnswer) -> Remedy:
    """Return the remedy; a strict run recovers only from expired tokens, which are no fault of an answer."""
    error = broken.error
    if isinstance(error, OaiError):
        return _after_oai_error(broken, error)
    if not broken.loose:
        return _requested_again(broken) if broken.stored_token and _may_refuse_token(error) else Remedy.NONE
    if not is_of_the_answer(error):
        return Remedy.NONE
    if isinstance(error, EndlessListError):
        return _after_endless_list(broken.watch, error)
    # If all answers are HTML or 404, this is no OAI-PMH repository, rather than one with a bad record.
    if broken.first and not _may_be_one_record(error):
        return Remedy.NONE
    return Remedy.DIVIDE


def take_up(window: Window, watch: ListWatch, calendar: Calendar, overlap: float) -> Window | None:
    """Return the window again from the last page's first datestamp, less the overlap (seconds).

    None if the list is not sorted by datestamp, or if it would begin where it began before.
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
    """Return the window as it was before it was continued from a later datestamp."""
    if not window.taken_up:
        return window
    return replace(window, from_=window.first_from, taken_up=False, first_from=None)


def _after_oai_error(broken: BrokenAnswer, error: OaiError) -> Remedy:
    if error.code == ErrorCode.NO_RECORDS_MATCH:
        if not broken.with_token and not broken.watch.pages:
            return Remedy.NOTHING_THERE
        return Remedy.DIVIDE if broken.loose and broken.watch.missing else Remedy.ENDED_EARLY
    other = broken.before_earliest or broken.window.in_seconds
    if error.code == ErrorCode.BAD_ARGUMENT and not broken.with_token and other:
        return Remedy.OTHER_BOUNDS
    if not broken.with_token or error.code not in _TOKEN_REFUSED:
        return Remedy.NONE
    return _after_refused_token(broken, broken.watch)


def _after_refused_token(broken: BrokenAnswer, watch: ListWatch) -> Remedy:
    """Return the remedy for a token that has expired, or that a last page has without need."""
    if watch.ends_by_size:
        return Remedy.CONFIRMED
    if broken.window.halvings and is_of_first_page(watch, broken.error) and watch.seems_ended:
        return Remedy.TOKENS_REFUSED
    if watch.has_nothing_more:
        return Remedy.NO_NEXT_PAGE
    asked_again = watch.before is not None or not watch.seems_ended
    if broken.restarts >= _MOST_RESTARTS and asked_again:
        return Remedy.DIVIDE
    return _requested_again(broken)


def is_of_first_page(watch: ListWatch, error: ClientError) -> bool:
    """Return whether the repository refused the token of a list's first page: no record is unreadable."""
    return watch.pages == 1 and isinstance(error, OaiError) and error.code in _TOKEN_REFUSED


def _requested_again(broken: BrokenAnswer) -> Remedy:
    return Remedy.TAKE_UP if broken.orderly else Remedy.AGAIN


def _may_refuse_token(error: ClientError) -> bool:
    """Return whether some servers answer an expired token like this instead of by badResumptionToken."""
    answered = isinstance(error, (HttpStatusError, NotOaiPmhError))
    return answered and failure_of(error).code is not FailureCode.HTTP_FORBIDDEN


def _after_endless_list(watch: ListWatch, error: EndlessListError) -> Remedy:
    if watch.ends_by_size:
        return Remedy.CONFIRMED
    # Every shorter window would have as many pages without new records; a circular list leads back by its
    # token.
    if error.failure is not None and error.failure.code is not FailureCode.LIST_IN_CIRCLES:
        return Remedy.NONE
    leads_to_itself = error.empty and not watch.last_page
    return Remedy.NO_NEXT_PAGE if leads_to_itself and watch.seems_ended else Remedy.DIVIDE


def _may_be_one_record(error: ClientError) -> bool:
    """Return whether a single record may be the reason why the very first answer failed."""
    status = getattr(error, "status", 500)
    return not isinstance(error, NotOaiPmhError) and status >= 500  # noqa: PLR2004 server errors of HTTP


@dataclass(frozen=True, kw_only=True)
class SplitWindow:
    """The windows that replace an unreadable window, and a remark that explains them."""

    windows: Sequence[Window]
    """Empty if it is skipped, or if its list ends with the page whose token was refused."""
    remark: str
    skipped: Window | None = None
    """What has to be skipped: not even its headers can be read, and it cannot be divided."""
    dateless: bool = False
    """The repository ignores datestamps, so that other windows would have the same list."""


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """Divides windows."""

    client: ProtocolClient
    plan: RunPlan
    budget: RequestBudget
    unanswered: bool
    """Whether the repository has not answered any request for a list so far."""
    token_refused: bool = False
    """Whether the window is divided because the token of its first page is refused."""

    async def divide(self, window: Window, watch: ListWatch) -> SplitWindow | None:
        """Return what to request in place of the window; None if the budget is used up.

        Raises ClientError if the repository cannot be reached at all, NoListError if it answers no list.
        """
        rest = _unread(window, watch, self.plan.calendar)
        shorter = halves(rest, self.plan.calendar)
        if not self.budget.spend():
            return None
        try:
            page = await self._probe(rest)
        except OaiError as error:
            return self._after_oai_error(error, rest)
        except ClientError as error:
            # If the headers alone are too large, a shorter window cannot be expected to be smaller.
            if isinstance(error, AnswerTooLargeError) or not is_of_the_answer(error):
                raise
            # Where every list fails, each of thousands of shorter windows would fail as well.
            if self.unanswered and not await self._answers_short_list():
                raise NoListError from error
            return _halved(shorter) if shorter else _skipped(rest, str(error))
        return self._after_page(page, window, rest)

    def _after_page(self, page: Page, window: Window, rest: Window) -> SplitWindow:
        """Return what to request in place of the rest of the window, of whose headers this is a page."""
        shorter = halves(rest, self.plan.calendar)
        places = _places(page, rest, self.plan.calendar)
        if self.token_refused:
            return self._between_datestamps(page, rest, selective=all(places))
        if not all(places):
            unselective = self._unselective(window, "the repository does not select by datestamp")
            return replace(unselective, dateless=not any(places))
        if window.one_by_one or page.cut_off:
            return _halved(shorter) if shorter else _skipped(rest, "its headers cannot be read to the end")
        return _single(rest) if shorter is None or _few(page) else _halved(shorter)

    def _between_datestamps(self, page: Page, window: Window, *, selective: bool) -> SplitWindow:
        """Divide the window by the page's first and last datestamp.

        If the page is the whole list, one part has fewer records or none, which shows that it is.
        """
        stamps = sorted(_datestamps(page)) if selective else []
        shorter = parts_by_datestamps(window, self.plan.calendar, stamps[0], stamps[-1]) if stamps else None
        if shorter is None:
            return SplitWindow(windows=[], remark="its records have no datestamps by which it can be divided")
        return _halved(shorter)

    async def _probe(self, window: Window) -> Page:
        """Return the first page of the window's headers."""
        pages = self.client.pages(Verb.LIST_IDENTIFIERS, self.plan.selection(window), loose=True)
        return await anext(pages)

    async def _answers_short_list(self) -> bool:
        """Return whether the repository answers, even with an error, a list of the latest records alone."""
        times = self.plan.calendar
        shortest = Window(from_=times.write(times.latest - times.resolution), until=times.write(times.latest))
        if not self.budget.spend():
            return False
        try:
            await self._probe(shortest)
        except (OaiError, MissingAnswerError):  # a run of an earlier version, which is replayed, lacks it
            return True
        except ClientError:
            return False
        return True

    def _after_oai_error(self, error: OaiError, window: Window) -> SplitWindow:
        if error.code == ErrorCode.NO_RECORDS_MATCH:
            return _skipped(window, "it has no headers, although it has a page of records")
        if error.code == ErrorCode.BAD_ARGUMENT and (window.halvings or window.from_ != self.plan.from_):
            return self._unselective(window, f"the repository does not accept the bounds ({error.message})")
        return _skipped(window, str(error))

    def _unselective(self, window: Window, reason: str) -> SplitWindow:
        """Fetch all records one by one, because there are no shorter windows; this is tried once."""
        if window.one_by_one:
            return _skipped(window, reason)
        whole = Window(from_=self.plan.from_, one_by_one=True, halvings=window.halvings + 1)
        return SplitWindow(windows=[whole], remark=f"{reason}, so its records are fetched one by one")


def _unread(window: Window, watch: ListWatch, calendar: Calendar) -> Window:
    """Return the part of the window that the list has not shown, as far as it is sorted."""
    if not watch.orderly:
        return window
    # A list that ignores the bounds begins before the window, which must not grow, or divisions never end.
    settled = max(parse_datestamp(watch.settled).moment, calendar.bounds(window)[0])
    return replace(window, from_=calendar.write(settled))


def _places(page: Page, window: Window, calendar: Calendar) -> list[bool]:
    """Return for each header whether it falls within the window, except those without a valid datestamp."""
    first, last = calendar.bounds(window)
    found = []
    for header in page.headers:
        try:
            stamp = parse_datestamp(header.datestamp)
        except ValueError:
            continue
        late = window.until and stamp.moment > last + calendar.resolution
        early = window.from_ and stamp.last_second < first - calendar.resolution
        found.append(not (late or early))
    return found


def _datestamps(page: Page) -> Iterator[datetime]:
    for header in page.headers:
        with contextlib.suppress(ValueError):
            yield parse_datestamp(header.datestamp).moment


def _few(page: Page) -> bool:
    """Return whether the window has few enough records to fetch them one by one."""
    count = len(page.headers) if not page.next_token else page.complete_list_size
    return count is not None and count <= _FEW


def _halved(shorter: tuple[Window, Window]) -> SplitWindow:
    first, second = shorter
    remark = f"requesting {first.in_words()}, then {second.in_words()}"
    return SplitWindow(windows=shorter, remark=remark)


def _records(window: Window) -> str:
    bounded = window.from_ or window.until
    return f"the records {window.in_words()}" if bounded else "all records"


def _single(window: Window) -> SplitWindow:
    alone = replace(window, one_by_one=True, halvings=window.halvings + 1, taken_up=False, first_from=None)
    return SplitWindow(windows=[alone], remark=f"fetching {_records(window)} one by one")


def _skipped(window: Window, reason: str) -> SplitWindow:
    return SplitWindow(windows=[], remark=f"{_records(window)} are skipped: {reason}", skipped=window)
