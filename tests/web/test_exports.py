"""Files prepared for download: requested on pages and by the API, sent in ranges, refused when withdrawn."""

import asyncio
import io
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
from lxml import html
from sqlalchemy import update

from oai.cli import Invocation
from oai.console import Console
from provider.export import preparation
from provider.export.models import PreparedExport
from provider.export.prepared_files import claim
from provider.holdings.collections import add_collection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from tests.provider.archives import Page, write_pages
from tests.web.conftest import Browser, Server

_PAGES = (Page(url="http://a.example/"), Page(url="http://a.example/x"), Page(url="http://b.example/"))
_HOST = {"url": "a.example", "match": "host", "form": "wacz"}


@pytest.fixture
def archive(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three captures of two hosts; files are prepared within this process."""
    index_file(server.database, write_pages(tmp_path / "a.warc.gz", _PAGES), IndexOptions(margin=1))
    with server.database.session() as session:
        add_collection(session, "collection:serials")
        session.commit()
    monkeypatch.setattr(preparation, "end_with_input", lambda: None)


async def prepared(server: Server, number: int) -> Path:
    """Prepare the file as a worker does, and return it."""

    def work() -> Path:
        with server.database.session() as session:
            assert claim(session, number, "here")
            session.commit()
        console = Console(quiet=True, out=io.StringIO())
        arguments = Namespace(export_id=number)
        preparation.prepare_queued(Invocation(arguments=arguments, settings=server.settings, console=console))
        with server.database.session() as session:
            return server.settings.exports / session.get_one(PreparedExport, number).file_name

    return await asyncio.to_thread(work)


@pytest.mark.usefixtures("archive")
async def test_a_file_is_requested_on_a_page_and_downloaded_in_ranges(
    server: Server, curator: Browser, viewer: Browser, owner: Browser
) -> None:
    text = (await curator.get("/archive/documents?url=a.example&match=host"))[1]
    assert 'value="wacz">Prepare WACZ' in text
    assert "Prepare WACZ" in (await curator.get("/archive/collections/collection:serials"))[1]
    assert "Prepare WACZ" not in (await viewer.get("/archive/documents?url=a.example&match=host"))[1]
    assert (await viewer.post("/archive/exports", _HOST))[0] == 403
    _, _, target = await curator.post("/archive/exports", {**_HOST, "name": "A host"})
    assert target == "/archive/exports/1?done=export-queued"
    async with curator.http.get(server.base_url + "/archive/exports/1") as answer:
        assert ("queued" in await answer.text(), answer.headers["Refresh"]) == (True, "5")
    assert "this page reloads by itself" in (await curator.get(target))[1]
    assert (await curator.get("/archive/exports/1/file"))[0] == 409

    content = (await prepared(server, 1)).read_bytes()
    _, text = await curator.get(target)
    assert "this page reloads by itself" not in text
    assert ("Download (" in text, "A host" in text, "the whole host" in text) == (True, True, True)
    await _check_download(viewer, content)
    assert (await owner.get("/archive/exports/1/file"))[0] == 403


@pytest.mark.parametrize("days", [{"until": "9999-12-31"}, {"since": "0001-01-01"}])
async def test_days_at_the_ends_of_the_calendar_are_refused_with_a_message(
    curator: Browser, days: dict[str, str]
) -> None:
    status, page, _ = await curator.post("/archive/exports", {**_HOST, **days})

    assert status == 422
    assert "Enter a year from 2 to 9998." in page


async def _check_download(browser: Browser, content: bytes) -> None:
    url = browser.base_url + "/archive/exports/1/file"
    async with browser.http.get(url) as whole:
        assert await whole.read() == content
        assert (whole.status, whole.content_length) == (200, len(content))
        assert whole.headers["Content-Type"] == "application/wacz"
        assert whole.headers["Content-Disposition"] == 'attachment; filename="zatva-export-1.wacz"'
        assert whole.headers["Accept-Ranges"] == "bytes"
        tag = whole.headers["ETag"]
    async with browser.http.get(url, headers={"Range": "bytes=10-19", "If-Range": tag}) as part:
        assert (part.status, await part.read()) == (206, content[10:20])
        assert part.headers["Content-Range"] == f"bytes 10-19/{len(content)}"
    async with browser.http.get(url, headers={"Range": f"bytes={len(content)}-"}) as beyond:
        assert beyond.status == 416
    async with browser.http.get(url, headers={"If-None-Match": tag}) as same:
        assert same.status == 304
    async with browser.http.head(url) as head:
        assert (head.status, head.headers["Content-Length"]) == (200, str(len(content)))


@pytest.mark.usefixtures("archive")
async def test_days_of_capture_are_chosen_on_the_page(server: Server, curator: Browser) -> None:
    days = {"since": "2020-01-02", "until": "2020-03-04"}
    _, _, target = await curator.post("/archive/exports", {**_HOST, **days})
    assert target == "/archive/exports/1?done=export-queued"
    with server.database.session() as session:
        chosen = session.get_one(PreparedExport, 1).selection
    assert (chosen["since"], chosen["until"]) == (
        "2020-01-02T00:00:00+00:00",
        "2020-03-04T23:59:59.999999+00:00",
    )
    _, text, _ = await curator.post(
        "/archive/exports", {**_HOST, "since": "2020-03-05", "until": "2020-03-04"}
    )
    assert "The first day of capture is after the last one." in text
    page: Any = html.fromstring(text)
    (again,) = [form for form in page.forms if form.action == "/archive/exports"]
    assert {**again.fields}.items() >= {"url": "a.example", "match": "host", "since": "2020-03-05"}.items()


@pytest.mark.usefixtures("archive")
async def test_a_file_with_a_withdrawn_document_is_removed(server: Server, curator: Browser) -> None:
    await curator.post("/archive/exports", _HOST)
    file = await prepared(server, 1)
    with server.database.session() as session:
        session.execute(update(Document).where(Document.url == _PAGES[1].url).values(deleted=True))
        session.commit()
    status, text = await curator.get("/archive/exports/1/file")
    assert (status, "may no longer be read: 1" in text, file.exists()) == (410, True, False)
    _, text = await curator.get("/archive/exports/1")
    assert "because of documents that were withdrawn" in text
    assert "The file was removed." in (await curator.get("/archive/exports"))[1]
    status, text = await curator.get("/archive/exports/1/file")
    assert (status, "<h1>No longer available</h1>" in text) == (410, True)


@pytest.mark.usefixtures("archive")
async def test_invalid_requests_for_files_are_refused_at_once(curator: Browser) -> None:
    for form, expected in (
        ({"form": "wacz"}, "Choose a URL, a set or a title."),
        ({**_HOST, "title_id": "1"}, "Choose a URL, a set or a title."),
        ({"title_id": "7"}, "Title 7 does not exist."),
        ({"set_spec": "collection:none"}, "collection:none"),
        ({**_HOST, "form": "zip"}, "Choose one of the options."),
    ):
        status, text, _ = await curator.post("/archive/exports", form)
        assert (status, expected in text) == (422, True), form


@pytest.mark.usefixtures("archive")
async def test_files_with_reading_room_documents_are_for_staff_only(
    server: Server, curator: Browser, viewer: Browser
) -> None:
    await curator.post("/archive/exports", {**_HOST, "form": "warc", "reading_room": "yes"})
    file = await prepared(server, 1)
    assert "Only the archive's staff" in (await viewer.get("/archive/exports/1"))[1]
    assert (await viewer.get("/archive/exports/1/file"))[0] == 403
    async with curator.http.get(server.base_url + "/archive/exports/1/file") as answer:
        assert (answer.content_type, await answer.read()) == ("application/warc", file.read_bytes())
    file.rename(file.with_suffix(".away"))
    assert (await curator.get("/archive/exports/1/file"))[0] == 503
    file.with_suffix(".away").rename(file)
    assert "Remove the file" in (await curator.get("/archive/exports/1/remove"))[1]
    assert (await curator.post("/archive/exports/1/remove"))[2] == "/archive/exports?done=export-removed"
    assert not file.exists()
    assert (await curator.post("/archive/exports/1/remove"))[0] == 409
    assert (await curator.get("/archive/exports/2"))[0] == 404


@pytest.mark.usefixtures("archive")
async def test_the_api_prepares_and_serves_files(server: Server, administrator: Browser) -> None:
    headers = {"X-CSRF-Token": await administrator.token()}
    base = server.base_url + "/api/v1/archive/exports"
    body = {"url": "a.example", "match": "domain", "form": "warc", "until": "2030-01-01T00:00:00Z"}
    async with administrator.http.post(base, json=body, headers=headers) as answer:
        made = await answer.json()
    assert (answer.status, made["state"], made["asked_by"]) == (202, "queued", "Alena")
    assert made["selection"]["look_ups"] == [["a.example", "domain"]]
    async with administrator.http.post(base, json={}, headers=headers) as answer:
        assert answer.status == 422
    file = await prepared(server, 1)
    async with administrator.http.get(base) as answer:
        assert [one["captures"] for one in (await answer.json())["items"]] == [2]
    async with administrator.http.get(base + "/1/file", headers={"Range": "bytes=0-1"}) as answer:
        assert (answer.status, await answer.read()) == (206, b"\x1f\x8b")
    async with administrator.http.delete(base + "/1", headers=headers) as answer:
        assert (answer.status, file.exists()) == (204, False)
    async with administrator.http.delete(base + "/1", headers=headers) as answer:
        assert answer.status == 409
    async with administrator.http.get(base + "/1") as answer:
        assert ((await answer.json())["state"]) == "removed"
    for path in ("/2", "/2/file"):
        async with administrator.http.get(base + path) as answer:
            assert answer.status == 404
