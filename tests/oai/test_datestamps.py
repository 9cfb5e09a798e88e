"""Datestamps as the specification defines them in section 3.3."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai.datestamps import format_datestamp, format_timestamp, is_later, parse_datestamp, read_moment
from oai.vocabulary import Granularity


def test_a_day_begins_at_midnight_and_lasts_to_its_last_second() -> None:
    day = parse_datestamp("2024-02-29")
    assert day.moment == datetime(2024, 2, 29, tzinfo=UTC)
    assert day.last_second == datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)
    assert day.granularity is Granularity.DAY


def test_a_second_is_its_own_last_second() -> None:
    second = parse_datestamp("2024-02-29T12:30:59Z")
    assert second.moment == second.last_second == datetime(2024, 2, 29, 12, 30, 59, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2024",
        "2024-2-29",
        "2024-02-30",
        "2023-02-29",
        "0000-01-01",
        " 2024-02-29",
        "2024-02-29 ",
        "2024-02-29\n",
        "2024-02-29T12:30:59",
        "2024-02-29t12:30:59z",
        "2024-02-29T12:30Z",
        "2024-02-29T12:30:59.5Z",
        "2024-02-29T12:30:59+00:00",
        "2024-02-29T24:00:00Z",
        "2024-02-29T23:59:60Z",
        "٢٠٢٤-02-29",
        "2024-02-29\x00",
    ],
)
def test_other_notations_are_refused_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)does not match|not a valid date") as caught:
        parse_datestamp(text)
    assert repr(text) in str(caught.value)


def test_moments_are_written_in_utc_whatever_their_zone() -> None:
    prague = timezone(timedelta(hours=2))
    assert format_datestamp(datetime(2024, 7, 1, 1, 0, 0, 999, tzinfo=prague)) == "2024-06-30T23:00:00Z"


def test_a_timestamp_has_14_digits_in_any_year() -> None:
    assert format_timestamp(datetime(1, 2, 3, 4, 5, 6, 789, tzinfo=UTC)) == "00010203040506"
    assert format_timestamp(datetime(2024, 7, 1, 1, tzinfo=timezone(timedelta(hours=2)))) == "20240630230000"


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        format_datestamp(datetime(2024, 7, 1))  # noqa: DTZ001 the fault under test


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(Granularity))
def test_datestamps_survive_the_round_trip(moment: datetime, granularity: Granularity) -> None:
    text = format_datestamp(moment, granularity)
    assert str(parse_datestamp(text)) == text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2019-04-18T07:46:18Z", "2019-04-18T07:46:18Z"),
        ("2019-04-18T07:46:18.539Z", "2019-04-18T07:46:18Z"),
        ("2019-04-18T07:46:18.999999999Z", "2019-04-18T07:46:18Z"),
        ("2019-04-18T09:46:18+02:00", "2019-04-18T07:46:18Z"),
        ("2019-04-18T00:46:18.5-0700", "2019-04-18T07:46:18Z"),
        ("2019-01-01T01:00:00+02:00", "2018-12-31T23:00:00Z"),
        ("2019-04-18T07:46Z", "2019-04-18T07:46:00Z"),
        (" 2019-04-18 07:46:18z\n", "2019-04-18T07:46:18Z"),
        ("20190418T074618Z", "2019-04-18T07:46:18Z"),
        ("2019-04-18", "2019-04-18T00:00:00Z"),
    ],
)
def test_moments_are_read_in_all_notations_and_rounded_down(text: str, written: str) -> None:
    assert format_datestamp(read_moment(text)) == written


def test_a_moment_without_a_zone_is_read_without_one() -> None:
    assert read_moment("2019-04-18T07:46:18.5") == datetime(2019, 4, 18, 7, 46, 18, 500_000)  # noqa: DTZ001


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "Thu, 18 Apr 2019 07:46:18 GMT",
        "2019-02-30T00:00:00Z",
        "1555573578",
        "0001-01-01T00:00+02:00",
    ],
)
def test_invalid_moments_are_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 two kinds of words, neither of which is shown
        read_moment(text)


@pytest.mark.parametrize(
    ("one", "other", "later"),
    [
        ("2024-05-02", "2024-05-01", True),
        ("2024-05-01T00:00:01Z", "2024-05-01T00:00:00Z", True),
        ("2024-05-01T23:59:59Z", "2024-05-01", False),
        ("2024-05-02T00:00:00Z", "2024-05-01", True),
        ("2024-05-01T12:00:00.5Z", "2024-05-01T12:00:00Z", True),
        ("2024-05-01T14:00:00+02:00", "2024-05-01T12:30:00Z", False),
        ("2024-05-01T12:30:00Z", "2024-05-01T14:00:00+02:00", True),
        ("2024-05-01T12:30:00", "2024-05-01T12:00:00Z", True),
        ("today", "2024-05-01", False),
        ("2024-05-01", "", False),
        ("yesterday!", "2024-05-01", False),
    ],
)
def test_datestamps_are_compared_in_all_notations(one: str, other: str, *, later: bool) -> None:
    assert is_later(one, other) is later
    assert not is_later(one, one)
    assert not (later and is_later(other, one))
