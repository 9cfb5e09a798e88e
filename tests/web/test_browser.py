"""The dashboard in a real browser: a librarian's tasks, live rows, the menu."""

import asyncio
import json
import re
from datetime import timedelta

import pytest
from playwright.async_api import Browser, Dialog, Page, Route, expect
from sqlalchemy import func, select, text

from manager.models import RecurringJob, RecurringState
from manager.notices.models import Mute
from manager.schedules.service import run_now
from oai.datestamps import utc_now
from oai.errors import required
from tests.chromium import console_messages
from tests.web.conftest import Server, enter, sign_in
from tests.web.repository import repository
from tests.web.rows import a_bibliographic_record, a_repository, a_run, a_schedule
from web.site import live_rows
from web.site.formats import clock

pytestmark = pytest.mark.browser


async def test_all_shown_repositories_are_selected_with_one_box(server: Server, page: Page) -> None:
    console = console_messages(page)
    with server.database.session() as session:
        for at in range(3):
            a_schedule(session, a_repository(session, f"Library {at}", f"r{at}"))
        session.commit()
    await sign_in(page, server)
    await page.goto(f"{server.base_url}/repositories")
    every, second = page.get_by_label("Select all shown"), page.get_by_label("Select Library 1")
    await every.check()
    await second.uncheck()
    await expect(every).not_to_be_checked()
    await second.check()
    await expect(every).to_be_checked()
    await page.get_by_role("link", name="Add a repository").first.click()
    await page.go_back()
    await expect(second).to_be_checked()
    await expect(every).to_be_checked()
    await page.get_by_role("button", name="Pause", exact=True).click()
    await expect(page).to_have_url(re.compile("done="))
    with server.database.session() as session:
        paused = select(func.count()).where(RecurringJob.state == RecurringState.PAUSED)
        assert session.scalar(paused) == 3
    assert console == []


@pytest.mark.parametrize("scripts", [True, False])
async def test_back_shows_the_steps_of_the_wizard_again(
    server: Server, chromium: Browser, *, scripts: bool
) -> None:
    context = await chromium.new_context(java_script_enabled=scripts)
    page = await context.new_page()
    await sign_in(page, server)
    async with repository() as address:
        await page.goto(f"{server.base_url}/repositories/new")
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Check address", exact=True).click()
        await page.get_by_role("button", name="Continue").last.click()
        await expect(page).to_have_title(re.compile("Storage and schedule"))
        await page.go_back()
        await expect(page).to_have_title(re.compile("What to harvest"))
        await expect(page.get_by_role("heading", name="Library of Telč")).to_be_visible()
        await page.go_back()
        await expect(page).to_have_title(re.compile("Address"))
        await page.go_forward()
        await page.get_by_role("button", name="Continue").last.click()
        await expect(page).to_have_title(re.compile("Storage and schedule"))
    await context.close()


async def test_a_success_takes_the_focus_with_its_sentence_as_name_and_undo_is_next(
    server: Server, page: Page
) -> None:
    with server.database.session() as session:
        a_schedule(session, a_repository(session))
        session.commit()
    await enter(page, server, path="/schedules")
    await page.get_by_role("button", name="Pause").focus()
    await page.keyboard.press("Enter")

    said = "The schedule is paused. A harvest that is already running continues."
    await expect(page.get_by_role("status", name=said, exact=True)).to_be_focused()
    await page.keyboard.press("Tab")
    await expect(page.get_by_role("button", name="Undo")).to_be_focused()


