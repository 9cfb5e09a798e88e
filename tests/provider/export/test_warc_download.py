"""Captures downloaded as a self-contained WARC file, which warcio and Zatva's index read."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from warcio.archiveiterator import ArchiveIterator

from oai.database import Database
from oai.errors import UsageError
from oai.sections import ProviderSettings
from provider.export import warc_download
from provider.export.warc_download import export_warc
from provider.holdings.lookup import MatchType, Query
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from tests.provider.archives import Page, arc_record, warc_record, write_archive
from tests.provider.export.archive_of_all_kinds import with_fields
from tests.provider.holdings.test_documents_access import revisit

OLD = Page(url="http://a.example/old", date="2007-11-02T03:04:05Z", body=b"<html>old</html>")
NEW = Page(url="http://a.example/new", date="2010-01-01T00:00:00Z", body=b"<html>new</html>" * 50_000)
SAME = Page(url="http://a.example/new", date="2011-01-01T00:00:00Z", body=NEW.body)
FILE = Page(url="http://a.example/x.txt", body=b"plain", record_type="resource", mime_type="text/plain")


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> Path:
    """An ARC file, and a WARC file with a revisit and a resource."""
    for name, records in (
        ("a.arc.gz", [arc_record(OLD)]),
        ("b.warc.gz", [warc_record(NEW), revisit(SAME), warc_record(FILE)]),
    ):
        report = index_file(database, write_archive(tmp_path / name, records), IndexOptions(margin=1))
        assert not report.merged.problems
    return tmp_path


def exported(database: Database, url: str = "a.example", match: MatchType = MatchType.HOST) -> bytes:
    return b"".join(export_warc(database, ProviderSettings(), Query(url=url, match=match, limit=1)))


def records(data: bytes) -> list[tuple[str, str, str, bytes]]:
    """Type, URL, date and payload of each record, as warcio reads them."""
    found = []
    for record in ArchiveIterator(io.BytesIO(data)):
        headers: Any = record.rec_headers
        found.append(
            (
                record.rec_type,
                headers.get_header("WARC-Target-URI") or "",
                headers.get_header("WARC-Date") or "",
                record.content_stream().read(),
            )
        )
    return found


@pytest.mark.usefixtures("archive")
def test_captures_from_arc_and_warc_files_become_records_that_warcio_reads(database: Database) -> None:
    info, *found = records(exported(database))
    assert info[0] == "warcinfo"
    assert {(kind, url, date): body for kind, url, date, body in found} == {
        ("response", OLD.url, "2007-11-02T03:04:05Z"): OLD.body,
        ("response", NEW.url, "2010-01-01T00:00:00Z"): NEW.body,
        ("response", SAME.url, "2011-01-01T00:00:00Z"): SAME.body,
        ("resource", FILE.url, FILE.date): FILE.body,
    }


@pytest.mark.usefixtures("archive")
def test_indexing_a_downloaded_file_finds_the_same_documents(database: Database, tmp_path: Path) -> None:
    (tmp_path / "again.warc.gz").write_bytes(exported(database))
    report = index_file(database, tmp_path / "again.warc.gz", IndexOptions(margin=1))
    assert not report.merged.problems
    # The revisit had no content before; it now has the original's content, at the same time and URL.
    assert report.merged.new == 0
    assert report.merged.unchanged + report.merged.duplicates + report.merged.moved == 4


def test_records_have_the_truncation_reason_and_the_ip_address_of_the_server(
    database: Database, tmp_path: Path
) -> None:
    cut = with_fields(warc_record(NEW), "WARC-Truncated: time", "WARC-IP-Address: 192.0.2.2")
    # A revisit is truncated by design, and was answered by another server.
    again = revisit(SAME, "WARC-Truncated: length", "WARC-IP-Address: 2001:db8::1")
    unchanged = revisit(replace(SAME, date="2012-01-01T00:00:00Z", status=304))
    empty = replace(FILE, url="http://a.example/empty", record_type="response", body=b"")
    named = with_fields(revisit(empty, "WARC-Profile: identical-payload-digest"), "WARC-Truncated: length")
    unknown = arc_record(replace(OLD, url="http://a.example/o")).replace(b"192.0.2.1", b"0.0.0.0")
    for name, records in (("a.arc", [arc_record(OLD), unknown]), ("b.warc", [cut, again, unchanged, named])):
        index_file(database, write_archive(tmp_path / name, records), IndexOptions(margin=1))
    found = [one.rec_headers for one in ArchiveIterator(io.BytesIO(exported(database)))][1:]
    names = ("WARC-Target-URI", "WARC-Date", "WARC-Truncated", "WARC-IP-Address")
    assert {tuple(one.get_header(name) for name in names) for one in found} == {
        (OLD.url, OLD.date, None, "192.0.2.1"),
        ("http://a.example/o", OLD.date, None, None),
        (NEW.url, NEW.date, "time", "192.0.2.2"),
        (SAME.url, SAME.date, "time", "2001:db8::1"),
        (SAME.url, "2012-01-01T00:00:00Z", "time", None),
        (empty.url, empty.date, None, None),
    }


def test_a_response_without_an_http_header_is_exported_without_a_type(
    database: Database, tmp_path: Path
) -> None:
    bare = warc_record(replace(FILE, mime_type="application/http")).replace(b": resource", b": response")
    index_file(database, write_archive(tmp_path / "bare.warc.gz", [bare]), IndexOptions(margin=1))
    (_, header) = (one.rec_headers for one in ArchiveIterator(io.BytesIO(exported(database))))
    assert (header.get_header("WARC-Type"), header.get_header("Content-Type")) == ("resource", None)


def test_restricted_and_damaged_captures_are_omitted_and_listed(database: Database, archive: Path) -> None:
    with database.session() as session:
        session.execute(update(Document).where(Document.url == OLD.url).values(access="reading room"))
        session.commit()
    path = archive / "b.warc.gz"
    data = bytearray(path.read_bytes())
    data[-40] ^= 0xFF
    path.write_bytes(bytes(data))
    *_, last = records(exported(database))
    assert last[0] == "metadata"
    assert OLD.url.encode() in last[3]
    assert FILE.url.encode() in last[3]
    assert b"damaged" in last[3]


@pytest.mark.usefixtures("archive")
def test_a_file_that_reaches_the_capture_limit_says_so_in_its_last_record(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warc_download, "MOST_CAPTURES", 1)
    *found, last = records(exported(database))
    assert [kind for kind, *_ in found] == ["warcinfo", "response"]
    assert b"largest size" in last[3]


def test_an_empty_result_is_an_empty_file_and_an_invalid_query_an_error(database: Database) -> None:
    assert exported(database) == b""
    with pytest.raises(UsageError, match="no host"):
        exported(database, "")
