"""Frequencies: their syntax, and their due times on ordinary days and when clocks change."""

import itertools
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manager.schedules.frequency import parse_frequency, parse_zone
from oai.errors import UsageError

PRAGUE = ZoneInfo("Europe/Prague")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def due_times(
    text: str, after: str, count: int = 3, *, start: str = "2026-01-01 00:00", zone: tzinfo = UTC
) -> list[str]:
    times = parse_frequency(text).upcoming(utc(after), start=utc(start), zone=zone)
    return [f"{due:%Y-%m-%d %H:%M}" for due in itertools.islice(times, count)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("every 6 hours", ["2026-05-04 16:00", "2026-05-04 22:00", "2026-05-05 04:00"]),
        ("Every  30 Minutes", ["2026-05-04 12:30", "2026-05-04 13:00", "2026-05-04 13:30"]),
        ("every hour", ["2026-05-04 13:00", "2026-05-04 14:00", "2026-05-04 15:00"]),
        ("hourly", ["2026-05-04 13:00", "2026-05-04 14:00", "2026-05-04 15:00"]),
        ("every 2 days", ["2026-05-05 10:00", "2026-05-07 10:00", "2026-05-09 10:00"]),
        ("daily", ["2026-05-05 10:00", "2026-05-06 10:00", "2026-05-07 10:00"]),
        ("weekly", ["2026-05-08 10:00", "2026-05-15 10:00", "2026-05-22 10:00"]),
        ("monthly", ["2026-06-01 10:00", "2026-07-01 10:00", "2026-08-01 10:00"]),
        ("daily at 02:30", ["2026-05-05 02:30", "2026-05-06 02:30", "2026-05-07 02:30"]),
        ("weekly on monday at 02:30", ["2026-05-11 02:30", "2026-05-18 02:30", "2026-05-25 02:30"]),
        ("weekly on sunday at 02:30", ["2026-05-10 02:30", "2026-05-17 02:30", "2026-05-24 02:30"]),
        ("monthly on 1 at 02:30", ["2026-06-01 02:30", "2026-07-01 02:30", "2026-08-01 02:30"]),
        ("30 2 * * 1", ["2026-05-11 02:30", "2026-05-18 02:30", "2026-05-25 02:30"]),
        ("0 4 * * MON-WED", ["2026-05-05 04:00", "2026-05-06 04:00", "2026-05-11 04:00"]),
    ],
)
def test_each_frequency_has_its_due_times(text: str, expected: list[str]) -> None:
    # 4 May 2026 is a Monday.
    assert due_times(text, "2026-05-04 12:00", start="2026-05-01 10:00") == expected


def test_seconds_are_counted_from_the_start() -> None:
    due = parse_frequency("every 10 seconds").next_after(
        utc("2026-01-01 00:00:14"), start=utc("2026-01-01 00:00:03"), zone=UTC
    )
    assert due == utc("2026-01-01 00:00:23")


@pytest.mark.parametrize("text", ["monthly", "monthly on 31 at 10:00"])
def test_a_day_missing_from_a_month_is_replaced_by_its_last_day(text: str) -> None:
    times = due_times(text, "2026-01-31 10:00", start="2026-01-31 10:00")
    assert times == ["2026-02-28 10:00", "2026-03-31 10:00", "2026-04-30 10:00"]


def test_a_cron_line_for_29_february_is_due_in_leap_years_only() -> None:
    times = due_times("0 12 29 2 *", "2026-01-01 00:00")
    assert times == ["2028-02-29 12:00", "2032-02-29 12:00", "2036-02-29 12:00"]


@pytest.mark.parametrize("text", ["monthly", "monthly on 29 at 10:00", "monthly on 30 at 10:00"])
def test_the_last_day_of_february_follows_the_leap_year(text: str) -> None:
    start = "2027-12-29 10:00" if "30" not in text else "2027-12-30 10:00"
    times = due_times(text, "2028-02-01 00:00", 1, start=start)
    assert times == ["2028-02-29 10:00"]


