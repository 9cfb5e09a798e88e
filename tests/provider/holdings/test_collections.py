"""A document is in the collections to which it is assigned, and in all above them."""

import random
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from oai.errors import InterruptedRunError, UsageError
from provider.holdings.access import set_rule
from provider.holdings.collections import (
    add_collection,
    assign,
    deciding,
    drop,
    find_by_name,
    lineage,
    list_collections,
    move,
    remove,
)
from provider.holdings.membership import settle, settle_collection
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection, hide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Access, Collection, Document, DocumentCollection
from tests.bench.rows import fill
from tests.plans import work_of
from tests.provider.archives import Page, write_pages

HOSTS = ["www.a.example", "a.example", "b.example", "c.test"]
EVERYTHING = Selection(url_prefix="http")
MARGIN = 1.0


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> Path:
    """Two files: one of the year 2007, one of 2010, two pages of each host in each."""
    for year in (2007, 2010):
        pages = [
            Page(url=f"http://{host}/{page}", date=f"{year}-05-01T00:00:00Z")
            for host in HOSTS
            for page in "xy"
        ]
        index_file(database, write_pages(tmp_path / f"{year}.warc.gz", pages), IndexOptions(margin=MARGIN))
    return tmp_path


def members(database: Database, set_spec: str) -> dict[str, bool]:
    """URL and year of the documents in a collection, and whether they are assigned to it directly."""
    with database.session() as session:
        rows = session.execute(
            select(Document.url, Document.archived, DocumentCollection.direct)
            .join(DocumentCollection, DocumentCollection.document_id == Document.id)
            .join(Collection, Collection.id == DocumentCollection.collection_id)
            .where(Collection.set_spec == set_spec)
        )
        return {f"{row.url} {row.archived.year}": row.direct for row in rows}


def make(database: Database, *set_specs: str) -> None:
    with database.session() as session:
        for set_spec in set_specs:
            add_collection(session, set_spec)
        session.commit()


def change(database: Database, how: Callable[..., int], set_spec: str, selection: Selection) -> int:
    with database.session() as session:
        return how(session, set_spec, selection, margin=MARGIN)


def test_a_collection_is_created_with_its_missing_parents(database: Database) -> None:
    with database.session() as session:
        made = add_collection(session, "collection:serials:nov07", name="November", description="Monthly")
        assert (made.name, made.description) == ("November", "Monthly")
        found = [(one.set_spec, one.name) for one in list_collections(session)]
    assert found == [
        ("collection", "Collections"),
        ("collection:serials", "serials"),
        ("collection:serials:nov07", "November"),
    ]


def test_a_collection_can_be_renamed(database: Database) -> None:
    make(database, "collection:a")
    with database.session() as session:
        add_collection(session, "collection:a", name="Alpha")
        add_collection(session, "collection:a")
        assert [one.name for one in list_collections(session)] == ["Collections", "Alpha"]


def datestamps(database: Database) -> dict[tuple[str, int], datetime]:
    with database.session() as session:
        rows = session.execute(select(Document.url, Document.archived, Document.datestamp))
        return {(row.url, row.archived.year): row.datestamp for row in rows}


@pytest.mark.usefixtures("archive")
def test_renaming_a_collection_redates_the_documents_whose_records_show_the_name(database: Database) -> None:
    make(database, "collection:a:b")
    change(database, assign, "collection:a", Selection(domain="a.example"))
    change(database, assign, "collection:a:b", Selection(domain="test"))
    with database.session() as session:
        hide(session, Selection(domain="www.a.example"), margin=MARGIN)
    before = datestamps(database)

    def stop() -> None:
        raise InterruptedRunError("ending")

    with database.session() as session:
        named = add_collection(session, "collection:a", name="Alpha", description="Letters").id
        session.commit()
        with pytest.raises(InterruptedRunError):
            settle(session, margin=MARGIN, check=stop)
        assert settle_collection(session, named, margin=MARGIN + 2, chunk=1) == 4
    after = datestamps(database)
    assert {key for key in after if after[key] > before[key]} == {
        (f"http://a.example/{page}", year) for page in "xy" for year in (2007, 2010)
    }
    with database.session() as session:
        add_collection(session, "collection:a", name="Alpha", description="The alphabet")
        session.commit()
        assert settle(session, margin=MARGIN) == 0
    assert datestamps(database) == after