async def test_an_error_takes_the_focus_on_a_page_with_an_earlier_notice(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_schedule(session, a_repository(session))
        session.commit()
    await enter(page, server, path="/schedules/1/edit?done=everything-asked")
    await expect(page.get_by_role("status", name="All records are requested again")).to_be_focused()
    await page.locator("#time_zone").fill("Nowhere")
    form = page.locator("form.card").first
    await form.evaluate("form => form.setAttribute('action', `${form.action}?done=everything-asked`)")
    await page.get_by_role("button", name="Save schedule").click()

    await expect(page.get_by_role("alert")).to_be_focused()
    await expect(page.get_by_role("status", name="All records are requested again")).to_be_visible()


async def test_a_librarian_signs_in_and_adds_a_repository(server: Server, page: Page) -> None:
    console = console_messages(page)
    await sign_in(page, server)
    async with repository() as address:
        await page.get_by_role("link", name="Add a repository").click()
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Check address", exact=True).click()
        await page.get_by_role("button", name="Continue").last.click()
        await page.get_by_text("Folder: ").click()
        await page.get_by_role("textbox", name="Base directory").fill("telc")
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_role("status").first).to_contain_text("The repository was added")

    await page.get_by_role("navigation", name="Main").get_by_role("link", name="Repositories").click()

    await expect(page.get_by_role("row", name="Library of Telč")).to_contain_text("never harvested")
    assert console == []


async def test_times_are_shown_in_the_zone_that_the_reader_chose(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session))
        session.commit()
    await enter(page, server)
    await page.get_by_role("link", name="Change time zone").click()
    await page.get_by_label("Time zone of the pages").select_option("Europe/Prague")
    await page.get_by_role("button", name="Change time zone").click()

    await page.goto(server.base_url + "/runs/1")

    ended = page.locator('time[datetime="2026-01-02T03:05:05Z"]')
    await expect(ended).to_have_text("2 Jan 2026 04:05")
    await expect(ended).to_have_attribute("title", "2 Jan 2026 04:05:05 CET (2026-01-02 03:05:05 UTC)")
    await expect(page.get_by_text("Europe/Prague")).to_be_visible()


async def test_rows_are_updated_live_and_the_keyboard_focus_stays(server: Server, page: Page) -> None:
    console = console_messages(page)
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await enter(page, server, path="/jobs")
    await expect(page.get_by_text("No current jobs.")).to_be_visible()

    with server.database.session() as session:
        session.execute(text("INSERT INTO oai_job (repository_id, status, process_id) VALUES (1, 1, 7)"))
        session.commit()
    await expect(page.locator("#job-1")).to_contain_text("no records yet")
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
    await expect(page.locator("#job-1")).to_contain_text("1,500 / ~3,000")
    await expect(page.locator("#job-1 progress")).to_have_js_property("value", 1500)
    await expect(page.locator("#job-1").get_by_role("link", name="Stop")).to_be_focused()

    # An action that is no longer offered does not hand the focus to another one.
    await page.locator("#job-1").get_by_role("button", name="Pause").focus()
    with server.database.session() as session:
        session.execute(text("UPDATE oai_job SET status = 5"))
        session.commit()
    await expect(page.locator("#job-1").get_by_role("button", name="Resume")).to_be_visible()
    await expect(page.locator("#job-1").get_by_role("rowheader").get_by_role("link")).to_be_focused()

    with server.database.session() as session:
        session.execute(text("DELETE FROM oai_job"))
        session.commit()
    await expect(page.locator("#job-1")).to_have_count(0)
    await expect(page.locator("#main")).to_be_focused()
    assert console == []


async def test_numbers_of_facets_stay_on_one_line(server: Server, page: Page) -> None:
    with server.database.session() as session:
        telc = a_repository(session, "Knihovna v Telči: " + "velmi dlouhé jméno " * 3)
        a_bibliographic_record(session, telc)
        session.commit()
    await page.set_viewport_size({"width": 1280, "height": 900})
    await enter(page, server, path="/records")

    lines = await page.locator(".facets .count").first.evaluate(
        "count => { const range = document.createRange(); count.textContent = '12400';"
        " range.selectNodeContents(count); return range.getClientRects().length; }"
    )

    assert lines == 1


