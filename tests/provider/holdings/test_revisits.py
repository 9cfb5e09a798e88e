"""A revisit is served with the content of the capture that its record names, or of one with its digest."""

import base64
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpClient
from sqlalchemy import select, text
from warcio.archiveiterator import ArchiveIterator

from oai.database import Database
from oai.sections import ProviderSettings
from oai.settings import Settings
from provider.export.captures import CaptureReader, ExportedCapture
from provider.export.warc_download import export_warc
from provider.holdings.lookup import MatchType, Query
from provider.holdings.rules import Rule
from provider.models import Access, Document
from tests.plans import work_of
from tests.provider.archives import Page, capture_key, warc_record
from tests.provider.holdings.document_archive import PAGE, URL, DocumentArchive, chunked, served
from tests.provider.holdings.test_documents_access import AGAIN, ELSEWHERE, LATER, revisit, rule
from tests.provider.http.test_cdx import compare_spellings

OTHER = replace(PAGE, body=b"<html>Another body.</html>", date="2007-12-31T23:59:59.5Z")
NOTHING = replace(LATER, body=b"")
TO_OTHER = (f"WARC-Refers-To-Target-URI: {OTHER.url}", "WARC-Refers-To-Date: 2007-12-31T23:59:59Z")
TO_ELSEWHERE = (f"WARC-Refers-To-Target-URI: {ELSEWHERE.url}", f"WARC-Refers-To-Date: {ELSEWHERE.date}")
UNCHANGED = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/server-not-modified"
MANY_CAPTURES = """
INSERT INTO document (key, arc_id, "offset", length, url, url_key, archived, datestamp,
    mime_major_id, mime_id, digest, record_type)
SELECT gen_random_uuid(), arc_id, "offset", length, url, url_key, archived + n * interval '1 hour',
    datestamp, mime_major_id, mime_id, digest, record_type
FROM document CROSS JOIN generate_series(1, 2000) AS n
WHERE record_type = 'revisit'
"""
IDENTICAL = "WARC-Profile: http://netpreserve.org/warc/1.1/revisit/identical-payload-digest"


