"""Archived documents are served as captured to clients with access, or not at all."""

import gzip
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientPayloadError
from pytest_aiohttp import AiohttpClient
from sqlalchemy import update

from oai.database import Database
from oai.sections import ProviderSettings
from oai.settings import Settings
from provider.export.warc_download import export_warc
from provider.holdings.lookup import Query
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Arc
from tests.provider.archives import arc_info, arc_record, offsets, warc_record
from tests.provider.holdings.document_archive import (
    ADDRESS,
    PAGE,
    URL,
    DocumentArchive,
    chunked,
    http,
    served,
)
from tests.provider.holdings.test_documents_access import revisit

LINK = (
    f'<{URL}>; rel="original", <http://archive.example/timegate/{URL}>; rel="timegate", '
    f'<http://archive.example/timemap/link/{URL}>; rel="timemap"; type="application/link-format"'
)


@pytest.fixture
async def archive(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> DocumentArchive:
    """An archive that checks documents of up to 100,000 bytes before it sends them."""
    return await served(database, settings, tmp_path, aiohttp_client)


@pytest.mark.parametrize("name", ["x.warc", "x.warc.gz", "x.arc", "x.arc.gz"])
async def test_a_document_is_served_as_it_was_captured(archive: DocumentArchive, name: str) -> None:
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
        "Link": LINK,
        "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff",
        "X-Archive-Orig-Status": "200",
        "ETag": f'"{PAGE.payload_digest}"',
        "Cache-Control": "no-cache",
    }


async def test_original_http_fields_are_sent_with_the_prefix_x_archive_orig(
    archive: DocumentArchive,
) -> None:
    archive.index(http(PAGE, "Location: /elsewhere", "Set-Cookie: a=b", f"Link: {'l' * 3000}", "Date: now"))
    response = await archive.get()
    fields = {name: value for name, value in response.headers.items() if name.startswith("X-Archive-Orig-")}
    assert fields == {
        "X-Archive-Orig-Status": "200",
        "X-Archive-Orig-Location": "/elsewhere",
        "X-Archive-Orig-Date": "now",
    }
    assert "Location" not in response.headers


@pytest.mark.parametrize(
    ("target", "sent"),
    [
        ("http://b.example/článek-ě-ř-ň".encode(), "http://b.example/%C4%8Dl%C3%A1nek-%C4%9B-%C5%99-%C5%88"),
        ("/žluť?a=%C4%8D".encode("windows-1250"), "/%9Elu%9D?a=%C4%8D"),
    ],
)
async def test_a_redirects_target_is_sent_as_clients_request_it(
    archive: DocumentArchive, target: bytes, sent: str
) -> None:
    place = "x" * len(target)
    archive.index(http(PAGE, f"Location: {place}").replace(place.encode(), target))
    assert (await archive.get()).headers["X-Archive-Orig-Location"] == sent


async def test_original_http_fields_are_decoded_as_utf_8_or_latin_1(archive: DocumentArchive) -> None:
    record = http(PAGE, "Content-Disposition: filename=článek.pdf", "Content-Language: XX")
    archive.index(record.replace(b"XX", b"\xe9\x00"))
    headers = (await archive.get()).headers
    assert headers["X-Archive-Orig-Content-Disposition"] == "filename=článek.pdf"
    assert headers["X-Archive-Orig-Content-Language"] == "é"


async def test_head_returns_the_fields_of_get_without_a_body(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE))
    response = await archive.client.head(ADDRESS)
    assert (response.status, await response.read()) == (200, b"")
    assert response.headers["Content-Length"] == str(len(PAGE.body))


async def test_a_resource_is_served_with_the_type_of_its_record(archive: DocumentArchive) -> None:
    page = replace(PAGE, record_type="resource", mime_type="image/png", body=b"\x89PNG")
    archive.index(warc_record(page))
    response = await archive.get()
    assert (response.headers["Content-Type"], await response.read()) == ("image/png", b"\x89PNG")
    assert "X-Archive-Orig-Status" not in response.headers


