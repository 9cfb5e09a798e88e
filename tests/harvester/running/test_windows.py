"""How windows of datestamps are sliced and halved."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harvester.running.windows import Calendar, Slice, Window, calendar, halves, next_slice, window_from_json
from oai.datestamps import parse_datestamp
from oai.vocabulary import Granularity

NOW = datetime(2024, 4, 10, 12, tzinfo=UTC)
FINE = calendar(Granularity.SECOND, "2024-01-31T10:00:00Z", NOW)
DAYS = calendar(Granularity.DAY, "2024-01-31", NOW)


def sliced(window: Window, times: Calendar) -> list[tuple[str | None, str | None]]:
    found = []
    rest: Window | None = window
    while rest is not None and rest.slice is not None:
        first, rest = next_slice(rest, times)
        assert first.slice is None
        found.append((first.from_, first.until))
    return found


def test_months_begin_where_the_one_before_ends_and_the_outer_bounds_stay_open() -> None:
    assert sliced(Window(slice=Slice.MONTH), FINE) == [
        (None, "2024-01-31T23:59:59Z"),
        ("2024-01-31T23:59:59Z", "2024-02-29T23:59:59Z"),
        ("2024-02-29T23:59:59Z", "2024-03-31T23:59:59Z"),
        ("2024-03-31T23:59:59Z", None),
    ]


def test_whole_days_make_months_too() -> None:
    assert sliced(Window(slice=Slice.MONTH), DAYS) == [
        (None, "2024-02-29"),
        ("2024-02-29", "2024-03-31"),
        ("2024-03-31", None),
    ]


def test_days_keep_to_the_bounds_that_were_asked_for() -> None:
    window = Window(from_="2024-03-01T06:00:00Z", until="2024-03-03T06:00:00Z", slice=Slice.DAY)
    assert sliced(window, FINE) == [
        ("2024-03-01T06:00:00Z", "2024-03-01T23:59:59Z"),
        ("2024-03-01T23:59:59Z", "2024-03-02T23:59:59Z"),
        ("2024-03-02T23:59:59Z", "2024-03-03T06:00:00Z"),
    ]


def test_an_earliest_datestamp_from_before_the_web_is_one_slice() -> None:
    old = calendar(Granularity.SECOND, "0001-01-01T00:00:00Z", NOW)
    slices = sliced(Window(slice=Slice.MONTH), old)
    assert slices[0] == (None, "1990-01-31T23:59:59Z")
    assert len(slices) == (2024 - 1990) * 12 + 4


@pytest.mark.parametrize("earliest", ["", None, "last year", "2999-01-01"])
def test_an_earliest_datestamp_that_is_none_harms_nothing(earliest: str | None) -> None:
    times = calendar(Granularity.SECOND, earliest, NOW)
    assert sliced(Window(slice=Slice.MONTH), times)[-1][1] is None


@given(
    first=st.datetimes(datetime(1995, 1, 1), datetime(2024, 4, 1)),  # noqa: DTZ001 made UTC below
    length=st.sampled_from(Slice),
    granularity=st.sampled_from(Granularity),
)
def test_slices_leave_no_gap(first: datetime, length: Slice, granularity: Granularity) -> None:
    times = calendar(granularity, None, NOW)
    begin = times.write(max(first.replace(tzinfo=UTC), datetime(2023, 6, 1, tzinfo=UTC)))
    slices = sliced(Window(from_=begin, slice=length), times)
    assert slices[0][0] == begin
    assert slices[-1][1] is None
    for (_, until), (from_, _) in pairwise(slices):
        assert until == from_


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
    assert window_from_json(window.as_json()) == window
    assert window_from_json(Window().as_json()) == Window()