@pytest.fixture
async def archive(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> DocumentArchive:
    return await served(database, settings, tmp_path, aiohttp_client)


def written(record: bytes, page: Page, digest: str) -> bytes:
    """The record with its digest in another notation, or with a different digest."""
    assert page.payload_digest.encode() in record
    return record.replace(page.payload_digest.encode(), digest.encode())


def hexadecimal(page: Page) -> str:
    value = base64.b32decode(page.payload_digest.removeprefix("sha1:"))
    return f"sha1:{value.hex()}"


def unchanged(page: Page, *fields: str) -> bytes:
    """A revisit of the page after the server has answered "not modified", without a digest."""
    record = revisit(replace(page, status=304), UNCHANGED, *fields)
    return re.sub(rb"WARC-Payload-Digest: [^\r]*\r\n", b"", record)


BETWEEN = replace(PAGE, date="2007-12-01T00:00:00Z")
TO_BETWEEN = f"WARC-Refers-To-Date: {BETWEEN.date}"
NOT_MODIFIED = unchanged(LATER, TO_BETWEEN)
BY_KEY = "a URL in another spelling of its key"
CASES: Sequence[tuple[str, list[bytes], bytes | None]] = [
    ("the digest alone", [warc_record(PAGE), warc_record(OTHER), revisit(LATER)], PAGE.body),
    (
        "a digest in another notation",
        [warc_record(PAGE), written(revisit(LATER), PAGE, hexadecimal(PAGE))],
        PAGE.body,
    ),
    (
        "a name before a digest",
        [warc_record(PAGE), warc_record(OTHER), written(revisit(LATER, *TO_OTHER), PAGE, "md5:x")],
        OTHER.body,
    ),
    (
        "a name whose digest is another one leads to the digest",
        [warc_record(PAGE), warc_record(OTHER), revisit(LATER, *TO_OTHER)],
        PAGE.body,
    ),
    ("a name at another URL", [warc_record(ELSEWHERE), revisit(LATER, *TO_ELSEWHERE)], ELSEWHERE.body),
    ("a URL without a date", [warc_record(ELSEWHERE), revisit(LATER, TO_ELSEWHERE[0])], ELSEWHERE.body),
    (
        "a date without a URL",
        [warc_record(PAGE), warc_record(OTHER), written(revisit(LATER, TO_OTHER[1]), PAGE, "md5:x")],
        OTHER.body,
    ),
    (
        "a date that no calendar has",
        [warc_record(PAGE), revisit(LATER, "WARC-Refers-To-Date: 9999-12-31T23:59:59.9Z")],
        PAGE.body,
    ),
    (
        BY_KEY,
        [
            warc_record(replace(PAGE, url="https://www.a.example/Page/")),
            revisit(LATER, "WARC-Refers-To-Date: x"),
        ],
        PAGE.body,
    ),
    (
        "not modified, by name",
        [warc_record(PAGE), warc_record(OTHER), revisit(replace(NOTHING, status=304), *TO_OTHER, UNCHANGED)],
        OTHER.body,
    ),
    (
        "not modified, without a name",
        [warc_record(replace(PAGE, body=b"")), warc_record(OTHER), revisit(NOTHING, UNCHANGED)],
        None,
    ),
    ("not modified by its status", [warc_record(PAGE), revisit(replace(NOTHING, status=304))], None),
    ("empty content", [warc_record(PAGE), revisit(NOTHING, IDENTICAL)], b""),
    ("empty content with a wrong name", [warc_record(OTHER), revisit(NOTHING, IDENTICAL, *TO_OTHER)], b""),
    (
        "another length",
        [
            warc_record(replace(OTHER, http_headers="Content-Length: 26\r\n")),
            written(revisit(replace(LATER, http_headers="Content-Length: 27\r\n"), *TO_OTHER), PAGE, "md5:x"),
        ],
        None,
    ),
    ("nothing that we have", [warc_record(ELSEWHERE), revisit(LATER)], None),
    ("a revisit that names a revisit", [revisit(PAGE), revisit(LATER)], None),
    ("not modified since a revisit", [warc_record(PAGE), revisit(BETWEEN), NOT_MODIFIED], PAGE.body),
    (
        "not modified since a revisit that was not modified",
        [
            warc_record(OTHER),
            unchanged(BETWEEN, *TO_OTHER),
            NOT_MODIFIED,
        ],
        OTHER.body,
    ),
    (
        "a revisit whose digest is not that of the named one",
        [warc_record(PAGE), revisit(BETWEEN), revisit(replace(LATER, body=b"else"), TO_BETWEEN)],
        None,
    ),
    ("not modified since itself", [unchanged(LATER, f"WARC-Refers-To-Date: {LATER.date}")], None),
    (
        "not modified since another that was not modified since this",
        [unchanged(BETWEEN, f"WARC-Refers-To-Date: {LATER.date}"), NOT_MODIFIED],
        None,
    ),
]


UNNAMED = {
    "not modified, without a name", "not modified by its status", "nothing that we have",
    "a revisit that names a revisit", BY_KEY,
}  # fmt: skip
"""Those whose record does not state the time of the original."""


def index_cases(archive: DocumentArchive) -> list[str]:
    """Index each case under separate hosts; return the addresses of the revisits."""
    addresses = []
    for number, (_, records, _) in enumerate(CASES):
        own = [re.sub(rb"//((?:www\.)?[ab])\.", rb"//\g<1>%d." % number, record) for record in records]
        archive.index(*own, name=f"{number}.warc.gz")
        key = capture_key(f"http://a{number}.example/page", datetime(2008, 1, 1, tzinfo=UTC))
        addresses.append(f"/archive/{key.hex}")
    return addresses


async def test_a_revisit_is_served_with_the_content_of_its_original(archive: DocumentArchive) -> None:
    addresses = index_cases(archive)
    await assert_given(archive, addresses, {what: body for what, _, body in CASES})
    compare_spellings(archive.database)
    await assert_given(
        archive, addresses, {what: None if what == BY_KEY else body for what, _, body in CASES}
    )


async def assert_given(
    archive: DocumentArchive, addresses: Sequence[str], bodies: Mapping[str, bytes | None]
) -> None:
    """Check that each address returns the body, or the reason why the capture is not found."""
    for (what, expected), address in zip(bodies.items(), addresses, strict=True):
        response = await archive.get(address)
        given = await response.read() if response.status == 200 else None
        assert (response.status, given) == (404 if expected is None else 200, expected), what
        if given is None:
            is_named = what not in UNNAMED
            assert is_named == ("the archive does not have that capture" in await response.text()), what
        else:
            assert response.headers["Memento-Datetime"] == "Tue, 01 Jan 2008 00:00:00 GMT"


@pytest.mark.copied_database("rows that plans go through are counted")
async def test_the_named_original_is_found_without_reading_all_captures_of_its_url(
    archive: DocumentArchive,
) -> None:
    archive.index(warc_record(OTHER), written(revisit(LATER, *TO_OTHER), PAGE, "md5:x"))
    _execute(archive.database, MANY_CAPTURES, "ANALYZE document")
    with work_of(archive.database, "abs(EXTRACT") as work:
        assert await (await archive.get(AGAIN)).read() == OTHER.body
    assert len(work) == 1
    assert max(work) < 50


def _execute(database: Database, *statements: str) -> None:
    with database.session() as session:
        for statement in statements:
            session.execute(text(statement))
        session.commit()


async def test_access_to_a_revisit_follows_the_rule_of_its_named_original(archive: DocumentArchive) -> None:
    """The same content is openly accessible at the revisit's own URL."""
    archive.index(warc_record(PAGE), warc_record(ELSEWHERE), revisit(LATER, *TO_ELSEWHERE))
    for access, status in ((Access.READING_ROOM, 403), (Access.WITHHELD, 410), (Access.OPEN, 200)):
        rule(archive, Rule(access=access), ELSEWHERE.url)
        assert (await archive.get(AGAIN)).status == status, access


async def test_access_to_a_chain_of_revisits_follows_the_rule_of_each(
    archive: DocumentArchive,
) -> None:
    between = replace(ELSEWHERE, date=BETWEEN.date)
    to_between = (f"WARC-Refers-To-Target-URI: {between.url}", TO_BETWEEN)
    to_page = (f"WARC-Refers-To-Target-URI: {URL}", f"WARC-Refers-To-Date: {PAGE.date}")
    archive.index(warc_record(PAGE), revisit(between, *to_page), unchanged(LATER, *to_between))
    for access, status in ((Access.READING_ROOM, 403), (Access.WITHHELD, 410), (Access.OPEN, 200)):
        rule(archive, Rule(access=access), between.url)
        assert (await archive.get(AGAIN)).status == status, access


async def test_not_modified_since_a_revisit_has_the_header_of_that_revisit(archive: DocumentArchive) -> None:
    archive.index(
        warc_record(PAGE), revisit(replace(BETWEEN, mime_type="text/plain"), IDENTICAL), NOT_MODIFIED
    )
    response = await archive.get(AGAIN)
    names = ("Content-Type", "X-Archive-Orig-Status")
    assert [response.headers[name] for name in names] == ["text/plain", "200"]
    assert await response.read() == PAGE.body


def first_record(archive: DocumentArchive) -> tuple[str, list[tuple[str, str]], bytes]:
    """Status line, HTTP fields and content of the revisit in an export."""
    query = Query(url=PAGE.url, match=MatchType.EXACT, since=datetime(2008, 1, 1, tzinfo=UTC), limit=1)
    data = b"".join(export_warc(archive.database, ProviderSettings(), query))
    _, record = ((one, one.content_stream().read()) for one in ArchiveIterator(io.BytesIO(data)))
    return record[0].http_headers.statusline, record[0].http_headers.headers, record[1]


async def test_a_revisit_with_an_http_header_is_served_with_its_own_header(archive: DocumentArchive) -> None:
    first, second = "Location: /first\r\n", "Location: /second\r\n"
    moved = replace(PAGE, status=302, http_headers=first)
    again = replace(LATER, status=503, http_headers=second, mime_type="text/plain")
    archive.index(warc_record(moved), revisit(again, IDENTICAL))
    response = await archive.get(AGAIN)
    assert await response.read() == PAGE.body
    names = ("Content-Type", "X-Archive-Orig-Status", "X-Archive-Orig-Location")
    assert [response.headers[name] for name in names] == ["text/plain", "503", "/second"]
    status, fields, body = first_record(archive)
    assert (status, dict(fields)["Location"], body) == ("503 Anything", "/second", PAGE.body)


@pytest.mark.parametrize("status", [304, 200])
async def test_a_revisit_that_was_not_modified_has_the_header_of_the_earlier_capture(
    archive: DocumentArchive, status: int
) -> None:
    earlier = replace(PAGE, http_headers="Content-Language: cs\r\n")
    again = replace(LATER, status=status, mime_type=None)
    archive.index(warc_record(earlier), revisit(again, UNCHANGED))
    headers = (await archive.get(AGAIN)).headers
    names = ("Content-Type", "X-Archive-Orig-Status", "X-Archive-Orig-Content-Language")
    assert [headers[name] for name in names] == ["text/html", "200", "cs"]
    assert ("Content-Language", "cs") in first_record(archive)[1]


@pytest.mark.parametrize(
    ("earlier", "fields", "kept"),
    [
        ("Transfer-Encoding: chunked\r\n", f"Content-Length: {len(PAGE.body)}\r\n", "Transfer-Encoding"),
        (f"Content-Length: {len(PAGE.body)}\r\n", "transfer-encoding: chunked\r\n", "Content-Length"),
        ("", "Content-Length: 1\r\n", None),
        ("", f"Content-Length: {len(PAGE.body)}\r\n", "Content-Length"),
        ("Content-Encoding:\r\n gzip\r\n", "", "Content-Encoding"),
    ],
)
async def test_fields_that_describe_the_content_are_those_of_the_earlier_capture(
    archive: DocumentArchive, earlier: str, fields: str, kept: str | None
) -> None:
    body = chunked(PAGE.body, 7) if "chunked" in earlier else PAGE.body
    archive.index(
        warc_record(replace(PAGE, body=body, http_headers=earlier)),
        revisit(replace(LATER, body=body, http_headers=f"ETag: x\r\n{fields}Date: now\r\n"), IDENTICAL),
    )
    assert await (await archive.get(AGAIN)).read() == PAGE.body
    _, found, content = first_record(archive)
    names = [name for name, _ in found]
    assert [name for name in names if name.title().startswith(("Content-L", "Content-E", "Transfer"))] == (
        [kept] if kept else []
    )
    assert {"ETag", "Date"} <= set(names)
    assert "gzip" in earlier or content == PAGE.body


def test_an_exported_revisit_has_the_content_of_the_named_capture(archive: DocumentArchive) -> None:
    record = written(revisit(LATER, *TO_OTHER), PAGE, "md5:x")
    archive.index(warc_record(PAGE), warc_record(OTHER), record)
    query = Query(url=PAGE.url, match=MatchType.EXACT, since=datetime(2008, 1, 1, tzinfo=UTC), limit=1)
    data = b"".join(export_warc(archive.database, ProviderSettings(), query))
    bodies = [one.content_stream().read() for one in ArchiveIterator(io.BytesIO(data))][1:]
    assert bodies == [OTHER.body]


def test_an_exported_revisit_names_each_document_whose_rule_applies(archive: DocumentArchive) -> None:
    to_page = (f"WARC-Refers-To-Target-URI: {PAGE.url}", f"WARC-Refers-To-Date: {PAGE.date}")
    archive.index(warc_record(PAGE), revisit(BETWEEN, *to_page), NOT_MODIFIED)
    with archive.database.session() as session:
        ids = session.scalars(select(Document.id).order_by(Document.archived)).all()
    reader = CaptureReader(database=archive.database, settings=ProviderSettings())
    exported = [one.documents for one in reader.read(ids) if isinstance(one, ExportedCapture)]
    assert sorted(exported, key=len) == [(ids[0],), (ids[1], ids[0]), (ids[2], ids[1], ids[0])]
