"""Times and days of pages are those of the user's zone or the installation's, also where clocks change."""

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest
from sqlalchemy import update
from yarl import URL

from manager.jobs.reasons import Code, WaitReason
from manager.jobs.runs import RunFilter, days_of
from manager.models import RecurringJob, RecurringState
from manager.schedules.frequency import parse_zone
from oai.errors import SettingsError, UsageError
from oai.settings import load_settings
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.auth.users import set_time_zone
from web.models import User
from web.runs.words import first_day
from web.site import i18n, zones
from web.site.formats import clock, exact, reason
from web.site.keys import SETTINGS
from web.site.plots import timeline

_LATE = datetime(2026, 7, 1, 22, 30, tzinfo=UTC)
"""The second of July in Prague, the first in UTC."""


@pytest.fixture
def prague() -> Iterator[None]:
    """The clock of Prague."""
    token = i18n.zone.set(parse_zone("Europe/Prague"))
    yield
    i18n.zone.reset(token)


@pytest.mark.usefixtures("prague")
def test_times_are_in_the_zone_with_utc_in_the_tooltip() -> None:
    title = "2 Jul 2026 00:30:00 CEST (2026-07-01 22:30:00 UTC)"
    assert exact(_LATE) == (f'<time datetime="2026-07-01T22:30:00Z" title="{title}">2 Jul 2026 00:30</time>')


@pytest.mark.usefixtures("prague")
def test_times_in_the_repeated_hour_show_the_zones_abbreviation() -> None:
    night = datetime(2026, 10, 25, 0, 30, tzinfo=UTC)

    assert [clock(night + timedelta(hours=count)) for count in range(-1, 3)] == [
        "25 Oct 2026 01:30", "25 Oct 2026 02:30 CEST", "25 Oct 2026 02:30 CET", "25 Oct 2026 03:30",
    ]  # fmt: skip


@pytest.mark.usefixtures("prague")
def test_a_wait_reason_has_its_time_in_the_readers_zone_and_other_values_unchanged() -> None:
    retry = WaitReason(code=Code.RETRY, facts={"at": "2026-07-01T22:30:00Z"})
    odd = WaitReason(code=Code.RETRY, facts={"at": "soon"})

    assert (reason(retry), reason(odd)) == ("retry at 2 Jul 2026 00:30", "retry at soon")


@pytest.mark.parametrize(
    ("zone", "day", "begins"),
    [
        ("Europe/Prague", date(2026, 3, 29), datetime(2026, 3, 28, 23, tzinfo=UTC)),
        ("Europe/Prague", date(2026, 3, 30), datetime(2026, 3, 29, 22, tzinfo=UTC)),
        # In Beirut clocks go forward at midnight, so that there is none, and back from it in autumn.
        ("Asia/Beirut", date(2026, 3, 29), datetime(2026, 3, 28, 22, tzinfo=UTC)),
        ("Asia/Beirut", date(2026, 10, 25), datetime(2026, 10, 24, 22, tzinfo=UTC)),
    ],
)
def test_days_begin_at_the_zones_midnight(zone: str, day: date, begins: datetime) -> None:
    token = i18n.zone.set(parse_zone(zone))
    try:
        assert zones.midnight(day) == begins
        assert first_day(day + timedelta(days=1), 2) == begins
    finally:
        i18n.zone.reset(token)


@pytest.mark.usefixtures("prague")
def test_a_timeline_places_days_correctly_when_clocks_change() -> None:
    begin = datetime(2026, 3, 27, 23, tzinfo=UTC)
    plot = timeline([], begin, begin + timedelta(days=3), label="x")

    places = [float(found) for found in re.findall(r'd="M([0-9.]+) ', plot)]
    assert re.findall(r"\d\d Mar", plot) == ["29 Mar", "30 Mar", "31 Mar"]
    # 24 hours to the 29th, and 23 to the 30th.
    assert (places[1] - places[0]) / (places[0] - 190) == pytest.approx(23 / 24, abs=0.01)