def test_the_end_of_the_month_is_computed_in_the_time_zone() -> None:
    # Midnight in Prague is 23:00 UTC of the day before, and 22:00 in summer.
    times = due_times("monthly on 31 at 00:00", "2026-01-01 00:00", 4, zone=PRAGUE)
    assert times == ["2026-01-30 23:00", "2026-02-27 23:00", "2026-03-30 22:00", "2026-04-29 22:00"]


@pytest.mark.parametrize("text", ["every 6 hours", "daily", "weekly", "monthly"])
def test_an_interval_is_first_due_at_its_start(text: str) -> None:
    start = utc("2026-05-04 12:00:00.250")
    assert parse_frequency(text).first(start=start, zone=PRAGUE) == start


def test_a_time_of_day_is_first_due_at_its_next_occurrence() -> None:
    first = parse_frequency("daily at 02:30").first(start=utc("2026-05-04 12:00"), zone=UTC)
    assert first == utc("2026-05-05 02:30")


def test_a_time_of_day_that_is_the_start_is_due_at_once() -> None:
    first = parse_frequency("daily at 02:30").first(start=utc("2026-05-04 02:30"), zone=UTC)
    assert first == utc("2026-05-04 02:30")


SPRING = [
    # On 29 March 2026 clocks in Prague go from 02:00 to 03:00: 02:30 is not there, so it moves to 03:00.
    ("daily at 02:30", ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"]),
    ("30 2 * * *", ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"]),
    ("monthly on 29 at 02:30", ["2026-03-29 01:00", "2026-04-29 00:30", "2026-05-29 00:30"]),
]


@pytest.mark.parametrize(("text", "expected"), SPRING)
def test_a_time_skipped_when_clocks_go_forward_is_due_once(text: str, expected: list[str]) -> None:
    assert due_times(text, "2026-03-27 12:00", zone=PRAGUE) == expected


def test_an_interval_of_days_keeps_to_the_wall_clock_in_spring() -> None:
    times = due_times("every 1 day", "2026-03-27 12:00", start="2026-03-20 01:30", zone=PRAGUE)
    assert times == ["2026-03-28 01:30", "2026-03-29 01:00", "2026-03-30 00:30"]


# On 25 October 2026 clocks in Prague go from 03:00 back to 02:00: 02:30 comes twice, at 00:30 and 01:30 UTC.
@pytest.mark.parametrize("text", ["daily at 02:30", "30 2 * * *"])
@pytest.mark.parametrize("after", ["2026-10-24 12:00", "2026-10-25 00:20"])
def test_a_time_repeated_when_clocks_go_back_is_due_once(text: str, after: str) -> None:
    times = due_times(text, after, 2, zone=PRAGUE)
    assert times == ["2026-10-25 00:30", "2026-10-26 01:30"]


@pytest.mark.parametrize("text", ["daily at 02:30", "30 2 * * *", "daily"])
def test_a_time_that_has_passed_is_not_due_again_in_the_repeated_hour(text: str) -> None:
    # 01:10 UTC is 02:10 for the second time.
    times = due_times(text, "2026-10-25 01:10", 1, start="2026-10-01 00:30", zone=PRAGUE)
    assert times == ["2026-10-26 01:30"]


# As Debian's cron does: an asterisk in the minutes or hours makes a job of every time that the clock shows.
@pytest.mark.parametrize(
    ("text", "spring", "autumn"),
    [
        ("*/30 2 * * *", ["30 00:00"], ["25 00:00", "25 00:30", "25 01:00", "25 01:30"]),
        ("30 */2 * * *", ["29 02:30"], ["25 00:30", "25 01:30", "25 03:30"]),
        ("0,30 2 * * *", ["29 01:00", "30 00:00"], ["25 00:00", "25 00:30", "26 01:00"]),
    ],
)
def test_cron_steps_follow_the_wall_clock_when_clocks_change_and_lists_are_due_once(
    text: str, spring: list[str], autumn: list[str]
) -> None:
    assert due_times(text, "2026-03-28 23:31", len(spring), zone=PRAGUE) == [f"2026-03-{at}" for at in spring]
    assert due_times(text, "2026-10-24 22:31", len(autumn), zone=PRAGUE) == [f"2026-10-{at}" for at in autumn]


@pytest.mark.parametrize("text", ["*/30 * * * *", "every 30 minutes"])
@pytest.mark.parametrize(("after", "hours"), [("2026-03-28 23:00", 23), ("2026-10-24 22:00", 25)])
def test_half_hour_intervals_stay_even_when_clocks_change(text: str, after: str, hours: int) -> None:
    times = due_times(text, after, 2 * hours, zone=PRAGUE)
    gaps = {utc(later) - utc(sooner) for sooner, later in itertools.pairwise([after, *times])}
    assert gaps == {timedelta(minutes=30)}


def test_hourly_intervals_count_elapsed_time_when_clocks_go_back() -> None:
    times = due_times("every 1 hour", "2026-10-24 23:00", zone=PRAGUE)
    assert times == ["2026-10-25 00:00", "2026-10-25 01:00", "2026-10-25 02:00"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sometimes",
        "every 0 hours",
        "every 99999999 days",
        "every -1 days",
        "daily at 24:00",
        "daily at 2:3",
        "weekly on someday at 02:30",
        "monthly on 0 at 02:30",
        "monthly on 32 at 02:30",
        "61 * * * *",
        "* * * *",
        "* * * * * *",
        "0 0 31 2 *",
        "a b c d e",
        "every ٣ hours",
    ],
)
def test_an_invalid_frequency_is_refused_with_its_value_and_a_valid_example(text: str) -> None:
    with pytest.raises(UsageError, match="every 6 hours") as caught:
        parse_frequency(text)
    assert repr(text) in str(caught.value)


@pytest.mark.parametrize("name", ["Europe/Nowhere", "../etc/passwd", "", "Europe", "\0"])
def test_an_unknown_time_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="time zone"):
        parse_zone(name)


