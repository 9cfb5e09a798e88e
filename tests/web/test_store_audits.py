"""Audits of stores on pages and over the API."""

import re

from sqlalchemy import select

from harvester.store.models import StoreAudit
from manager.models import StoreAuditSchedule
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository, a_store_audit
from web.auth.organisations import find_organisation, give_repository


def _damaged(server: Server, owner: str = "mzk") -> tuple[int, int]:
    """The numbers of a repository and of its audit, which found an altered file."""
    with server.database.session() as session:
        repository = a_repository(session)
        organisation = find_organisation(session, owner)
        assert organisation is not None
        give_repository(session, repository.repository_id, organisation.organisation_id)
        audit = a_store_audit(session, repository)
        numbers = repository.repository_id, audit.audit_id
        session.commit()
    return numbers


async def test_a_damaged_store_is_on_the_overview_the_repository_and_its_own_page(
    server: Server, administrator: Browser
) -> None:
    repository, audit = _damaged(server)
    for path in ("/", "/alerts", f"/repositories/{repository}", "/store-audits"):
        status, text = await administrator.get(path)
        assert (status, f'href="/store-audits/{audit}"' in text) == (200, True), path
        assert "1 altered" in text, path
    status, text = await administrator.get(f"/store-audits/{audit}")
    assert (status, "oai:x:1" in text) == (200, True)
    assert text.index("1 altered") < text.index("a/1.xml") < text.index("Details"), "what, where, numbers"


async def test_the_page_shows_why_a_file_is_unreadable(server: Server, administrator: Browser) -> None:
    _repository, audit = _damaged(server)
    finding = {"kind": "unreadable", "path": "a/2.xml", "identifier": None, "unfinished": False}
    with server.database.session() as session:
        session.get_one(StoreAudit, audit).findings = [{**finding, "reason": "Input/output error"}]
        session.commit()
    text = (await administrator.get(f"/store-audits/{audit}"))[1]
    assert text.index("a/2.xml") < text.index("unreadable") < text.index("Input/output error")
    assert "1 more file has a problem" in text


async def test_other_organisations_do_not_see_an_audit(
    server: Server, owner: Browser, colleague: Browser
) -> None:
    _repository, audit = _damaged(server)
    assert (await owner.get(f"/store-audits/{audit}"))[0] == 200
    assert (await colleague.get(f"/store-audits/{audit}"))[0] == 404
    assert "Telč" not in (await colleague.get("/store-audits"))[1]


async def test_an_audit_is_queued_once(server: Server, owner: Browser) -> None:
    repository, _audit = _damaged(server)
    path = f"/repositories/{repository}/store-audits"
    assert (await owner.post(path))[0] == 303
    status, text, _ = await owner.post(path)
    assert (status, "already queued" in text) == (409, True)


async def test_a_schedule_is_set_and_removed(server: Server, owner: Browser, administrator: Browser) -> None:
    repository, _audit = _damaged(server)
    number = str(repository)
    form = {"repository_id": number, "frequency": "weekly on saturday at 02:00", "time_zone": ""}
    status, text, _ = await owner.post("/store-audits/schedules", {**form, "frequency": "sometimes"})
    assert (status, "not recognized" in text) == (422, True)
    assert (await owner.post("/store-audits/schedules", {**form, "repository_id": ""}))[0] == 422
    assert (await owner.post("/store-audits/schedules", form))[0] == 303
    with server.database.session() as session:
        made = session.scalars(select(StoreAuditSchedule)).one()
    assert (made.repository_id, made.time_zone) == (repository, "UTC")
    assert "weekly on saturday" in (await administrator.get("/store-audits"))[1]
    removed = await owner.post(f"/store-audits/schedules/{made.schedule_id}/remove")
    assert removed[2] == "/store-audits?done=audit-schedule-removed"


async def test_the_form_of_a_schedule_has_choices_and_the_readers_time_zone(
    server: Server, owner: Browser
) -> None:
    repository, _audit = _damaged(server)
    await owner.post("/account/time-zone", {"time_zone": "Europe/Prague"})
    _, page = await owner.get("/store-audits")
    checked = re.findall(r'name="(when|weekday-.)" value="([a-z]+)" checked', page)
    [zone] = re.findall(r'name="time_zone" value="([^"]*)"', page)
    assert (checked, zone) == ([("when", "weekly"), ("weekday-5", "yes")], "Europe/Prague")
    assert 'id="when-by-hand"' not in page
    form = {"repository_id": str(repository), **dict(checked), "at": "02:00", "time_zone": zone}

    status, page, _ = await owner.post("/store-audits/schedules", {**form, "weekday-5": ""})
    assert (status, "Choose at least one day of the week." in page) == (422, True)
    expert = {**form, "when": "expert", "frequency": "každou sobotu"}
    status, page, _ = await owner.post("/store-audits/schedules", expert)
    assert (status, "not recognized" in page, "empty value" in page) == (422, True, False)
    assert (await owner.post("/store-audits/schedules", form))[0] == 303

    with server.database.session() as session:
        made = session.scalars(select(StoreAuditSchedule)).one()
    assert (made.frequency, made.time_zone) == ("weekly on saturday at 02:00", "Europe/Prague")
    assert "every week on Saturday at 02:00" in (await owner.get("/store-audits"))[1]


async def test_the_api_shows_audits_and_sets_schedules(server: Server, administrator: Browser) -> None:
    repository, audit = _damaged(server)
    http, url = administrator.http, f"{administrator.base_url}/api/v1"
    async with http.get(f"{url}/store-audits?repository={repository}") as answer:
        (item,) = (await answer.json())["items"]
    assert (item["audit_id"], item["failure_code"]) == (audit, "store_damaged")
    async with http.get(f"{url}/store-audits/{audit}") as answer:
        assert (await answer.json())["findings"][0]["path"] == "a/1.xml"
    token = {"X-CSRF-Token": await administrator.token()}
    body = {"repository_id": None, "frequency": "daily at 02:00"}
    async with http.post(f"{url}/store-audit-schedules", json=body, headers=token) as answer:
        made = await answer.json()
        assert (answer.status, made["repository_id"]) == (201, None), made
    async with http.delete(f"{url}/store-audit-schedules/{made['schedule_id']}", headers=token) as answer:
        assert answer.status == 204
    path = f"{url}/repositories/{repository}/store-audits"
    async with http.post(path, headers=token) as answer:
        assert (answer.status, (await answer.json())["state"]) == (201, "queued")
