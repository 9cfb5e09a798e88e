from typing import Any

from sqlalchemy import select

from manager.models import Job, RecurringJob, RecurringState
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_schedule


def _planned(server: Server, **columns: Any) -> int:
    with server.database.session() as session:
        number = a_schedule(session, a_repository(session), **columns).id
        session.commit()
        return number


async def test_a_schedule_is_added_with_what_its_form_says(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {
        "metadata_prefix": "marc21",
        "set_spec": "books:old",
        "frequency": "weekly on monday at 02:30",
        "time_zone": "Europe/Prague",
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
    assert "weekly on monday at 02:30" in page
    assert "books:old" in page


async def test_a_form_with_faults_comes_back_as_it_was(server: Server, administrator: Browser) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    form = {"metadata_prefix": "oai_dc", "set_spec": "maps", "frequency": "sometimes", "method": "1"}

    status, page, _ = await administrator.post("/schedules/new?repository=1", form)

    assert status == 422
    assert "not understood" in page
    assert 'value="maps"' in page
    assert '<option value="1" selected>' in page
    with server.database.session() as session:
        assert session.scalars(select(RecurringJob)).all() == []


async def test_the_repository_is_chosen_first(server: Server, administrator: Browser) -> None:
    assert "no repository to harvest yet" in (await administrator.get("/schedules/new"))[1]
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    assert "Which repository is harvested?" in (await administrator.get("/schedules/new"))[1]
    assert (await administrator.get("/schedules/new?repository=99"))[0] == 404
    assert (await administrator.get("/schedules/new?repository=x"))[0] == 404


async def test_run_now_makes_a_job(server: Server, administrator: Browser) -> None:
    number = _planned(server)

    _, _, target = await administrator.post(f"/schedules/{number}/run")

    assert target == "/jobs?done=harvest-asked"
    with server.database.session() as session:
        assert session.scalars(select(Job)).one().recurring_id == number


async def test_a_schedule_is_paused_and_resumed(server: Server, administrator: Browser) -> None:
    number = _planned(server)

    await administrator.post(f"/schedules/{number}/pause")
    _, page = await administrator.get("/schedules")
    assert "paused" in page
    assert "Resume" in page
    await administrator.post(f"/schedules/{number}/resume")

    with server.database.session() as session:
        assert session.get_one(RecurringJob, number).state == RecurringState.NEW


async def test_a_schedule_goes_after_a_page_that_names_it(server: Server, administrator: Browser) -> None:
    number = _planned(server)

    _, page = await administrator.get(f"/schedules/{number}/remove")
    assert "Remove the schedule of Library of Telč · marc21?" in page
    _, _, target = await administrator.post(f"/schedules/{number}/remove")

    assert target == "/schedules?done=schedule-removed"
    assert "Nothing is planned yet" in (await administrator.get(target))[1]


async def test_viewers_see_no_buttons_that_they_may_not_press(server: Server, viewer: Browser) -> None:
    _planned(server)

    _, page = await viewer.get("/schedules")

    assert '<body class="may-look">' in page
    assert (await viewer.get("/schedules/new?repository=1"))[0] == 403