async def test_a_document_without_a_type_is_served_as_octet_stream(archive: DocumentArchive) -> None:
    archive.index(warc_record(replace(PAGE, mime_type=None)))
    assert (await archive.get()).headers["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    ("declared", "sent"),
    [
        (f"text/html; charset=utf-8; x={'y' * 20_000}", "text/html"),
        ("text/" + "y" * 20_000, "application/octet-stream"),
    ],
)
async def test_a_long_type_is_shortened_or_replaced(
    archive: DocumentArchive, declared: str, sent: str
) -> None:
    archive.index(warc_record(replace(PAGE, mime_type=declared)))
    assert (await archive.get()).headers["Content-Type"] == sent


async def test_a_long_content_encoding_is_not_sent(archive: DocumentArchive) -> None:
    archive.index(http(PAGE, f"Content-Encoding: {'x' * 20_000}"))
    assert "Content-Encoding" not in (await archive.get()).headers


async def test_an_encoded_document_is_served_as_archived_with_its_content_encoding(
    archive: DocumentArchive,
) -> None:
    page = replace(PAGE, body=gzip.compress(b"<p>packed", mtime=0))
    archive.index(http(page, "Content-Encoding: gzip"))
    response = await archive.get()
    assert (response.headers["Content-Encoding"], await response.read()) == ("gzip", page.body)


HTML = b"<html><title>Readable</title>text"
PACKED = gzip.compress(HTML, mtime=0)
PACKED_TWICE = gzip.compress(PACKED, mtime=0)
BROTLI = b"\x1b\x1f\x00\xf8\x25\x00\xa2\xb1\x40\x20" + bytes(range(128, 168))
CODED: list[tuple[str, bytes, bool]] = [
    ("gzip", HTML, False),
    (" X-Gzip ", HTML, False),
    ("deflate", HTML, False),
    ("deflate", b'{"items": [1, 2, 3]}', False),
    ("deflate", b"body { color: black }", False),
    ("br", HTML, False),
    ("br", ("<p>" + "\N{LATIN SMALL LETTER C WITH CARON}" * 1000).encode(), False),
    ("br", BROTLI, True),
    ("br", b"short", True),
    ("br", b"", True),
    ("zstd", HTML, False),
    ("zstd", b"", True),
    ("zstd", b"\x28\xb5\x2f\xfd\x20\x05\x29\x00\x00short", True),
    ("zstd", b"\x50\x2a\x4d\x18\x00\x00\x00\x00\x28\xb5\x2f\xfd", True),
    ("x-gzip", PACKED, True),
    ("gzip", b"", True),
    ("deflate", b"", True),
    ("deflate", zlib.compress(HTML), True),
    ("deflate", zlib.compress(HTML)[2:-4], True),
    ("gzip, gzip", HTML, False),
    ("gzip, gzip", PACKED_TWICE, True),
    ("gzip, br", HTML, False),
    ("gzip, br", BROTLI, True),
]


@pytest.mark.parametrize(("coding", "body", "sent"), CODED)
@pytest.mark.parametrize("in_chunks", [False, True])
async def test_content_encoding_is_sent_only_if_the_content_has_it(
    archive: DocumentArchive,
    coding: str,
    body: bytes,
    sent: bool,  # noqa: FBT001 from the table above
    in_chunks: bool,  # noqa: FBT001 likewise
) -> None:
    fields = [f"Content-Encoding: {coding}", *(["Transfer-Encoding: chunked"] if in_chunks else [])]
    archive.index(http(replace(PAGE, body=body), *fields, body=chunked(body, 1) if in_chunks else body))
    response = await archive.get()
    assert await response.read() == body
    assert response.headers.get("Content-Encoding") == (coding.strip() if sent else None)


