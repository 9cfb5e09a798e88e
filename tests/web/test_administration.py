"""Administration: a test mail, draining a worker, limits, pausing with one click and undoing it."""

import os
import re
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.async_api import Page as Tab
from playwright.async_api import expect
from sqlalchemy import event, select

from manager.leader.lock import leadership
from manager.models import Job, JobStatus
from manager.notices.models import Notice
from manager.schedules.service import run_now
from oai.datestamps import utc_now
from oai.disk import Disk
from oai.outgoing import MailSettings
from oai.owners import Organisation
from tests.chromium import console_messages
from tests.manager.notices.mail_server import mail_server
from tests.web.conftest import Browser, Server, enter
from tests.web.rows import a_repository, a_schedule, a_worker
from web.site.keys import SETTINGS


def use_mail(server: Server, port: int) -> None:
    # Settings are read once; tests alone change them under a running application.
    mail = MailSettings(host="127.0.0.1", port=port, security="none", timeout=10)
    server.app._state[SETTINGS] = server.app[SETTINGS].model_copy(update={"mail": mail})  # noqa: SLF001


def add_worker(server: Server) -> int:
    with server.database.session() as session:
        number = a_worker(session).worker_id
        session.commit()
        return number


async def test_the_manager_is_named_in_the_readers_language(server: Server, administrator: Browser) -> None:
    await administrator.post("/account/language", {"language": "cs"})
    async with leadership(server.database, poll_seconds=0.05, lost_seconds=60):
        for path in ("/", "/admin/workers", "/admin/health"):
            assert f", proces {os.getpid()}</span>" in (await administrator.get(path))[1], path


async def test_a_test_mail_is_sent_and_a_refusal_is_shown(server: Server, administrator: Browser) -> None:
    assert "mail.host" in (await administrator.get("/admin/health"))[1]
    async with mail_server() as mail:
        use_mail(server, mail.port)
        where = (await administrator.post("/admin/health/mail", {"to": "alena@library.example"}))[2]
        assert where == "/admin/health?done=mail-sent"
        assert [one.to for one in mail.mails] == [["alena@library.example"]]
        page = (await administrator.get("/admin/health"))[1]
        assert "(web.base_url)" in page
        assert "without encryption" in page
    status, page, _ = await administrator.post("/admin/health/mail", {"to": "alena@library.example"})
    assert (status, "127.0.0.1" in page, "refused" in page) == (422, True, True)
    assert (await administrator.post("/admin/health/mail", {"to": "nobody"}))[0] == 422


async def test_overview_and_health_show_messages_that_could_not_be_sent(
    server: Server, administrator: Browser
) -> None:
    said = "waiting for another attempt: 1; given up in the last week: 1"
    for path in ("/", "/admin/health"):
        assert "waiting for another attempt" not in (await administrator.get(path))[1]
    same = {"occasion": "test", "channel": "mail", "target": "a@x.example", "facts": {}, "last_error": "no"}
    with server.database.session() as session:
        for tries, state, ended in (
            (0, "waiting", None),
            (2, "waiting", None),
            (3, "given up", utc_now() - timedelta(days=1)),
            (3, "given up", utc_now() - timedelta(days=8)),
            (1, "sent", utc_now()),
        ):
            session.add(Notice(**same, tries=tries, state=state, ended=ended))
        session.commit()

    for path in ("/", "/admin/health"):
        assert said in (await administrator.get(path))[1], path


async def test_only_administrators_send_test_mails_and_drain_workers(
    server: Server, viewer: Browser, owner: Browser
) -> None:
    number = add_worker(server)
    for browser in (viewer, owner):
        assert (await browser.post("/admin/health/mail", {"to": "a@b.example"}))[0] == 403
        assert (await browser.post(f"/admin/workers/{number}/drain"))[0] == 403


async def test_a_worker_is_drained_by_page_and_api(server: Server, administrator: Browser) -> None:
    first, second = add_worker(server), add_worker(server)
    await administrator.post(f"/admin/workers/{first}/drain")
    headers = {"X-CSRF-Token": await administrator.token()}
    base = server.base_url + "/api/v1/workers"
    for number, status in ((second, 204), (99, 404)):
        async with administrator.http.post(f"{base}/{number}/drain", headers=headers) as answer:
            assert answer.status == status
    async with administrator.http.get(base) as answer:
        assert [one["draining"] for one in (await answer.json())["workers"]] == [True, True]
    assert (await administrator.post("/admin/workers/99/drain"))[0] == 404


async def test_a_worker_is_drained_only_after_a_question(server: Server, administrator: Browser) -> None:
    first = add_worker(server)
    assert f'href="/admin/workers/{first}/drain"' in (await administrator.get("/admin/workers"))[1]
    question = (await administrator.get(f"/admin/workers/{first}/drain"))[1]
    assert "Drain worker one.example, process 7?" in question
    assert "No other worker takes jobs: no harvest starts until" in question
    second = add_worker(server)
    assert "No other worker" not in (await administrator.get(f"/admin/workers/{first}/drain"))[1]
    await administrator.post(f"/admin/workers/{second}/drain")
    assert "No other worker" in (await administrator.get(f"/admin/workers/{first}/drain"))[1]
    assert (await administrator.get("/admin/workers/99/drain"))[0] == 404


