"""Takes the pictures in docs/images/ from the running demo: `python -m tests.screenshots`."""

import asyncio
import json
import signal
import sys
from html import escape
from pathlib import Path
from typing import Final

from playwright.async_api import Browser, Locator, Page

from manager.notices.letters import render
from manager.notices.models import Language, Occasion
from oai.failures import Failure, FailureCode
from tests.chromium import launched

FOLDER: Final = Path(__file__).parent.parent / "docs" / "images"
PICTURES: Final = (
    *("dashboard", "digest", "error", "explorer", "records", "repair", "report-card"),
    *("rule-by-example", "what-if", "wizard"),
)
"""Names of the pictures, without `.png`."""
_BROKEN: Final = 2
"""Number of the repository with broken records."""
_BROKEN_RECORD: Final = "oai:broken.example:00037"
_REPAIRED_RECORD: Final = "oai:broken.example:00058"
"""A record that a change on arrival makes readable."""
_WORD: Final = "Kronika"
"""Titles of the broken library that begin with it are kept by example, and searched."""
_FACTS: Final = {
    "repository_id": _BROKEN,
    "repository_name": "Knihovna města Olšany",
    "base_url": "https://knihovna.example/oai",
    "since": "2026-11-16T05:00:00+00:00",
    "until": "2026-11-23T05:00:00+00:00",
    "runs": 7,
    "troubled": 1,
    "records": 12_431,
    "changed": 318,
    "errors": 1,
    "examples": [
        {
            "identifier": "oai:knihovna.example:58",
            "failure": Failure(code=FailureCode.RECORD_CHARACTER).as_json(),
        }
    ],
    "card": "…",
    "token": "…",
}
_PATIENCE: Final = 60


async def main() -> None:
    """Start the demo, sign in, and take each picture."""
    demo = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "zatva", "demo", "--json", "--quiet", stdout=asyncio.subprocess.PIPE
    )
    assert demo.stdout is not None
    try:
        links = json.loads(await demo.stdout.readline())
        async for browser in launched():
            await _take(browser, links)
    finally:
        demo.send_signal(signal.SIGTERM)
        await demo.wait()


async def _take(browser: Browser, links: dict[str, str]) -> None:
    page = await browser.new_page(viewport={"width": 1280, "height": 800})
    await page.goto(links["sign_in"])
    await page.get_by_role("button").first.click()
    address = links["sign_in"].partition("/sign-in")[0]
    await _take_errors(page, address)
    await page.goto(f"{address}/repositories/{_BROKEN}/explorer?verb=ListRecords&metadataPrefix=oai_dc")
    await _keep(page, "explorer")
    await page.goto(address)
    await _keep(page, "dashboard")
    await page.goto(f"{address}/records?find={_WORD}")
    await _keep(page, "records")
    await page.goto(links["report_card"])
    await _keep(page, "report-card")
    await _take_rule_by_example(page, address)
    await _take_what_if(page, address)
    await _take_wizard(page, address)
    await _take_digest(page)


async def _keep(page: Page, name: str, part: Locator | None = None) -> None:
    """Write a picture of the window, or of a part of the page."""
    assert name in PICTURES
    await (part or page).screenshot(path=FOLDER / f"{name}.png")


async def _broken_run(page: Page, address: str) -> str:
    """Return the URL of the broken repository's run, once that has ended."""
    for _ in range(_PATIENCE):
        await page.goto(f"{address}/runs?repository={_BROKEN}")
        run = page.locator("tbody tr", has_text="completed with errors").locator("th a")
        if await run.count():
            return f"{address}{await run.first.get_attribute('href')}"
        await asyncio.sleep(1)
    raise SystemExit("the harvest of the broken repository did not end in time")


async def _take_errors(page: Page, address: str) -> None:
    """Take a broken record, and one with the change that repairs it."""
    await page.goto(await _broken_run(page, address))
    await page.get_by_role("link", name="Errors", exact=True).click()
    errors = page.url
    await page.get_by_role("link", name=_BROKEN_RECORD).click()
    await _keep(page, "error")
    await page.goto(errors)
    await page.get_by_role("link", name=_REPAIRED_RECORD).click()
    await _keep(page, "repair", page.locator("#repair"))


async def _take_rule_by_example(page: Page, address: str) -> None:
    """Take the proposed rules for three records to keep and three to drop."""
    await page.goto(f"{address}/rules/by-example?repository={_BROKEN}")
    rows = page.locator("tbody tr")
    for label, found in (("Keep", rows.filter(has_text=_WORD)), ("Drop", rows.filter(has_not_text=_WORD))):
        for number in range(3):
            await found.nth(number).get_by_role("radio", name=label, exact=True).check()
    await page.get_by_role("button", name="Propose rules").click()
    await page.locator("#proposals").wait_for()
    await _keep(page, "rule-by-example")


async def _take_what_if(page: Page, address: str) -> None:
    """Take what a schedule of the broken repository would mean."""
    await page.goto(f"{address}/schedules/new?repository={_BROKEN}")
    await page.locator(".buttons").get_by_role("button", name="Preview schedule").click()
    await _keep(page, "what-if", page.locator(".what-if").locator(".."))


async def _take_wizard(page: Page, address: str) -> None:
    """Take the wizard's second step, with the first of the demo's repositories."""
    await page.goto(f"{address}/repositories")
    base_url = await page.locator("tbody th .mono").first.inner_text()
    await page.goto(f"{address}/repositories/new")
    await page.get_by_label("Base URL").fill(base_url)
    await page.get_by_role("button", name="Check address", exact=True).click()
    await _keep(page, "wizard")


async def _take_digest(page: Page) -> None:
    """Take a weekly digest as a mail programme shows it; the demo sends no mail."""
    letter = render(
        Occasion.DIGEST,
        Language.ENGLISH,
        _FACTS,
        dashboard="https://zatva.example",
        mail=True,
        zone="Europe/Prague",
    )
    await page.goto("about:blank")  # the dashboard's security policy forbids styles
    await page.set_content(
        "<!doctype html><main style='max-width: 42rem; padding: 1.5rem; font: 15px sans-serif'>"
        f"<h1 style='font-size: 1.2rem'>{escape(letter.subject)}</h1>"
        f"<pre style='font: inherit; white-space: pre-wrap'>{escape(letter.body)}</pre>"
    )
    await _keep(page, "digest", page.locator("main"))


if __name__ == "__main__":
    asyncio.run(main())
