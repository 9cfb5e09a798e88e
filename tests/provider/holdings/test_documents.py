"""Archived documents are given as they were captured, to those who may have them, or not at all."""

import gzip
import re
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import ClientPayloadError, ClientResponse
from aiohttp.test_utils import TestClient
from aiohttp.web import Application, Request
from pytest_aiohttp import AiohttpClient
from sqlalchemy import update

from oai.database import Database
from oai.settings import Settings
from provider.app import create_app
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign
from provider.holdings.hiding import hide
from provider.holdings.identifiers import capture_key
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access, Arc
from tests.provider.archives import Page, arc_info, arc_record, offsets, warc_record, write_archive
from tests.provider.conftest import BASE_URL

URL = "http://a.example/page"
ADDRESS = "/archive/" + capture_key(URL, datetime(2007, 11, 2, 3, 4, 5, tzinfo=UTC)).hex
PAGE = Page(url=URL)
FAR = datetime(2999, 1, 1, tzinfo=UTC)


@dataclass
class Archive:
    """Writes files, indexes them, and serves what is in them."""

    database: Database
    settings: Settings
    folder: Path
    client: TestClient[Request, Application]
    written: list[Path] = field(default_factory=list)

    def index(self, *records: bytes, name: str = "x.warc.gz") -> Path:
        path = write_archive(self.folder / name, records)
        report = index_file(self.database, path, IndexOptions(margin=1))
        assert not report.merged.problems
        return path

    async def get(self, address: str = ADDRESS, **headers: str) -> ClientResponse:
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.get(address, headers={"Accept-Encoding": "identity", **fields})


@pytest.fixture
async def archive(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> Archive:
    """An archive that checks documents of up to 100,000 bytes before it sends them."""
    return await served(database, settings, tmp_path, aiohttp_client)


async def served(
    database: Database, settings: Settings, folder: Path, aiohttp_client: AiohttpClient, **changes: object
) -> Archive:
    changes = {"checked_document_bytes": 100_000, "trusted_proxies": (), **changes}
    provider = settings.provider.model_copy(update=changes)
    chosen = settings.model_copy(update={"provider": provider})
    app = create_app(chosen, database, base_url=BASE_URL)
    client = await aiohttp_client(app, auto_decompress=False)
    return Archive(database, chosen, folder, client)


def http(page: Page, *fields: str, body: bytes | None = None) -> bytes:
    """A record with further HTTP fields, and another body than the one that its digest is of."""
    message = page.http.partition(b"\r\n\r\n")[0]
    message += b"".join(b"\r\n" + one.encode() for one in fields) + b"\r\n\r\n"
    block = message + (page.body if body is None else body)
    record = warc_record(page).partition(b"\r\n\r\n")[0]
    record = re.sub(rb"Content-Length: \d+$", b"Content-Length: %d" % len(block), record)
    return record + b"\r\n\r\n" + block + b"\r\n\r\n"


def chunked(body: bytes, size: int) -> bytes:
    pieces = [body[begin : begin + size] for begin in range(0, len(body), size)]
    return b"".join(b"%x;a=b\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.arc", "x.arc.gz"])
async def test_a_document_is_given_as_it_was_captured(archive: Archive, name: str) -> None:
    record = arc_record if ".arc" in name else warc_record
    archive.index(*([arc_info()] if ".arc" in name else []), record(PAGE), name=name)
    response = await archive.get()
    assert (response.status, await response.read()) == (200, PAGE.body)
    assert {
        name: response.headers.get(name)
        for name in (
            "Content-Type",
            "Content-Length",
            "Memento-Datetime",
            "Link",
            "Content-Security-Policy",
            "X-Content-Type-Options",
            "X-Archive-Orig-Status",
            "ETag",
            "Cache-Control",
        )
    } == {
        "Content-Type": "text/html",
        "Content-Length": str(len(PAGE.body)),
        "Memento-Datetime": "Fri, 02 Nov 2007 03:04:05 GMT",
        "Link": f'<{URL}>; rel="original"',
        "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff",
        "X-Archive-Orig-Status": "200",
        "ETag": f'"{PAGE.payload_digest}"',
        "Cache-Control": "no-cache",
    }


