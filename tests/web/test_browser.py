"""The dashboard in a real browser: a librarian's way through it, live rows, accessibility."""

import itertools
import uuid

import pytest
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Browser, Page, expect
from sqlalchemy import insert, text
from sqlalchemy.orm import Session

from harvester.models import Harvest, History, Record, Repository
from harvester.running.models import Hold, Quarantined
from harvester.vocabulary import RunStatus
from manager.models import JobStatus
from manager.notices.models import Kind, Notice, NoticeRule, NoticeState, Occasion
from tests.chromium import console_messages
from tests.web.conftest import Server
from tests.web.pages import PAGES
from tests.web.repository import repository
from tests.web.rows import (
    BEGAN,
    a_bibliographic_record,
    a_filtering_set,
    a_repository,
    a_rule,
    a_run,
    a_schedule,
    an_examination,
)

pytestmark = pytest.mark.browser

_LONG = "https://repository.example/oai?verb=ListRecords&resumptionToken=" + "x" * 120 + ": HTTP status 500"

_WIDE = 1280
"""Pixels. Colours do not depend on the width, so they are looked at there."""
_VIOLATIONS = {"resultTypes": ["violations"]}
"""What passes is found all the same, but not written down element by element."""
_COLOUR_RULES = ["color-contrast", "link-in-text-block"]


async def _sign_in(page: Page, server: Server, name: str = "Alena") -> None:
    await page.goto(server.link(name))
    await page.get_by_role("button", name="Sign in").click()
    await expect(page).to_have_url(server.base_url + "/")


def _fill(server: Server) -> None:
    """Something of everything, with long names and addresses."""
    with server.database.session() as session:
        telc = a_repository(session, name="Library of Telč " + "and its many friends " * 4)
        schedule = a_schedule(session, telc, set_spec="books:" + "a" * 80)
        a_run(
            session,
            telc,
            status=RunStatus.FAILED,
            failure_reason=_LONG,
            warnings=[_LONG],
            evidence={"x": _LONG},
        )
        for status in RunStatus:
            a_run(session, telc, status=status)
        add_job = text(
            "INSERT INTO oai_job (repository_id, recurring_id, status, process_id, host, started) "
            "VALUES (1, :schedule, :status, 7, 'worker-1.library.example', now())"
        )
        for job_status in JobStatus:
            session.execute(add_job, {"schedule": schedule.id, "status": job_status})
        _fill_details(session, telc)
        progress = (
            "INSERT INTO oai_harvest (repository_id, metadata_prefix, job_id, run_started, counts, "
            "complete_list_size, last_error) VALUES (1, 'oai_dc', 2, now(), '{}', 1000, :error)"
        )
        session.execute(text(progress), {"error": _LONG})
        session.commit()


def _fill_details(session: Session, telc: Repository) -> None:
    """A record, a broken one, a run with its course and one that is held, an examination."""
    session.execute(
        insert(Record).values(
            repository_id=telc.repository_id, identifier="oai:telc.example:" + "1" * 90,
            identifier_key=uuid.uuid4(), datestamp="2026-01-01", metadata_prefix="oai_dc",
        )
    )  # fmt: skip
    session.execute(
        insert(Quarantined).values(
            repository_id=telc.repository_id, metadata_prefix="oai_dc", fault_key=uuid.uuid4(),
            identifier="oai:telc.example:" + "2" * 90, reason="xmlParseEntityRef: no name, line 2", url=_LONG,
            raw=b"<record>\n<a>x & y\x01\xff</a>" + b"z" * 300, raw_size=320, last_run=BEGAN, history_id=1,
        )
    )  # fmt: skip
    run = session.get_one(History, 1)
    run.pace = [[0.5, 10, 1], [1.0, 20, 2], [1.5, 40, 3]]
    harvest = Harvest(repository_id=telc.repository_id, metadata_prefix="held")
    session.add(harvest)
    session.flush()
    hold = Hold(
        history_id=1, harvest_id=harvest.harvest_id, run_started=BEGAN, kind="deletions", would_delete=100,
        would_update=0, active=120, allowed=20.0, sample=["oai:telc.example:" + "3" * 90],
    )  # fmt: skip
    session.add(hold)
    _fill_alerts(session, telc)
    a_rule(session, telc)
    a_filtering_set(session)
    a_bibliographic_record(session, telc, title="Slovník " + "staročeský " * 20)
    telc.examined, telc.examination = BEGAN, an_examination().as_json()
    telc.profile = an_examination().profile.as_json()
    session.flush()


