"""Restoring a site with real processes: archive file, index, provider, restore, and a browser."""

import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.async_api import BrowserContext, Page, Request, Route
from sqlalchemy import func, update
from warcio.archiveiterator import ArchiveIterator

from oai.database import Database
from provider.models import Document
from tests.commands import Process, results
from tests.end_to_end.processes import eventually, running
from tests.harvester.restoring.castle import HOST, PIXEL, ROOMS, TITLES, pages
from tests.provider.archives import write_pages

_SITE = "domain:example:hrad"
_PAGES = pages()
_LEADS_OUT = "/moved/out.html"


@pytest.fixture(scope="module")
def provider(
    shared_environment: dict[str, str], shared_database: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The address of a provider that serves the site, every document of which is due."""
    folder = tmp_path_factory.mktemp("castle")
    write_pages(folder / "archive" / "castle.warc.gz", _PAGES)
    results(shared_environment, "provider", "index", folder / "archive", "--jobs", "1")
    with shared_database.session() as session:
        session.execute(update(Document).values(datestamp=func.date_trunc("second", func.now())))
        session.commit()
    with running(
        shared_environment, folder / "provider.log", "provider", "serve", "--port", "0", ready="provider at"
    ) as (_, address):
        yield address


@pytest.fixture
def hidden(shared_database: Database) -> Iterator[str]:
    """The URL of a document that is withheld for the test."""
    url = f"{HOST}/rooms/room.php?id=9&lang=cs"
    _withhold(shared_database, url, withheld=True)
    yield url
    _withhold(shared_database, url, withheld=False)


def _withhold(database: Database, url: str, *, withheld: bool) -> None:
    with database.session() as session:
        session.execute(update(Document).where(Document.url == url).values(deleted=withheld))
        session.commit()


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


@pytest.mark.slow
@pytest.mark.browser
async def test_a_restored_site_is_shown_from_disk_without_missing_resources(
    provider: str, shared_environment: dict[str, str], tmp_path: Path, context: BrowserContext
) -> None:
    folder = tmp_path / "copy"
    result = results(shared_environment, "restore", _SITE, folder, "--from", provider)[-1]
    assert (result["verdict"], result["restored"]) == ("complete", len(_PAGES))
    _check_bytes(folder)
    await _look_at_all(context, folder)
    again = results(shared_environment, "restore", _SITE, folder, "--from", provider)[-1]
    assert (again["verdict"], again["fetched"], again["requests"]) == ("complete", 0, 0)


def _check_bytes(folder: Path) -> None:
    """Check that each document is restored byte by byte, as the browsable file or beside it."""
    entries = {str(line["url"]): line for line in _lines(folder / "manifest.jsonl")[1:]}
    assert entries.keys() == {page.url for page in _PAGES}
    for page in _PAGES:
        entry = entries[page.url]
        assert (folder / str(entry["original"] or entry["file"])).read_bytes() == page.body, page.url
    assert (folder / "site/www.hrad.example/img/a.gif").read_bytes() == PIXEL
    assert 'url=http://elsewhere.example/x"' in (folder / f"site/www.hrad.example{_LEADS_OUT}").read_text()
    names = [str(entry["file"]).casefold() for entry in entries.values()]
    assert len(set(names)) == len(names)


async def _look_at_all(context: BrowserContext, folder: Path) -> None:
    failed: list[str] = []
    outside: list[str] = []
    page = await context.new_page()

    async def stop(route: Route) -> None:
        outside.append(route.request.url)
        await route.abort()

    def note(request: Request) -> None:
        # Files still loading when the next page was opened are checked on the disk.
        if request.failure != "net::ERR_ABORTED" or not _file(request.url).is_file():
            failed.append(f"{request.url}: {request.failure}")

    await context.route(lambda url: urlsplit(url).scheme in {"http", "https"}, stop)
    page.on("requestfailed", note)
    seen = await _crawled(page, (folder / "index.html").as_uri())
    assert (failed, outside) == ([], [])
    assert len([one for one in seen if "/rooms/room.php@id=" in one]) == ROOMS
    await _check_looks(page, folder)
    await _check_titles(page, folder)
    assert failed == []


def _file(url: str) -> Path:
    return Path(unquote(urlsplit(url).path))


async def _crawled(page: Page, start: str) -> set[str]:
    """Open all that links and frames lead to, of the rooms one in forty; all pictures must be ones."""
    waiting, seen = [start], {start}
    while waiting:
        address = waiting.pop()
        await page.goto(address, wait_until="load")
        found = await page.evaluate(
            """() => ({
                links: [...document.querySelectorAll('a, frame, object')].map(
                    one => one.href?.baseVal !== undefined ? new URL(one.href.baseVal, document.URL).href
                        : one.href || one.src || one.data),
                broken: [...document.images].filter(one => !one.naturalWidth).map(one => one.src)
            })"""
        )
        assert found["broken"] == [], address
        for link in found["links"]:
            bare = link.partition("#")[0]
            if bare.startswith("file:") and bare not in seen and not bare.endswith(_LEADS_OUT):
                seen.add(bare)
                if not _is_like_another(bare):
                    waiting.append(bare)
    return seen


def _is_like_another(address: str) -> bool:
    room = re.search(r"room\.php@id=(\d+)", unquote(address))
    return room is not None and int(room[1]) % 40 > 0


async def _check_looks(page: Page, folder: Path) -> None:
    await page.goto((folder / "site/www.hrad.example/index.html").as_uri())
    assert await page.evaluate("document.documentElement.dataset.script") == "ran"
    background = await page.evaluate("getComputedStyle(document.body).backgroundImage")
    assert background.endswith('/img/in%2520css.gif")')
    assert await page.evaluate("getComputedStyle(document.body, '::after').content") == '"kůň"'


async def _check_titles(page: Page, folder: Path) -> None:
    files = {line["url"]: str(line["file"]) for line in _lines(folder / "manifest.jsonl")[1:]}
    for titled in TITLES:
        await page.goto((folder / files[titled.url]).as_uri())
        assert await page.title() == titled.title, titled.url


@pytest.mark.slow
def test_a_killed_restore_is_resumed_and_its_warc_files_have_the_exact_bytes(
    provider: str, shared_environment: dict[str, str], tmp_path: Path, hidden: str
) -> None:
    folder = tmp_path / "warc"
    arguments = ["restore", _SITE, str(folder), "--from", provider, "--as", "warc"]
    planned = results(shared_environment, *arguments, "--dry-run")[-1]
    assert (planned["wanted"], planned["here"]) == (len(_PAGES) - 1, 0)
    assert not folder.exists()
    slow = {**shared_environment, "ZATVA_HARVESTER__PER_HOST": "1", "ZATVA_HARVESTER__DELAY": "0.02"}
    process = Process(slow, *arguments)
    eventually(lambda: _noted(folder), "a batch in the manifest")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    noted = _noted(folder)
    assert 0 < noted < len(_PAGES) - 1
    with (folder / "manifest.jsonl").open("ab") as manifest:
        manifest.write(b'{"url": "http://brok')  # as after a power failure
    with next((folder / "warc").iterdir()).open("ab") as warc:
        warc.write(b"\x1f\x8bhalf a record")
    result = results(shared_environment, *arguments, expect=3)[-1]
    assert result["fetched"] == result["wanted"] - noted
    assert result["missing"] == {"withheld": 1}
    _check_warc(folder, hidden)


def _noted(folder: Path) -> int:
    """How many documents the manifest has."""
    path = folder / "manifest.jsonl"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else 0


def _check_warc(folder: Path, hidden: str) -> None:
    expected = {page.url: page for page in _PAGES if page.url != hidden}
    [path] = (folder / "warc").iterdir()
    assert path.suffixes == [".warc", ".gz"]
    found = {}
    with path.open("rb") as file:
        for record in ArchiveIterator(file, check_digests="raise"):
            if record.rec_type == "warcinfo":
                continue
            url = record.rec_headers.get_header("WARC-Target-URI")
            assert url not in found
            page = expected[url]
            found[url] = record.content_stream().read()
            assert record.rec_headers.get_header("WARC-Date") == page.date
            assert record.rec_headers.get_header("WARC-Payload-Digest") == page.payload_digest
            assert record.http_headers.get_statuscode() == str(page.status)
            assert record.http_headers.get_header("Content-Type") == page.mime_type
            if page.http_headers:
                assert f"Location: {record.http_headers.get_header('Location')}\r\n" == page.http_headers
    assert found == {url: page.body for url, page in expected.items()}
    [absent] = _lines(folder / "missing.jsonl")
    assert (absent["reason"], absent["url"]) == ("withheld", None)
