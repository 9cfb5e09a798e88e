"""A real Chromium for tests, and what it complains of."""

import os
import shutil
from collections.abc import AsyncIterator
from typing import Final

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, async_playwright, expect

_PROGRAM: Final = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
PATIENCE: Final = 60_000
"""Milliseconds: how long a page takes tells of the machine and what else it does."""
expect.set_options(timeout=PATIENCE)
_ARGUMENTS: Final = (
    "--headless",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


async def launched() -> AsyncIterator[Browser]:
    """A browser, while the iteration lasts; the test is skipped, with the reason, where there is none."""
    if _PROGRAM is None:
        pytest.skip("no Chromium on this machine: install Debian's package chromium to run the browser tests")
    # Its sandbox does not work for root.
    extra = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_PROGRAM, args=[*_ARGUMENTS, *extra])
        yield browser
        await browser.close()


def console_messages(page: Page) -> list[str]:
    """Whatever the browser complains of from now on."""
    said: list[str] = []

    def note(message: ConsoleMessage) -> None:
        said.append(f"{message.type}: {message.text}")

    page.on("console", note)
    page.on("pageerror", lambda error: said.append(str(error)))
    return said