@pytest.mark.parametrize(
    ("fields", "body", "sent"),
    [
        (
            ("Content-Encoding: gzip", "content-encoding: gzip"),
            PACKED_TWICE,
            "gzip, gzip",
        ),
        (("Content-Encoding: gzip", "Content-Encoding: gzip"), PACKED, "gzip"),
        (
            ("Content-Encoding: gzip", "Content-Encoding: deflate"),
            zlib.compress(PACKED),
            "gzip, deflate",
        ),
        (("Content-Encoding: gzip", "Content-Encoding: br"), BROTLI, "gzip, br"),
        (("Transfer-Encoding: gzip", "Transfer-Encoding: chunked"), chunked(PACKED, 7), "gzip"),
        (("Content-Type: text/css", "Content-Encoding: gzip", "Content-Encoding: gzip"), HTML, None),
    ],
)
async def test_repeated_content_encoding_fields_are_combined_into_one(
    archive: DocumentArchive, fields: tuple[str, ...], body: bytes, sent: str | None
) -> None:
    archive.index(http(replace(PAGE, body=body), *fields, body=body))
    headers = (await archive.get()).headers
    assert headers.getall("Content-Encoding", []) == ([sent] if sent else [])
    assert headers["Content-Type"] == "text/html"


@pytest.mark.parametrize(
    ("size", "length", "digest_of_chunks"),
    [(1, 4_000, True), (7, 40_000, False), (70_000, 90_000, True), (70_000, 90_000, False)],
)
async def test_chunks_are_joined_and_the_digest_may_be_of_chunks_or_of_content(
    archive: DocumentArchive,
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


async def test_a_body_without_chunks_is_served_unchanged_despite_its_transfer_encoding(
    archive: DocumentArchive,
) -> None:
    archive.index(http(PAGE, "Transfer-Encoding: chunked"))
    assert await (await archive.get()).read() == PAGE.body


@pytest.mark.parametrize(
    "body",
    [
        b"0\n",
        b"0\n1\n2\n3\n",
        b"0\r\n1\r\n2\r\n3\r\n",
        b"0\r\n" + b"x" * 90_000,
        b"bad\nfood and others\n",
        b"10\n" + b"lines of a text\n" * 8000,
        b"10\r\n" + b"line of a text\r\n" * 8000,
        b"a0000\n" + b"lines of a text\n" * 8000,
    ],
)
async def test_a_text_that_begins_with_a_number_is_not_read_as_chunks(
    archive: DocumentArchive, body: bytes
) -> None:
    archive.index(http(replace(PAGE, body=body), "Transfer-Encoding: chunked"))
    assert await (await archive.get()).read() == body


@pytest.mark.parametrize("sent", [b"0\r\n", b"0\r\n\r\n", b"0;a=b\r\nExpires: never\r\nX-Y:\r\n\r\n"])
async def test_chunks_may_be_empty(archive: DocumentArchive, sent: bytes) -> None:
    archive.index(http(replace(PAGE, body=sent), "Transfer-Encoding: chunked"))
    response = await archive.get()
    assert (response.status, await response.read()) == (200, b"")


@pytest.mark.parametrize("sent", [b"3\nabc\r\n2\nde\r\n0\n\n", b"5\r\nabcde\r\n0\r\n\r\nstray"])
async def test_lenient_chunks_are_joined(archive: DocumentArchive, sent: bytes) -> None:
    archive.index(http(replace(PAGE, body=sent), "Transfer-Encoding: chunked"))
    assert await (await archive.get()).read() == b"abcde"


CUT = b"2000\r\n" + b"x" * 3000


@pytest.mark.parametrize("sent", [CUT, chunked(b"x" * 3000, 3000).removesuffix(b"0\r\n\r\n") + b"1f4"])
@pytest.mark.parametrize("digest_of", [CUT, b"x" * 3000, None])
async def test_chunks_truncated_by_the_crawler_are_served_as_far_as_archived(
    archive: DocumentArchive, sent: bytes, digest_of: bytes | None
) -> None:
    body = sent if digest_of is CUT else digest_of
    page = replace(PAGE, body=body or b"", digest=body is not None)
    archive.index(http(page, "Transfer-Encoding: chunked", body=sent))
    response = await archive.get()
    assert (response.status, await response.read()) == (200, b"x" * 3000)


async def test_a_transfer_coding_under_the_chunks_is_sent_as_content_encoding(
    archive: DocumentArchive,
) -> None:
    packed = gzip.compress(b"<p>packed", mtime=0)
    sent = chunked(packed, 7)
    archive.index(http(replace(PAGE, body=sent), "Transfer-Encoding: gzip, chunked", body=sent))
    response = await archive.get()
    assert (response.headers["Content-Encoding"], await response.read()) == ("gzip", packed)


async def test_a_long_http_header_is_not_part_of_the_payload(archive: DocumentArchive) -> None:
    archive.index(http(PAGE, f"X-Long: {'x' * 1_000_000}"))
    response = await archive.get()
    assert (response.status, await response.read()) == (200, PAGE.body)


async def test_a_large_document_is_served_completely(archive: DocumentArchive) -> None:
    page = replace(PAGE, body=bytes(range(251)) * 4000)
    archive.index(warc_record(page))
    response = await archive.get()
    assert response.headers["Content-Length"] == str(len(page.body))
    assert response.headers["Accept-Ranges"] == "none"
    assert await response.read() == page.body


async def test_a_small_document_with_a_wrong_digest_is_answered_with_500(
    archive: DocumentArchive, caplog: pytest.LogCaptureFixture
) -> None:
    path = archive.index(http(PAGE, body=b"<html>Something else.</html>"))
    response = await archive.get()
    assert response.status == 500
    assert "damaged" in await response.text()
    assert f"{path}, offset 0: the content does not have the digest" in caplog.text


@pytest.mark.parametrize("fields", [(), ("Transfer-Encoding: chunked",)])
async def test_a_large_document_with_a_wrong_digest_is_aborted_during_transfer(
    archive: DocumentArchive, caplog: pytest.LogCaptureFixture, fields: tuple[str, ...]
) -> None:
    body = b"other bytes " * 20_000
    path = archive.index(http(PAGE, *fields, body=chunked(body, 1000) if fields else body))
    response = await archive.get()
    assert response.status == 200
    with pytest.raises(ClientPayloadError):
        await response.read()
    assert f"{path}, offset 0: the content does not have the digest" in caplog.text


async def test_a_missing_file_is_answered_with_503_and_logged(
    archive: DocumentArchive, caplog: pytest.LogCaptureFixture
) -> None:
    path = archive.index(warc_record(PAGE))
    path.unlink()
    response = await archive.get()
    assert response.status == 503
    assert str(path) not in await response.text()
    assert f"{path}, offset 0" in caplog.text
    assert archive.refused("archive") == 1


async def test_a_file_known_only_from_a_cdx_file_is_answered_with_503(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE), name="told.warc.gz")
    with archive.database.session() as session:
        session.execute(update(Arc).values(path=None))
        session.commit()
    answer = await archive.get()
    assert answer.status == 503
    assert "'told.warc' is listed in a CDX file, but this server has not found it" in await answer.text()