async def test_head_has_the_fields_of_get_and_no_body(archive: Archive) -> None:
    archive.index(warc_record(PAGE))
    response = await archive.client.head(ADDRESS)
    assert (response.status, await response.read()) == (200, b"")
    assert response.headers["Content-Length"] == str(len(PAGE.body))


async def test_a_resource_has_the_type_of_its_record(archive: Archive) -> None:
    page = replace(PAGE, record_type="resource", mime_type="image/png", body=b"\x89PNG")
    archive.index(warc_record(page))
    response = await archive.get()
    assert (response.headers["Content-Type"], await response.read()) == ("image/png", b"\x89PNG")
    assert "X-Archive-Orig-Status" not in response.headers


async def test_a_document_of_no_type_is_bytes(archive: Archive) -> None:
    archive.index(warc_record(replace(PAGE, mime_type=None)))
    assert (await archive.get()).headers["Content-Type"] == "application/octet-stream"


async def test_content_encoding_stays_and_is_told(archive: Archive) -> None:
    page = replace(PAGE, body=gzip.compress(b"<p>packed", mtime=0))
    archive.index(http(page, "Content-Encoding: gzip"))
    response = await archive.get()
    assert (response.headers["Content-Encoding"], await response.read()) == ("gzip", page.body)


@pytest.mark.parametrize(("size", "length"), [(1, 4_000), (7, 40_000), (70_000, 90_000)])
@pytest.mark.parametrize("digest_of_chunks", [True, False])
async def test_chunks_are_joined_and_either_digest_holds(
    archive: Archive,
    size: int,
    length: int,
    digest_of_chunks: bool,  # noqa: FBT001 from the table above
) -> None:
    body = (bytes(range(256)) * 400)[:length]
    sent = chunked(body, size)
    page = replace(PAGE, body=sent if digest_of_chunks else body)
    archive.index(http(page, "Transfer-Encoding: chunked", body=sent))
    response = await archive.get()
    assert (response.status, await response.read()) == (200, body)
    assert response.headers["Content-Length"] == str(len(body))


async def test_what_is_in_no_chunks_though_its_header_says_so_is_given_as_it_is(archive: Archive) -> None:
    archive.index(http(PAGE, "Transfer-Encoding: chunked"))
    assert await (await archive.get()).read() == PAGE.body


async def test_a_large_document_is_sent_whole(archive: Archive) -> None:
    page = replace(PAGE, body=bytes(range(251)) * 4000)
    archive.index(warc_record(page))
    response = await archive.get()
    assert response.headers["Content-Length"] == str(len(page.body))
    assert response.headers["Accept-Ranges"] == "none"
    assert await response.read() == page.body


