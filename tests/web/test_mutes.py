"""From the overview: a failure is acknowledged with one click, or muted with a note and an end."""

import re
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from playwright.async_api import Page as Tab
from playwright.async_api import expect
from sqlalchemy import insert

from harvester.models import Repository
from manager.models import Job
from manager.notices.models import MuteKind
from manager.notices.mutes import mute
from oai.failures import FailureCode
from tests.chromium import console_messages
from tests.web.conftest import Browser, Server, enter
from tests.web.rows import a_repository, a_run, a_schedule
from web.alerts.pages_mutes import MuteForm


@pytest.fixture
def failed(server: Server) -> int:
    """A repository whose last run failed."""
    with server.database.session() as session:
        repository = a_repository(session)
        now = datetime.now(UTC)
        run = a_run(session, repository, status="failed", harvest_start_time=now, harvest_end_time=now)
        run.failure_code, run.failure_facts = FailureCode.HOST_UNKNOWN, {}
        session.commit()
        return repository.repository_id


@pytest.mark.browser
@pytest.mark.usefixtures("failed")
async def test_a_failure_is_acknowledged_or_muted_in_czech(server: Server, czech: Tab) -> None:
    console = console_messages(czech)
    await enter(czech, server)
    await czech.get_by_role("button", name="Vzít na vědomí").click()
    await expect(czech.get_by_text("Nic dalšího nevyžaduje pozornost.")).to_be_visible()
    await czech.get_by_text("1 selhání, vzaté na vědomí").click()
    await expect(czech.get_by_role("link", name="Library of Telč", exact=True)).to_be_visible()

    await czech.get_by_role("button", name="Ukončit").click()
    await czech.goto(server.base_url + "/")
    await czech.get_by_role("link", name="Ztlumit…: Library of Telč").click()
    await czech.get_by_label("Poznámka").fill("stěhují se, ví o tom Alena")
    await czech.get_by_label("Trvání").select_option("72")
    await czech.get_by_role("button", name="Ztlumit").click()
    await expect(czech.get_by_text("stěhují se, ví o tom Alena")).to_be_visible()
    assert console == []


async def test_a_partner_mutes_only_repositories_of_its_own_organisation(failed: int, owner: Browser) -> None:
    form = {"kind": "muted", "hours": "4", "note": "x"}
    for repository, status in (("all", 422), (str(failed), 404), ("x", 422)):
        answer = await owner.post("/alerts/mutes/new", {**form, "repository": repository})
        assert answer[0] == status
    assert (await owner.post("/runs/1/acknowledge", {}))[0] == 404
    assert (await owner.post("/alerts/mutes/new", {**form, "kind": "acknowledged"}))[0] == 422


async def test_the_form_for_muting_selects_the_last_of_many_repositories(
    server: Server, administrator: Browser
) -> None:
    with server.database.session() as session:
        rows = [{"base_url": f"https://{n}.example/oai", "base_dir": str(n)} for n in range(1500)]
        session.execute(insert(Repository), rows)
        session.commit()

    _, form = await administrator.get("/alerts/mutes/new?repository=1500")
    unknown, _ = await administrator.get("/alerts/mutes/new?repository=15000")

    assert '<option value="1500" selected>' in form
    assert unknown == 404


@pytest.mark.usefixtures("failed")
async def test_the_api_adds_lists_and_ends_mutes(server: Server, administrator: Browser) -> None:
    headers = {"X-CSRF-Token": await administrator.token()}
    base = server.base_url + "/api/v1"
    http = administrator.http
    async with http.post(f"{base}/runs/1/acknowledge", json={"note": "known"}, headers=headers) as answer:
        assert (answer.status, (await answer.json())["note"]) == (201, "known")
    end = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    body = {"kind": "maintenance", "note": "upgrade", "ends": end}
    async with http.post(f"{base}/mutes", json=body, headers=headers) as answer:
        assert (answer.status, (await answer.json()).get("repository_id", 0)) == (201, None), (
            await answer.text()
        )
    async with http.post(f"{base}/mutes/1/end", headers=headers) as answer:
        assert answer.status == 204
    async with http.get(f"{base}/mutes") as answer:
        assert [one["kind"] for one in (await answer.json())["items"]] == ["maintenance"]
    async with http.get(f"{base}/mutes", params={"past": "true"}) as answer:
        assert len((await answer.json())["items"]) == 2


@pytest.mark.parametrize("day", ["2027-03-28", "2027-10-31", "2027-06-01"])
def test_a_planned_window_has_its_hours_although_clocks_are_changed_in_it(day: str) -> None:
    starts = datetime.fromisoformat(f"{day}T01:00").replace(tzinfo=ZoneInfo("Europe/Prague"))
    form = MuteForm(repository="1", kind=MuteKind.MAINTENANCE, starts=starts, hours=4, note="x")
    begin, end = form.times()
    assert begin == starts
    assert end - starts.astimezone(UTC) == timedelta(hours=4)


async def test_planned_maintenance_is_shown_on_all_pages_with_due_times(
    server: Server, administrator: Browser
) -> None:
    begin = datetime.now(UTC) + timedelta(hours=1)
    with server.database.session() as session:
        repository = a_repository(session)
        schedule = a_schedule(session, repository)
        number = repository.repository_id
        due = begin + timedelta(minutes=30)
        session.add(Job(repository_id=number, recurring_id=schedule.id, harvest_start_time=due))
        ends = begin + timedelta(hours=4)
        mute(session, number, MuteKind.MAINTENANCE, note="moving", starts=begin, ends=ends)
        session.commit()
    pages = ["/", "/jobs?view=planned", "/repositories", "/schedules", f"/repositories/{number}"]

    assert [path for path in pages if "maintenance until" not in (await administrator.get(path))[1]] == []
    assert "no harvest of this repository begins. moving" in (await administrator.get(pages[-1]))[1]
    listed = (await administrator.get("/alerts/mutes"))[1].partition('data-label="Start"')[2]
    assert len(re.findall(r"\d:\d\d[^<>]*</time>", listed)) == 2, "start and end have times of day"
    answer = await administrator.post("/alerts/mutes/1/end", {"next": pages[-1]})
    assert answer[::2] == (303, f"{pages[-1]}?done=unmuted")
    assert [path for path in pages if "maintenance until" in (await administrator.get(path))[1]] == []
