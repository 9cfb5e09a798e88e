"""People's main tasks in a real browser, with the real server, database, manager and harvests."""

import asyncio
import re

import pytest
from playwright.async_api import Page, expect

from harvester.repositories import add_repository
from tests.chromium import console_messages
from tests.harvester.fake_repository import FakeRepository, Item, many, serve
from tests.web.conftest import Server, enter

pytestmark = pytest.mark.browser

_PATIENCE = 30_000


async def _harvest_from_the_wizard(page: Page, server: Server, address: str) -> None:
    await enter(page, server)
    await page.get_by_role("link", name="Add a repository").click()
    await page.get_by_label("Base URL").fill(address)
    await page.get_by_role("button", name="Check address", exact=True).click()
    await expect(page.get_by_role("heading", name="Fake")).to_be_visible()
    await page.get_by_label("Set maps").check()
    await page.get_by_role("button", name="Show ten records").click()
    await expect(page.get_by_text("The repository states a total of 23 records.")).to_be_visible()
    await expect(page.get_by_label("Set maps")).to_be_checked()
    await page.get_by_role("button", name="Continue").last.click()
    await page.get_by_label("Every day").check()
    await page.get_by_label("Time", exact=True).fill("02:30")
    await page.get_by_role("button", name="Preview schedule").last.click()
    await expect(page.get_by_text("Every day at 02:30")).to_be_visible()
    await expect(page.get_by_text("the set maps in the format oai_dc, only changed records")).to_be_visible()
    assert await page.locator(".plan time").count() == 3
    await page.get_by_role("button", name="Save and run").click()
    await expect(page).to_have_url(re.compile(r"/(jobs|runs)/\d+"))


def _maps() -> FakeRepository:
    items = [Item(identifier=f"oai:fake.example:{number}", sets=("maps",)) for number in range(23)]
    return FakeRepository(items=[*items, *many(5, start=100)], sets=["maps", "books"])


@pytest.mark.long  # the counted walks of librarians are the same in Czech
@pytest.mark.usefixtures("manager")
async def test_a_librarian_harvests_a_repository_from_its_address(server: Server, page: Page) -> None:
    console = console_messages(page)
    async with serve(_maps()) as repository:
        await _harvest_from_the_wizard(page, server, repository.url)
        # The job's page becomes that of its run by itself.
        await expect(page.get_by_text("23 records, all new.")).to_be_visible(timeout=_PATIENCE)
    assert console == []


@pytest.mark.long  # `test_jobs` and `test_events` stop jobs and follow them over HTTP
@pytest.mark.usefixtures("manager")
async def test_an_administrator_sees_a_running_harvest_and_stops_it(server: Server, page: Page) -> None:
    slow = FakeRepository(items=many(5000), page_size=5)

    async def wait(arguments: dict[str, str]) -> None:
        if "resumptionToken" in arguments:
            await asyncio.sleep(0.3)

    slow.before = wait
    async with serve(slow) as repository:
        with server.database.session() as session:
            add_repository(session, base_url=repository.url, base_dir="slow")
            session.commit()
        await enter(page, server, path="/repositories/1")
        await page.get_by_role("button", name="Harvest now").click()
        row = page.get_by_role("row", name="Fake")
        await expect(row).to_contain_text("/ ~5,000", timeout=_PATIENCE)
        first = await row.locator("progress").get_attribute("value")
        await expect(row.locator("progress")).not_to_have_attribute("value", first or "", timeout=_PATIENCE)

        await row.get_by_role("link", name="Stop").click()
        await expect(page.get_by_role("heading", name="Stop the harvest of Fake · oai_dc?")).to_be_visible()
        await page.get_by_role("button", name="Stop harvest").click()
        await _until_shown(page, server.base_url + "/runs", "incomplete")

    await page.get_by_role("link", name="Fake").first.click()
    await expect(page.get_by_text("The next run continues where this one stopped")).to_be_visible()


@pytest.mark.long  # `test_walks.py` goes from a run to the raw bytes, and the test above has a manager
@pytest.mark.usefixtures("manager")
async def test_a_failed_harvest_leads_to_the_raw_data_of_its_error(server: Server, page: Page) -> None:
    console = console_messages(page)

    def spoil(_arguments: dict[str, str], body: bytes) -> bytes:
        return body.replace(b"<dc:title>Title 3 ", b"<dc:title>Salt & pepper\n<broken ")

    async with serve(FakeRepository(items=many(9), fault=spoil)) as repository:
        with server.database.session() as session:
            add_repository(session, base_url=repository.url, base_dir="spoilt")
            session.commit()
        await enter(page, server, path="/repositories/1")
        await page.get_by_role("button", name="Harvest now").click()
        await _until_shown(page, server.base_url + "/runs", "completed with errors")

    await page.get_by_role("link", name="Fake").first.click()
    await page.get_by_role("navigation", name="This run").get_by_role("link", name="Errors").click()
    await page.get_by_role("link", name="oai:fake.example:3").click()

    marked = page.locator(".raw .faulty")
    await expect(marked).to_contain_text("here")
    await expect(marked).to_contain_text("Salt & pepper")
    assert console == []


async def _until_shown(page: Page, address: str, status: str) -> None:
    """Reload the page until a row says that."""
    for _ in range(100):
        await page.goto(address)
        if await page.locator("tbody .state", has_text=re.compile(f"^{status}$")).count():
            return
        await asyncio.sleep(0.2)
    raise AssertionError(f"{address} never showed {status}: {await page.locator('main').inner_text()}")
