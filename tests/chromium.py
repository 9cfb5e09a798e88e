"""A real Chromium for tests, and its console messages."""

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

_NAMES: Final = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Programs in order of preference: Chromium without a desktop's parts takes a quarter less processor time."""
_PROGRAM: Final = next(filter(None, map(shutil.which, _NAMES)), None)
PATIENCE: Final = 60_000
"""Milliseconds; generous, because page times depend on the machine and its load."""
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
    """Return the launch options; skips the test with the reason if Chromium is missing."""
    if _PROGRAM is None:
        pytest.skip("no Chromium on this machine: `apt-get install chromium` to run the browser tests")
    # Chromium's sandbox does not work for root.
    extra = ["--no-sandbox"] if os.geteuid() == 0 else []
    return {"executable_path": _PROGRAM, "args": [*_ARGUMENTS, *extra]}


async def launched() -> AsyncIterator[Browser]:
    """Launch a browser for the duration of the iteration."""
    options = _options()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(**options)
        yield browser
        await browser.close()


@contextlib.contextmanager
def shared() -> Iterator[str]:
    """Start a browser in a separate process for many tests, one after another; yield its address."""
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
                os.killpg(server.pid, signal.SIGTERM)  # terminates also the command's child processes;
                server.stdout.read()  # until end of file: they hold the pipe open while they run


async def connected(address: str) -> AsyncIterator[Browser]:
    """Connect to that browser for the duration of the iteration; its new contexts end with it."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.connect(address)
        yield browser
        await browser.close()


def console_messages(page: Page) -> list[str]:
    """Return a list to which the browser's warnings and errors are appended from now on."""
    messages: list[str] = []

    def note(message: ConsoleMessage) -> None:
        messages.append(f"{message.type}: {message.text}")

    page.on("console", note)
    page.on("pageerror", lambda error: messages.append(str(error)))
    return messages
