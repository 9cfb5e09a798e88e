"""A user's tasks in the dashboard, with real provider, manager, harvester and browser."""

import re
from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from oai.database import Database
from tests.chromium import console_messages
from tests.commands import results
from tests.end_to_end.processes import running
from tests.end_to_end.test_whole_way import make_due
from zatva.sample import write_archive

pytestmark = pytest.mark.browser

_PAGES = 100
_PATIENCE = 60_000.0


@pytest.mark.long  # `web/test_counted_walks` does this in the browser, `test_whole_way` with processes
async def test_a_repository_is_added_harvested_and_shown_in_the_history(
    environment: dict[str, str], database: Database, tmp_path: Path, page: Page
) -> None:
    write_archive(tmp_path / "archive", pages=_PAGES)
    results(environment, "provider", "index", tmp_path / "archive", "--jobs", "1")
    make_due(database)
    results(environment, "user", "add", "Alena", "--role", "administrator")
    small = {
        **environment,
        "ZATVA_PROVIDER__RECORDS_PER_ANSWER": "5",
        "ZATVA_HARVESTER__DELAY": "0.15",  # so that the harvest is seen while it runs
        "ZATVA_MANAGER__TICK_SECONDS": "0.5",
        "ZATVA_WEB__PRIVATE_ADDRESSES": "true",
    }
    log = tmp_path / "serve.log"
    with running(small, log, "serve", "--port", "0", "--web-port", "0", ready="dashboard at") as (
        _,
        dashboard,
    ):
        provider = re.findall(r"provider at (\S+)", log.read_text())[0]
        (link,) = results(environment, "user", "link", "Alena", "--base-url", dashboard)
        console = console_messages(page)
        await page.goto(link["link"])
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("link", name="Add a repository").click()
        await page.get_by_label("Base URL").fill(provider)
        await page.get_by_role("button", name="Check address", exact=True).click()
        await expect(page.get_by_role("heading", name="Web archive")).to_be_visible()
        await page.get_by_role("button", name="Show ten records").click()
        await page.get_by_role("button", name="Continue").last.click()
        await page.get_by_text("Folder: ").click()
        await page.get_by_role("textbox", name="Base directory").fill("archive")
        await page.get_by_role("button", name="Save and run").click()
        await expect(page).to_have_url(re.compile(r"/jobs"))
        # The row appears and changes without reloading; the job's page leads to the result at its end.
        await expect(page.locator("main")).to_contain_text(re.compile(r"running"), timeout=_PATIENCE)
        await expect(page).to_have_url(re.compile(r"/runs/\d+"), timeout=_PATIENCE)
        await page.get_by_role("navigation", name="Main").get_by_role("link", name="History").click()
        row = page.get_by_role("row").filter(has_text="Web archive")
        await expect(row).to_contain_text("completed")
        await expect(row).to_contain_text(str(_PAGES))
        assert console == []
    assert len(list((Path(environment["ZATVA_DATA"]) / "store" / "archive").rglob("*.xml"))) == _PAGES
