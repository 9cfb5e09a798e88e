"""Endless lists are detected, and good lists are not mistaken for them."""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.client.loops import ListLimits, LoopDetector, list_limits
from harvester.client.repository_client import Client, Selection
from harvester.client.transport import Arguments, HttpReply
from harvester.reading.answers import Fault, Header, Page, ResumptionToken
from harvester.reading.errors import EndlessListError
from oai.failures import Failure, FailureCode
from oai.sections import HarvesterSettings
from oai.vocabulary import Verb
from tests.harvester.fake_repository import FakeRepository, many

URL = "http://x.example/oai"
BROKEN = Failure(code=FailureCode.RECORD_XML)
IMPATIENT = ListLimits(empty_pages=10, repeated_pages=5)


def names(first: int, count: int = 10) -> list[str]:
    return [f"oai:x:{number}" for number in range(first, first + count)]


def pages_until_the_end(
    pages: Iterable[Sequence[str]],
    limits: ListLimits = IMPATIENT,
    *,
    cursor: Callable[[int], int | None] = lambda _number: None,
    size: int | None = None,
) -> tuple[int, FailureCode | None]:
    """Return how many pages were read, each with its own token, and why reading ended."""
    detector = LoopDetector(limits)
    number = 0
    for number, page in enumerate(pages, 1):
        token = ResumptionToken(value=f"t{number}", cursor=cursor(number), complete_list_size=size)
        try:
            detector.check(URL, token, page)
        except EndlessListError as error:
            return number, error.failure.code if error.failure else None
    return number, None


def test_a_list_that_repeats_the_same_items_with_new_tokens_ends() -> None:
    assert pages_until_the_end([names(0)] * 100) == (6, FailureCode.NO_NEW_RECORDS)


def test_a_list_that_repeats_its_last_page_ends() -> None:
    good = [names(first) for first in range(0, 50_000, 10)]
    assert pages_until_the_end([*good, *[names(49_990)] * 10]) == (5005, FailureCode.NO_NEW_RECORDS)


def test_a_long_list_that_starts_again_ends_soon() -> None:
    good = [names(first) for first in range(0, 50_000, 10)]
    assert pages_until_the_end([*good, *good]) == (5005, FailureCode.NO_NEW_RECORDS)


def test_a_list_whose_items_are_repeated_on_other_pages_ends() -> None:
    again = [[f"oai:x:{number % 25}" for number in range(first, first + 10)] for first in range(0, 900, 10)]
    assert pages_until_the_end(again) == (8, FailureCode.NO_NEW_RECORDS)


def test_a_loop_that_starts_late_is_detected_before_the_list_is_three_times_as_long() -> None:
    way = [names(first) for first in range(0, 30_000, 10)]
    circle = [names(first) for first in range(30_000, 120_000, 10)]
    received, why = pages_until_the_end([*way, *circle * 3])
    assert why is FailureCode.NO_NEW_RECORDS
    assert received <= 3 * (len(way) + len(circle))


