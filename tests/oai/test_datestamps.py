"""Datestamps, to the letter of the specification, section 3.3."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oai.datestamps import format_datestamp, parse_datestamp
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
def test_anything_else_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(ValueError, match=r"(?s)neither|no possible date") as caught:
        parse_datestamp(text)
    assert repr(text) in str(caught.value)


def test_moments_are_written_in_utc_whatever_their_zone() -> None:
    prague = timezone(timedelta(hours=2))
    assert format_datestamp(datetime(2024, 7, 1, 1, 0, 0, 999, tzinfo=prague)) == "2024-06-30T23:00:00Z"


def test_a_moment_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        format_datestamp(datetime(2024, 7, 1))  # noqa: DTZ001 the fault under test


@given(st.datetimes(timezones=st.just(UTC)), st.sampled_from(Granularity))
def test_what_is_written_reads_back_as_written(moment: datetime, granularity: Granularity) -> None:
    text = format_datestamp(moment, granularity)
    assert str(parse_datestamp(text)) == text
