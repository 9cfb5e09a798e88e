"""Takes the screenshots in docs/images/ from the running demo: `python -m tests.screenshots`."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from playwright.async_api import Browser, Page

from tests.chromium import launched

_FOLDER = Path(__file__).parent.parent / "docs" / "images"
_PAGES = {
    "dashboard": "/",
    "repositories": "/repositories",
    "repository": "/repositories/1",
    "schedules": "/schedules",
    "week": "/schedules?view=week",
    "jobs": "/jobs",
    "history": "/runs",
    "calendar": "/runs?view=calendar",
    "health": "/admin/health",
}
_BROKEN_RECORD = "oai:broken.example:00037"
_PATIENCE = 60


async def main() -> None:
    """Start the demo, sign in, and take a screenshot of each page."""
    demo = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "zatva", "demo", "--json", "--quiet", stdout=asyncio.subprocess.PIPE
    )
    assert demo.stdout is not None
    try:
        link = json.loads(await demo.stdout.readline())["sign_in"]
        async for browser in launched():
            await _take(browser, link)
    finally:
        demo.send_signal(signal.SIGTERM)
        await demo.wait()


async def _take(browser: Browser, link: str) -> None:
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    await page.goto(link)
    await page.get_by_role("button").first.click()
    address = link.partition("/sign-in")[0]
    await _take_run_and_error(page, address)
    await page.goto(f"{address}/repositories/2/explorer?verb=ListRecords&metadataPrefix=oai_dc")
    await page.screenshot(path=_FOLDER / "explorer.png")
    for name, path in _PAGES.items():
        await page.goto(address + path)
        await page.screenshot(path=_FOLDER / f"{name}.png")
    await _take_wizard(page, address)


async def _broken_run(page: Page, address: str) -> str:
    """Return the URL of the broken repository's run, once that has ended."""
    for _ in range(_PATIENCE):
        await page.goto(f"{address}/runs?repository=2")
        run = page.locator("tbody tr", has_text="completed with errors").locator("th a")
        if await run.count():
            return f"{address}{await run.first.get_attribute('href')}"
        await asyncio.sleep(1)
    raise SystemExit("the harvest of the broken repository did not end in time")


async def _take_run_and_error(page: Page, address: str) -> None:
    """Take the run with the broken records, its log, and one of those records."""
    await page.goto(await _broken_run(page, address))
    await page.screenshot(path=_FOLDER / "run.png")
    await page.get_by_role("link", name="Log", exact=True).click()
    await page.screenshot(path=_FOLDER / "log.png")
    await page.get_by_role("link", name="Errors", exact=True).click()
    await page.get_by_role("link", name=_BROKEN_RECORD).click()
    await page.screenshot(path=_FOLDER / "error.png")


async def _take_wizard(page: Page, address: str) -> None:
    """Take the wizard's second step, with the first of the demo's repositories."""
    await page.goto(f"{address}/repositories")
    base_url = await page.locator("tbody th .mono").first.inner_text()
    await page.goto(f"{address}/repositories/new")
    await page.get_by_label("Base URL").fill(base_url)
    await page.get_by_role("button", name="Check address", exact=True).click()
    await page.screenshot(path=_FOLDER / "wizard.png")


if __name__ == "__main__":
    _FOLDER.mkdir(exist_ok=True)
    asyncio.run(main())
