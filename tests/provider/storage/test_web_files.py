"""Archive files on HTTP servers: indexed and served by ranges if the server supports that safely."""

import asyncio
import contextlib
import os
import random
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient
from sqlalchemy import select

from oai.database import Database
from oai.errors import RemoteError, UsageError
from oai.settings import Settings
from provider.app import create_app
from provider.http.admission import READING
from provider.indexing.archive_search import search
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from provider.storage import clients
from provider.storage.files import Presence, look_at, presence
from provider.storage.places import ObjectUrl, place_given
from provider.storage.web_files import WebFiles
from tests.provider.archives import Page, frame, skippable, warc_record, write_pages
from tests.provider.conftest import BASE_URL
from tests.provider.indexing.indexed import counts
from tests.provider.reading.test_zstd_frames import DICTIONARIES
from tests.provider.served import until
from tests.provider.storage.fault_proxy import Faults
from tests.provider.waczs import multi_wacz, wacz

Files = tuple[Path, Faults]
_OPTIONS = IndexOptions(margin=1)
_PAGES = [Page(url=f"http://a.example/{n}", body=bytes([65 + n]) * 500) for n in range(3)]


async def test_a_list_is_indexed_and_its_documents_are_served(
    database: Database, settings: Settings, files: Files, aiohttp_client: AiohttpClient
) -> None:
    folder, faults = files
    write_pages(folder / "x y.warc.gz", _PAGES)
    (folder / "list.txt").write_text("x%20y.warc.gz\n\n")
    (file,) = search([place_given(f"{faults.address}/list.txt")]).archives
    report = index_file(database, file, _OPTIONS)
    with database.session() as session:
        key = session.scalars(select(Document.key).where(Document.url == _PAGES[1].url)).one()
    client = await aiohttp_client(create_app(settings, database, base_url=BASE_URL), auto_decompress=False)
    answer = await client.get(f"/archive/{key.hex}")

    assert (file.name, counts(report)) == ("x y.warc.gz", (3, 0, 0, 0))
    assert (answer.status, await answer.read()) == (200, _PAGES[1].body)
    # The new file has another ETag.
    write_pages(folder / "x y.warc.gz", [*_PAGES, Page(url="http://a.example/new")])
    answer = await client.get(f"/archive/{key.hex}")
    assert answer.status == 503
    assert "replaced" in await answer.text()


@pytest.mark.parametrize("inner", ["", "in.wacz#"])
async def test_files_in_a_wacz_are_read_by_ranges(
    database: Database, settings: Settings, files: Files, aiohttp_client: AiohttpClient, inner: str
) -> None:
    folder, faults = files
    records = [frame(warc_record(page), DICTIONARIES[0]) for page in _PAGES]
    packed = skippable(DICTIONARIES[0].dict_content, 0x5D) + b"".join(records)
    large = Page(url="http://a.example/large", body=random.Random(1).randbytes(3 << 20))
    archives = {"x.warc.zst": packed, "y.warc": warc_record(large)}
    file = wacz(folder / "x.wacz", archives)
    if inner:
        multi_wacz(file, {"in.wacz": file.read_bytes()})
    found = search([place_given(f"{faults.address}/x.wacz")]).archives
    place = f"{faults.address}/x.wacz#{inner}archive"
    assert [str(one) for one in found] == [f"{place}/{name}" for name in archives]
    assert [counts(index_file(database, one, _OPTIONS)) for one in found] == [(3, 0, 0, 0), (1, 0, 0, 0)]
    assert index_file(database, found[0], _OPTIONS).skipped
    with database.session() as session:
        keys = {row.url: row.key for row in session.execute(select(Document.url, Document.key))}
    client = await aiohttp_client(create_app(settings, database, base_url=BASE_URL), auto_decompress=False)
    for page in _PAGES:
        faults.asked.clear()
        answer = await client.get(f"/archive/{keys[page.url].hex}")
        assert (answer.status, await answer.read()) == (200, page.body)
    assert len(faults.asked) == 1  # the directory and the dictionary are known

    wacz(file, {"x.warc.zst": packed})
    answer = await client.get(f"/archive/{keys[_PAGES[0].url].hex}")
    assert (answer.status, "replaced" in await answer.text()) == (503, True)
    assert presence(f"{place}/y.warc") is Presence.GONE


