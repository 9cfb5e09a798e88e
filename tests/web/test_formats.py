import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from markupsafe import Markup

from web.site.formats import (
    ago,
    clock,
    coded,
    datestamp,
    day,
    duration,
    exact,
    hour,
    language_name,
    moment,
    month,
    number,
    second,
    short_day,
    size,
)
from web.site.i18n import catalogue, language, translations, zone

_NOW = datetime(2026, 7, 1, 0, 30, tzinfo=UTC)


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
    [
        (0, "0\u00a0B"),
        (999, "999\u00a0B"),
        (1000, "1.0\u00a0kB"),
        (123_456_789, "123\u00a0MB"),
        (20 * 10**9, "20\u00a0GB"),
        (5 * 10**15, "5.0\u00a0PB"),
    ],
)
def test_sizes_have_a_decimal_unit(count: int, text: str) -> None:
    assert size(count) == text


@pytest.fixture
def czech() -> Iterator[None]:
    """Pages in Czech."""
    before = language.set("cs"), translations.set(catalogue("cs"))
    yield
    language.reset(before[0])
    translations.reset(before[1])


@pytest.mark.usefixtures("czech")
def test_days_and_languages_are_named_in_czech() -> None:
    assert day(date(2026, 11, 5)) == "5. 11. 2026"
    assert short_day(date(2026, 11, 5)) == "5. 11."
    assert month(date(2026, 11, 5)) == "listopad 2026"
    assert [language_name(code) for code in ("cze", "ger", "en", "mul", "qqq")] == [
        "čeština", "němčina", "angličtina", "více jazyků", "qqq",
    ]  # fmt: skip


def test_numbers_have_the_separators_of_english() -> None:
    assert number(128300) == "128,300"


@pytest.mark.usefixtures("czech")
def test_numbers_and_times_are_written_as_in_czech() -> None:
    assert number(128300) == "128\xa0300"
    assert ago(_NOW - timedelta(minutes=3), _NOW) == "před 3 min"
    assert clock(_NOW) == "1. 7. 2026 0:30"


@pytest.mark.parametrize(
    ("distance", "text"),
    [
        (timedelta(seconds=-59), "just now"),
        (timedelta(seconds=59), "in a moment"),
        (timedelta(minutes=-3), "3 min ago"),
        (timedelta(hours=5), "in 5 hr"),
        (timedelta(days=-6), "6 days ago"),
        (timedelta(days=-7), "24 Jun 2026"),
    ],
)
def test_near_times_are_written_as_their_distance(distance: timedelta, text: str) -> None:
    assert ago(_NOW + distance, _NOW) == text


def test_the_exact_time_is_in_the_tooltip() -> None:
    local = datetime(2026, 7, 1, 2, 30, 0, 999999, tzinfo=timezone(timedelta(hours=2)))
    element = '<time datetime="2026-07-01T00:30:00Z" title="1 Jul 2026 00:30:00 UTC"{}>{}</time>'

    assert re.fullmatch(element.format(' data-relative="1 Jul 2026 00:30"', "[^<]+"), moment(local))
    assert exact(local) == element.format("", "1 Jul 2026 00:30")
    assert second(local) == element.format("", "1 Jul 2026 00:30:00")
    assert (moment(None), exact(None), second(None)) == ("never", "never", "never")


@pytest.mark.usefixtures("czech")
def test_the_tooltip_of_an_hour_has_local_time_first() -> None:
    token = zone.set(ZoneInfo("Europe/Prague"))
    try:
        assert hour(datetime(2026, 11, 29, 23, 41, 8, tzinfo=UTC)) == (
            '<time datetime="2026-11-29T23:41:08Z"'
            ' title="30. 11. 2026 0:41:08 CET (2026-11-29 23:41:08 UTC)">00:41</time>'
        )
    finally:
        zone.reset(token)


@pytest.mark.usefixtures("czech")
def test_datestamps_of_repositories_are_written_as_in_czech() -> None:
    token = zone.set(ZoneInfo("America/New_York"))
    try:
        assert datestamp("2026-01-05") == '<time datetime="2026-01-05" title="2026-01-05">5. 1. 2026</time>'
        assert ">4. 1. 2026 21:00:00</time>" in datestamp("2026-01-05T02:00:00Z")
        # The latter is before the first day that there is, on the clock of New York.
        kept = ("in winter", "5. 1. 2026", "0001-01-01T00:00:00Z")
        assert tuple(map(datestamp, kept)) == kept
    finally:
        zone.reset(token)
    assert datestamp(None) == datestamp("") == "–"  # noqa: RUF001 an en dash


def test_code_is_marked_and_other_text_is_escaped() -> None:
    code = '<code lang="en" translate="no">'
    assert coded("<b>: see `rule list`, a`") == f"&lt;b&gt;: see {code}rule list</code>, a`"
    assert coded(Markup("<b>`x`</b>")) == f"<b>{code}x</code></b>"