async def test_a_small_document_with_another_digest_is_not_given(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    path = archive.index(http(PAGE, body=b"<html>Something else.</html>"))
    response = await archive.get()
    assert response.status == 500
    assert "damaged" in await response.text()
    assert f"{path}, offset 0: the content has not the digest" in caplog.text


@pytest.mark.parametrize("fields", [(), ("Transfer-Encoding: chunked",)])
async def test_a_large_document_with_another_digest_breaks_off(
    archive: Archive, caplog: pytest.LogCaptureFixture, fields: tuple[str, ...]
) -> None:
    body = b"other bytes " * 20_000
    path = archive.index(http(PAGE, *fields, body=chunked(body, 1000) if fields else body))
    response = await archive.get()
    assert response.status == 200
    with pytest.raises(ClientPayloadError):
        await response.read()
    assert f"{path}, offset 0: the content has not the digest" in caplog.text


async def test_a_file_that_is_gone_is_told_in_the_log(
    archive: Archive, caplog: pytest.LogCaptureFixture
) -> None:
    path = archive.index(warc_record(PAGE))
    path.unlink()
    response = await archive.get()
    assert response.status == 503
    assert str(path) not in await response.text()
    assert f"{path}, offset 0" in caplog.text


async def test_a_file_that_only_a_listing_told_of_is_not_there_yet(archive: Archive) -> None:
    archive.index(warc_record(PAGE), name="told.warc.gz")
    with archive.database.session() as session:
        session.execute(update(Arc).values(path=None))
        session.commit()
    answer = await archive.get()
    assert answer.status == 503
    assert "'told.warc' is listed, and has not been seen" in await answer.text()


async def test_a_file_that_has_changed_gives_no_other_document(archive: Archive) -> None:
    records = [warc_record(replace(PAGE, url="http://b.example/")), warc_record(PAGE)]
    path = archive.index(*records, name="x.warc")
    assert offsets(path, records)[1]
    path.write_bytes(b"WARC/1.0\r\n" + path.read_bytes())
    assert (await archive.get()).status == 500


@pytest.mark.parametrize("address", ["/archive/" + "0" * 32, "/archive/abc", "/archive/" + "F" * 32])
async def test_an_unknown_document_is_not_found(archive: Archive, address: str) -> None:
    assert (await archive.get(address)).status == 404


async def test_a_client_that_has_it_gets_nothing(archive: Archive) -> None:
    archive.index(warc_record(PAGE))
    tag = (await archive.get()).headers["ETag"]
    response = await archive.get(If_None_Match=tag)
    assert (response.status, await response.read()) == (304, b"")
    assert (await archive.get(If_None_Match='"other"')).status == 200


@pytest.mark.parametrize("length", [len(PAGE.body), 90_000])
@pytest.mark.parametrize(
    ("wanted", "status", "begin", "end"),
    [
        ("bytes=0-4", 206, 0, 5),
        ("bytes=5-", 206, 5, None),
        ("bytes=-3", 206, -3, None),
        ("bytes=2-999999999", 206, 2, None),
        ("bytes=999999999-", 416, 0, 0),
        ("bytes=0-1,4-5", 200, 0, None),
        ("lines=1-2", 200, 0, None),
    ],
)
async def test_a_part_can_be_had(
    archive: Archive, length: int, wanted: str, status: int, begin: int, end: int | None
) -> None:
    page = replace(PAGE, body=(bytes(range(256)) * 400)[:length])
    archive.index(warc_record(page))
    response = await archive.get(Range=wanted)
    body = await response.read()
    assert (response.status, body) == (status, page.body[begin:end])
    if status == 206:
        first = begin % length
        assert response.headers["Content-Range"] == f"bytes {first}-{first + len(body) - 1}/{length}"


async def test_a_part_of_another_version_is_the_whole(archive: Archive) -> None:
    archive.index(warc_record(PAGE))
    response = await archive.get(Range="bytes=0-4", If_Range='"sha1:OTHER"')
    assert (response.status, await response.read()) == (200, PAGE.body)


def revisit(page: Page, *fields: str) -> bytes:
    """A revisit of what the page holds: the HTTP header, and no body."""
    block = page.http.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
    more = "".join(f"{one}\r\n" for one in fields)
    return (
        (
            f"WARC/1.0\r\nWARC-Type: revisit\r\nWARC-Target-URI: {page.url}\r\nWARC-Date: {page.date}\r\n"
            f"WARC-Payload-Digest: {page.payload_digest}\r\n{more}Content-Type: application/http\r\n"
            f"Content-Length: {len(block)}\r\n\r\n"
        ).encode()
        + block
        + b"\r\n\r\n"
    )


LATER = replace(PAGE, date="2008-01-01T00:00:00Z")
AGAIN = "/archive/" + capture_key(URL, datetime(2008, 1, 1, tzinfo=UTC)).hex
ELSEWHERE = replace(PAGE, url="http://b.example/other")


async def test_a_revisit_gives_what_it_stands_for(archive: Archive) -> None:
    archive.index(warc_record(PAGE), revisit(LATER))
    response = await archive.get(AGAIN)
    assert (response.status, await response.read()) == (200, PAGE.body)
    assert response.headers["Memento-Datetime"] == "Tue, 01 Jan 2008 00:00:00 GMT"


async def test_a_revisit_of_another_url_follows_its_reference(archive: Archive) -> None:
    refers = f"WARC-Refers-To-Target-URI: {ELSEWHERE.url}"
    archive.index(warc_record(ELSEWHERE), revisit(LATER, refers, f"WARC-Refers-To-Date: {PAGE.date}"))
    assert await (await archive.get(AGAIN)).read() == PAGE.body


async def test_a_revisit_under_the_other_scheme_gives_what_it_stands_for(archive: Archive) -> None:
    secure = replace(PAGE, url="https://www.a.example/page")
    archive.index(warc_record(secure), revisit(LATER, "WARC-Refers-To-Date: yesterday"))
    assert await (await archive.get(AGAIN)).read() == PAGE.body


async def test_a_revisit_of_nothing_that_we_have_is_not_found(archive: Archive) -> None:
    archive.index(warc_record(ELSEWHERE), revisit(LATER))
    response = await archive.get(AGAIN)
    assert response.status == 404
    assert "no such earlier capture" in await response.text()


def rule(archive: Archive, rule: Rule, url: str = URL) -> None:
    with archive.database.session() as session:
        add_collection(session, "collection:ruled")
        session.commit()
        assign(session, "collection:ruled", Selection(url=url), margin=1)
        set_rule(session, "collection:ruled", rule, margin=1)


@pytest.mark.parametrize(
    ("access", "status", "words"),
    [
        (Rule(access=Access.OPEN), 200, "A page"),
        (Rule(access=Access.READING_ROOM), 403, "only in the archive's reading room"),
        (Rule(access=Access.EMBARGO, embargo_until=FAR), 403, "before 2999-01-01"),
        (Rule(access=Access.WITHHELD), 410, "does not give access"),
    ],
)
async def test_the_rule_decides_who_gets_a_document(
    archive: Archive, access: Rule, status: int, words: str
) -> None:
    archive.index(warc_record(PAGE))
    rule(archive, access)
    for response in (await archive.get(), await archive.get(If_None_Match=f'"{PAGE.payload_digest}"')):
        assert response.status in {status, 304 if status == 200 else status}
    response = await archive.get()
    assert words in await response.text()
    assert (PAGE.body in await response.read()) == (status == 200)


@pytest.mark.parametrize(("network", "status"), [("127.0.0.0/8", 200), ("192.0.2.0/24", 403)])
async def test_the_reading_room_may_read_what_is_kept_for_it(
    database: Database,
    settings: Settings,
    tmp_path: Path,
    aiohttp_client: AiohttpClient,
    network: str,
    status: int,
) -> None:
    archive = await served(database, settings, tmp_path, aiohttp_client, reading_room=(network,))
    archive.index(warc_record(PAGE))
    rule(archive, Rule(access=Access.READING_ROOM))
    response = await archive.get()
    assert response.status == status
    assert (await archive.get(X_Forwarded_For="127.0.0.1")).status == status
    if status == 200:
        assert response.headers["Cache-Control"] == "private, no-cache"


async def test_a_revisit_does_not_open_what_it_stands_for(archive: Archive) -> None:
    refers = f"WARC-Refers-To-Target-URI: {ELSEWHERE.url}"
    archive.index(warc_record(ELSEWHERE), revisit(LATER, refers))
    rule(archive, Rule(access=Access.READING_ROOM), ELSEWHERE.url)
    assert (await archive.get(AGAIN)).status == 403


async def test_a_hidden_document_is_gone(archive: Archive) -> None:
    archive.index(warc_record(PAGE))
    with archive.database.session() as session:
        hide(session, Selection(url=URL), margin=1)
    assert (await archive.get()).status == 410


async def test_a_document_that_was_never_listed_is_not_found(archive: Archive) -> None:
    with archive.database.session() as session:
        add_collection(session, "collection:closed")
        session.commit()
        set_rule(session, "collection:closed", Rule(access=Access.WITHHELD), margin=1)
        number = add_collection(session, "collection:closed").id
    path = write_archive(archive.folder / "x.warc", [warc_record(PAGE)])
    assert index_file(archive.database, path, IndexOptions(margin=1, collections=(number,))).merged.new == 1
    assert (await archive.get()).status == 404
