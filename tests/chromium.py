"""A real Chromium for tests, and what it complains of."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any, Final

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


def _options() -> dict[str, Any]:
    """How it is started; the test is skipped, with the reason, where there is none."""
    if _PROGRAM is None:
        pytest.skip("no Chromium on this machine: install Debian's package chromium to run the browser tests")
    # Its sandbox does not work for root.
    extra = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {"executable_path": _PROGRAM, "args": [*_ARGUMENTS, *extra]}


async def launched() -> AsyncIterator[Browser]:
    """A browser, while the iteration lasts."""
    options = _options()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        yield browser
        await browser.close()


@contextlib.contextmanager
def shared() -> Iterator[str]:
    """The address of a browser of its own process that many tests may use, one after another."""
    options = _options()
    with tempfile.NamedTemporaryFile("w", suffix=".json") as config:
        json.dump({"executablePath": options["executable_path"], "args": options["args"]}, config)
        config.flush()
        command = (
            *(sys.executable, "-m", "playwright", "launch-server"),
            *("--browser", "chromium", "--config", config.name),
        )
        with subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True
        ) as server:
            assert server.stdout is not None
            try:
                address = server.stdout.readline().strip()
                assert address.startswith("ws://"), address
                yield address
            finally:
                os.killpg(server.pid, signal.SIGTERM)  # also what does the work for that command,
                server.stdout.read()  # which has ended when nobody can write there any more


async def connected(address: str) -> AsyncIterator[Browser]:
    """That browser, while the iteration lasts; the contexts that were made of it end with it."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect(address)
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
