"""The remedy for a broken list, case by case."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from harvester.harvest.fetch import RequestBudget
from harvester.harvest.list_evidence import ListWatch
from harvester.harvest.recovery import BrokenAnswer, Remedy, begin_again, remedy, take_up
from harvester.harvest.result import resumable
from harvester.harvest.verdict import End
from harvester.harvest.windows import Window, calendar
from harvester.reading.errors import (
    EndlessListError,
    HttpStatusError,
    MalformedAnswerError,
    NotOaiPmhError,
    OaiError,
    TransportError,
    TransportKind,
)
from oai.failures import Failure, FailureCode, explained
from oai.vocabulary import Granularity

URL = "http://x/oai"
CIRCLES = Failure(code=FailureCode.LIST_IN_CIRCLES, facts={"token": "t"})
EMPTY = Failure(code=FailureCode.EMPTY_PAGES, facts={"pages": 100, "setting": "harvester.max_empty_pages"})
REPEATED = Failure(
    code=FailureCode.NO_NEW_RECORDS, facts={"pages": 20, "setting": "harvester.max_repeated_pages"}
)
EXPIRED = OaiError(URL, "badResumptionToken", "expired")
NONE_MATCH = OaiError(URL, "noRecordsMatch", "")
BROKEN = MalformedAnswerError(URL, "not well-formed")
HTML = NotOaiPmhError(URL, "an HTML page", b"<html>")
STAYS = HttpStatusError(URL, 500)
KILLED = TransportError(URL, TransportKind.DISCONNECTED, "the connection was lost")
SHORT = ListWatch(pages=3, listed=25, longest_page=10, last_page=5)
SIZED = ListWatch(pages=3, listed=25, longest_page=10, size=40, largest=40)
CASES: dict[str, tuple[dict[str, Any], Remedy]] = {
    "an expired token": ({"error": EXPIRED}, Remedy.AGAIN),
    "an expired token, strictly": ({"error": EXPIRED, "loose": False}, Remedy.AGAIN),
    "an expired token of an ordered list": ({"error": EXPIRED, "orderly": True}, Remedy.TAKE_UP),
    "a token that always expires": ({"error": EXPIRED, "restarts": 3}, Remedy.DIVIDE),
    "a token that always expires, strictly": (
        {"error": EXPIRED, "restarts": 3, "loose": False}, Remedy.DIVIDE
    ),
    "an expired token that is answered by 404, strictly": (
        {"error": HttpStatusError(URL, 404), "loose": False, "stored_token": True}, Remedy.AGAIN
    ),
    "an expired token that is answered by HTML, strictly": (
        {"error": HTML, "loose": False, "stored_token": True, "orderly": True}, Remedy.TAKE_UP
    ),
    "a stored token and a server that is not allowed to answer, strictly": (
        {"error": HttpStatusError(URL, 403), "loose": False, "stored_token": True}, Remedy.NONE
    ),
    "a stored token and a broken page, strictly": (
        {"error": BROKEN, "loose": False, "stored_token": True}, Remedy.NONE
    ),
    "a 500 in the middle, strictly": ({"error": STAYS, "loose": False}, Remedy.NONE),
    "badResumptionToken without a token": ({"error": EXPIRED, "with_token": False}, Remedy.NONE),
    "badArgument for a token": ({"error": OaiError(URL, "badArgument", "")}, Remedy.AGAIN),
    "badArgument for a first request": (
        {"error": OaiError(URL, "badArgument", ""), "with_token": False}, Remedy.NONE
    ),
    "an empty window": ({"error": NONE_MATCH, "with_token": False}, Remedy.NOTHING_THERE),
    "noRecordsMatch with a token": ({"error": NONE_MATCH}, Remedy.ENDED_EARLY),
    "a broken page": ({"error": BROKEN}, Remedy.DIVIDE),
    "a broken page, strictly": ({"error": BROKEN, "loose": False}, Remedy.NONE),
    "a broken first page": ({"error": BROKEN, "first": True, "with_token": False}, Remedy.DIVIDE),
    "HTML in the middle": ({"error": HTML}, Remedy.DIVIDE),
    "HTML from the start": ({"error": HTML, "first": True, "with_token": False}, Remedy.NONE),
    "a 500 that stays": ({"error": STAYS}, Remedy.DIVIDE),
    "a 500 that stays, from the start": ({"error": STAYS, "first": True}, Remedy.DIVIDE),
    "a 404 from the start": ({"error": HttpStatusError(URL, 404), "first": True}, Remedy.NONE),
    "a record that kills the server": ({"error": KILLED}, Remedy.DIVIDE),
    "no host": ({"error": TransportError(URL, TransportKind.DNS, "")}, Remedy.NONE),
    "a refused connection": ({"error": TransportError(URL, TransportKind.REFUSED, "")}, Remedy.NONE),
    "a list in circles": ({"error": EndlessListError(URL, CIRCLES)}, Remedy.DIVIDE),
    "a list in circles, strictly": ({"error": EndlessListError(URL, CIRCLES), "loose": False}, Remedy.NONE),
    "a list in circles, of which all that was announced has come": (
        {"error": EndlessListError(URL, CIRCLES), "watch": ListWatch(listed=25, size=25, longest_page=10)},
        Remedy.CONFIRMED,
    ),
    "an empty page that leads to itself": (
        {"error": EndlessListError(URL, CIRCLES, empty=True), "watch": ListWatch(pages=2, listed=25)},
        Remedy.NO_NEXT_PAGE,
    ),
    "an empty page that leads to itself, and records lack": (
        {"error": EndlessListError(URL, CIRCLES, empty=True), "watch": SIZED}, Remedy.DIVIDE
    ),
    "an empty page in a circle of pages with records": (
        {"error": EndlessListError(URL, CIRCLES, empty=True), "watch": SHORT}, Remedy.DIVIDE
    ),
    "a refused token after all that was announced": (
        {"error": EXPIRED, "watch": ListWatch(listed=25, size=25, longest_page=10), "loose": False},
        Remedy.CONFIRMED,
    ),
    "a refused token after a short page": ({"error": EXPIRED, "watch": SHORT}, Remedy.AGAIN),
    "a refused token after a short page, often before": (
        {"error": EXPIRED, "watch": SHORT, "restarts": 3}, Remedy.AGAIN
    ),
    "a refused token at the same place again": (
        {"error": EXPIRED, "watch": replace(SHORT, before=25), "orderly": True}, Remedy.NO_NEXT_PAGE
    ),
    "a refused token of a short first page, in a divided list": (
        {
            "error": EXPIRED,
            "watch": ListWatch(pages=1, listed=5, longest_page=5, last_page=5, full_page=10),
            "window": Window(halvings=1),
            "restarts": 3,
        },
        Remedy.TOKENS_REFUSED,
    ),
    "a refused token at another place, often before": (
        {"error": EXPIRED, "watch": replace(SHORT, before=20), "restarts": 3}, Remedy.DIVIDE
    ),
    "a refused token after a full page at the same place again": (
        {"error": EXPIRED, "watch": replace(SHORT, before=25, last_page=10), "restarts": 3}, Remedy.DIVIDE
    ),
    "a refused token at the same place again, and records lack": (
        {"error": EXPIRED, "watch": replace(SIZED, before=25), "restarts": 3}, Remedy.DIVIDE
    ),
    "a refused token after as many records as a server may list at most": (
        {"error": EXPIRED, "watch": replace(SHORT, listed=10_000, before=10_000), "restarts": 3},
        Remedy.DIVIDE,
    ),
    "a list that never fills": ({"error": EndlessListError(URL, EMPTY)}, Remedy.NONE),
    "a list that has nothing new": ({"error": EndlessListError(URL, REPEATED)}, Remedy.NONE),
    "noRecordsMatch with a token, and records lack": (
        {"error": NONE_MATCH, "watch": ListWatch(pages=1, listed=10, size=25)}, Remedy.DIVIDE
    ),
    "badArgument for bounds in seconds": (
        {
            "error": OaiError(URL, "badArgument", ""),
            "with_token": False,
            "window": Window(from_="2024-01-01T00:00:00Z"),
        },
        Remedy.OTHER_BOUNDS,
    ),
    "badArgument for a list from before the earliest datestamp": (
        {
            "error": OaiError(URL, "badArgument", ""),
            "with_token": False,
            "window": Window(from_="2024-01-01T00:00:00Z"),
            "before_earliest": True,
        },
        Remedy.OTHER_BOUNDS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_remedy_follows_from_the_fault(name: str) -> None:
    given, expected = CASES[name]
    usual: dict[str, Any] = {
        "window": Window(), "watch": ListWatch(), "with_token": True, "first": False, "restarts": 0,
        "orderly": False, "before_earliest": False, "loose": True,
    }  # fmt: skip
    assert remedy(BrokenAnswer(**(usual | given))) == expected


def orderly(settled: str) -> ListWatch:
    return ListWatch(rises=9, settled=settled, highest=settled)


TIMES = calendar(Granularity.SECOND, None, datetime(2024, 6, 1, tzinfo=UTC))


def test_a_list_is_continued_from_shortly_before_its_last_datestamp() -> None:
    later = take_up(Window(until="2024-05-01T00:00:00Z"), orderly("2024-03-01T00:01:00Z"), TIMES, 60)
    assert later is not None
    assert (later.from_, later.until) == ("2024-03-01T00:00:00Z", "2024-05-01T00:00:00Z")
    assert begin_again(later) == Window(until="2024-05-01T00:00:00Z")


def test_a_list_continued_twice_can_still_restart_from_its_first_date() -> None:
    first = take_up(Window(from_="2020-01-01T00:00:00Z"), orderly("2024-03-01T00:01:00Z"), TIMES, 60)
    assert first is not None
    second = take_up(first, orderly("2024-04-01T00:00:00Z"), TIMES, 60)
    assert second is not None
    assert begin_again(second) == Window(from_="2020-01-01T00:00:00Z")


def test_a_list_is_not_continued_from_its_own_start_or_if_it_is_unordered() -> None:
    window = Window(from_="2024-03-01T00:00:30Z")
    assert take_up(window, orderly("2024-03-01T00:00:30Z"), TIMES, 60) is None
    nearer = take_up(window, orderly("2024-03-01T00:01:00Z"), TIMES, 60)
    assert nearer is not None
    assert nearer.from_ == "2024-03-01T00:01:00Z"
    assert take_up(Window(), ListWatch(), TIMES, 60) is None


class Clock:
    """Seconds that pass only when a test adds them."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


