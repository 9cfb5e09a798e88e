"""The demo runs without input, ignores the database of the environment, and leaves no files."""

import asyncio
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.commands import results
from tests.end_to_end.processes import running
from tests.web.conftest import Browser

_OWN, _BROKEN, _TITLES = "Sample web archive", "Broken library", "Sample web archive: titles"
"""Names of the demo's repositories."""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for temporary files that the account of the database can pass through."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def elsewhere(environment: dict[str, str], folder: Path) -> dict[str, str]:
    """An environment with the address of a database that does not exist."""
    return {
        **environment,
        "ZATVA_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "TMPDIR": str(folder),
    }


@pytest.mark.slow
@pytest.mark.long
def test_the_demo_ends_without_input_and_prints_a_summary(elsewhere: dict[str, str], folder: Path) -> None:
    (summary,) = results(elsewhere, "demo", "--once")
    assert summary["harvested"] == summary["indexed"] > summary["hidden"] > 0
    assert summary["stored"] == summary["indexed"] - summary["hidden"]
    assert summary["status"] == "completed"
    loose, strict = summary["broken"]
    assert (loose["format"], loose["status"], loose["refused"]) == ("oai_dc", "completed with errors", 3)
    assert (strict["format"], strict["status"]) == ("marc21", "failed")
    assert "'oai:broken.example:00005' is not valid" in strict["reason"]
    titles = summary["titles"]
    assert (titles["listed"], titles["harvested"], titles["status"]) == (3, 3, "completed")
    assert titles["served"] == f"{summary['served']}/titles"
    assert _left_by(folder) == ""


@pytest.mark.slow
async def test_the_demo_harvests_its_provider_and_can_be_stopped_during_a_slow_harvest(
    elsewhere: dict[str, str], folder: Path, tmp_path: Path
) -> None:
    world = {
        **elsewhere,
        "ZATVA_PROVIDER__BASE_URL": "https://archive.example/oai",
        "ZATVA_WEB__BASE_URL": "https://zatva.example",
    }
    log = tmp_path / "log"
    with running(world, log, "demo", ready="sign in") as (demo, link):
        (provider,) = re.findall(r"provider +(\S+)\?verb=Identify", log.read_text())
        indexed, hidden = re.findall(r"indexed +(\d+) documents, (\d+) of them hidden", log.read_text())[0]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            browser = Browser(http=http, base_url=link.partition("/sign-in")[0])
            await browser.sign_in(link.strip())
            (address,) = re.findall(r"for readers: (\S+)", log.read_text())
            async with http.get(address) as response:
                titles = await response.text()
            pages = [(await browser.get(path))[1] for path in ("/archive", "/archive/check")]
            runs = await _first_runs(browser)
        stored = _files_of(folder)
    assert demo.returncode == 0
    assert _left_by(folder) == ""
    assert ("Město" in titles, "Kronika" in titles) == (True, False)
    assert (runs[_OWN, "oai_dc"]["record_count"], stored) == (int(indexed), int(indexed) - int(hidden))
    _check_others(runs)
    for page in pages:
        assert provider in page
        assert (":8080" in page, "archive.example/oai" in page) == (False, False)


async def _first_runs(browser: Browser) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the first full run of each repository and format, once all except the slow one have ended."""
    async with asyncio.timeout(60):
        while True:
            _, text = await browser.get("/api/v1/runs?limit=20")
            # The newest are first. Those without a job are the generated history.
            runs = {
                (run["repository_name"], run["metadata_prefix"]): run
                for run in json.loads(text)["items"]
                if run["job_id"] is not None and run["set_spec"] is None
            }
            if runs.keys() >= {
                (_OWN, "oai_dc"),
                (_BROKEN, "oai_dc"),
                (_BROKEN, "marc21"),
                (_TITLES, "oai_dc"),
            }:
                return runs
            await asyncio.sleep(0.2)


def _check_others(runs: dict[tuple[str, str], dict[str, Any]]) -> None:
    """Check that the faults of the broken library were found and the titles harvested."""
    loose, strict, titles = runs[_BROKEN, "oai_dc"], runs[_BROKEN, "marc21"], runs[_TITLES, "oai_dc"]
    assert (loose["status"], loose["invalid_count"]) == ("completed with errors", 3)
    assert strict["status"] == "failed"
    assert "'oai:broken.example:00005' is not valid" in strict["failure_reason"]
    assert (titles["status"], titles["record_count"]) == ("completed", 3)


def _files_of(folder: Path) -> int:
    """How many records of the demo's own repository are in its store."""
    return len(list(folder.glob("*/store/sample/**/*.xml")))


def _left_by(folder: Path) -> str:
    """Files in the folder, and processes that name it."""
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    left = [str(path) for path in folder.iterdir()]
    return "\n".join([*left, *(line for line in processes.splitlines() if str(folder) in line)])