def _fill_alerts(session: Session, telc: Repository) -> None:
    """A rule of each kind, and a message in each state about each occasion."""
    for kind in Kind:
        target = f"{kind}.{'a' * 60}@telc.example, b@telc.example"
        session.add(NoticeRule(repository_id=telc.repository_id, kind=kind, channel="mail", target=target))
        session.flush()
    session.add(NoticeRule(channel="webhook", target="https://telc.example/" + "hook" * 20))
    for state, occasion in itertools.zip_longest(NoticeState, Occasion, fillvalue="sent"):
        session.add(
            Notice(
                rule_id=1, history_id=1, occasion=occasion, channel="mail", target="b@telc.example", tries=1,
                facts={"repository_name": telc.repository_name}, state=state, last_error=_LONG,
            )
        )  # fmt: skip
    session.flush()


async def test_a_librarian_signs_in_and_adds_a_repository(server: Server, page: Page) -> None:
    said = console_messages(page)
    await _sign_in(page, server)
    async with repository() as address:
        await page.get_by_role("link", name="Add a repository").click()
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Ask it", exact=True).click()
        await page.get_by_role("button", name="Go on").last.click()
        await page.get_by_label("Base directory").fill("telc")
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_role("status").first).to_contain_text("The repository was added")

    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Repositories").click()

    await expect(page.get_by_role("row", name="Library of Telč")).to_contain_text("librarian@telc.example")
    assert said == []


async def test_times_are_shown_in_the_zone_that_the_reader_chose(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session))
        session.commit()
    await _sign_in(page, server)
    await page.get_by_role("link", name="Choose a time zone").click()
    await page.get_by_label("Times and days of the pages").select_option("Europe/Prague")
    await page.get_by_role("button", name="Change the time zone").click()

    await page.goto(server.base_url + "/runs/1")

    ended = page.locator('time[datetime="2026-01-02T03:05:05Z"]')
    await expect(ended).to_have_text("2026-01-02 04:05:05")
    await expect(ended).to_have_attribute("title", "2026-01-02 03:05:05 UTC")
    await expect(page.get_by_text("Europe/Prague")).to_be_visible()


async def test_rows_live_and_the_keyboard_focus_stays(server: Server, page: Page) -> None:
    said = console_messages(page)
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await _sign_in(page, server)
    await page.goto(server.base_url + "/jobs")
    await expect(page.get_by_text("Nothing runs and nothing waits.")).to_be_visible()

    with server.database.session() as session:
        session.execute(text("INSERT INTO oai_job (repository_id, status, process_id) VALUES (1, 1, 7)"))
        session.commit()
    await expect(page.locator("#job-1")).to_contain_text("nothing yet")
    await page.locator("#job-1").get_by_role("link", name="Stop").focus()
    with server.database.session() as session:
        session.execute(
            text(
                "INSERT INTO oai_harvest (repository_id, metadata_prefix, job_id, run_started, counts, "
                "complete_list_size) VALUES (1, 'oai_dc', 1, now(), '{\"records\"\\: 1500}', 3000)"
            )
        )
        session.execute(text("UPDATE oai_job SET host = 'worker-1'"))
        session.commit()
    await expect(page.locator("#job-1")).to_contain_text("1\u202f500 / ~3\u202f000")
    await expect(page.locator("#job-1 progress")).to_have_js_property("value", 1500)
    await expect(page.locator("#job-1").get_by_role("link", name="Stop")).to_be_focused()

    with server.database.session() as session:
        session.execute(text("DELETE FROM oai_job"))
        session.commit()
    await expect(page.locator("#job-1")).to_have_count(0)
    await expect(page.locator("#main")).to_be_focused()
    assert said == []