@pytest.mark.parametrize(
    ("left_out", "added", "message"),
    [
        (("content-range",), {}, "does not answer range requests"),
        ((), {"Content-Encoding": "gzip"}, "packs the file"),
        (("etag", "last-modified"), {}, "neither a strong ETag nor Last-Modified"),
    ],
)
def test_a_server_without_safe_range_requests_is_refused_with_the_reason(
    files: Files, left_out: tuple[str, ...], added: dict[str, str], message: str
) -> None:
    folder, faults = files
    write_pages(folder / "x.warc.gz", _PAGES)
    faults.left_out, faults.added = left_out, added
    with pytest.raises(OSError, match=message):
        look_at(place_given(f"{faults.address}/x.warc.gz"))


def test_a_416_response_without_size_is_reported_with_its_status(files: Files) -> None:
    _, faults = files
    faults.status = 416
    with pytest.raises(OSError, match=r"range requests \(status 416\)"):
        WebFiles().facts(ObjectUrl(f"{faults.address}/x.warc.gz"))


@pytest.mark.parametrize("added", [{"ETag": '"1"'}, {"Last-Modified": "Sat, 29 Oct 1994 19:43:31 GMT"}])
def test_an_empty_file_is_read_if_the_server_ignores_the_range(
    database: Database, files: Files, added: dict[str, str]
) -> None:
    _, faults = files
    faults.instead, faults.added = lambda _path: b"", added
    report = index_file(database, place_given(f"{faults.address}/x.warc.gz"), _OPTIONS)
    assert [one.reason for one in report.merged.problems] == ["the file is empty"]


def test_a_response_with_another_range_is_refused(files: Files) -> None:
    folder, faults = files
    (folder / "x.warc").write_bytes(bytes(range(100)))
    place = ObjectUrl(f"{faults.address}/x.warc")
    tag = WebFiles().facts(place).tag
    assert WebFiles().read(place, 50, 60, tag) == bytes(range(50, 60))
    # A cache that ignores Range in its key repeats an earlier answer.
    faults.added = {"Content-Range": "bytes 0-9/100"}
    with pytest.raises(OSError, match="a cache answers another range"):
        WebFiles().read(place, 50, 60, tag)


def test_last_modified_is_used_if_the_server_sends_only_a_weak_etag(database: Database, files: Files) -> None:
    folder, faults = files
    path = write_pages(folder / "x.warc.gz", _PAGES)
    faults.left_out, faults.added = ("etag",), {"ETag": 'W/"weak"'}
    place = place_given(f"{faults.address}/x.warc.gz")
    assert counts(index_file(database, place, _OPTIONS)) == (3, 0, 0, 0)
    assert index_file(database, place, _OPTIONS).skipped
    os.utime(path, (0, 1_000_000_000))
    assert not index_file(database, place, _OPTIONS).skipped


@pytest.mark.parametrize(
    ("status", "expected"),
    [(404, Presence.GONE), (410, Presence.GONE), (403, Presence.UNKNOWN), (500, Presence.UNKNOWN)],
)
def test_only_404_and_410_mean_that_a_file_is_gone(files: Files, status: int, expected: Presence) -> None:
    folder, faults = files
    (folder / "x.warc.gz").write_bytes(b"x")
    faults.status = status
    assert presence(f"{faults.address}/x.warc.gz") is expected


def test_a_file_on_an_unreachable_server_is_not_gone() -> None:
    assert presence("http://127.0.0.1:9/x.warc.gz") is Presence.UNKNOWN


def test_a_truncated_response_is_requested_again(database: Database, files: Files) -> None:
    folder, faults = files
    write_pages(folder / "x.warc.gz", _PAGES)
    place = place_given(f"{faults.address}/x.warc.gz")
    look_at(place)
    faults.cut, faults.cuts = 1, 3  # the one byte of the first request, and two of the three attempts
    assert counts(index_file(database, place, _OPTIONS)) == (3, 0, 0, 0)


