"""What a list reveals about itself."""

from dataclasses import replace

import pytest

from harvester.harvest.list_evidence import ListWatch, watch_from_json
from harvester.harvest.progress import RunProgress
from harvester.harvest.windows import Window
from harvester.reading.answers import Header, Page, ResumptionToken


def page(*stamps: str, size: int | None = None, last: bool = False, names: tuple[str, ...] = ()) -> Page:
    found = names or tuple(f"oai:a:{stamp}" for stamp in stamps)
    headers = tuple(
        Header(identifier=name, datestamp=stamp) for name, stamp in zip(found, stamps, strict=True)
    )
    given = None if last else ResumptionToken(value="more", complete_list_size=size)
    return Page(url="http://x/", response_date="", headers=headers, token=given)


def days(first: int, last: int) -> list[str]:
    return [f"2024-01-{day:02}" for day in range(first, last + 1)]


def test_a_list_with_rising_datestamps_is_ordered() -> None:
    watch = ListWatch()
    watch.see(page(*days(1, 5)))
    assert not watch.orderly
    watch.see(page(*days(5, 12)))
    assert watch.orderly
    assert watch.settled == "2024-01-05"


def test_a_short_window_is_compared_with_the_longest_page_of_the_run() -> None:
    progress = RunProgress(windows=[Window(), Window()], watch=ListWatch())
    progress.watch.see(page(*days(1, 10)))
    assert not progress.watch.seems_ended
    progress.divide([Window(until="2024-01-05")])
    progress.watch.see(page(*days(1, 5)))
    assert progress.watch.seems_ended
    progress.begin_again(Window())
    progress.watch.see(page(*days(1, 5)))
    assert watch_from_json(progress.watch.as_json()).has_nothing_more


def test_a_single_outlier_at_the_end_of_a_page_does_not_change_the_position_to_continue_from() -> None:
    watch = ListWatch()
    watch.see(page(*days(1, 12)))
    watch.see(page(*days(13, 15), "2024-12-31"))
    assert watch.settled == "2024-01-13"


@pytest.mark.parametrize(
    "stamps",
    [
        ["2024-01-20", "2024-01-19"],
        ["2024-01-02"],
        ["2024-01-20T00:00:00Z"],
        ["20 January"],
    ],
)
def test_one_datestamp_that_falls_or_has_another_notation_ends_the_order(stamps: list[str]) -> None:
    watch = ListWatch()
    watch.see(page(*days(1, 15)))
    watch.see(page(*stamps))
    watch.see(page("2024-01-30", "2024-01-31"))
    assert not watch.orderly


def test_response_dates_do_not_make_a_list_ordered() -> None:
    dated = page(*days(1, 15))
    undated = tuple(replace(header, undated=True) for header in dated.headers)
    watch = ListWatch()
    watch.see(replace(dated, headers=undated))
    assert not watch.orderly


def test_a_repeated_record_does_not_make_up_for_a_missing_one() -> None:
    watch = ListWatch()
    watch.see(page("2024-01-01", "2024-01-01", names=("a", "b"), size=4))
    watch.see(page("2024-01-01", "2024-01-01", names=("b", "c"), size=4))
    watch.count_repeated()
    assert (watch.listed, watch.repeated, watch.missing, watch.confirmed) == (4, 1, 1, False)


def test_the_last_stated_list_size_counts() -> None:
    watch = ListWatch()
    watch.see(page("2024-01-01", size=1000))
    watch.see(page("2024-01-02", size=2))
    assert (watch.size, watch.revised, watch.missing, watch.confirmed) == (2, 1, 0, True)


@pytest.mark.parametrize(
    ("first", "second", "lost"),
    [(6, 5, 1), (5, 5, 0), (5, 6, 0), (8, 5, 3), (9, 5, 0), (6, 6, 0), (5, 2, 0)],
    ids=["one less", "equal", "grown", "a page less", "an estimate", "missing", "what is left"],
)
def test_a_list_that_becomes_a_little_shorter_may_have_lost_records(
    first: int, second: int, lost: int
) -> None:
    watch = ListWatch()
    watch.see(page(*days(1, 3), size=first))
    watch.see(page(*days(4, 5), size=second))
    watch.count_repeated()
    assert watch.lost == lost


