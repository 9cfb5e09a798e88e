"""When a schedule runs, in forms and in sentences."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from manager.schedules.frequency import parse_frequency
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.schedules.timing import NO_TIME, Timing, When, at_night, often, often_here, timing_in, timing_of
from web.site.i18n import catalogue, language, translations


@pytest.mark.parametrize(
    ("frequency", "words"),
    [
        ("", "only by hand"),
        ("hourly", "every hour"),
        ("daily at 2:30", "every day at 02:30"),
        ("30 2 * * *", "every day at 02:30"),
        ("Weekly on Saturday at 01:00", "every week on Saturday at 01:00"),
        ("5 1 * * 7,1,3", "every week on Monday, on Wednesday and on Sunday at 01:05"),
        ("0 1 * * 0", "every week on Sunday at 01:00"),
        ("monthly on 31 at 03:00", "every month on day 31 at 03:00"),
        ("every 6 hours", "every 6 hours"),
        ("Every  minute", "every minute"),
        ("every 1 days", "every day"),
        ("30 2 * * 1-5", "30 2 * * 1-5"),
        ("30 2 28 * *", "every month on day 28 at 02:30"),
        ("30 2 31 * *", "30 2 31 * *"),  # not in months of 30 days
    ],
)
def test_frequencies_are_described_in_words(frequency: str, words: str) -> None:
    assert often(frequency) == words


@pytest.mark.parametrize(
    "frequency",
    ["hourly", "daily at 02:30", "5 1 * * 1,3,7", "monthly on 31 at 03:00", "30 2 28 * *"],
)
def test_the_choices_of_a_form_give_the_frequency_that_they_were_read_from(frequency: str) -> None:
    chosen = timing_of(frequency)
    now, zone = datetime(2026, 11, 25, tzinfo=UTC), ZoneInfo("Europe/Prague")

    def dues(text: str) -> list[datetime]:
        upcoming = parse_frequency(text).upcoming(now, start=now, zone=zone)
        return [next(upcoming) for _ in range(5)]

    assert dues(chosen.frequency) == dues(frequency)


@pytest.mark.parametrize(
    ("frequency", "zone", "words"),
    [
        ("daily at 02:30", "UTC", "every day at 02:30"),
        ("daily at 02:30", "Europe/Prague", "every day at 01:30"),
        ("0 1 * * 1,4", "Asia/Tokyo", "every week on Wednesday and on Sunday at 16:00"),
        ("monthly on 31 at 03:00", "Europe/Prague", "every month on day 31 at 02:00"),
        ("monthly on 1 at 00:30", "Europe/Prague", "every month on day 1 at 00:30 (Europe/Prague)"),
        ("monthly on 2 at 00:30", "Europe/Prague", "every month on day 1 at 23:30"),
        ("30 2 * * 1-5", "UTC", "30 2 * * 1-5"),
        ("30 2 * * 1-5", "Europe/Prague", "30 2 * * 1-5 (Europe/Prague)"),
        ("every 6 hours", "Europe/Prague", "every 6 hours"),
        ("daily at 02:30", "Europe/Telč", "every day at 02:30 (Europe/Telč)"),
        ("", "Europe/Telč", "only by hand"),
    ],
)
def test_frequencies_of_all_zones_are_described_in_the_readers_zone(
    frequency: str, zone: str, words: str
) -> None:
    assert often_here(frequency, zone, datetime(2026, 1, 5, 1, tzinfo=UTC)) == words


def test_days_are_written_as_in_czech() -> None:
    before = language.set("cs"), translations.set(catalogue("cs"))
    try:
        assert often("5 1 * * 1,3") == "každý týden v pondělí a\xa0ve středu v 01:05"
        assert [often(f"every {count} minutes") for count in (1, 2, 10)] == [
            "každou minutu", "každé 2 minuty", "každých 10 minut",
        ]  # fmt: skip
    finally:
        language.reset(before[0])
        translations.reset(before[1])


def test_invalid_choices_fall_back_to_defaults_and_an_invalid_time_is_an_error() -> None:
    odd = timing_in({"when": "weekly", "weekday-9": "yes", "month_day": "²"})
    assert odd == Timing(when=When.WEEKLY, weekdays=(), day=1, at="01:00")
    assert timing_in({"when": "daily", "at": "02:30:15"}).frequency == "daily at 02:30"
    assert {timing_in({"when": "daily", "at": at}).frequency for at in ("", "0430", "25:99x")} == {NO_TIME}
    assert timing_in({"when": "never", "frequency": "hourly"}).when is When.HOURLY


def test_repositories_are_planned_for_different_times_of_the_night() -> None:
    times = [at_night(f"https://library-{number}.example/oai").at for number in range(1000)]
    assert (min(times), max(times)) == ("01:00", "04:59")
    assert at_night("https://library-1.example/oai").frequency == f"weekly on saturday at {times[1]}"
    assert max(map(times.count, times)) < 20


async def test_a_schedule_runs_on_the_chosen_days(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {
        "metadata_prefix": "oai_dc", "when": "weekly", "at": "02:30", "time_zone": "Europe/Prague",
        "frequency": "left from before", "do": "show-plan",
    }  # fmt: skip
    none, page, _ = await administrator.post("/schedules/new?repository=1", form)
    chosen = {**form, "weekday-0": "yes", "weekday-2": "yes"}
    _, plan, _ = await administrator.post("/schedules/new?repository=1", chosen)
    await administrator.post("/schedules/new?repository=1", {**chosen, "do": "save"})
    _, edit = await administrator.get("/schedules/1/edit")

    assert (none, "Choose at least one day of the week." in page) == (422, True)
    timeless, page, _ = await administrator.post("/schedules/new?repository=1", {**chosen, "at": ""})
    assert (timeless, "Enter a time, such as 02:30." in page) == (422, True)
    assert "Every week on Monday and on Wednesday at 02:30 (Europe/Prague)" in plan
    assert 'id="weekday-2" name="weekday-2" value="yes" checked' in edit
    assert 'id="weekday-1" name="weekday-1" value="yes">' in edit