async def test_labels_of_weekdays_are_nearest_to_their_own_boxes(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await page.set_viewport_size({"width": 1280, "height": 900})
    await enter(page, server, path="/schedules/new?repository=1")
    await page.get_by_label("Every week").check()

    own, following = await page.locator(".weekdays").evaluate(
        "days => { const [label, box] = [...days.querySelectorAll('label, input')].slice(1, 3);"
        " const text = document.createRange(); text.selectNodeContents(label); const words ="
        " text.getBoundingClientRect(); return [words.left - label.previousElementSibling"
        ".getBoundingClientRect().right, box.getBoundingClientRect().left - words.right]; }"
    )

    assert own * 2 < following


async def test_a_previewed_schedule_is_scrolled_into_view_and_fits_into_its_card(
    server: Server, page: Page
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await page.set_viewport_size({"width": 1280, "height": 700})
    await enter(page, server, path="/schedules/new?repository=1")
    await page.locator("#set_spec").fill("collection" * 20)
    await page.locator("#set_spec").press("Enter")

    plan = page.get_by_role("status").filter(has_text="A run takes about")
    await expect(plan).to_be_focused()
    await expect(plan).to_be_in_viewport()
    width = "form => form.scrollWidth - form.clientWidth"
    assert await page.locator("form.card").evaluate(width) <= 0


async def test_a_previewed_schedule_is_hidden_when_the_form_changes(server: Server, page: Page) -> None:
    async with repository() as address:
        await enter(page, server, path="/repositories/new")
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Check address", exact=True).click()
        await page.get_by_role("button", name="Continue").last.click()
        plan = page.locator(".plan")
        await page.get_by_label("Name").fill("Telč")
        await expect(plan).to_contain_text("Every week on Saturday")
        await page.get_by_label("Every day").check()
        await expect(plan).to_contain_text("The form was changed. Preview the schedule again.")
        await expect(plan).not_to_contain_text("Saturday")
        await page.get_by_role("button", name="Preview schedule").click()
        await expect(plan).to_contain_text(re.compile(r"Every day at 0[1-4]:[0-5]\d"))
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.goto(f"{server.base_url}/schedules/1/edit")

    await page.get_by_role("button", name="Preview schedule").last.click()
    await expect(plan).to_contain_text("A run takes about")
    await page.get_by_label("Every week").check()
    await expect(plan).to_have_text(
        re.compile(r"^\s*Schedule\s*The form was changed. Preview the .* again.$")
    )


async def test_the_names_of_timeline_rows_are_visible_on_a_phone(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session), harvest_end_time=utc_now())
        session.commit()
    await page.set_viewport_size({"width": 390, "height": 844})
    await enter(page, server, path="/runs?view=timeline")

    await expect(page.locator(".row-names li")).to_be_in_viewport(ratio=1)
    await expect(page.locator(".row-names li")).to_have_text("Library of Telč")


async def test_short_format_names_are_not_wrapped_in_narrow_tables(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session), record_count=1_234_567, updated_count=1_234_567)
        session.commit()
    await page.set_viewport_size({"width": 800, "height": 800})
    await enter(page, server, path="/repositories/1")

    lines = await page.locator("#run-1 .mono").evaluate("prefix => prefix.getClientRects().length")

    assert lines == 1


async def test_a_page_with_live_rows_opens_the_sign_in_once_its_session_has_ended(
    server: Server, page: Page
) -> None:
    await enter(page, server, path="/jobs")
    await expect(page.locator("[data-live-status]")).to_have_text("Live")
    with server.database.session() as session:
        session.execute(text("DELETE FROM web_session"))
        session.commit()

    # The page connects again, as browsers do when a connection broke.
    await page.evaluate("window.dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")

    await expect(page).to_have_url(server.base_url + "/sign-in?next=/jobs")