async def test_pages_use_the_time_zone_that_the_user_chose(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        repository = a_repository(session)
        for frequency in ("daily at 22:30", "30 22 * * 1-5", "every 90 seconds"):
            a_schedule(session, repository, frequency=frequency, time_zone="Europe/Lisbon")
        session.execute(update(RecurringJob).values(state=RecurringState.RECURRING))
        a_run(session, repository, harvest_start_time=_LATE, harvest_end_time=_LATE)
        session.commit()

    _, before, _ = await administrator.post("/account/time-zone", {"time_zone": "Telč"})
    _, _, target = await administrator.post("/account/time-zone", {"time_zone": "Europe/Prague"})
    _, run = await administrator.get("/runs/1")
    _, in_july = await administrator.get("/runs?since=2026-07-02&until=2026-07-02")
    _, day_before = await administrator.get("/runs?since=2026-07-01&until=2026-07-01")
    _, timeline_page = await administrator.get("/runs?view=timeline&until=2026-07-02")
    _, plan = await administrator.get("/schedules/new?repository=1")
    _, schedules = await administrator.get("/schedules")
    _, week = await administrator.get("/schedules?view=week")

    assert "unknown time zone" in before
    assert target == "/account?done=time-zone-changed"
    assert ">2 Jul 2026 00:30</time>" in run
    assert "Times are in the zone Europe/Prague." in run
    assert '"/runs/1"' in in_july
    assert '"/runs/1"' not in day_before
    assert "2 Jul 2026 00:30</title>" in timeline_page
    assert '<time datetime="2026-06-25T22:00:00Z"' in timeline_page
    assert 'name="time_zone" value="Europe/Prague"' in plan
    # Both clocks change at the same moment.
    assert "<span>every day at 23:30</span>" in schedules
    assert ">23:30</time>" in week
    assert "<span>30 22 * * 1-5 (Europe/Lisbon)</span>" in schedules
    assert "(every 90 seconds)" in week
    for page in (schedules, week):
        assert page.count("Times are in the zone Europe/Prague.") == 1


async def test_the_preview_of_a_schedule_is_in_the_readers_zone(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await administrator.post("/account/time-zone", {"time_zone": "Asia/Tokyo"})
    form = {"metadata_prefix": "oai_dc", "frequency": "daily at 02:30", "time_zone": "UTC", "do": "show-plan"}

    _, page, _ = await administrator.post("/schedules/new?repository=1", form)

    assert "Next runs, in the zone Asia/Tokyo:" in page
    assert len(re.findall(r'T02:30:00Z" title="[^"]+ 02:30:00 UTC\)">[^<]+ 11:30</time>', page)) == 3


async def test_pages_use_the_configured_zone_without_a_choice_or_a_browsers_zone(
    server: Server, stranger: Browser, viewer: Browser
) -> None:
    kept = server.settings
    zoned = kept.model_copy(update={"web": kept.web.model_copy(update={"time_zone": "Asia/Tokyo"})})
    server.app[SETTINGS].__dict__.update(web=zoned.web)

    _, page = await viewer.get("/account")
    _, sign_in = await stranger.get("/sign-in")

    assert "Times are in the zone Asia/Tokyo." in page
    assert "Times are in the zone Asia/Tokyo." in sign_in

    stranger.http.cookie_jar.update_cookies({"zatva_zone": "Europe/Prague"}, URL(server.base_url))
    _, in_prague = await stranger.get("/sign-in")
    stranger.http.cookie_jar.update_cookies({"zatva_zone": "../etc"}, URL(server.base_url))
    _, ignored = await stranger.get("/sign-in")

    assert "Times are in the zone Europe/Prague." in in_prague
    assert "Times are in the zone Asia/Tokyo." in ignored


def test_runs_are_counted_by_days_of_the_zone(server: Server) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session), harvest_start_time=_LATE, harvest_end_time=_LATE)

        [in_prague] = days_of(session, RunFilter(), zone="Europe/Prague")
        [in_utc] = days_of(session, RunFilter(), zone="UTC")

    assert (in_prague.day, in_utc.day) == (date(2026, 7, 2), date(2026, 7, 1))


def test_every_offered_zone_is_known_to_the_database(server: Server) -> None:
    with server.database.session() as session:
        for name, _title in zones.zone_choices()[1::40]:
            set_time_zone(session, 1, name)
        # PostgreSQL has no such time zone, though a time shift of that name would do for it.
        with pytest.raises(UsageError, match="unknown time zone"):
            set_time_zone(session, 1, "XYZ+3")
        assert session.get_one(User, 1).time_zone is not None


def test_an_unknown_zone_in_the_settings_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"web\.time_zone.*unknown time zone"):
        load_settings(web={"time_zone": "Europe/Telč"})