CHOICES = [
    (Selection(arc="2007.warc.gz"), 8),
    (Selection(arc="2007.warc"), 8),
    (Selection(domain="example"), 12),
    (Selection(domain="a.example"), 8),
    (Selection(domain="www.a.example"), 4),
    (Selection(url="http://c.test/x"), 2),
    (Selection(url_prefix="http://a.example/"), 4),
    (Selection(url_prefix="http://a.example/", since=datetime(2008, 1, 1, tzinfo=UTC)), 2),
    (Selection(url_prefix="http://a.example/", until=datetime(2007, 5, 1, tzinfo=UTC)), 2),
    (Selection(url_prefix="http://nowhere/"), 0),
]
NO_CHOICES = [
    Selection(arc="other.warc"),
    Selection(domain="nowhere.test"),
    Selection(url_prefix=""),
    Selection(),
    Selection(since=datetime(2007, 1, 1, tzinfo=UTC)),
]


@pytest.mark.usefixtures("archive")
def test_documents_are_assigned_and_removed_by_each_kind_of_selection(database: Database) -> None:
    make(database, "collection:serials:nov07")
    for selection, number in CHOICES:
        assert change(database, assign, "collection:serials:nov07", selection) == number, selection
        assert list(members(database, "collection:serials:nov07").values()) == [True] * number, selection
        assert list(members(database, "collection:serials").values()) == [False] * number, selection
        assert list(members(database, "collection").values()) == [False] * number, selection
        assert change(database, remove, "collection:serials:nov07", selection) == number, selection
        assert members(database, "collection") == {}, selection


@pytest.mark.usefixtures("archive")
def test_an_empty_selection_is_refused(database: Database) -> None:
    make(database, "collection:a")
    for selection in NO_CHOICES:
        with pytest.raises(UsageError):
            change(database, assign, "collection:a", selection)


def test_an_unknown_collection_is_refused(database: Database) -> None:
    with database.session() as session, pytest.raises(UsageError, match="collection add"):
        lineage(session, "collection:a")


@pytest.mark.usefixtures("archive")
def test_assigning_moves_the_datestamp_once(database: Database) -> None:
    make(database, "collection:a")
    with database.session() as session:
        before = set(session.scalars(select(Document.datestamp)))
    with database.session() as session:
        assert assign(session, "collection:a", EVERYTHING, margin=MARGIN + 2) == 16
    with database.session() as session:
        after = set(session.scalars(select(Document.datestamp)))
        assert set(session.scalars(select(DocumentCollection.datestamp))) == after
    assert len(after) == 1
    assert min(after) > max(before)
    assert change(database, assign, "collection:a", EVERYTHING) == 0
    with database.session() as session:
        assert set(session.scalars(select(Document.datestamp))) == after


@pytest.mark.usefixtures("archive")
def test_a_document_stays_in_a_collection_while_it_is_in_one_below_it(database: Database) -> None:
    make(database, "collection:a:b", "collection:a:c")
    one = Selection(url="http://c.test/x", until=datetime(2008, 1, 1, tzinfo=UTC))
    key = "http://c.test/x 2007"
    for spec in ("collection:a", "collection:a:b", "collection:a:c"):
        change(database, assign, spec, one)
    assert change(database, remove, "collection:a", one) == 1
    assert members(database, "collection:a") == {key: False}
    change(database, remove, "collection:a:b", one)
    assert (members(database, "collection:a:b"), members(database, "collection:a")) == ({}, {key: False})
    change(database, remove, "collection:a:c", one)
    assert members(database, "collection:a") == members(database, "collection") == {}


