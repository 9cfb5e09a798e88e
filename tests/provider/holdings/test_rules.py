"""A rule that changes while documents are added applies to them in the end, in either order."""

import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import select

from oai.database import Database
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, assign, lineage
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access, Document, DocumentCollection
from tests.provider.archives import Page, warc_record, write_archive

SECONDS = 60.0
PARENT, CHILD = "collection:a", "collection:a:b"


@pytest.fixture
def family(database: Database) -> tuple[int, ...]:
    with database.session() as session:
        add_collection(session, CHILD)
        session.commit()
        return lineage(session, CHILD)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(4) as pool:
        yield pool


def write(folder: Path, name: str, documents: int = 5) -> Path:
    pages = [Page(url=f"http://{name}.example/{number}") for number in range(documents)]
    return write_archive(folder / f"{name}.warc", [warc_record(page) for page in pages])


def change(database: Database, set_spec: str, access: Access) -> None:
    with database.session() as session:
        set_rule(session, set_spec, Rule(access=access), margin=1)


def effective(database: Database) -> set[tuple[str, bool]]:
    """The documents' rules, and whether their memberships are dated as they are."""
    query = select(Document.access, Document.datestamp == DocumentCollection.datestamp).join(
        DocumentCollection, DocumentCollection.document_id == Document.id
    )
    with database.session() as session:
        return {(access, same) for access, same in session.execute(query)}


@contextmanager
def held(database: Database, statement: str) -> Iterator[None]:
    """Hold a lock in another transaction for the block."""
    with psycopg.connect(database.conninfo) as connection:
        connection.execute(statement)
        yield
        connection.rollback()


def wait_for_waiting(database: Database, number: int) -> None:
    """Wait until this number of transactions wait for a lock."""
    deadline = time.monotonic() + SECONDS
    with psycopg.connect(database.conninfo, autocommit=True) as connection:
        while connection.execute("SELECT FROM pg_locks WHERE NOT granted").rowcount < number:
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.parametrize("set_spec", [PARENT, CHILD])
def test_a_rule_changed_while_a_file_is_published_applies_to_its_documents(
    database: Database, tmp_path: Path, family: tuple[int, ...], pool: ThreadPoolExecutor, set_spec: str
) -> None:
    """Indexing has read the rule and waits before it adds its documents; then the rule changes."""
    path = write(tmp_path, "a")
    with held(database, "LOCK TABLE document_collection IN SHARE MODE"):
        indexing = pool.submit(index_file, database, path, IndexOptions(margin=1, collections=family))
        wait_for_waiting(database, 1)
        changing = pool.submit(change, database, set_spec, Access.WITHHELD)
        wait_for_waiting(database, 2)
    assert indexing.result(SECONDS).merged.new == 5
    changing.result(SECONDS)
    assert effective(database) == {("withheld", True)}


@pytest.mark.parametrize("set_spec", [PARENT, CHILD])
def test_a_file_published_while_a_rule_changes_gets_the_new_rule(
    database: Database, tmp_path: Path, family: tuple[int, ...], pool: ThreadPoolExecutor, set_spec: str
) -> None:
    """The change waits before it writes the rule; then indexing reads the rule."""
    path = write(tmp_path, "a")
    with held(database, f"SELECT FROM collection WHERE set_spec = '{set_spec}' FOR UPDATE"):
        changing = pool.submit(change, database, set_spec, Access.WITHHELD)
        wait_for_waiting(database, 1)
        indexing = pool.submit(index_file, database, path, IndexOptions(margin=1, collections=family))
        wait_for_waiting(database, 2)
    changing.result(SECONDS)
    assert indexing.result(SECONDS).merged.new == 5
    assert effective(database) == {("withheld", True)}


def test_documents_assigned_while_a_rule_changes_get_the_new_rule(
    database: Database, tmp_path: Path, family: tuple[int, ...], pool: ThreadPoolExecutor
) -> None:
    assert family
    index_file(database, write(tmp_path, "a"), IndexOptions(margin=1))

    def file() -> None:
        with database.session() as session:
            assign(session, CHILD, Selection(domain="a.example"), margin=1)

    with held(database, "LOCK TABLE document_collection IN SHARE MODE"):
        assigning = pool.submit(file)
        wait_for_waiting(database, 1)
        changing = pool.submit(change, database, PARENT, Access.READING_ROOM)
        wait_for_waiting(database, 2)
    assigning.result(SECONDS)
    changing.result(SECONDS)
    assert effective(database) == {("reading room", True)}


def test_the_last_rule_applies_after_many_changes_during_indexing(
    database: Database, tmp_path: Path, family: tuple[int, ...], pool: ThreadPoolExecutor
) -> None:
    chance = random.Random(7)
    paths = [write(tmp_path, f"f{number}", documents=10) for number in range(6)]
    done = threading.Event()

    def keep_changing() -> None:
        while not done.is_set():
            change(database, chance.choice([PARENT, CHILD]), chance.choice([Access.OPEN, Access.WITHHELD]))
        change(database, PARENT, Access.OPEN)
        change(database, CHILD, Access.READING_ROOM)

    changing = pool.submit(keep_changing)
    options = IndexOptions(margin=1, collections=family)
    for one in [pool.submit(index_file, database, path, options) for path in paths]:
        assert one.result(SECONDS).merged.new == 10
    done.set()
    changing.result(SECONDS)
    assert effective(database) == {("reading room", True)}