def test_a_full_page_without_a_token_element_is_an_abrupt_end() -> None:
    watch = ListWatch()
    watch.see(page(*days(1, 2)))
    assert not watch.abrupt(no_token=True)
    watch.see(page(*days(3, 4), last=True))
    assert watch.abrupt(no_token=True)
    assert not watch.abrupt(no_token=False)
    shorter = ListWatch()
    shorter.see(page(*days(1, 2)))
    shorter.see(page("2024-01-03", last=True))
    assert not shorter.abrupt(no_token=True)


def test_a_continued_list_still_has_to_return_the_number_announced_first() -> None:
    first = ListWatch()
    first.see(page(*days(1, 10), size=20))
    second = first.taken_up()
    second.see(page(*days(9, 14), last=True))
    second.count_repeated()
    assert (second.repeated, second.overlapping, second.missing) == (0, 2, 6)


def test_a_list_continued_twice_has_to_return_the_number_announced_first() -> None:
    first = ListWatch()
    first.see(page(*days(1, 10), size=20))
    second = first.taken_up()
    second.see(page(*days(9, 14), size=12))
    third = second.taken_up()
    third.see(page(*days(13, 18), last=True))
    third.count_repeated()
    assert third.missing == 2


def test_a_watch_restored_from_the_checkpoint_recognises_earlier_records_by_their_marks() -> None:
    watch = ListWatch()
    watch.see(page("2024-01-01", "2024-01-01", names=("a", "b"), size=4))
    later = watch_from_json(watch.as_json(), watch.marks)
    later.see(page("2024-01-01", "2024-01-01", names=("b", "c"), size=4))
    later.count_repeated()
    assert (later.repeated, later.missing) == (1, 1)


def test_a_watch_survives_the_checkpoint() -> None:
    watch = ListWatch()
    watch.see(page(*days(1, 12), size=50))
    assert watch_from_json(watch.as_json(), watch.marks) == watch


def test_rises_are_counted_once_for_each_further_datestamp() -> None:
    watch = ListWatch()
    watch.see(page("2024-01-01", "2024-01-02", "2024-01-02", "2024-01-03", "2024-01-04"))
    assert watch.rises == 3
    watch.see(page("2024-01-04", "2024-01-05"))
    assert watch.rises == 4
    watch.see(page("2024-01-06", "2024-01-07"))
    assert watch.rises == 6


def test_records_fetched_one_by_one_and_unreadable_ones_count_as_listed() -> None:
    watch = ListWatch()
    single = Header(identifier="oai:a:single", datestamp="2024-01-02")
    watch.see(page(*days(1, 3)), mended=[single], unreadable=1)
    assert watch.listed == 5


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([4, 4], True),
        ([None, None], False),
        # Larger and smaller than what was received; the size of a page; what was sent so far.
        ([5, 5], False),
        ([3, 3], False),
        ([2, 2], False),
        ([2, 4], False),
    ],
)
def test_only_a_constant_size_that_was_reached_exactly_ends_a_list(
    *, sizes: list[int | None], expected: bool
) -> None:
    watch = ListWatch()
    for number, size in enumerate(sizes):
        watch.see(page(*days(1, 2), names=(f"a{number}", f"b{number}"), size=size))
    watch.see(page(*days(1, 2), names=("a1", "b1"), size=sizes[-1]))
    watch.count_repeated()
    assert watch.ends_by_size is expected


def test_the_size_of_a_single_page_or_a_round_size_does_not_end_a_list() -> None:
    watch = ListWatch()
    for _ in range(2):
        watch.see(page(*days(1, 2), size=2))
    watch.count_repeated()
    assert not watch.ends_by_size
    watch = ListWatch(listed=10_000, size=10_000, largest=10_000, longest_page=100)
    assert (watch.confirmed, watch.ends_by_size) == (True, False)
