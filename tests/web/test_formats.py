from datetime import UTC, datetime, timedelta, timezone

import pytest

from web.site.formats import duration, moment, number, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (0.4, "0 s"),
        (59, "59 s"),
        (59.6, "1:00 min"),
        (150, "2:30 min"),
        (3900, "1:05 h"),
        (273600, "3 d 4 h"),
    ],
)
def test_durations_are_written_in_the_unit_that_fits(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (123_456_789, "118 MiB"), (5 * 1024**5, "5.0 PiB")],
)
def test_sizes_have_a_binary_unit(count: int, text: str) -> None:
    assert size(count) == text


def test_thousands_are_set_apart_by_blanks_that_do_not_break() -> None:
    assert number(128300) == "128\u202f300"


def test_a_moment_is_told_in_utc_to_the_second() -> None:
    local = datetime(2026, 7, 1, 2, 30, 0, 999999, tzinfo=timezone(timedelta(hours=2)))

    assert moment(local) == '<time datetime="2026-07-01T00:30:00Z">2026-07-01 00:30:00 UTC</time>'
    assert moment(datetime(2026, 1, 1, tzinfo=UTC)) == (
        '<time datetime="2026-01-01T00:00:00Z">2026-01-01 00:00:00 UTC</time>'
    )
    assert moment(None) == "never"
