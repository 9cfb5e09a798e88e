"""A recognised type is stored beside the declared one, and used for sets and formats only by option."""

import gzip
from pathlib import Path

import pytest
from sqlalchemy import select, text

from oai.database import Database
from provider.holdings.document_details import DocumentFacts, document_facts
from provider.holdings.lookup import Query, find_captures
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document, Mimetype
from provider.reading.captures import ContentOptions
from tests.provider.archives import Page, write_pages
from tests.provider.indexing.indexed import check_counts

PDF = b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"
HTML = b"<html><title>A title</title></html>"
OFF, STORED, USED = (
    IndexOptions(margin=1, content=ContentOptions(types=one)) for one in ("off", "stored", "used")
)
AGAIN = IndexOptions(margin=1, again=True, content=ContentOptions(types="used"))


def page(name: str, body: bytes, mime_type: str | None, **values: str) -> Page:
    return Page(url=f"http://a.example/{name}", body=body, mime_type=mime_type, **values)  # type: ignore[arg-type]


PAGES = [
    page("pdf", PDF, "text/html"),
    page("none", HTML, None),
    page("gzip", gzip.compress(PDF), "unknown/unknown", http_headers="Content-Encoding: gzip\r\n"),
    page("brotli", b"\xff\xfb\x90\x64", "text/html", http_headers="Content-Encoding: br\r\n"),
    page("html", HTML, "text/html"),
    page("revisit", b"", None, record_type="revisit"),
]
DECLARED = {
    "pdf": "text/html", "none": "unknown", "gzip": "unknown/unknown", "brotli": "text/html",
    "html": "text/html", "revisit": "unknown",
}  # fmt: skip
RECOGNISED = {"pdf": "application/pdf", "none": "text/html", "gzip": "application/pdf"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_pages(tmp_path / "x.warc.gz", PAGES)


def facts(database: Database) -> dict[str, DocumentFacts]:
    with database.session() as session:
        found = [document_facts(session, key) for key in session.scalars(select(Document.key))]
        return {one.url.rpartition("/")[2]: one for one in found if one}


def sets(database: Database) -> dict[str, str]:
    """Return the MIME type whose set contains each document."""
    shown = select(Document.url, Mimetype.name).join(Mimetype, Mimetype.id == Document.mime_id)
    with database.session() as session:
        return {url.rpartition("/")[2]: name for url, name in session.execute(shown)}


@pytest.mark.parametrize(
    ("options", "recognised", "shown"),
    [(OFF, {}, DECLARED), (STORED, RECOGNISED, DECLARED), (USED, RECOGNISED, {**DECLARED, **RECOGNISED})],
)
def test_the_declared_type_is_kept_beside_the_recognised_one(
    database: Database, file: Path, options: IndexOptions, recognised: dict[str, str], shown: dict[str, str]
) -> None:
    assert index_file(database, file, options).merged.new == len(PAGES)
    found = facts(database)
    assert {name: one.mime_type for name, one in found.items()} == DECLARED
    assert {name: one.recognised_type for name, one in found.items() if one.recognised_type} == recognised
    assert sets(database) == shown
    assert found["none"].title == ("A title" if recognised else None)
    check_counts(database)
    with database.session() as session:
        (captured,) = find_captures(session, Query(url="http://a.example/pdf", limit=9)).found
    assert captured.mime_type == "text/html"


def test_indexing_again_adds_the_recognised_type_without_changing_datestamps(
    database: Database, file: Path
) -> None:
    index_file(database, file, OFF)
    dated = {name: one.datestamp for name, one in facts(database).items() if name != "none"}
    index_file(database, file, AGAIN)
    found = facts(database)
    assert {name: one.recognised_type for name, one in found.items() if one.recognised_type} == RECOGNISED
    assert {name: one.datestamp for name, one in found.items() if name != "none"} == dated
    assert sets(database) == DECLARED
    with database.session() as session:
        written = session.scalar(text("SELECT count(*) FROM document WHERE recognised_type IS NOT NULL"))
        before = session.scalars(select(text("xmin::text")).select_from(Document).order_by(Document.id)).all()
        session.rollback()
        index_file(database, file, IndexOptions(margin=1, again=True))
        after = session.scalars(select(text("xmin::text")).select_from(Document).order_by(Document.id)).all()
    assert written == len(RECOGNISED)
    assert before == after
