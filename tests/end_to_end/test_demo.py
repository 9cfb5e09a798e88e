"""The demo runs through by itself, whatever database the environment names, and leaves nothing behind."""

import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest

from tests.commands import results
from tests.end_to_end.processes import running
from tests.web.conftest import Browser


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for temporary files that the database's own account passes through."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
def elsewhere(environment: dict[str, str], folder: Path) -> dict[str, str]:
    """An environment that names a database which is not there."""
    return {
        **environment,
        "ZATVA_DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none",
        "TMPDIR": str(folder),
    }


@pytest.mark.slow
def test_the_demo_ends_by_itself_and_says_what_it_did(elsewhere: dict[str, str], folder: Path) -> None:
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
async def test_the_demo_shows_its_own_provider_and_is_ended_in_the_middle_of_the_slow_harvest(
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
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as http:
            browser = Browser(http=http, base_url=link.partition("/sign-in")[0])
            await browser.sign_in(link.strip())
            (address,) = re.findall(r"for readers: (\S+)", log.read_text())
            async with http.get(address) as response:
                titles = await response.text()
            pages = [(await browser.get(path))[1] for path in ("/archive", "/archive/check")]
    assert demo.returncode == 0
    assert _left_by(folder) == ""
    assert ("Město" in titles, "Kronika" in titles) == (True, False)
    for page in pages:
        assert provider in page
        assert (":8080" in page, "archive.example/oai" in page) == (False, False)


def _left_by(folder: Path) -> str:
    """Files in the folder, and processes that name it."""
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout  # noqa: S607
    left = [str(path) for path in folder.iterdir()]
    return "\n".join([*left, *(line for line in processes.splitlines() if str(folder) in line)])