async def test_a_session_that_ends_ends_the_live_rows_for_good(server: Server, page: Page) -> None:
    await _sign_in(page, server)
    await page.goto(server.base_url + "/jobs")
    await expect(page.locator("[data-live-status]")).to_have_text("Live")
    with server.database.session() as session:
        session.execute(text("DELETE FROM web_session"))
        session.commit()

    # The page asks anew, as browsers do when a connection broke.
    await page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")

    await expect(page).to_have_url(server.base_url + "/sign-in?next=/jobs")


async def test_everything_works_without_scripts(server: Server, chromium: Browser) -> None:
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    await _sign_in(page, server)
    async with repository() as address:
        await page.get_by_role("link", name="Add a repository").click()
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Ask it", exact=True).click()
        await page.get_by_role("button", name="Go on").last.click()
        await page.get_by_label("How often").fill("")
        await page.get_by_label("Base directory").fill("telc")
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_role("heading", name="Library of Telč")).to_be_visible()

    await page.get_by_role("link", name="New schedule").click()
    await page.get_by_label("Set", exact=True).fill("maps")
    await page.get_by_role("button", name="Save the schedule").click()

    await expect(page.get_by_role("row", name="Library of Telč")).to_contain_text("maps")
    await context.close()


@pytest.mark.parametrize("width", [_WIDE, pytest.param(390, marks=pytest.mark.long)])
async def test_every_page_is_accessible_light_and_dark_and_needs_no_sideways_scroll(
    server: Server, page: Page, width: int
) -> None:
    _fill(server)
    await page.set_viewport_size({"width": width, "height": 800})
    await _check(page, server.base_url + "/sign-in", width)
    await _check(page, server.link("Viktor"), width)
    await _sign_in(page, server)
    for path in PAGES:
        await _check(page, server.base_url + path, width)
    await page.goto(server.base_url + "/repositories/new")
    await page.get_by_role("button", name="Ask it", exact=True).click()
    await expect(page.get_by_role("alert")).to_be_focused()
    await _check(page, None, width)
    async with repository() as address:
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Ask it", exact=True).click()
        await _check(page, None, width)
        await page.get_by_role("button", name="Go on").last.click()
        await page.get_by_label("How often").fill("sometimes")
        await page.get_by_role("button", name="Show the plan").last.click()
        await expect(page.get_by_role("alert")).to_be_focused()
        await _check(page, None, width)
    await _sign_in(page, server, "Viktor")
    for path in ("/", "/repositories/1", "/schedules", "/jobs", "/runs/1"):
        await _check(page, server.base_url + path, width)


async def test_every_page_is_accessible_when_there_is_nothing_yet(server: Server, page: Page) -> None:
    await page.set_viewport_size({"width": 390, "height": 800})
    await _sign_in(page, server, "Viktor")
    for path in ("/", "/repositories", "/schedules", "/jobs", "/runs"):
        await _check(page, server.base_url + path, 390)


async def _check(page: Page, address: str | None, width: int) -> None:
    """Look for everything in light, and, where the page is wide, for what depends on colours in dark."""
    if address is not None:
        answer = await page.goto(address)
        assert answer is not None
        assert answer.ok or address.endswith("/no-such-page"), f"{address}: {answer.status}"
    found = await Axe().run(page, options=_VIOLATIONS)
    assert found.violations_count == 0, f"{page.url}\n{found.generate_report()}"
    assert await page.evaluate("document.documentElement.scrollWidth") <= width, page.url
    if width < _WIDE:
        return
    await page.emulate_media(color_scheme="dark")
    dark = await Axe().run(page, options=_VIOLATIONS | {"runOnly": _COLOUR_RULES})
    assert dark.violations_count == 0, f"{page.url} in dark\n{dark.generate_report()}"
    await page.emulate_media(color_scheme="light")
