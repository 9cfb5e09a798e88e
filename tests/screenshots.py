"""Makes the pictures in docs/images/ from the running demo; `python -m tests.screenshots` renews them."""

import asyncio
import json
import signal
import sys
from pathlib import Path

from playwright.async_api import Browser

from tests.chromium import launched

_FOLDER = Path(__file__).parent.parent / "docs" / "images"
_PAGES = {"dashboard": "/", "repositories": "/repositories", "schedules": "/schedules", "history": "/runs"}


async def main() -> None:
    """Start the demo, sign in, and take a picture of each page."""
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
    for name, path in _PAGES.items():
        await page.goto(link.partition("/sign-in")[0] + path)
        await page.screenshot(path=_FOLDER / f"{name}.png")


if __name__ == "__main__":
    _FOLDER.mkdir(exist_ok=True)
    asyncio.run(main())