def test_temporary_failures_are_retried_with_increasing_waits(files: Files) -> None:
    folder, faults = files
    (folder / "x.warc").write_bytes(b"x" * 100)
    waits: list[float] = []
    reader = WebFiles(retry_seconds=1000, sleep=waits.append)
    place = ObjectUrl(f"{faults.address}/x.warc")
    faults.status, faults.answers = 503, 7
    tag = reader.facts(place).tag
    assert waits == [0.25, 0.5, 1, 2, 4, 5, 5]

    waits.clear()
    faults.status, faults.answers, faults.added = 429, 2, {"Retry-After": "3"}
    assert reader.read(place, 0, 10, tag) == b"x" * 10
    assert waits == [3, 3]


def test_only_temporary_failures_are_retried(files: Files) -> None:
    _, faults = files
    waits: list[float] = []
    faults.status = 400
    with pytest.raises(OSError, match="status 400"):
        WebFiles(retry_seconds=1000, sleep=waits.append).facts(ObjectUrl(f"{faults.address}/x.warc"))
    assert waits == []

    def wait(seconds: float) -> None:
        raise RuntimeError(seconds)

    with pytest.raises(RuntimeError, match=r"^0\.\d+$"):
        WebFiles(retry_seconds=1000, sleep=wait).facts(ObjectUrl("http://127.0.0.1:9/x.warc"))


def test_indexing_retries_longer_than_serving(database: Database, files: Files) -> None:
    folder, faults = files
    place = place_given(f"{faults.address}/x.warc.gz")
    write_pages(folder / "x.warc.gz", _PAGES)
    faults.status, faults.answers = 503, 3
    assert counts(index_file(database, place, _OPTIONS)) == (3, 0, 0, 0)
    faults.status, faults.answers = 503, 3
    assert presence(str(place)) is Presence.UNKNOWN


def test_an_http_folder_and_a_list_with_file_urls_are_refused(files: Files) -> None:
    folder, faults = files
    with pytest.raises(UsageError, match="HTTP has no folders"):
        search([place_given(f"{faults.address}/crawl/")])
    (folder / "list.txt").write_text("x.warc.gz\nfile:///etc/passwd\n")
    with pytest.raises(UsageError, match="line 2"):
        search([place_given(f"{faults.address}/list.txt")])


async def test_a_slow_archive_file_server_does_not_delay_other_responses(
    database: Database, settings: Settings, files: Files, aiohttp_client: AiohttpClient, tmp_path: Path
) -> None:
    folder, faults = files
    write_pages(folder / "x.warc.gz", _PAGES)
    here = Page(url="http://b.example/")
    index_file(database, place_given(f"{faults.address}/x.warc.gz"), _OPTIONS)
    index_file(database, write_pages(tmp_path / "y.warc.gz", [here]), _OPTIONS)
    with database.session() as session:
        keys = {row.url: row.key.hex for row in session.execute(select(Document.url, Document.key))}
    provider = settings.provider.model_copy(update={"threads": 1, "wait_seconds": 60})
    app = create_app(settings.model_copy(update={"provider": provider}), database, base_url=BASE_URL)
    client = await aiohttp_client(app, auto_decompress=False)
    faults.asked.clear()
    faults.held = threading.Event()
    slow = [asyncio.create_task(client.get(f"/archive/{keys[page.url]}")) for page in _PAGES]
    await asyncio.to_thread(until, lambda: faults.asked)
    answers = [await client.get(path) for path in ("/readyz", f"/archive/{keys[here.url]}")]
    faults.held.set()
    assert [answer.status for answer in answers] == [200, 200]
    assert [(await answer).status for answer in slow] == [200, 200, 200]


async def test_a_client_that_disconnects_from_a_slow_document_blocks_no_others(
    database: Database, settings: Settings, files: Files, aiohttp_client: AiohttpClient
) -> None:
    folder, faults = files
    write_pages(
        folder / "x.warc.gz", [Page(url="http://a.example/", body=random.Random(1).randbytes(9 << 20))]
    )
    index_file(database, place_given(f"{faults.address}/x.warc.gz"), _OPTIONS)
    with database.session() as session:
        key = session.scalars(select(Document.key)).one().hex
    app = create_app(settings, database, base_url=BASE_URL)
    client = await aiohttp_client(app, auto_decompress=False)
    faults.asked.clear()
    answer = await client.get(f"/archive/{key}")
    faults.held = threading.Event()
    before = len(faults.asked)
    reading = asyncio.create_task(answer.read())
    await asyncio.to_thread(until, lambda: len(faults.asked) > before)
    reading.cancel()
    answer.close()
    served = [(await client.get("/readyz")).status for _ in range(3)]
    still_reading = app[READING].working
    faults.held.set()
    assert (served, still_reading) == ([200, 200, 200], 1)


