"""Access to documents by the rules of their titles."""

from pathlib import Path

import pytest
from sqlalchemy import select, text

from oai.database import Database
from provider.holdings.access import refresh, set_rule
from provider.holdings.loads import begin_load
from provider.holdings.rules import Rule
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import UNLISTED, Access, Document, LoadPart
from provider.titles.access import count_pending
from tests.provider.archive import Archive
from tests.provider.archives import Page, write_pages
from tests.provider.titles.conftest import Titles, datestamps, entry, settle

SITE = "http://www.example.cz/"


def rules(database: Database) -> dict[str, str]:
    with database.session() as session:
        return {row.url: row.access for row in session.execute(select(Document.url, Document.access))}


def test_documents_get_the_access_rule_of_their_title_or_carve_out(
    titles: Titles, archive: Archive, database: Database
) -> None:
    for path in ("", "shop/a", "blog/a"):
        archive.add(f"{SITE}{path}")
    archive.add("http://other.cz/")
    titles.bring(entry("1", SITE, f"-{SITE}shop/"), entry("2", f"{SITE}blog/", access="withheld"))
    before = datestamps(database)
    assert settle(database) == 2
    assert rules(database) == {
        SITE: "open",
        f"{SITE}shop/a": "reading room",
        f"{SITE}blog/a": "withheld",
        "http://other.cz/": "open",
    }
    after = datestamps(database)
    assert {url for url in after if after[url] != before[url]} == {f"{SITE}shop/a", f"{SITE}blog/a"}
    assert settle(database) == 0


@pytest.mark.parametrize(("most", "counted"), [(1_000_000, 4), (3, 3)])
def test_pending_documents_are_counted_up_to_a_limit(
    titles: Titles,
    archive: Archive,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    most: int,
    counted: int,
) -> None:
    monkeypatch.setattr("provider.titles.access.MOST_COUNTED", most)
    for number in range(4):
        archive.add(f"{SITE}{number}")
    archive.add("http://other.cz/")
    titles.bring(entry("1", SITE, access="withheld"))
    with database.session() as session:
        assert count_pending(session) == counted
    assert settle(database) == 4


def test_documents_are_restricted_and_opened_with_the_rule_of_the_title(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, access="open"))
    assert settle(database) == 0
    titles.bring(entry("1", SITE, access="reading room", public=False))
    assert settle(database) == 1
    assert rules(database)[SITE] == "reading room"
    titles.bring(entry("1", SITE, access="open"))
    assert settle(database) == 1
    assert rules(database)[SITE] == "open"


def test_an_open_title_does_not_override_a_withheld_collection(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE, collections=["collection:a"])
    with database.session() as session:
        set_rule(session, "collection:a", Rule(access=Access.WITHHELD), margin=1)
    titles.bring(entry("1", SITE, access="open"))
    settle(database)
    assert rules(database)[SITE] == "withheld"
    titles.bring(entry("1", SITE, access="reading room"))
    settle(database)
    with database.session() as session:
        set_rule(session, "collection:a", Rule(), margin=1)
    assert rules(database)[SITE] == "reading room"


def test_pending_access_changes_are_applied_by_the_next_refresh(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, access="withheld"))
    with database.session() as session:
        assert refresh(session, margin=1) == 1
    assert rules(database)[SITE] == "withheld"


@pytest.mark.parametrize(
    ("access", "listed"), [("open", True), ("reading room", True), ("withheld", False), (None, True)]
)
def test_a_document_indexed_later_gets_the_rule_of_its_title_immediately(
    titles: Titles, database: Database, tmp_path: Path, access: str | None, *, listed: bool
) -> None:
    titles.bring(entry("1", SITE, access=access))
    write_pages(tmp_path / "a.warc.gz", [Page(url=SITE), Page(url="http://other.cz/")])
    with database.session() as session:
        load_id = begin_load(session, None)
    index_file(database, tmp_path / "a.warc.gz", IndexOptions(margin=1, load_id=load_id))
    assert rules(database) == {SITE: access or "open", "http://other.cz/": "open"}
    assert (datestamps(database)[SITE] != UNLISTED) is listed
    assert datestamps(database)["http://other.cz/"] != UNLISTED
    with database.session() as session:
        unlisted = session.scalar(text("SELECT unlisted FROM domain WHERE name = 'www.example.cz'"))
        counted = session.scalar(select(LoadPart.new))
    assert unlisted == (0 if listed else 1)
    assert counted == (2 if listed else 1), "the list of loads must not reveal what is withheld"


def test_documents_of_a_removed_title_stay_restricted_until_another_title_has_them(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    other = entry("2", "http://b.cz/")
    titles.bring(entry("1", SITE, access="reading room"), other)
    settle(database)
    titles.bring(other)
    settle(database)
    assert rules(database)[SITE] == "reading room"
    assert titles["1"].gone
    assert titles.bring(other, entry("3", SITE, access="open")) == []
    settle(database)
    assert rules(database)[SITE] == "open"
    assert titles["3"].captures == 1
