"""Windows of datestamps are sliced and halved."""

from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.harvest.windows import (
    Calendar,
    Span,
    Window,
    calendar,
    first_request,
    halves,
    next_piece,
    slices,
    window_from_json,
)
from harvester.vocabulary import Slice
from oai.datestamps import parse_datestamp
from oai.vocabulary import Granularity

NOW = datetime(2024, 4, 10, 12, tzinfo=UTC)
FINE = calendar(Granularity.SECOND, "2024-01-31T10:00:00Z", NOW)
DAYS = calendar(Granularity.DAY, "2024-01-31", NOW)


def sliced(window: Window, times: Calendar) -> list[tuple[str | None, str | None]]:
    found = list(slices(window, times))
    assert all((one.slice, one.span, one.unsounded) == (None, None, False) for one in found)
    return [(one.from_, one.until) for one in found]


def pieces(window: Window, times: Calendar) -> list[Window]:
    first, rest = next_piece(window, times)
    return [first, *(pieces(rest, times) if rest else [])]


def test_each_month_starts_at_the_end_of_the_previous_one_and_outer_bounds_stay_open() -> None:
    assert sliced(Window(slice=Slice.MONTH), FINE) == [
        (None, "2024-01-31T23:59:59Z"),
        ("2024-01-31T23:59:59Z", "2024-02-29T23:59:59Z"),
        ("2024-02-29T23:59:59Z", "2024-03-31T23:59:59Z"),
        ("2024-03-31T23:59:59Z", None),
    ]


def test_months_are_also_made_with_day_granularity() -> None:
    assert sliced(Window(slice=Slice.MONTH), DAYS) == [
        (None, "2024-02-29"),
        ("2024-02-29", "2024-03-31"),
        ("2024-03-31", None),
    ]


def test_days_stay_within_the_requested_bounds() -> None:
    window = Window(from_="2024-03-01T06:00:00Z", until="2024-03-03T06:00:00Z", slice=Slice.DAY)
    assert sliced(window, FINE) == [
        ("2024-03-01T06:00:00Z", "2024-03-01T23:59:59Z"),
        ("2024-03-01T23:59:59Z", "2024-03-02T23:59:59Z"),
        ("2024-03-02T23:59:59Z", "2024-03-03T06:00:00Z"),
    ]


def test_all_time_before_the_web_is_in_the_first_slice() -> None:
    old = calendar(Granularity.SECOND, "0001-01-01T00:00:00Z", NOW)
    found = sliced(Window(slice=Slice.MONTH), old)
    assert found[0] == (None, "1990-01-31T23:59:59Z")
    assert len(found) == (2024 - 1990) * 12 + 4


@pytest.mark.parametrize("earliest", ["", None, "last year"])
def test_an_invalid_earliest_datestamp_is_replaced_by_the_start_of_the_web(earliest: str | None) -> None:
    times = calendar(Granularity.SECOND, earliest, NOW)
    web = calendar(Granularity.SECOND, "1990-01-01", NOW)
    found = sliced(Window(slice=Slice.MONTH), times)
    assert found == sliced(Window(slice=Slice.MONTH), web)
    assert found[:2] == [(None, "1990-01-31T23:59:59Z"), ("1990-01-31T23:59:59Z", "1990-02-28T23:59:59Z")]
    assert found[-1] == ("2024-03-31T23:59:59Z", None)
    assert len(found) == (2024 - 1990) * 12 + 4


def test_an_earliest_datestamp_in_the_future_makes_one_slice() -> None:
    times = calendar(Granularity.SECOND, "2999-01-01", NOW)
    assert times.earliest == NOW
    assert sliced(Window(slice=Slice.MONTH), times) == [(None, None)]


@given(
    first=st.datetimes(datetime(1995, 1, 1), datetime(2024, 4, 1)),  # noqa: DTZ001 made UTC below
    length=st.sampled_from(Slice),
    granularity=st.sampled_from(Granularity),
)
def test_slices_leave_no_gap(first: datetime, length: Slice, granularity: Granularity) -> None:
    times = calendar(granularity, None, NOW)
    begin = times.write(max(first.replace(tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC)))
    found = sliced(Window(from_=begin, slice=length), times)
    assert found[0][0] == begin
    assert found[-1][1] is None
    for (_, until), (from_, _) in pairwise(found):
        assert until == from_


def test_days_are_cut_from_months_and_these_from_years_which_are_probed_if_that_saves_requests() -> None:
    window = Window(from_="2022-11-20T00:00:00Z", until="2024-02-02T12:00:00Z", slice=Slice.DAY)
    years = pieces(window, FINE)
    assert [(one.span, one.unsounded, one.until) for one in years] == [
        (Span.YEAR, False, "2022-12-31T23:59:59Z"),
        (Span.YEAR, True, "2023-12-31T23:59:59Z"),
        (Span.YEAR, False, "2024-02-02T12:00:00Z"),
    ]
    months = pieces(replace(years[2], unsounded=False), FINE)
    assert [(one.span, one.unsounded, one.until) for one in months] == [
        (Span.MONTH, True, "2024-01-31T23:59:59Z"),
        (Span.MONTH, False, "2024-02-02T12:00:00Z"),
    ]
    assert [(one.slice, one.span) for one in pieces(months[1], FINE)] == [(None, None)] * 2


def test_the_first_request_is_for_the_first_span_that_may_be_empty() -> None:
    assert first_request(Window(slice=Slice.DAY), FINE).until == "2024-01-31T23:59:59Z"
    assert first_request(Window(until="2024-03-01T00:00:00Z", slice=Slice.DAY), DAYS).until == "2024-02-29"
    years = first_request(Window(from_="2001-01-01T00:00:00Z", slice=Slice.MONTH), FINE)
    assert (years.span, years.until) == (Span.YEAR, "2001-12-31T23:59:59Z")
    few = first_request(Window(from_="2024-03-30T00:00:00Z", slice=Slice.DAY), FINE)
    assert (few.slice, few.until) == (None, "2024-03-30T23:59:59Z")
    assert first_request(Window(), FINE) == Window()


def test_halves_meet_in_the_middle() -> None:
    found = halves(Window(from_="2024-01-01T00:00:00Z", until="2024-01-01T00:00:10Z"), FINE)
    assert found is not None
    assert (found[0].until, found[1].from_) == ("2024-01-01T00:00:05Z", "2024-01-01T00:00:05Z")
    assert found[0].halvings == found[1].halvings == 1


@given(st.integers(0, 100_000))
def test_halving_comes_to_an_end(seconds: int) -> None:
    start = datetime(2024, 1, 1, tzinfo=UTC).timestamp()
    window: Window | None = Window(
        from_="2024-01-01T00:00:00Z", until=FINE.write(datetime.fromtimestamp(start + seconds, UTC))
    )
    for _ in range(20):
        found = halves(window, FINE) if window is not None else None
        window = found[0] if found else None
    assert window is None


def test_open_bounds_stay_open_when_halved() -> None:
    found = halves(Window(), FINE)
    assert found is not None
    assert (found[0].from_, found[1].until) == (None, None)
    middle = parse_datestamp(found[0].until or "").moment
    assert FINE.earliest < middle < FINE.latest


def test_a_window_survives_the_checkpoint() -> None:
    window = Window(from_="2024-01-01", until="2024-01-02", slice=Slice.DAY, one_by_one=True, halvings=3)
    year = Window(slice=Slice.DAY, span=Span.YEAR, unsounded=True)
    assert [window_from_json(one.as_json()) for one in (window, year)] == [window, year]
    assert window_from_json(Window().as_json()) == Window()