async def test_pages_say_that_no_worker_takes_jobs(
    server: Server, administrator: Browser, owner: Browser
) -> None:
    with server.database.session() as session:
        schedule = a_schedule(session, a_repository(session))
        run_now(session, schedule.id)
        session.commit()
    worker, silent = add_worker(server), "no worker takes jobs"
    assert silent not in (await administrator.get("/"))[1]
    assert "No worker takes jobs" not in (await administrator.get("/admin/workers"))[1]
    await administrator.post(f"/admin/workers/{worker}/drain")
    page = (await administrator.get("/"))[1]
    assert silent in page
    assert "1 due job waits." in page
    assert "<span>draining</span>" in page
    assert silent in (await administrator.get("/alerts"))[1]
    assert "No worker takes jobs, so no harvest starts." in (await administrator.get("/admin/workers"))[1]
    assert silent not in (await owner.get("/"))[1]  # of the owner's repositories, no job waits


async def test_limits_are_shown_with_their_settings(server: Server, administrator: Browser) -> None:
    add_worker(server)
    page = (await administrator.get("/admin/limits"))[1]
    for setting in ("manager.per_host", "harvester.floor_bytes", "mail.per_hour", "provider.client_requests"):
        assert setting in page.replace("<wbr>", "")  # where a line may end


@pytest.mark.parametrize(
    ("free", "free_inodes", "mark", "why"),
    [
        (6 * 10**9, 600, "good", None),
        (4 * 10**9, 600, "bad", "There is too little space on our disk: 4,000,000,000 bytes are free"),
        (6 * 10**9, 40, "bad", "Our disk can hold too few further files: 40 inodes are free"),
    ],
)
async def test_pages_mark_a_disk_that_has_less_than_harvests_must_leave(
    administrator: Browser,
    monkeypatch: pytest.MonkeyPatch,
    free: int,
    free_inodes: int,
    mark: str,
    why: str | None,
) -> None:
    disk = Disk(folder=Path("/data"), total=10**11, free=free, inodes=1000, free_inodes=free_inodes)
    for page in ("overview", "admin"):
        monkeypatch.setattr(f"web.{page}.pages.disks_of", lambda _settings: [disk])
    for path in ("/", "/admin/health"):
        page = (await administrator.get(path))[1]
        space = page.rpartition("Free disk space<")[2].partition("</dd>")[0]
        assert f'class="state {mark}"' in space
        assert (why or "") in space
        assert ("are free" in space) == (why is not None)


@pytest.mark.parametrize(
    ("path", "shown"),
    [("/admin/limits", "Full: 90"), ("/", ">Full</a>"), ("/admin/organisations?after=a", "1,000,000")],
)
async def test_only_organisations_whose_storage_is_shown_are_read(
    server: Server, administrator: Browser, path: str, shown: str
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.add_all(
            (
                Organisation(short_name="a", name="Half", records=50, max_records=100),
                Organisation(short_name="b", name="Full", bytes=90, max_bytes=100, records=1, max_records=10),
                Organisation(short_name="c", name="Unlimited", records=10**6, max_records=0, max_bytes=0),
            )
        )
        session.commit()
    names = []

    def loaded(row: Organisation, *_: object) -> None:
        names.append(row.name)

    event.listen(Organisation, "load", loaded)
    try:
        page = (await administrator.get(path))[1]
    finally:
        event.remove(Organisation, "load", loaded)
    assert ("Half" in names, shown in page) == (False, True)


async def test_settings_are_described_and_found_in_the_readers_language(administrator: Browser) -> None:
    await administrator.post("/account/language", {"language": "cs"})
    for words in ("plán zastaví", "schedule is suspended", "suspend_after"):
        _, page = await administrator.get(f"/admin/settings?words={quote(words)}")
        [name] = re.findall(r'<th scope="row"><span class="mono" translate="no">([^<]+)', page)
        assert name == "manager.suspend_after", words
        assert "Po kolika selháních za sebou se plán zastaví; 0: nikdy." in page
        assert "schedule is suspended; 0" not in page


@pytest.mark.browser
async def test_a_job_is_paused_with_one_click_and_undone_with_another(server: Server, czech: Tab) -> None:
    with server.database.session() as session:
        schedule = a_schedule(session, a_repository(session))
        number = run_now(session, schedule.id).job_id
        session.commit()
    console = console_messages(czech)
    await enter(czech, server, path="/jobs")

    def status() -> int:
        with server.database.session() as session:
            return session.scalars(select(Job.status).where(Job.job_id == number)).one()

    await czech.get_by_role("button", name="Pozastavit").click()
    await expect(czech.get_by_role("button", name="Vzít zpět")).to_be_visible()
    assert status() == JobStatus.PAUSED
    await czech.get_by_role("button", name="Vzít zpět").click()
    await expect(czech.get_by_text("Úloha opět pokračuje.")).to_be_visible()
    assert status() == JobStatus.SCHEDULED
    assert console == []


_NO_UNDO = ("//evil.example", "/sign-out", "/jobs/1/kill", "/jobs/1/pause?x=1", "x")


async def test_invalid_undo_parameters_offer_no_undo(administrator: Browser) -> None:
    for undo in _NO_UNDO:
        page = (await administrator.get(f"/jobs?done=job-paused&undo={undo}"))[1]
        assert ">Undo<" not in page, undo