def test_the_time_for_working_around_faults_is_limited() -> None:
    clock = Clock()
    budget = RequestBudget(left=100, seconds=60, clock=clock)
    clock.seconds += 500
    assert budget.spend()
    with budget.working():
        clock.seconds += 59
        assert budget.spend()
        clock.seconds += 1
        assert (budget.is_late, budget.spend()) == (True, False)
    clock.seconds += 500
    assert (budget.is_late, budget.spent) == (True, 2)


def test_concurrent_work_counts_once_and_failed_work_counts_afterwards() -> None:
    clock = Clock()
    budget = RequestBudget(left=100, seconds=60, clock=clock)
    with budget.working():
        clock.seconds += 10
        with budget.working():
            clock.seconds += 20
    begun = budget.begin()
    clock.seconds += 29
    budget.count_since(begun)
    assert not budget.is_late
    begun = budget.begin()
    clock.seconds += 1
    budget.count_since(begun)
    assert budget.is_late


def test_requests_that_are_sent_again_count_once_while_a_fault_is_worked_around() -> None:
    sent = iter([1, 4, 4, 9])
    budget = RequestBudget(left=6, resent=lambda: next(sent))
    with budget.working(), budget.working():
        assert budget.spend()
    assert (budget.left, budget.spent) == (2, 4)
    budget.count_since(budget.begin())
    assert (budget.left, budget.spent, budget.spend()) == (0, 9, False)


