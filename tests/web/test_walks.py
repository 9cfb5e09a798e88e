"""Tasks in a real browser that use live services: the explorer, fetching a record again, SRU."""

import asyncio

import pytest
from playwright.async_api import Page, expect

from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from tests.chromium import console_messages
from tests.harvester.fake_repository import FakeRepository, many, serve
from tests.harvester.sru.fake_sru import FakeSru, books, serve_sru
from tests.web.conftest import Server, enter
from tests.web.rows import a_repository, a_schedule

pytestmark = pytest.mark.browser


async def test_a_librarian_looks_at_a_live_repository_in_the_explorer(server: Server, page: Page) -> None:
    console = console_messages(page)
    async with serve(FakeRepository(items=many(3), page_size=2)) as fake:
        with server.database.session() as session:
            a_repository(session).base_url = fake.url
            session.commit()
        await enter(page, server)
        await page.get_by_role("navigation", name="Main").get_by_role("link", name="Repositories").click()
        await page.get_by_role("link", name="Library of Telč").click()
        await page.get_by_role("link", name="Explorer", exact=True).click()
        await page.get_by_role("link", name="ListRecords").click()
        assert fake.asked == []
        await page.get_by_role("button", name="Send request", exact=True).click()
        await expect(page.locator("#answer")).to_contain_text("of 3")
        await page.get_by_role("link", name="Request the next page").click()
        await page.get_by_role("link", name="oai:fake.example:2").click()

        await expect(page.locator("details.record")).to_contain_text("Title 2")
    assert console == []


async def test_a_broken_record_is_fetched_again_from_the_page_of_its_run(server: Server, page: Page) -> None:
    fake = FakeRepository(items=many(3, size=8))
    async with serve(fake):
        with server.database.session() as session:
            row = a_repository(session)
            row.base_url = fake.url
            schedule = a_schedule(session, row, metadata_prefix="oai_dc").id
            session.commit()
        fake.fault = lambda _, body: body.replace(b"Title 1", b"Title & 1")
        request = HarvestRequest(repository_id=1, recurring_id=schedule)
        await harvest(server.database, server.settings, request, stop=asyncio.Event())
        fake.fault = None
        await enter(page, server, path="/runs/1")
        await page.get_by_role("navigation", name="This run").get_by_role("link", name="Errors").click()
        await page.get_by_role("link", name="oai:fake.example:1").click()
        marked = page.locator(".raw .faulty")
        await expect(marked).to_contain_text("here")
        await expect(marked).to_contain_text("Title & 1")
        await page.get_by_role("button", name="Fetch this record again").click()
        await expect(page.get_by_text("The record is valid now and was stored.")).to_be_visible()
        await page.locator('a[href^="/records/"]').first.click()

        await expect(page.locator("pre")).to_contain_text("Title 1")


async def test_an_sru_service_is_added_explored_and_planned(server: Server, page: Page) -> None:
    console = console_messages(page)
    async with serve_sru(FakeSru(books=books(12))) as fake:
        await enter(page, server)
        await page.get_by_role("link", name="Add a repository").click()
        await page.get_by_label("Base URL").fill(fake.url)
        await page.get_by_role("button", name="Check address", exact=True).click()
        await expect(page.get_by_role("heading", name="Fake catalogue")).to_be_visible()
        await page.get_by_label("marcxml").check()
        await page.get_by_label("Query in CQL").fill('dc.title="water"')
        await page.get_by_role("button", name="Show ten records").click()
        await expect(page.get_by_text("The repository states a total of 12 records.")).to_be_visible()
        await page.get_by_role("button", name="Continue").last.click()
        await page.get_by_text("Folder: ").click()
        await page.get_by_role("textbox", name="Base directory").fill("books")
        await page.get_by_role("button", name="Preview schedule").last.click()
        await expect(page.get_by_text('the records found by the query dc.title="water"')).to_be_visible()
        await page.get_by_role("button", name="Save", exact=True).click()
        await page.get_by_role("link", name="Explorer", exact=True).click()
        await page.get_by_role("link", name="searchRetrieve").click()
        await page.get_by_label("Query in CQL").fill("x")
        await page.get_by_role("button", name="Send request", exact=True).click()

        await expect(page.locator("#answer")).to_contain_text("of 12")
    assert console == []