@pytest.mark.usefixtures("archive")
def test_memberships_and_numbers_follow_any_changes(database: Database) -> None:
    specs = ["collection", "collection:a", "collection:a:b", "collection:a:b:c", "collection:ab"]
    make(database, *specs)
    chance = random.Random(3)
    with database.session() as session:
        urls = {key: key for key in session.scalars(select(Document.url))}
    direct: set[tuple[str, str]] = set()
    for number in range(20):
        spec = chance.choice(specs)
        host = chance.choice(HOSTS)
        if number % 4 == 3 and spec != "collection":
            parent = chance.choice([one for one in specs if one != spec and not one.startswith(f"{spec}:")])
            shift(database, spec, f"{parent}:m{number}")
            renamed = {
                one: f"{parent}:m{number}{one[len(spec) :]}" if (one + ":").startswith(f"{spec}:") else one
                for one in specs
            }
            specs = [renamed[one] for one in specs]
            direct = {(url, renamed[one]) for url, one in direct}
            assert_members(database, specs, direct)
            continue
        chosen = {url for url in urls if url.startswith(f"http://{host}/")}
        how = chance.choice([assign, remove])
        change(database, how, spec, Selection(url_prefix=f"http://{host}/"))
        pairs = {(url, spec) for url in chosen}
        direct = direct | pairs if how is assign else direct - pairs
        assert_members(database, specs, direct)


def shift(database: Database, spec: str, new: str) -> None:
    with database.session() as session:
        move(session, spec, new, margin=MARGIN)


def assert_members(database: Database, specs: list[str], direct: set[tuple[str, str]]) -> None:
    """Check that the tables have exactly the rows that follow from these assignments."""
    for one in specs:
        expected = {
            f"{url} {year}": (url, one) in direct
            for url, below in direct
            if below == one or below.startswith(f"{one}:")
            for year in (2007, 2010)
        }
        assert members(database, one) == expected
        with database.session() as session:
            kept = session.scalars(select(Collection.documents).where(Collection.set_spec == one)).one()
            assert kept == len(expected)


@pytest.mark.copied_database("rows that plans go through are counted")
def test_changing_a_few_documents_does_not_scan_all_memberships(database: Database) -> None:
    fill(database, 20_000, lambda _: None, statistics=False)
    make(database, "z")
    one_host = Selection(url_prefix="http://www1.site1.cz/")
    with work_of(database, "membership") as work:
        changed = change(database, assign, "z", one_host)
    assert (changed > 10, len(work) >= 4) == (True, True)
    # A few rows for each document and collection, of which there are eleven.
    assert [rows for rows in work if rows > 40 * changed] == []


def test_a_collection_with_child_collections_is_not_removed_and_they_are_counted(
    database: Database,
) -> None:
    make(database, "collection:a:b", "collection:a:c")
    with (
        database.session() as session,
        pytest.raises(UsageError, match="'collection:a' has 0 documents and 2 collections below it"),
    ):
        drop(session, "collection:a", force=False, margin=MARGIN)


def test_the_strictest_rule_of_a_collection_and_its_ancestors_decides(database: Database) -> None:
    make(database, "collection:a:b:c", "collection:a:d", "collection:e")
    reading_room = Rule(access=Access.READING_ROOM)
    with database.session() as session:
        for spec, rule in (
            ("collection:a", reading_room),
            ("collection:a:b", reading_room),
            ("collection:a:d", Rule(access=Access.WITHHELD)),
        ):
            set_rule(session, spec, rule, margin=MARGIN)
        found = deciding(session, list_collections(session))

        assert {spec: one.set_spec for spec, one in found.items()} == {
            "collection": "collection", "collection:a": "collection:a", "collection:a:b": "collection:a:b",
            "collection:a:b:c": "collection:a:b", "collection:a:d": "collection:a:d",
            "collection:e": "collection:e",
        }  # fmt: skip


def test_collections_are_found_by_a_part_of_the_name_or_set_spec(database: Database) -> None:
    with database.session() as session:
        add_collection(session, "collection:town", name="Město Nové")
        add_collection(session, "collection:town:press", name="Press")
        found = {
            words: [one.set_spec for one in find_by_name(session, words, limit=1)]
            for words in ("mesto n", "Town", "press", "%", "nove mesto")
        }

    assert found == {
        "mesto n": ["collection:town"], "Town": ["collection:town"], "press": ["collection:town:press"],
        "%": [], "nove mesto": [],
    }  # fmt: skip
