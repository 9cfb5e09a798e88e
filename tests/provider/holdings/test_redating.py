"""Records that show other settings or locations get a new datestamp when the staff ask for it."""

from datetime import datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from oai.errors import UsageError
from provider.holdings.collections import add_collection, lineage
from provider.holdings.selection import Selection, hide, in_file_or_set, redate
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import DocumentCollection
from tests.provider.archives import Page, write_pages
from tests.provider.titles.conftest import datestamps

SERIALS, OTHERS = "http://a.example/", "http://b.example/"


@pytest.fixture
def dated(database: Database, tmp_path: Path) -> dict[str, datetime]:
    """Two files of three pages each; the first one in a collection."""
    with database.session() as session:
        add_collection(session, "collection:serials")
        family = tuple(lineage(session, "collection:serials"))
        session.commit()
    for name, host, collections in (("a", SERIALS, family), ("b", OTHERS, ())):
        path = write_pages(tmp_path / f"{name}.warc.gz", [Page(url=f"{host}{n}") for n in range(3)])
        index_file(database, path, IndexOptions(margin=1, collections=collections))
    return datestamps(database)


def redated(database: Database, before: dict[str, datetime]) -> set[str]:
    after = datestamps(database)
    assert all(after[url] >= before[url] for url in before)
    return {url for url in before if after[url] > before[url]}


@pytest.mark.parametrize(
    ("arc", "set_spec", "hosts"),
    [
        (None, "collection:serials", [SERIALS]),
        (None, "domain:example:b", [OTHERS]),
        ("b.warc.gz", None, [OTHERS]),
        (None, None, [SERIALS, OTHERS]),
    ],
)
def test_the_documents_of_a_set_or_file_or_all_get_a_new_datestamp(
    database: Database, dated: dict[str, datetime], arc: str | None, set_spec: str | None, hosts: list[str]
) -> None:
    with database.session() as session:
        number = redate(session, in_file_or_set(session, arc=arc, set_spec=set_spec), margin=5)
        memberships = set(session.scalars(select(DocumentCollection.datestamp)))
    expected = {f"{host}{n}" for host in hosts for n in range(3)}
    assert (number, redated(database, dated)) == (len(expected), expected)
    assert memberships <= set(datestamps(database).values())


def test_deleted_records_keep_their_datestamp(database: Database, dated: dict[str, datetime]) -> None:
    with database.session() as session:
        hide(session, Selection(url=f"{SERIALS}1"), margin=1)
        before = datestamps(database)
        number = redate(session, in_file_or_set(session, arc="a.warc.gz", set_spec=None), margin=5)
    assert number == 2
    assert redated(database, before) == {f"{SERIALS}0", f"{SERIALS}2"} < dated.keys()


def test_a_renamed_file_keeps_the_datestamps_of_its_documents_until_they_are_redated(
    database: Database, dated: dict[str, datetime], tmp_path: Path
) -> None:
    path = (tmp_path / "a.warc.gz").rename(tmp_path / "renamed.warc.gz")
    index_file(database, path, IndexOptions(margin=1))
    assert redated(database, dated) == set()
    with database.session() as session:
        redate(session, in_file_or_set(session, arc="renamed.warc.gz", set_spec=None), margin=5)
    assert redated(database, dated) == {f"{SERIALS}{n}" for n in range(3)}


def test_an_unknown_set_is_a_usage_error(database: Database) -> None:
    with database.session() as session, pytest.raises(UsageError, match="no set 'collection:absent'"):
        in_file_or_set(session, arc=None, set_spec="collection:absent")
