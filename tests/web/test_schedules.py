import asyncio
import itertools
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from lxml import html
from sqlalchemy import insert, select, text

from harvester.models import Harvest, Repository
from manager.models import Job, RecurringJob, RecurringState
from manager.schedules.calendar import due_groups
from manager.schedules.frequency import parse_frequency
from manager.schedules.service import run_now
from manager.worker.registry import Membership, register
from oai.datestamps import utc_now
from oai.errors import required
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_run, a_schedule
from web.auth.organisations import find_organisation, give_repository
from web.schedules.pages import SHOWN, Week, end_of_week, week_of
from web.site.keys import PageSizes


def _planned(server: Server, **columns: Any) -> int:
    with server.database.session() as session:
        number = a_schedule(session, a_repository(session), **columns).id
        session.commit()
        return number


async def test_a_schedule_is_added_with_the_entries_of_its_form(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {
        "metadata_prefix": "marc21",
        "set_spec": "books:old",
        "frequency": "weekly on monday at 02:30",
        "time_zone": "Africa/Lagos",
        "start_date": "2027-01-31 08:00",
        "method": "1",
        "validation": "0",
    }

    status, text, target = await administrator.post("/schedules/new?repository=1", form)

    assert status == 303, text
    with server.database.session() as session:
        row = session.scalars(select(RecurringJob)).one()
        assert (row.metadata_prefix, row.set_spec, row.frequency) == (
            "marc21",
            "books:old",
            form["frequency"],
        )
        assert (row.method, row.validation, row.incremental) == (1, 0, False)
        assert row.start_date.isoformat() == "2027-01-31T07:00:00+00:00"
    _, page = await administrator.get(target)
    assert "every week on Monday at 01:30" in page, "on the reader's clock, as the week shows it"
    assert "books:old" in page
    assert "strict validation" in page


async def test_a_form_with_errors_keeps_its_entries(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {"metadata_prefix": "oai_dc", "set_spec": "maps", "frequency": "sometimes", "method": "1"}

    status, page, _ = await administrator.post("/schedules/new?repository=1", form)

    assert status == 422
    assert "not recognized" in page
    assert 'value="maps"' in page
    assert '<option value="1" selected>' in page
    with server.database.session() as session:
        assert session.scalars(select(RecurringJob)).all() == []


async def test_the_same_schedule_is_not_added_twice(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {"metadata_prefix": "oai_dc", "set_spec": "", "frequency": "daily at 02:30", "validation": "2"}

    (first, *_), (again, page, _), (other, *_) = [
        await administrator.post("/schedules/new?repository=1", one)
        for one in (form, form, {**form, "set_spec": "maps"})
    ]

    assert (first, again, other) == (303, 422, 303), page
    assert "The repository already has the same schedule." in page
    with server.database.session() as session:
        assert sorted(map(str, session.scalars(select(RecurringJob.set_spec)))) == ["None", "maps"]


async def test_a_new_schedule_needs_a_chosen_repository(server: Server, administrator: Browser) -> None:
    assert "No repositories to harvest yet" in (await administrator.get("/schedules/new"))[1]
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert "Repository" in (await administrator.get("/schedules/new"))[1]
    assert (await administrator.get("/schedules/new?repository=99"))[0] == 404
    assert (await administrator.get("/schedules/new?repository=x"))[0] == 404


async def test_run_now_adds_a_job(server: Server, administrator: Browser) -> None:
    number = _planned(server)

    _, _, target = await administrator.post(f"/schedules/{number}/run")

    assert target == "/jobs/1?done=harvest-asked"
    with server.database.session() as session:
        assert session.scalars(select(Job)).one().recurring_id == number


async def test_only_the_last_change_of_a_schedule_is_undone(server: Server, administrator: Browser) -> None:
    number = _planned(server)

    async def switch(path: str) -> tuple[int, str]:
        status, _, target = await administrator.post(path)
        page = (await administrator.get(target))[1] if target else ""
        return status, "".join(re.findall(r'action="(/schedules/[^"]+since=[^"]+)"', page))

    paused, undo = await switch(f"/schedules/{number}/pause")
    assert (paused, undo.partition("=")[0]) == (303, f"/schedules/{number}/resume?since")
    assert await switch(f"/schedules/{number}/pause") == (303, ""), "nothing has changed"
    for step in ("resume", "pause"):  # by somebody else
        await administrator.post(f"/schedules/{number}/{step}")
    assert (await switch(undo))[0] == 409
    with server.database.session() as session:
        assert session.get_one(RecurringJob, number).state == RecurringState.PAUSED
    undo = (await switch(f"/schedules/{number}/resume"))[1]
    assert (await switch(f"/schedules/{number}/run"))[0] == 303, "which changes nothing about the schedule"
    assert (await switch(undo))[0] == 303
    with server.database.session() as session:
        assert session.get_one(RecurringJob, number).state == RecurringState.PAUSED


async def test_undo_does_not_end_a_pause_of_all_schedules_but_may_be_sent_twice(
    server: Server, administrator: Browser
) -> None:
    at = f"/schedules/{_planned(server)}"

    async def pause() -> str:
        _, _, target = await administrator.post(f"{at}/pause")
        (undo,) = re.findall(rf'action="({at}/resume[^"]+)"', (await administrator.get(target))[1])
        return str(undo)

    undo = await pause()
    twice = await asyncio.gather(*(administrator.post(undo) for _ in range(2)))
    assert {answer[0] for answer in [*twice, await administrator.post(undo)]} == {303}
    undo = await pause()
    for step in ("resume", "pause"):  # by somebody else
        await administrator.post(f"/repositories/selected/{step}", {"repository": "1"})
    assert (await administrator.post(undo))[0] == 409
    await administrator.post(f"{at}/resume")
    assert (await administrator.post(await pause()))[0] == 303, "an earlier pause of all does not count"


async def test_a_schedule_that_two_users_remove_at_once_is_removed(
    server: Server, administrator: Browser
) -> None:
    number = _planned(server)
    await administrator.token()
    answers = await asyncio.gather(*(administrator.post(f"/schedules/{number}/remove") for _ in range(4)))
    assert {status for status, *_ in answers} <= {303, 404}


async def test_a_schedule_is_paused_and_resumed(server: Server, administrator: Browser) -> None:
    number = _planned(server)

    await administrator.post(f"/schedules/{number}/pause")
    _, page = await administrator.get("/schedules")
    assert "paused" in page
    assert "Resume" in page
    await administrator.post(f"/schedules/{number}/resume")

    with server.database.session() as session:
        assert session.get_one(RecurringJob, number).state == RecurringState.NEW


async def test_suspended_schedule_shows_its_state_instead_of_a_next_run(
    server: Server, viewer: Browser
) -> None:
    number = _planned(server)
    with server.database.session() as session:
        session.get_one(RecurringJob, number).state = RecurringState.SUSPENDED
        run_now(session, number)
        session.commit()

    _, page = await viewer.get("/schedules")

    assert '<td data-label="Next run"><span>suspended</span></td>' in page


async def test_a_retry_is_marked_in_the_list_of_schedules(server: Server, viewer: Browser) -> None:
    number = _planned(server)
    soon = utc_now() + timedelta(minutes=14)
    with server.database.session() as session:
        job = Job(repository_id=1, recurring_id=number, metadata_prefix="marc21", harvest_start_time=soon)
        session.add(job)
        session.commit()
        assert "new try" not in (await viewer.get("/schedules"))[1]
        job.attempt = 1
        session.commit()
    assert "new try" in (await viewer.get("/schedules"))[1]


async def test_a_schedule_is_removed_after_a_confirmation_page_that_names_it(
    server: Server, administrator: Browser
) -> None:
    number = _planned(server)

    _, page = await administrator.get(f"/schedules/{number}/remove")
    assert "Remove the schedule of Library of Telč · marc21?" in page
    _, _, target = await administrator.post(f"/schedules/{number}/remove")

    assert target == "/schedules?done=schedule-removed"
    assert "No schedules yet" in (await administrator.get(target))[1]


async def test_viewers_see_no_buttons_for_changes(server: Server, viewer: Browser) -> None:
    _planned(server)

    _, page = await viewer.get("/schedules")

    assert '<body class="may-look"' in page
    assert (await viewer.get("/schedules/new?repository=1"))[0] == 403


async def test_the_edit_form_shows_a_schedule_and_changes_it(server: Server, administrator: Browser) -> None:
    number = _planned(server, set_spec="maps")

    _, page = await administrator.get(f"/schedules/{number}/edit")
    assert 'value="daily at 02:30"' in page
    assert re.search(r"<h1>Schedule of [^<]+ · marc21 · maps</h1>", page)
    form = {
        "metadata_prefix": "oai_dc", "frequency": "every 6 hours", "priority": "7", "overlap": "queue",
        "slice": "day", "validation": "1", "method": "1", "parse_id": "false", "end_date": "2030-01-01 00:00",
        "time_zone": "Europe/Prague",
    }  # fmt: skip
    _, _, target = await administrator.post(f"/schedules/{number}/edit", form)

    assert target == "/schedules?done=schedule-changed"
    with server.database.session() as session:
        changed = session.get_one(RecurringJob, number)
        assert (changed.frequency, changed.priority, changed.overlap) == ("every 6 hours", 7, "queue")
        assert (changed.slice, changed.validation, changed.parse_id, changed.incremental) == (
            "day",
            1,
            False,
            False,
        )
        assert changed.end_date == datetime(2029, 12, 31, 23, tzinfo=UTC)


async def test_saving_the_unchanged_form_changes_nothing(server: Server, administrator: Browser) -> None:
    # The form shows minutes, and does not say which of two hours a time of the repeated one is in.
    start, end = datetime(2026, 3, 1, 20, 10, 30, 500_000, UTC), datetime(2027, 10, 31, 1, 30, tzinfo=UTC)
    number = _planned(server, start_date=start, end_date=end, time_zone="Europe/Prague")
    with server.database.session() as session:
        before = {
            column.key: getattr(session.get_one(RecurringJob, number), column.key)
            for column in RecurringJob.__table__.columns
        }
    _, page = await administrator.get(f"/schedules/{number}/edit")
    root: Any = html.fromstring(page)
    form = dict(root.xpath("//form[contains(@class, 'stack')]")[0].fields)
    sent = {name: str(value) for name, value in form.items() if value is not None and name != "csrf_token"}

    status, answer, _ = await administrator.post(f"/schedules/{number}/edit", sent)

    assert status == 303, answer
    with server.database.session() as session:
        after = session.get_one(RecurringJob, number)
        assert {name for name, value in before.items() if getattr(after, name) != value} == set()

    await administrator.post(f"/schedules/{number}/edit", {**sent, "time_zone": "UTC"})
    with server.database.session() as session:
        assert session.get_one(RecurringJob, number).end_date == datetime(2027, 10, 31, 2, 30, tzinfo=UTC)


async def test_the_week_is_a_grid_of_hours_and_days(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc = a_repository(session)
        for frequency in ("daily at 02:30", "hourly", "every minute", "weekly on monday at 02:45"):
            a_schedule(session, telc, frequency=frequency)
        session.execute(text("UPDATE oai_recurring_job SET state = 1, start_date = '2026-01-01'"))
        session.commit()

    week = _week(server, datetime(2026, 3, 2, 12, tzinfo=UTC))
    _, page = await viewer.get("/schedules?view=week")
    with server.database.session() as session:
        register(session, Membership(host="here", process_id=1, concurrency=1, lost_seconds=600))
        session.commit()
    _, with_a_worker = await viewer.get("/schedules?view=week")

    assert [hour.hour for hour in week.hours] == list(range(24))
    night = week.hours[2]
    assert [len(cell.dues) for cell in night.cells] == [0, 2, 2, 2, 2, 2, 2]
    assert [group.frequency for group in week.often] == ["every minute"]
    assert sum(len(cell.dues) for hour in week.hours for cell in hour.cells) >= 6 * 25
    assert 'href="/schedules/1/edit"' in page
    assert "More often than hourly" in page
    assert "2 runs, 1 slot" in with_a_worker
    assert "1 runs" not in with_a_worker


_MOST_IN_THE_GRID = 7 * 25
_FREQUENCIES = (
    "daily at 02:30", "weekly on monday at 02:45", "monthly on 31 at 03:00", "30 2 * * 1-5", "*/20 2 * * *",
    " Every 6 hours", "daily", "weekly", "monthly", "hourly", "every 50 minutes", "every 2 days",
)  # fmt: skip


async def test_the_week_shows_every_run_of_the_schedules(server: Server) -> None:
    now = datetime(2026, 3, 26, 12, 5, tzinfo=UTC)
    starts = [
        now - timedelta(days=40),
        now - timedelta(hours=7, minutes=11),
        now + timedelta(days=2, hours=3),
    ]
    end = datetime(2026, 4, 2, tzinfo=UTC)
    expected = Counter[datetime]()
    with server.database.session() as session:
        telc = a_repository(session)
        for frequency, start, stop in itertools.product(
            _FREQUENCIES, starts, (None, now + timedelta(days=4), now + timedelta(days=40))
        ):
            a_schedule(
                session, telc, frequency=frequency, start_date=start, end_date=stop, time_zone="Europe/Prague"
            )
            before, zone = now - timedelta(microseconds=1), ZoneInfo("Europe/Prague")
            upcoming = parse_frequency(frequency).upcoming(before, start=start, zone=zone)
            within_week = itertools.takewhile(end.__gt__, upcoming)
            due = list(itertools.takewhile((stop or end).__ge__, within_week))
            expected.update(due if len(due) <= _MOST_IN_THE_GRID else ())
        session.commit()
        found = due_groups(session, now, end, limit=1000, named=1000)

    week = _week(server, now)
    cells = [cell for hour in week.hours for cell in hour.cells]

    assert found.left_out == 0
    assert sum(len(cell.dues) + cell.more for cell in cells) == expected.total()
    assert {due.moment for cell in cells for due in cell.dues} <= set(expected)
    assert all(len(cell.dues) <= SHOWN for cell in cells)
    assert {group.frequency for group in week.often} == {"every 50 minutes"}
    assert len(found.groups) < len(_FREQUENCIES) * 9, "those with the same times are one"


async def test_a_one_off_harvest_is_in_the_week(server: Server) -> None:
    now = datetime(2026, 3, 2, 12, tzinfo=UTC)
    with server.database.session() as session:
        once = a_schedule(session, a_repository(session), frequency=None)
        session.execute(
            insert(Job).values(
                repository_id=1, recurring_id=once.id, harvest_start_time=now + timedelta(days=1)
            )
        )
        session.commit()

    week = _week(server, now)

    assert [due.moment for hour in week.hours for cell in hour.cells for due in cell.dues] == [
        now + timedelta(days=1)
    ]


@pytest.mark.parametrize("page_sizes", [PageSizes(week_groups=1)])
async def test_the_week_says_how_many_schedules_it_does_not_show(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        telc, knav = a_repository(session), a_repository(session, name="KNAV", folder="knav")
        for hour in range(1, 4):
            a_schedule(session, telc, frequency=f"daily at 0{hour}:00")
        for _ in range(9):
            a_schedule(session, knav, frequency="daily at 09:00")
        session.commit()

    _, page = await viewer.get("/schedules?view=week")
    _, of_one = await viewer.get("/schedules?view=week&repository=2")

    assert "3 schedules with their own times are not shown" in page
    assert "and 5 more" in page
    assert "Library of Telč</a> <span" not in page
    assert "not drawn" not in of_one
    assert (await viewer.get("/schedules?view=week&repository=9"))[0] == 404


async def test_schedules_are_filtered_by_repository(server: Server, viewer: Browser) -> None:
    with server.database.session() as session:
        a_schedule(session, a_repository(session))
        a_schedule(session, a_repository(session, name="KNAV", folder="knav"))
        session.commit()

    _, page = await viewer.get("/schedules?repository=2")
    _, file = await viewer.get("/schedules.csv?repository=2")

    assert re.findall(r'<tr id="schedule-(\d+)">', page) == ["2"]
    assert 'href="/schedules.csv?repository=2"' in page
    assert "KNAV" in file
    assert "Telč" not in file


def _week(server: Server, now: datetime) -> Week:
    with server.database.session() as session:
        due = due_groups(session, now, end_of_week(now), limit=1000, named=SHOWN)
    return week_of(due.groups, now)


async def test_a_sample_of_a_schedule_is_a_job_with_a_limit_of_records(
    server: Server, administrator: Browser
) -> None:
    number = _planned(server)

    status, _, _ = await administrator.post(f"/schedules/{number}/sample", {"records": "ten"})
    _, _, target = await administrator.post(f"/schedules/{number}/sample", {"records": "10"})

    assert status == 422
    assert target == "/jobs/1?done=harvest-asked"
    with server.database.session() as session:
        assert session.scalars(select(Job.max_records)).one() == 10


async def test_the_preview_of_a_schedule_names_no_schedules_of_other_organisations(
    server: Server, administrator: Browser, owner: Browser
) -> None:
    with server.database.session() as session:
        ours = a_repository(session, folder="same")
        strange = a_repository(session, name="Library of strangers", folder="strange")
        ours.base_url, strange.base_url = "https://same.example/a", "https://same.example/b"
        a_schedule(session, strange)
        organisation = find_organisation(session, "mzk")
        give_repository(session, ours.repository_id, required(organisation, "a standing one").organisation_id)
        number = ours.repository_id
        session.commit()
    form = {"metadata_prefix": "marc21", "frequency": "daily at 02:30", "time_zone": "UTC", "do": "show-plan"}
    _, page, _ = await administrator.post(f"/schedules/new?repository={number}", form)
    assert "A run takes about" in page
    assert "Library of strangers" in page
    _, page, _ = await owner.post(f"/schedules/new?repository={number}", form)
    assert "A run takes about" in page
    assert "Library of strangers" not in page


async def test_the_preview_shows_the_datestamp_bounds_and_whether_they_have_an_effect(
    server: Server, administrator: Browser
) -> None:
    number = _planned(server, harvest_from="2020-01-01")
    form = {"metadata_prefix": "marc21", "frequency": "daily at 02:30", "time_zone": "UTC", "do": "show-plan"}
    bounds = {"harvest_from": "2020-01-01", "harvest_to": "2021-12-31"}

    async def previewed(**fields: str) -> str:
        _, page, _ = await administrator.post(f"/schedules/{number}/edit", {**form, **bounds, **fields})
        tree: Any = html.fromstring(page)
        return " ".join(tree.find_class("plan")[0].text_content().split())

    every, first = await previewed(), await previewed(incremental="yes")
    with server.database.session() as session:
        a_run(session, session.scalars(select(Repository)).one(), recurring_id=number)
        session.commit()
    later = await previewed(incremental="yes")
    with server.database.session() as session:
        row = {"repository_id": 1, "metadata_prefix": "marc21", "watermark": "2022-06-01T00:00:00Z"}
        session.execute(insert(Harvest).values(row))
        session.commit()
    changes = await previewed(incremental="yes", harvest_to="2023-01-01")
    never = await previewed(incremental="yes")
    other = await previewed(incremental="yes", set_spec="maps")

    requested = (every, first, later, changes, other)
    assert all("Only records changed since 1 Jan 2020 are requested." in one for one in requested)
    assert "No records can be requested: changes are requested since " in never
    assert all("Records changed after 31 Dec 2021 are not requested." in one for one in (every, first, later))
