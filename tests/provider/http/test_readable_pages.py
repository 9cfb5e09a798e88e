"""The provider's pages in a real browser: each kind of page, and the links between them."""

from dataclasses import dataclass

import pytest
from playwright.async_api import Page
from pytest_aiohttp import AiohttpServer

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from tests.chromium import console_messages
from tests.inspector import NARROW, WIDE, Inspector
from tests.provider.aggregate.conftest import harvested  # noqa: F401 a fixture
from tests.provider.aggregate.harvested_rows import Harvested
from tests.provider.archive import Archive
from tests.provider.conftest import BASE_URL, small_pages
from tests.provider.http.test_landing import REQUESTS, fill
from tests.provider.http.test_loads import a_load
from tests.provider.served import until
from tests.provider.titles.conftest import Titles
from tests.provider.titles.test_pages import fill as fill_titles

KINDS = ("Identify", "ListSets", "ListMetadataFormats", "ListRecords in webarchive", "errors")
"""Answers that look different: those left out are another of these lists, or one of their parts alone."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """A provider with content for each page."""

    address: str
    identifiers: list[str]
    title: str
    """The path of a title's page."""


@pytest.fixture
async def site(
    archive: Archive,
    harvested: Harvested,  # noqa: F811 the fixture
    database: Database,
    settings: Settings,
    aiohttp_server: AiohttpServer,
) -> Site:
    identifiers = fill(archive)
    title = fill_titles(Titles(database), archive)
    a_load(database, since=1, until=3, new=2, changed=1)
    with database.session() as session:
        harvested.write(session, "a", sets=["maps"])
        session.commit()
    until(lambda: harvested.update() == 1)  # other transactions on the server delay publishing
    server = await aiohttp_server(create_app(small_pages(settings), database, base_url=BASE_URL))
    return Site(address=str(server.make_url("/")), identifiers=identifiers, title=title)


# One test, because a browser's profile and its connection take longer than a page.
@pytest.mark.browser
async def test_every_page_is_accessible_and_links_to_the_next(
    site: Site, inspector: Inspector, pytestconfig: pytest.Config
) -> None:
    page = inspector.page
    console = console_messages(page)
    answers = REQUESTS if pytestconfig.getoption("--long") else KINDS
    for path in (
        "oai",
        *(f"oai?{REQUESTS[name]}" for name in answers),
        "loads",
        f"{site.title[1:]}?lang=cs",
        "titles?lang=sk",
        "oai/aggregate",
    ):
        await inspector.check(site.address + path)
        assert await page.locator("h1").count() == 1, path
        assert await page.evaluate("document.styleSheets.length") == 1, path
    for width in (WIDE, NARROW):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await page.get_by_role("cell", name="http://o/").last.is_visible()
    await find_a_record(page, site)
    await find_a_title(page, site)
    assert not console


async def find_a_record(page: Page, site: Site) -> None:
    """Find a record by following links."""
    await page.goto(f"{site.address}oai")
    await page.get_by_role("link", name="ListIdentifiers").click()
    await page.get_by_role("link", name="Next page").click()
    await page.get_by_role("link", name=site.identifiers[4]).click()
    assert await page.locator("h1").inner_text() == "Record"
    await page.get_by_role("link", name="formats", exact=True).click()
    await page.get_by_role("link", name="this record").nth(1).click()
    assert "metadataPrefix=marc21" in page.url


async def find_a_title(page: Page, site: Site) -> None:
    """Find a title by a word, in a language other than the browser's."""
    await page.goto(f"{site.address}titles?lang=sk")
    await page.get_by_label("Hľadané slová").fill("priklad")
    await page.get_by_role("button").click()
    await page.get_by_role("link", name="Příklad & spol.").click()
    assert await page.locator("html").get_attribute("lang") == "sk"
