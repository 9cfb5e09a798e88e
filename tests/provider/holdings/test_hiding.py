"""A hidden document is a deleted record that keeps its sets and can come back."""

from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from provider.holdings.selection import Selection, hide, unhide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from tests.provider.archives import Page, write_pages

ONE = Selection(url="http://a.example/1")


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> Path:
    """Three pages of one host."""
    path = write_pages(tmp_path / "x.warc.gz", [Page(url=f"http://a.example/{n}") for n in range(3)])
    index_file(database, path, IndexOptions(margin=1))
    return path


def documents(database: Database) -> dict[str, Document]:
    with database.session() as session:
        return {document.url: document for document in session.scalars(select(Document))}


@pytest.mark.usefixtures("archive")
def test_a_hidden_document_is_deleted_with_a_later_datestamp(database: Database) -> None:
    before = documents(database)
    with database.session() as session:
        assert hide(session, ONE, margin=2) == 1
    after = documents(database)
    assert [url for url, document in after.items() if document.deleted] == ["http://a.example/1"]
    assert after["http://a.example/1"].datestamp > before["http://a.example/1"].datestamp
    assert after["http://a.example/0"].datestamp == before["http://a.example/0"].datestamp
    assert after["http://a.example/1"].host_id == before["http://a.example/1"].host_id


@pytest.mark.usefixtures("archive")
def test_hiding_a_hidden_document_again_changes_nothing(database: Database) -> None:
    with database.session() as session:
        hide(session, ONE, margin=1)
        before = documents(database)["http://a.example/1"].datestamp
        assert hide(session, ONE, margin=5) == 0
    assert documents(database)["http://a.example/1"].datestamp == before


@pytest.mark.usefixtures("archive")
def test_a_hidden_document_can_be_shown_again(database: Database) -> None:
    with database.session() as session:
        hide(session, Selection(url_prefix="http://a.example/"), margin=1)
        assert unhide(session, ONE, margin=2) == 1
    found = documents(database)
    assert [url for url, document in found.items() if not document.deleted] == ["http://a.example/1"]


def test_a_hidden_document_stays_hidden_when_its_file_is_indexed_again(
    database: Database, archive: Path
) -> None:
    with database.session() as session:
        hide(session, Selection(key=documents(database)["http://a.example/1"].key), margin=1)
    index_file(database, archive, IndexOptions(margin=1, again=True))
    assert documents(database)["http://a.example/1"].deleted
