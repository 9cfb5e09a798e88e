"""Flat paging: every page of every set is read by one range scan of the right index."""

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import event, text

from oai.database import Database
from provider.protocol.pages import item_page, list_size, set_page
from provider.protocol.scopes import find_scope
from provider.protocol.tokens import Position
from provider.titles.models import Title, TitleDocuments
from tests.provider.archive import BEGINNING, Archive
from tests.provider.conftest import Kept

KEY = uuid.UUID(int=1)
INDEXES = {
    None: "ix_document_datestamp",
    "domain": "ix_document_datestamp",
    "mimetype": "ix_document_datestamp",
    "domain:cz": "ix_document_tld",
    "domain:cz:example": "ix_document_domain",
    "domain:cz:example:www:deep": "ix_document_host",
    "mimetype:text": "ix_document_mime_major",
    "mimetype:text:html": "ix_document_mime",
    "collection": "ix_document_collection_page",
    "collection:a:b": "ix_document_collection_page",
    "title": "ix_document_in_title",
    f"title:{KEY.hex}": "ix_document_title",
}
BEHIND = Position(datestamp=BEGINNING, id=1)
Statement = tuple[str, Any]


@pytest.fixture
def statements(database: Database) -> Iterator[list[Statement]]:
    """Return the list to which statements are added as they are sent to the database."""
    sent: list[Statement] = []

    def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
        sent.append((statement, parameters))

    event.listen(database.engine, "before_cursor_execute", note)
    yield sent
    event.remove(database.engine, "before_cursor_execute", note)


@pytest.fixture
def database(kept_database: Database) -> Database:
    return kept_database


pytestmark = pytest.mark.usefixtures("filled")


@pytest.fixture(scope="module")
def filled(kept: Kept) -> None:
    fill(kept.archive())


def fill(archive: Archive) -> None:
    with archive.database.session() as session:
        named = {"source": "test", "source_key": "1", "name": "One"}
        session.add(Title(title_id=7, key=KEY, **named, public=True, datestamp=BEGINNING))
        session.flush()
        session.add(TitleDocuments(id=7, set_spec=f"title:{KEY.hex}", documents=5))
        session.commit()
    for _ in range(5):
        archive.add("http://deep.www.example.cz/", collections=["collection:a:b"], title_id=7)
        archive.add("http://elsewhere.test/", mime_type="image/png")


@pytest.mark.parametrize("after", [None, BEHIND])
@pytest.mark.parametrize("set_spec", INDEXES)
def test_a_page_is_one_range_scan_of_its_index(
    database: Database,
    statements: list[Statement],
    set_spec: str | None,
    after: Position | None,
) -> None:
    with database.session() as session:
        scope = find_scope(session, set_spec)
        assert scope is not None
        statements.clear()
        page = item_page(
            session, scope, from_=BEGINNING, until=BEGINNING.replace(year=2021), after=after, limit=3
        )
    assert len(page) == 3
    (statement,) = statements

    limit = next(node for node in nodes(plan(database, statement)) if node["Node Type"] == "Limit")

    scans = [node for node in nodes(limit) if "Index Name" in node]
    assert not [node for node in nodes(limit) if "Sort" in node["Node Type"]]
    ordered = next(node for node in scans if node["Index Name"] == INDEXES[set_spec])
    assert "datestamp" in ordered["Index Cond"]
    is_of_title = INDEXES[set_spec] == "ix_document_title"
    assert ("ROW(" in ordered["Index Cond"]) == (after is not None or is_of_title)


@pytest.mark.parametrize("after", [None, BEHIND])
def test_hosts_below_a_set_are_merged_from_one_range_scan_per_host(
    database: Database, statements: list[Statement], after: Position | None
) -> None:
    with database.session() as session:
        scope = find_scope(session, "domain:cz:example:www")
        assert scope is not None
        statements.clear()
        page = item_page(session, scope, from_=None, until=BEGINNING.replace(year=2021), after=after, limit=3)
    assert len(page) == 3
    (statement,) = statements
    of_documents = [
        (above, node)
        for above in nodes(plan(database, statement))
        for node in above.get("Plans", ())
        if node.get("Relation Name") == "document"
    ]
    # A few rows of each host, the page's rows of each host, and their facts.
    limits = [above["Node Type"] for above, node in of_documents if "datestamp" in node.get("Index Cond", "")]
    assert limits == ["Limit", "Limit"]
    names = {node["Index Name"] for above, node in of_documents if above["Node Type"] == "Limit"}
    assert names == {"ix_document_host"}


def plan(database: Database, statement: Statement) -> dict[str, Any]:
    """Return the plan as for many rows; with these few, PostgreSQL would read and sort all of them."""
    with database.engine.connect() as connection:
        for setting in ("enable_seqscan", "enable_bitmapscan", "enable_sort"):
            connection.execute(text(f"SET {setting} = off"))
        query, parameters = statement
        explained = connection.exec_driver_sql(f"EXPLAIN (FORMAT JSON) {query}", parameters).scalar_one()
    whole: dict[str, Any] = (json.loads(explained) if isinstance(explained, str) else explained)[0]["Plan"]
    return whole


def nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from nodes(below)


def test_a_page_is_read_with_all_facts_of_its_records_in_one_statement(
    database: Database, statements: list[Statement]
) -> None:
    with database.session() as session:
        scope = find_scope(session, None)
        assert scope is not None
        statements.clear()
        items = item_page(
            session, scope, from_=None, until=BEGINNING.replace(year=2021), after=None, limit=10
        )
    assert len(statements) == 1
    hosted = ("domain:cz:example:www:deep", "mimetype:text:html")
    assert items[0].set_specs == ("collection:a:b", *hosted, f"title:{KEY.hex}")
    assert (items[1].host, items[1].mime_type) == ("elsewhere.test", "image/png")


def test_reading_statements_stay_prepared(database: Database) -> None:
    for _ in range(40):  # the connections of the pool take turns
        with database.reading() as session:
            scope = find_scope(session, None)
            assert scope is not None
            item_page(session, scope, from_=None, until=BEGINNING.replace(year=2021), after=None, limit=3)
    with database.session() as session:
        pages = "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT document.id%'"
        assert session.scalar(text(pages)) == 1


def test_the_size_of_a_list_is_computed_with_two_statements(
    database: Database, statements: list[Statement]
) -> None:
    with database.session() as session:
        scope = find_scope(session, "domain:cz")
        assert scope is not None
        statements.clear()
        assert list_size(session, scope, BEGINNING.replace(year=2021)) == 5
    assert len(statements) == 2


def test_a_page_of_sets_is_read_with_one_statement(database: Database, statements: list[Statement]) -> None:
    with database.session() as session:
        page = set_page(session, after="collection:a", limit=3)
        last = set_page(session, after="mimetype:text:html", limit=3)
    assert [row.set_spec for row in page] == ["collection:a:b", "domain", "domain:cz"]
    assert [(row.set_spec, row.name) for row in last] == [("title", "Titles"), (f"title:{KEY.hex}", "One")]
    assert len(statements) == 2