async def test_a_changed_file_is_answered_with_500_and_not_with_another_document(
    archive: DocumentArchive,
) -> None:
    records = [warc_record(replace(PAGE, url="http://b.example/")), warc_record(PAGE)]
    path = archive.index(*records, name="x.warc")
    assert offsets(path, records)[1]
    path.write_bytes(b"WARC/1.0\r\n" + path.read_bytes())
    assert (await archive.get()).status == 500


async def test_a_segmented_record_is_answered_with_500(
    archive: DocumentArchive, caplog: pytest.LogCaptureFixture
) -> None:
    """A CDX file, or an earlier version, may have listed it."""
    path = archive.index(warc_record(PAGE), name="x.warc")
    path.write_bytes(path.read_bytes().replace(b"WARC-Date", b"WARC-Segment-Number: 1\r\nWARC-Date"))
    response = await archive.get()
    assert (response.status, "segmented record" in caplog.text) == (500, True)


@pytest.mark.parametrize("again", [False, True])
async def test_another_record_at_the_offset_of_a_removed_one_is_not_served(
    archive: DocumentArchive,
    caplog: pytest.LogCaptureFixture,
    again: bool,  # noqa: FBT001 whether the file is indexed again
) -> None:
    """This holds even if the document has no digest that would reveal the difference."""
    unchanged = revisit(replace(PAGE, status=304, digest=False))
    secret = warc_record(replace(PAGE, url="http://a.example/secret", body=b"SECRET"))
    original = warc_record(replace(PAGE, date="2006-01-01T00:00:00Z"))
    path = archive.index(original, unchanged, secret, name="x.warc")
    assert (await archive.get()).status == 200
    path.write_bytes(original + secret)
    if again:
        index_file(archive.database, path, IndexOptions(margin=1))
    response = await archive.get()
    assert (response.status, "SECRET" in await response.text()) == (500, False)
    assert "a record of type 'response' was found, not 'revisit'" in caplog.text
    data = b"".join(export_warc(archive.database, ProviderSettings(), Query(url=URL, limit=10)))
    assert b"SECRET" not in gzip.decompress(data)