@given(
    text=st.sampled_from(
        ["every 7 minutes", "every 5 hours", "daily", "every 3 weeks", "monthly", "monthly on 31 at 02:30",
         "daily at 02:30", "weekly on sunday at 02:30", "*/20 1-3 * * *"]
    ),
    start=st.timedeltas(timedelta(0), timedelta(days=1000)).map(lambda step: utc("2024-01-01") + step),
    later=st.timedeltas(timedelta(days=-100), timedelta(days=800)),
)  # fmt: skip
def test_the_next_due_time_is_after_the_moment_and_no_due_time_is_left_out(
    text: str, start: datetime, later: timedelta
) -> None:
    frequency = parse_frequency(text)
    moment = start + later
    due = frequency.next_after(moment, start=start, zone=PRAGUE)
    assert due > moment
    assert due >= start
    between = moment + (due - moment) / 2
    assert frequency.next_after(between, start=start, zone=PRAGUE) == due


@pytest.mark.parametrize("text", ["x" * 100_000, "x 1 1 1 " + "1" * 100_000], ids=["words", "cron"])
def test_the_error_for_a_long_frequency_is_short_and_states_its_length(text: str) -> None:
    with pytest.raises(UsageError, match=r"\(100,00\d characters\)|characters\)") as raised:
        parse_frequency(text)
    assert len(str(raised.value)) < 1000


def test_a_time_skipped_when_clocks_go_forward_is_due_at_the_end_of_the_gap() -> None:
    start = datetime(2026, 3, 28, 0, 0, tzinfo=UTC)
    frequency = parse_frequency("daily at 02:30")
    due = frequency.next_after(datetime(2026, 3, 28, 12, 0, tzinfo=UTC), start=start, zone=PRAGUE)
    assert due == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
