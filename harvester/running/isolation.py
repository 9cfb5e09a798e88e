"""Finds the records that break an answer: the window around them is divided until they are few.

A page that cannot be read says little of where its bad record is, and there is no token for the page behind
it. So the window of datestamps is asked for in two halves, and again, until its headers fit on one page; then
each record is fetched by itself, and only those that cannot be had are missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from harvester.client.protocol_client import ProtocolClient
from harvester.reading.answers import Page
from harvester.reading.errors import AnswerTooLargeError, ClientError, OaiError
from harvester.running.fetching import Allowance, is_of_the_answer
from harvester.running.planning import Plan
from harvester.running.watching import ListWatch
from harvester.running.windows import Calendar, Window, halves
from oai.datestamps import parse_datestamp
from oai.vocabulary import ErrorCode, Verb

_FEW = 500
"""So many records are fetched one by one rather than looked for in shorter windows."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """What to ask for in place of a window that cannot be read, and what that means, in words."""

    windows: Sequence[Window]
    remark: str
    hopeless: bool = False
    """Not even the headers can be had, and the window cannot be divided: it has to be left out."""


@dataclass(frozen=True, kw_only=True)
class Isolation:
    """Divides windows."""

    client: ProtocolClient
    plan: Plan
    allowance: Allowance

    async def divide(self, window: Window, watch: ListWatch) -> Division | None:
        """What to ask for in place of the window; None where the allowance is spent.

        Raises ClientError where the repository is not to be reached at all.
        """
        rest = _unread(window, watch, self.plan.calendar)
        shorter = halves(rest, self.plan.calendar)
        if not self.allowance.spend():
            return None
        try:
            page = await self._probe(rest)
        except OaiError as error:
            return self._after_oai_error(error, rest)
        except ClientError as error:
            # Where the headers alone are too large, no shorter window is to be expected to be smaller.
            if isinstance(error, AnswerTooLargeError) or not is_of_the_answer(error):
                raise
            return _halved(shorter) if shorter else _hopeless(rest, str(error))
        if not _selective(page, rest, self.plan.calendar):
            return self._unselective(window, "the repository does not select by datestamp")
        if window.one_by_one or page.cut_off:
            return _halved(shorter) if shorter else _hopeless(rest, "its headers cannot be read to the end")
        return _single(rest) if shorter is None or _few(page) else _halved(shorter)

    async def _probe(self, window: Window) -> Page:
        """The first page of the window's headers."""
        pages = self.client.pages(Verb.LIST_IDENTIFIERS, self.plan.selection(window), loose=True)
        return await anext(pages)

    def _after_oai_error(self, error: OaiError, window: Window) -> Division:
        if error.code == ErrorCode.NO_RECORDS_MATCH:
            return _hopeless(window, "it has no headers, although it has a page of records")
        if error.code == ErrorCode.BAD_ARGUMENT and (window.halvings or window.from_ != self.plan.from_):
            return self._unselective(window, f"the repository does not accept the bounds ({error.message})")
        return _hopeless(window, str(error))

    def _unselective(self, window: Window, reason: str) -> Division:
        """All records one by one, for there are no shorter windows; that is tried once."""
        if window.one_by_one:
            return _hopeless(window, reason)
        whole = Window(from_=self.plan.from_, one_by_one=True, halvings=window.halvings + 1)
        return Division(windows=[whole], remark=f"{reason}, so its records are fetched one by one")


def _unread(window: Window, watch: ListWatch, calendar: Calendar) -> Window:
    """The part of the window that the list has not shown, as far as its order tells."""
    if not watch.orderly:
        return window
    from_ = calendar.write(parse_datestamp(watch.settled).moment)
    return replace(window, from_=from_)


def _selective(page: Page, window: Window, calendar: Calendar) -> bool:
    """Whether the headers lie in the window; those that have no proper datestamp say nothing."""
    first, last = calendar.bounds(window)
    for header in page.headers:
        try:
            stamp = parse_datestamp(header.datestamp)
        except ValueError:
            continue
        if window.until and stamp.moment > last + calendar.grain:
            return False
        if window.from_ and stamp.last_second < first - calendar.grain:
            return False
    return True


def _few(page: Page) -> bool:
    """Whether the window's records are few enough to be fetched one by one."""
    count = len(page.headers) if not page.next_token else page.complete_list_size
    return count is not None and count <= _FEW


def _halved(shorter: tuple[Window, Window]) -> Division:
    first, second = shorter
    remark = f"requesting {first.in_words()}, then {second.in_words()}"
    return Division(windows=shorter, remark=remark)


def _single(window: Window) -> Division:
    alone = replace(window, one_by_one=True, halvings=window.halvings + 1, taken_up=False, first_from=None)
    return Division(windows=[alone], remark=f"fetching the records {window.in_words()} one by one")


def _hopeless(window: Window, reason: str) -> Division:
    return Division(
        windows=[], remark=f"the records {window.in_words()} are skipped: {reason}", hopeless=True
    )