async def test_the_content_of_a_replaced_file_appears_only_in_the_log(
    archive: DocumentArchive, caplog: pytest.LogCaptureFixture
) -> None:
    path = archive.index(warc_record(PAGE), name="x.warc")
    path.write_bytes(b"SECRET words of another document\n")
    response = await archive.get()
    assert (response.status, "SECRET" in await response.text()) == (500, False)
    data = b"".join(export_warc(archive.database, ProviderSettings(), Query(url=URL, limit=10)))
    assert b"SECRET" not in gzip.decompress(data)
    assert "SECRET" in caplog.text


async def test_an_unknown_document_is_not_found(archive: DocumentArchive) -> None:
    for address in ("/archive/" + "0" * 32, "/archive/abc", "/archive/" + "F" * 32):
        assert (await archive.get(address)).status == 404, address


async def test_if_none_match_with_the_current_etag_is_answered_with_304(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE))
    tag = (await archive.get()).headers["ETag"]
    response = await archive.get(If_None_Match=tag)
    assert (response.status, await response.read()) == (304, b"")
    assert (await archive.get(If_None_Match='"other"')).status == 200


async def test_if_match_with_another_etag_is_answered_with_412(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE))
    tag = (await archive.get()).headers["ETag"]
    for condition, status in ((tag, 206), ("*", 206), (f'"other", {tag}', 206), ('"other"', 412)):
        assert (await archive.get(If_Match=condition, Range="bytes=0-4")).status == status, condition


PARTS: list[tuple[str, int, int, int | None]] = [
    ("bytes=0-4", 206, 0, 5),
    ("bytes=5-", 206, 5, None),
    ("bytes=-3", 206, -3, None),
    ("bytes=2-999999999", 206, 2, None),
    ("bytes=999999999-", 416, 0, 0),
    ("bytes=-0", 416, 0, 0),
    ("bytes=0-1,4-5", 200, 0, None),
    ("lines=1-2", 200, 0, None),
]


@pytest.mark.parametrize("length", [len(PAGE.body), 90_000])
async def test_byte_ranges_are_served(archive: DocumentArchive, length: int) -> None:
    page = replace(PAGE, body=(bytes(range(256)) * 400)[:length])
    archive.index(warc_record(page))
    for wanted, status, begin, end in PARTS:
        response = await archive.get(Range=wanted)
        body = await response.read()
        assert (response.status, body) == (status, page.body[begin:end]), wanted
        if status == 206:
            first = begin % length
            assert response.headers["Content-Range"] == f"bytes {first}-{first + len(body) - 1}/{length}"


async def test_range_is_ignored_for_head_requests(archive: DocumentArchive) -> None:
    archive.index(warc_record(PAGE))
    response = await archive.client.head(ADDRESS, headers={"Range": "bytes=0-4"})
    assert response.status == 200
    assert response.headers["Content-Length"] == str(len(PAGE.body))


async def test_a_range_with_another_if_range_is_answered_with_the_whole_document(
    archive: DocumentArchive,
) -> None:
    archive.index(warc_record(PAGE))
    response = await archive.get(Range="bytes=0-4", If_Range='"sha1:OTHER"')
    assert (response.status, await response.read()) == (200, PAGE.body)


async def test_a_checked_document_too_large_for_memory_is_read_a_second_time(
    database: Database, settings: Settings, tmp_path: Path, aiohttp_client: AiohttpClient
) -> None:
    archive = await served(database, settings, tmp_path, aiohttp_client, checked_document_bytes=1_000_000)
    page = replace(PAGE, body=bytes(range(251)) * 2000)
    archive.index(warc_record(page))
    assert await (await archive.get()).read() == page.body