@pytest.mark.parametrize(
    "pages",
    [
        # Each page starts with the last item of the page before it.
        [names(first) for first in range(0, 3000, 9)],
        # One new item among many repeated ones.
        [[*names(0, 50), f"oai:x:new{number}"] for number in range(200)],
        # A stretch is repeated, then the list continues.
        [*[names(first) for first in range(0, 40, 10)] * 2, *(names(first) for first in range(40, 90, 10))],
        # The same item on several pages, four at a time, with empty pages in between.
        [names(number // 5 * 10) if number % 7 else [] for number in range(100)],
    ],
)
def test_a_good_list_with_a_few_repetitions_is_read_to_its_end(pages: list[list[str]]) -> None:
    assert pages_until_the_end(pages) == (len(pages), None)


@given(st.lists(st.lists(st.integers(0, 60), max_size=8), max_size=60), st.integers(1, 6))
def test_a_list_ends_only_after_the_set_number_of_consecutive_pages_without_new_items(
    pages: list[list[int]], most: int
) -> None:
    seen: set[int] = set()
    fruitless, expected = 0, None
    for number, page in enumerate(pages, 1):
        fruitless = (fruitless + 1 if seen.issuperset(page) else 0) if page else fruitless
        seen.update(page)
        if fruitless == most:
            expected = number
            break
    named = [[f"oai:x:{number}" for number in page] for page in pages]
    received, why = pages_until_the_end(named, ListLimits(empty_pages=1000, repeated_pages=most))
    assert (received if why else None) == expected


def test_the_last_page_is_accepted_even_if_it_has_no_new_items() -> None:
    detector = LoopDetector(ListLimits(empty_pages=2, repeated_pages=1))
    detector.check(URL, ResumptionToken(value="a"), names(0))
    detector.check(URL, ResumptionToken(value=""), names(0))
    for last in (None, ResumptionToken(value="")):
        detector = LoopDetector(ListLimits(empty_pages=1))
        detector.check(URL, last, [])


def test_empty_pages_end_the_list_unless_the_cursor_advances() -> None:
    empty: list[list[str]] = [[]] * 500
    assert pages_until_the_end(empty) == (10, FailureCode.EMPTY_PAGES)
    assert pages_until_the_end(empty, cursor=lambda _number: 7) == (10, FailureCode.EMPTY_PAGES)
    assert pages_until_the_end(empty, cursor=lambda number: number) == (100, FailureCode.EMPTY_PAGES)
    assert pages_until_the_end(empty, cursor=lambda number: number, size=10**6) == (
        100,
        FailureCode.EMPTY_PAGES,
    )
    # Beyond its size the list itself says that there is no more.
    assert pages_until_the_end(empty, cursor=lambda number: number, size=30)[0] == 30
    assert pages_until_the_end(empty, size=10**6) == (10, FailureCode.EMPTY_PAGES)


def test_a_single_stalled_cursor_limits_the_empty_pages_until_records_arrive() -> None:
    pages = [*[[]] * 8, names(0), *[[]] * 50]
    assert pages_until_the_end(pages, cursor=lambda number: number if number != 3 else 2) == (59, None)
    assert pages_until_the_end(pages, cursor=lambda number: number if number != 20 else 2)[0] == 20


def test_pages_of_broken_records_are_not_empty_but_identical_ones_end_the_list() -> None:
    def page(number: int, raw: bytes) -> Page:
        return Page(
            url=URL,
            response_date="",
            headers=(),
            token=ResumptionToken(value=f"t{number}"),
            faults=(Fault(offset=1, reason="broken", raw=raw, failure=BROKEN),),
        )

    detector = LoopDetector(IMPATIENT)
    for number in range(100):
        detector.look_at(page(number, b"<record>%d" % number))
    for number in range(100, 104):
        detector.look_at(page(number, b"<record>99"))
    with pytest.raises(EndlessListError, match="only records that the list already had"):
        detector.look_at(page(104, b"<record>99"))


def test_the_message_names_the_number_of_pages_and_the_setting() -> None:
    detector = LoopDetector(ListLimits(repeated_pages=2))
    header = Header(identifier="oai:x:1", datestamp="2024-01-01")
    first, second, third = (
        Page(url=URL, response_date="", headers=(header,), token=ResumptionToken(value=token))
        for token in "abc"
    )
    detector.look_at(first)
    detector.look_at(second)
    with pytest.raises(EndlessListError, match=r"2 consecutive pages .* raise harvester\.max_repeated_pages"):
        detector.look_at(third)


def test_the_settings_determine_when_a_list_counts_as_endless() -> None:
    chosen = HarvesterSettings(max_empty_pages=7, max_repeated_pages=3)
    assert list_limits(chosen) == ListLimits(empty_pages=7, repeated_pages=3)
    assert list_limits(HarvesterSettings()) == ListLimits()


class Endless:
    """A server that answers every list request with the complete list and a new token."""

    def __init__(self) -> None:
        self.asked = 0
        self._good = FakeRepository(items=many(5), sets=["a", "b"])

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        self.asked += 1
        verb = dict(arguments)["verb"]
        token = f"<resumptionToken>{self.asked}</resumptionToken></{verb}>"
        body = self._good.answer({"verb": verb}).replace(f"</{verb}>", token).encode()
        return HttpReply(url=base_url, status=200, headers={}, body=body)


@pytest.mark.parametrize("verb", ["ListRecords", "ListIdentifiers", "ListSets"])
async def test_the_client_ends_an_endless_list_of_each_kind(verb: str) -> None:
    server = Endless()
    client = Client(URL, server, lists=IMPATIENT)
    pages: AsyncIterator[object]
    pages = client.list_sets() if verb == "ListSets" else client.pages(Verb(verb), Selection())
    with pytest.raises(EndlessListError, match="only records that the list already had"):
        _ = [page async for page in pages]
    assert server.asked == 6