def test_waits_requested_by_the_repository_do_not_count_and_concurrent_ones_are_merged() -> None:
    clock = Clock()
    budget = RequestBudget(left=100, seconds=60, clock=clock)
    with budget.working():
        budget.note_wait(3600)
        clock.seconds += 1800
        budget.note_wait(1800)
        clock.seconds += 900
        budget.note_wait(1000)
        clock.seconds += 1000 + 59
        assert not budget.is_late
        clock.seconds += 1
        assert budget.is_late


def test_no_limit_means_unlimited_time_and_zero_means_no_time() -> None:
    clock = Clock()
    endless = RequestBudget(left=1, clock=clock)
    with endless.working():
        clock.seconds += 1e9
    assert not endless.is_late
    assert RequestBudget(left=1, seconds=0, clock=clock).is_late


def test_remedies_that_send_requests_take_time() -> None:
    assert {found for found in Remedy if found.takes_time} == {Remedy.AGAIN, Remedy.TAKE_UP, Remedy.DIVIDE}


def test_fractions_of_a_second_of_work_are_counted() -> None:
    clock = Clock()
    budget = RequestBudget(left=100, seconds=0.5, clock=clock)
    with budget.working():
        clock.seconds += 0.25
        assert not budget.is_late
        clock.seconds += 0.25
        assert budget.is_late


@pytest.mark.parametrize("failure", [CIRCLES, EMPTY, REPEATED])
def test_the_advice_says_whether_the_next_harvest_resumes(failure: Failure) -> None:
    resumes = resumable(End.ERROR, EndlessListError(URL, failure))
    assert ("resumes there" in explained(failure, "en").todo) == resumes