def test_a_server_that_sends_byte_by_byte_times_out(dripping: str) -> None:
    place = ObjectUrl(f"{dripping}/x.warc.gz")
    with pytest.raises(TimeoutError, match=r"no complete answer in 0\.5"):
        WebFiles(seconds=0.5).read(place, 0, 100, '"tag"')


@pytest.fixture
def dripping() -> Iterator[str]:
    """Return the address of a server that endlessly sends single bytes with pauses to one client."""

    def drip() -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 206 Partial Content\r\nX: ")
            while True:
                connection.sendall(b"x")
                time.sleep(0.01)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=drip)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def test_a_timeout_is_not_retried(files: Files) -> None:
    _, faults = files
    faults.held = threading.Event()
    with pytest.raises(TimeoutError):
        WebFiles(seconds=1).read(ObjectUrl(f"{faults.address}/x.warc.gz"), 0, 100, '"tag"')
    faults.held.set()
    assert len(faults.asked) == 1


def test_a_truncated_list_of_files_is_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, faults = files
    monkeypatch.setattr(clients, "PATIENT_RETRY_SECONDS", 0)
    (folder / "list.txt").write_text("x.warc.gz\ny.warc.gz\n")
    faults.cut = 10
    with pytest.raises(RemoteError, match="10 bytes are missing"):
        search([place_given(f"{faults.address}/list.txt")])


@pytest.mark.parametrize(
    ("content", "added", "error", "message"),
    [
        ("žatva.warc.gz\n".encode("cp1250"), {}, RemoteError, "not text in UTF-8"),
        ("x.warc.gz\n".encode("utf-16"), {}, RemoteError, "not text in UTF-8"),
        (b"x.warc.gz\n", {"Content-Encoding": "gzip"}, RemoteError, "packs the file"),
        (b"<html>Sign in</html>\n", {}, UsageError, "names no archive files"),
        (b"", {}, UsageError, "names no archive files"),
        (b"\nhttp://me:secret@h/x.warc.gz\n", {}, UsageError, "line 2: .*credentials do not belong"),
        (b"ftp://me:secret@h/x.warc.gz\n", {}, UsageError, "line 1: 'ftp://h/x.warc.gz' is not the URL"),
        (b"http://[h/x.warc.gz\n", {}, UsageError, "line 1: .* is not the URL"),
    ],
)
def test_an_invalid_list_of_files_is_refused(
    files: Files, content: bytes, added: dict[str, str], error: type[Exception], message: str
) -> None:
    folder, faults = files
    (folder / "list.txt").write_bytes(content)
    faults.added = added
    with pytest.raises(error, match=message) as caught:
        search([place_given(f"{faults.address}/list.txt")])
    assert "secret" not in str(caught.value)


def test_a_line_of_a_list_without_an_archive_file_is_reported(files: Files) -> None:
    folder, faults = files
    (folder / "list.txt").write_text("# of 2026\n\nx.warc.gz\ny.war")
    found = search([place_given(f"{faults.address}/list.txt")])
    assert list(map(str, found.archives)) == [f"{faults.address}/x.warc.gz"]
    ((place, problem),) = found.refused.items()
    assert (str(place), "the list names it" in problem.reason) == (f"{faults.address}/y.war", True)


def test_a_list_with_a_byte_order_mark_and_accented_names_is_read(database: Database, files: Files) -> None:
    folder, faults = files
    write_pages(folder / "žatva.warc.gz", _PAGES)
    (folder / "list.txt").write_text("žatva.warc.gz\r\n", encoding="utf-8-sig")
    (file,) = search([place_given(f"{faults.address}/list.txt")]).archives
    assert counts(index_file(database, file, _OPTIONS)) == (3, 0, 0, 0)