async def test_a_page_beyond_the_limit_of_streams_becomes_live_when_another_is_hidden(
    server: Server, page: Page
) -> None:
    most = server.settings.web.event_streams
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await enter(page, server, path="/jobs")
    tabs = [page, *[await page.context.new_page() for _ in range(8)]]
    for number, tab in enumerate(tabs):
        await tab.goto(server.base_url + "/jobs")
        status = "on" if number < most else "ended"
        await expect(tab.locator("[data-live-status]")).to_have_attribute("data-live-status", status)

    await _show(page, "hidden")
    with server.database.session() as session:
        session.execute(text("INSERT INTO oai_job (repository_id, status, process_id) VALUES (1, 1, 7)"))
        session.commit()
    for hidden, shown in ((tabs[1], tabs[-1]), (tabs[2], page)):
        await expect(hidden.locator("#job-1")).to_be_visible()
        assert await shown.locator("#job-1").count() == 0
        await _show(hidden, "hidden")
        async with asyncio.timeout(60):
            # Until the server knows that the hidden page has closed its connection.
            while await _show(shown, "visible") != 200:
                pass
        await expect(shown.locator("#job-1")).to_be_visible()


async def _show(page: Page, state: str) -> int | None:
    """Make the tab visible or hidden, as headless browsers do not; return how its stream is answered."""
    change = (
        "state => { Object.defineProperty(document, 'visibilityState', {value: state, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    if state == "hidden":
        await page.evaluate(change, state)
        return None
    async with page.expect_response(lambda response: "/events" in response.url) as response:
        await page.evaluate(change, state)
    return (await response.value).status


async def test_a_silently_lost_connection_is_reported_and_replaced(
    server: Server, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_rows, "HEARTBEAT_SECONDS", 3600.0)
    await page.clock.install()
    await enter(page, server, path="/jobs")
    status = page.locator("[data-live-status]")
    await expect(status).to_have_text("Live")
    network = asyncio.Event()

    async def late(route: Route) -> None:
        await network.wait()
        await route.continue_()

    await page.route("**/events?*", late)
    await page.clock.fast_forward(45_000)
    await expect(status).to_have_text("Connection lost; reconnecting")
    network.set()
    await expect(status).to_have_text("Live")


async def test_heartbeats_keep_a_page_live(
    server: Server, page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_rows, "HEARTBEAT_SECONDS", 0.05)
    await page.clock.install()
    await page.add_init_script(_NOTED_HEARTBEATS)
    opened: list[str] = []
    page.on("request", lambda request: opened.append(request.url) if "/events" in request.url else None)
    await enter(page, server, path="/jobs")

    for _ in range(3):
        await page.evaluate("new Promise((done) => { window.onHeartbeat = done; })")
        await page.clock.fast_forward(30_000)

    await expect(page.locator("[data-live-status]")).to_have_text("Live")
    assert len(opened) == 1


_NOTED_HEARTBEATS = """
window.EventSource = class extends EventSource {
  constructor(url) {
    super(url);
    // After the page's own listener, which is added next.
    Promise.resolve().then(() => this.addEventListener("alive", () => window.onHeartbeat?.()));
  }
};
"""


@pytest.mark.parametrize("change", ["offline", "online"])
async def test_a_page_reconnects_when_the_network_changes(server: Server, page: Page, change: str) -> None:
    await enter(page, server, path="/jobs")
    status = page.locator("[data-live-status]")
    await expect(status).to_have_text("Live")

    async with page.expect_request("**/events?*"):
        await page.evaluate("change => window.dispatchEvent(new Event(change))", change)

    await expect(status).to_have_text("Live")


async def test_a_second_click_does_not_send_a_form_again(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()
    await enter(page, server, path="/schedules/new?repository=1")
    sent, answered = _posts(page), asyncio.Event()

    async def late(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await page.route("**/schedules/new**", late)
    button = page.get_by_role("button", name="Save schedule")
    await button.scroll_into_view_if_needed()
    box = required(await button.bounding_box(), "the button is visible")
    async with page.expect_request("**/schedules/new**"):
        await page.mouse.click(box["x"] + 5, box["y"] + 5)
    await page.mouse.click(box["x"] + 5, box["y"] + 5)
    answered.set()

    await expect(page.get_by_text("The schedule was added.")).to_be_visible()
    assert len(sent) == 1


async def test_a_form_answered_without_a_new_page_can_be_sent_again_later(server: Server, page: Page) -> None:
    await page.clock.install()
    await enter(page, server, path="/account")
    sent = _posts(page)
    await page.route("**/account/language", lambda route: route.fulfill(status=204))
    button = page.get_by_role("button", name="Change language")

    async with page.expect_response("**/account/language"):
        await button.dispatch_event("click")
    await button.dispatch_event("click")
    await page.clock.fast_forward(10_000)
    async with page.expect_response("**/account/language"):
        await button.dispatch_event("click")

    assert len(sent) == 2


async def test_the_browser_asks_before_typed_text_is_lost(server: Server, page: Page) -> None:
    """Choosing another theme would lose the text; sending the form does not."""
    await enter(page, server, path="/admin/organisations/new")
    asked: list[str] = []

    async def stay(dialog: Dialog) -> None:
        asked.append(dialog.type)
        await dialog.dismiss()

    page.on("dialog", stay)
    name = page.get_by_label("Name", exact=True)
    await name.press_sequentially("Library of Telč")
    await page.locator(".user summary").click()
    async with page.expect_event("dialog"):
        await page.get_by_role("button", name="Dark").click()
    await expect(name).to_have_value("Library of Telč")

    await page.get_by_label("Short name").press_sequentially("telc")
    await name.press("Enter")
    await expect(page).to_have_url(re.compile("/admin/organisations[^/]*$"))
    assert asked == ["beforeunload"]


async def test_relative_times_are_correct_although_the_browsers_clock_is_wrong(
    server: Server, page: Page
) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session), harvest_end_time=utc_now() - timedelta(minutes=5))
        session.commit()
    await page.clock.install(time=utc_now() + timedelta(days=1))
    await enter(page, server, path="/runs")
    ended = page.locator("time[data-relative]").first
    before = await ended.inner_text()
    assert "min" in before

    await page.clock.fast_forward(61_000)

    await expect(ended).not_to_have_text(before)
    await expect(ended).to_have_text(before.replace("5", "6"))


async def test_the_slash_key_leads_to_the_search_unless_something_is_typed(
    server: Server, page: Page
) -> None:
    await enter(page, server, path="/rules/new")
    search, name = (page.get_by_role("textbox", name=label) for label in ("Search", "Name (required)"))
    await name.press("/")
    await expect(name).to_have_value("/")
    await expect(search).not_to_be_focused()
    await name.blur()
    await page.keyboard.press("/")
    await expect(search).to_be_focused()
    await expect(search).to_have_value("")


async def test_the_slash_key_can_be_switched_off(server: Server, page: Page) -> None:
    await enter(page, server)
    search = page.get_by_role("textbox", name="Search")
    for choice, focused in (("Without key", False), ("Search with /", True)):
        await page.locator("header details.menu:has(.sheet) summary").click()
        await page.get_by_role("button", name=choice).click()
        await page.wait_for_load_state()
        await page.keyboard.press("/")
        assert await search.evaluate("one => one === document.activeElement") is focused


async def test_relative_times_are_correct_in_rows_that_were_rendered_long_ago(
    server: Server, page: Page
) -> None:
    with server.database.session() as session:
        schedule = a_schedule(session, a_repository(session))
        run_now(session, schedule.id).harvest_start_time = utc_now() - timedelta(minutes=5)
        session.commit()
    row, times = page.locator("#job-1"), page.locator("#job-1 time[data-relative]")

    async def idle(route: Route) -> None:
        html = await row.evaluate("row => { row.className = 'old'; return row.outerHTML; }")
        await row.evaluate("row => { row.className = ''; }")
        html = re.sub(r"(<time [^>]*data-relative[^>]*>)[^<]*", r"\1just now", html)
        news = f"event: jobs\ndata: {json.dumps({'rows': {'job-1': html}})}\n\n"
        await route.fulfill(body=news, content_type="text/event-stream")

    await page.route("**/events?*", idle)
    await enter(page, server, path="/jobs")
    await expect(row).to_have_class("old")

    told = await times.all_inner_texts()
    assert [text for text in told if "5 min" in text], told
    assert "just now" not in told


def _posts(page: Page) -> list[str]:
    """A list to which the forms that the page sends are appended from now on."""
    sent: list[str] = []
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    return sent


async def test_a_form_sent_after_the_session_ended_is_sent_again_by_a_click(
    server: Server, page: Page
) -> None:
    await enter(page, server, path="/alerts/mutes/new")
    await page.get_by_label("Note").fill('Moving "until" <Monday>')
    with server.database.session() as session:
        session.execute(text("DELETE FROM web_session"))
        session.commit()

    await page.get_by_role("button", name="Mute").click()
    await expect(page.get_by_text("Your session has ended, so the form was not saved.")).to_be_visible()
    async with page.expect_popup() as opened:
        await page.get_by_role("link", name="Sign in").click()
    await sign_in(await opened.value, server)
    await page.get_by_role("button", name="Send the form again").click()
    await expect(page.get_by_text("You are signed in as Alena.")).to_be_visible()
    with server.database.session() as session:
        assert session.scalars(select(Mute.note)).all() == [], "nothing is sent without a click"
    await page.get_by_role("button", name="Send the form again").click()

    await expect(page.get_by_text("Saved. You can end the mute")).to_be_visible()
    with server.database.session() as session:
        assert session.scalars(select(Mute.note)).one() == 'Moving "until" <Monday>'


async def test_adding_and_scheduling_a_repository_works_without_scripts(
    server: Server, chromium: Browser
) -> None:
    context = await chromium.new_context(java_script_enabled=False)
    page = await context.new_page()
    await sign_in(page, server)
    async with repository() as address:
        await page.get_by_role("link", name="Add a repository").click()
        await page.get_by_label("Base URL").fill(f"{address}/oai")
        await page.get_by_role("button", name="Check address", exact=True).click()
        await page.get_by_role("button", name="Continue").last.click()
        await page.get_by_label("Only by hand").check()
        await page.get_by_text("Folder: ").click()
        await page.get_by_role("textbox", name="Base directory").fill("telc")
        await page.get_by_role("button", name="Save", exact=True).click()
        await expect(page.get_by_role("heading", name="Library of Telč")).to_be_visible()

    await page.get_by_text("More", exact=True).click()
    await page.get_by_role("link", name="Imports").click()
    await expect(page.get_by_role("row", name="Library of Telč")).to_be_visible()
    await page.go_back()

    await page.get_by_role("link", name="New schedule").click()
    await page.get_by_label("Set", exact=True).fill("maps")
    await page.get_by_role("button", name="Save schedule").click()

    await expect(page.get_by_role("row", name="Library of Telč")).to_contain_text("maps")
    await context.close()


@pytest.mark.parametrize(
    "language",
    ["cs", pytest.param("en", marks=pytest.mark.long), pytest.param("sk", marks=pytest.mark.long)],
)
async def test_the_navigation_fits_into_one_row_with_all_its_links(
    server: Server, chromium: Browser, language: str
) -> None:
    context = await chromium.new_context(locale=language, viewport={"width": 1280, "height": 800})
    page = await context.new_page()
    with server.database.session() as session:
        session.execute(text("UPDATE web_user SET name = 'Alexandrina Šťastná-Novotná' WHERE name = 'Alena'"))
        session.commit()
    await enter(page, server, "Alexandrina Šťastná-Novotná", "/search")
    tabs = page.locator(".tabs > ul > li")

    places = [await tab.bounding_box() for tab in await tabs.all()]

    assert len({place["y"] for place in places if place}) == 1
    assert len(places) == 9
    assert await page.locator(".tabs a").count() == 12
    await context.close()


async def test_the_menu_opens_and_closes_by_keyboard(server: Server, page: Page) -> None:
    await enter(page, server, path="/search")
    summary = page.locator(".tabs summary")
    rules = page.get_by_role("link", name="Rules")
    await summary.focus()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Tab")
    await expect(rules).to_be_focused()

    await page.keyboard.press("Escape")
    await expect(summary).to_be_focused()
    await expect(rules).to_be_hidden()
    await page.keyboard.press("Enter")
    await page.keyboard.press("Shift+Tab")
    await expect(rules).to_be_hidden()
    await summary.click()
    await expect(rules).to_be_visible()
    await page.get_by_role("heading", level=1).click()
    await expect(rules).to_be_hidden()

    await summary.click()
    await rules.click()
    await expect(page).to_have_url(server.base_url + "/rules")
    await expect(summary).to_have_attribute("aria-current", "true")


async def test_a_click_while_an_explanation_is_open_reaches_its_button(server: Server, page: Page) -> None:
    # A page that is not scrolled moves under the pointer when something above it vanishes.
    await page.set_viewport_size({"width": 1280, "height": 1200})
    await enter(page, server, path="/store-audits")
    await page.locator(".what summary:visible").first.click()
    await page.get_by_role("button", name="Set schedule").click(delay=100)
    await expect(page.get_by_role("status").first).to_have_text("The schedule of audits was set.")


async def test_copying_is_confirmed_and_a_refusal_is_reported(server: Server, page: Page) -> None:
    with server.database.session() as session:
        a_run(session, a_repository(session))
        session.commit()
    await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    await enter(page, server, path="/runs/1/parameters")
    copy = page.get_by_role("button", name="Copy command")

    await copy.click()
    await expect(page.get_by_text("Copied.")).to_be_visible()
    command = await page.locator("#curl").text_content()
    assert await page.evaluate("navigator.clipboard.readText()") == command

    await page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error()) }")
    await copy.click()
    await expect(page.get_by_text("The browser did not allow copying.")).to_be_visible()


async def test_pages_are_printed_with_light_colours(server: Server, page: Page) -> None:
    await enter(page, server)
    await page.evaluate("document.documentElement.dataset.theme = 'dark'")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(ground)
    await page.emulate_media(media="print")
    assert await page.evaluate(ground) != dark


async def test_the_history_is_printed_as_a_table_with_times_and_without_controls(
    server: Server, page: Page
) -> None:
    ended = utc_now() - timedelta(hours=5)
    with server.database.session() as session:
        a_run(session, a_repository(session), harvest_end_time=ended)
        session.commit()
    # A sheet of A4 without its margins.
    await page.set_viewport_size({"width": 718, "height": 1047})
    await enter(page, server, path="/runs")
    row, time = page.locator("#run-1"), page.locator("#run-1 time")
    display, shown = "one => getComputedStyle(one).display", "one => getComputedStyle(one, '::after').content"
    assert (await row.evaluate(display), await time.evaluate(shown)) == ("block", "none")

    await page.emulate_media(media="print")

    assert await row.evaluate(display) == "table-row"
    assert await time.evaluate(shown) == f'"{clock(ended)}"'
    assert await time.evaluate("one => getComputedStyle(one).fontSize") == "0px"
    for control in ("checkbox", "combobox", "button"):
        assert await page.get_by_role(control).all() == [], control
    assert await page.locator("main").evaluate("one => one.scrollWidth - one.clientWidth") <= 0


async def test_paper_says_by_what_a_list_was_filtered_and_that_more_follows(
    server: Server, page: Page
) -> None:
    with server.database.session() as session:
        repository = a_repository(session)
        for _ in range(60):
            a_run(session, repository)
        session.commit()
    await enter(page, server, path="/runs?repository=1")
    said = [
        page.get_by_text(text)
        for text in ("/runs?repository=1", "More entries follow, which are not printed")
    ]
    assert [await one.is_visible() for one in said] == [False, False]

    await page.emulate_media(media="print")

    assert [await one.is_visible() for one in said] == [True, True]
    assert not await page.get_by_text("Change time zone").is_visible()
