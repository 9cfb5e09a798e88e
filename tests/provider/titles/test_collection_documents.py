"""Sets `collection:…` of documents in `/oai`, which follow curated collections."""

import random
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import UsageError
from provider.holdings import collections
from provider.holdings.access import set_rule
from provider.holdings.collections import add_collection, find_collection, list_collections
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import UNLISTED, Access, Collection, Document, DocumentCollection
from provider.titles.entries import AddressList, CollectionEntry, Read
from provider.titles.models import CollectionSegment, TitleDivision, TitleSegment
from provider.titles.ranges import KeyRange, Member, RangeRules, divide_members
from provider.titles.segments import assign_ranges, follow_setting
from tests.provider.archive import Archive
from tests.provider.archives import Page, write_pages
from tests.provider.conftest import Provider
from tests.provider.titles.conftest import Titles, datestamps, entry, make_documents_due, settle

SITE, OTHER = "http://www.example.cz/", "http://other.cz/"
FLOODS, VOTES = "collection:floods", "collection:votes"


@pytest.fixture
def titles(titles: Titles) -> Titles:
    titles.rules = RangeRules(document_sets=True)
    return titles


def members(database: Database) -> dict[str, set[str]]:
    """The URLs of the documents that are directly in each collection; checks counts and ancestors."""
    query = (
        select(Collection.set_spec, Document.url, DocumentCollection.direct, Document.datestamp)
        .join(DocumentCollection, DocumentCollection.collection_id == Collection.id)
        .join(Document, Document.id == DocumentCollection.document_id)
        .where(DocumentCollection.datestamp == Document.datestamp)
    )
    found: dict[str, set[str]] = {}
    with database.session() as session:
        rows = session.execute(query).all()
        assert len(rows) == len(session.execute(select(DocumentCollection.document_id)).all())
        for one in list_collections(session):
            mine = [row for row in rows if row.set_spec == one.set_spec]
            assert (one.documents, one.unlisted) == (
                len(mine),
                sum(row.datestamp == UNLISTED for row in mine),
            )
            found[one.set_spec] = {row.url for row in mine if row.direct}
    assert {row.url for row in rows if row.set_spec == "collection"} == {
        url for urls in found.values() for url in urls
    }
    found.pop("collection", None)
    return found


def test_documents_are_in_the_collections_that_list_their_titles_or_urls(
    titles: Titles, archive: Archive, database: Database
) -> None:
    for url in (SITE, f"{SITE}shop/a", f"{SITE}news/a", OTHER, "http://third.cz/"):
        archive.add(url)
    before = datestamps(database)
    floods = CollectionEntry(collection="Floods", annotation="Water", seeds=(OTHER, f"{SITE}news/"))
    found = (
        entry("1", SITE, f"-{SITE}shop/", collections=("Votes",), public=False),
        entry("2", f"{SITE}blog/", collections=("Floods", "Votes")),
        floods,
    )
    titles.bring(*found)
    assert settle(database) == 4  # the shop's has another access rule
    assert members(database) == {FLOODS: {OTHER, f"{SITE}news/a"}, VOTES: {SITE, f"{SITE}news/a"}}
    with database.session() as session:
        made = find_collection(session, FLOODS)
        assert (made.name, made.description, made.access) == ("Floods", "Water", Access.OPEN)
    after = datestamps(database)
    assert {url for url in after if after[url] == before[url]} == {"http://third.cz/"}
    titles.bring(*found)
    assert settle(database) == 0


def test_renaming_a_collection_redates_its_documents(
    titles: Titles, archive: Archive, database: Database
) -> None:
    for url in (SITE, OTHER):
        archive.add(url)
    titles.bring(CollectionEntry(collection="Floods", seeds=(SITE,)))
    settle(database)
    make_documents_due(database)
    before = datestamps(database)
    titles.bring(CollectionEntry(collection="FLOODS", seeds=(SITE,)))
    assert settle(database) == 1
    after = datestamps(database)
    assert {url for url in after if after[url] > before[url]} == {SITE}


def test_a_document_indexed_later_is_added_to_its_collections_immediately(
    titles: Titles, database: Database, tmp_path: Path
) -> None:
    withheld = entry("1", f"{SITE}a/", access="withheld", collections=("Floods",))
    titles.bring(withheld, CollectionEntry(collection="Votes", seeds=(SITE,)))
    settle(database)
    urls = (SITE, f"{SITE}a/b", OTHER)
    write_pages(tmp_path / "a.warc.gz", [Page(url=url) for url in urls])
    index_file(database, tmp_path / "a.warc.gz", IndexOptions(margin=1))
    assert members(database) == {FLOODS: {f"{SITE}a/b"}, VOTES: {SITE, f"{SITE}a/b"}}
    assert datestamps(database)[f"{SITE}a/b"] == UNLISTED
    assert settle(database) == 0


def test_changed_and_removed_collections_redate_added_and_removed_documents(
    titles: Titles, archive: Archive, database: Database
) -> None:
    for url in (SITE, OTHER, "http://third.cz/"):
        archive.add(url)
    title = entry("1", "http://third.cz/", collections=("Votes",))
    titles.bring(title, CollectionEntry(collection="Floods", seeds=(SITE, "http://third.cz/")))
    settle(database)
    make_documents_due(database)
    before = datestamps(database)
    titles.bring(title, CollectionEntry(collection="Floods", seeds=(OTHER, "http://third.cz/")))
    assert settle(database) == 2
    after = datestamps(database)
    assert after[SITE] > before[SITE]
    assert after[OTHER] > before[OTHER]
    assert after["http://third.cz/"] == before["http://third.cz/"]
    assert members(database)[FLOODS] == {OTHER, "http://third.cz/"}
    titles.bring(title, CollectionEntry(collection="Floods", seeds=None))  # not read: they stay
    assert settle(database) == 0
    titles.bring(title)
    assert settle(database) == 2
    assert members(database) == {VOTES: {"http://third.cz/"}}


def test_the_setting_turns_collections_of_documents_on_and_off(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.rules = RangeRules()
    titles.bring(entry("1", SITE, collections=("Floods",)))
    assert settle(database) == 0
    assert members(database) == {}
    for rules, found in ((RangeRules(document_sets=True), {FLOODS: {SITE}}), (RangeRules(), {})):
        with database.session() as session:
            follow_setting(session, rules, margin=0)
            session.commit()
        assert settle(database) == 1
        assert members(database) == found


def test_an_import_does_not_change_a_collection_created_by_staff(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE, collections=[FLOODS])
    archive.add(OTHER)
    found = entry("1", OTHER, collections=("Floods",))
    warning = "collection 'Floods': the staff have a collection collection:floods of documents"
    assert warning in titles.plan(found).warnings[0]
    titles.bring(found)
    settle(database)
    assert members(database) == {FLOODS: {SITE}}
    with database.session() as session:
        assert not find_collection(session, FLOODS).from_titles


@pytest.mark.parametrize("change", ["assign", "remove", "move", "drop"])
def test_staff_cannot_change_collections_that_imports_manage(
    titles: Titles, database: Database, change: str
) -> None:
    titles.bring(entry("1", SITE, collections=("Floods",)))
    given: dict[str, tuple[object, ...]] = {"move": ("collection:new",), "drop": ()}
    arguments = given.get(change, (Selection(url=SITE),))
    options = {"force": True} if change == "drop" else {}
    with database.session() as session, pytest.raises(UsageError, match="belongs to imports of titles"):
        getattr(collections, change)(session, FLOODS, *arguments, **options, margin=1)


def test_a_collection_can_restrict_documents_and_cannot_open_them(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    archive.add(OTHER)
    titles.bring(
        entry("1", SITE, access="reading room", collections=("Floods",)),
        CollectionEntry(collection="Votes", seeds=(OTHER,)),
    )
    settle(database)
    with database.session() as session:
        set_rule(session, VOTES, Rule(access=Access.WITHHELD), margin=1)
        rows = session.execute(select(Document.url, Document.access))
        assert {row.url: row.access for row in rows} == {SITE: "reading room", OTHER: "withheld"}
    titles.bring(entry("1", SITE))  # the rule is kept in case the collection is imported again
    settle(database)
    assert members(database) == {VOTES: set()}


async def test_a_set_is_harvestable_once_a_document_in_it_is_listed(
    titles: Titles, archive: Archive, database: Database, provider: Provider
) -> None:
    identifier = archive.add(SITE)
    archive.add(OTHER, datestamp=UNLISTED, access=Access.WITHHELD)
    titles.bring(
        entry("1", SITE, collections=("Floods",)),
        entry("2", OTHER, access="withheld", collections=("Votes",)),
    )
    settle(database)
    make_documents_due(database)
    names = [name for page in await provider.pages(verb="ListSets") for name in page.texts("//o:setName")]
    assert "Floods" in names
    assert "Votes" not in names
    assert await provider.listed(set=FLOODS) == [identifier]
    assert FLOODS in (await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", set=FLOODS)).set_specs
    unknown = await provider.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set=VOTES)
    nonsense = await provider.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set="collection:no")
    assert unknown.codes == nonsense.codes == ["noRecordsMatch"]


def test_removing_many_urls_of_collections_needs_approval(titles: Titles) -> None:
    urls = tuple(f"http://{number}.cz/" for number in range(50))
    found = entry("1", SITE)
    titles.bring(found, CollectionEntry(collection="Floods", seeds=urls))
    plan = titles.plan(found, CollectionEntry(collection="Floods", seeds=urls[:29]))
    with pytest.raises(UsageError, match="remove 21 of 50 URLs of collections"):
        plan.check(10)
    titles.plan(found, CollectionEntry(collection="Floods", seeds=urls[:30])).check(10)


def test_invalid_urls_of_collections_are_reported_as_warnings(titles: Titles) -> None:
    plan = titles.plan(entry("1", SITE), CollectionEntry(collection="Floods", seeds=("nonsense", *"abc" * 9)))
    assert "collection 'Floods': 'nonsense' is not an http, https or ftp URL with a host" in plan.warnings[0]
    assert plan.warnings[-1] == "collection 'Floods': 8 more such URLs"


def test_each_key_is_in_the_collections_of_all_members_that_contain_it() -> None:
    """Compare with the definition, key by key."""
    chance = random.Random(1)
    for _ in range(300):
        members = []
        for _ in range(chance.randint(1, 8)):
            step = chance.choice((1, 2, 4, 8))
            low = chance.randrange(0, 8, step)
            found = KeyRange(chr(97 + low), chr(97 + low + step))
            owner = (chance.randint(1, 3), True)
            members.append(Member(found, owner, (owner[0] % 2 + 1,) if chance.random() < 0.7 else ()))
        unique = list({(one.range, one.owner): one for one in members}.values())
        pieces = divide_members(unique)
        for key in "abcdefgh":
            narrowest: dict[tuple[int, bool], Member] = {}
            for one in sorted(unique, key=lambda one: ord(one.range.high) - ord(one.range.low), reverse=True):
                if one.range.low <= key < one.range.high:
                    narrowest[one.owner] = one
            wanted = sorted({number for one in narrowest.values() for number in one.collections})
            got = [list(ids) for found, ids in pieces if found.low <= key < found.high]
            assert got == ([wanted] if wanted else [])


def test_thousands_of_collections_may_name_one_url() -> None:
    found = KeyRange("a", "b")
    members = [Member(found, (number, False), (number,)) for number in range(20_000)]
    # With a copy for each member, this would take minutes and gigabytes.
    assert divide_members(members) == [(found, tuple(range(20_000)))]


URLS = ("http://a.cz/", "http://b.a.cz/", "http://a.cz/a", "http://a.cz/a!", "http://a.cz/a/b.html")


def change(found: dict[str, Read], chance: random.Random) -> None:
    """Change a title, remove it, or change a collection or a list."""
    what = chance.choice("111222333flx")
    if what == "f":
        found[what] = CollectionEntry(collection="Floods", seeds=tuple(chance.sample(URLS, 1)))
    elif what == "l":
        addresses = " ".join(chance.sample(("b.a.cz", "a.cz/a", "a.cz/c"), 2))
        found[what] = AddressList(key="7", title="Closed", kind="visibility", text=addresses)
    elif what == "x":
        found.pop(chance.choice("123"), None)
    else:
        found[what] = entry(
            what,
            *(chance.choice(("", "", "-")) + url for url in chance.sample(URLS, 2)),
            access=chance.choice(("open", "withheld")),
            public=chance.random() < 0.7,
            collections=tuple(chance.sample(("Floods", "Votes"), chance.randrange(3))),
        )


def segments(session: Session) -> list[tuple[Any, ...]]:
    """All rows of both kinds of segments."""
    return [
        tuple(getattr(row, column.name) for column in table.__table__.columns)
        for table in (TitleSegment, CollectionSegment)
        for row in session.scalars(select(table).order_by(table.low))
    ]


def test_incremental_segments_equal_segments_computed_from_scratch(
    titles: Titles, database: Database
) -> None:
    chance = random.Random(1)
    found: dict[str, Read] = {"9": entry("9", "http://c.cz/")}
    different = set()
    for step in range(15):
        change(found, chance)
        titles.rules = RangeRules(
            document_sets=step not in {4, 5}, host="domain" if step % 4 == 3 else "host"
        )
        titles.bring(*found.values(), meanings={"7": "reading room"})
        with database.session() as session:
            stored = segments(session)
            session.execute(delete(TitleDivision))
            assign_ranges(session, titles.rules, ())
            session.expire_all()
            assert segments(session) == stored
        different.add(repr(stored))
    assert len(different) > 10


def test_a_collection_with_children_is_kept_when_imports_no_longer_use_it(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, collections=("Floods",)))
    settle(database)
    with database.session() as session:
        add_collection(session, f"{FLOODS}:own")
        session.commit()
    titles.bring(entry("1", SITE))
    settle(database)
    assert members(database) == {FLOODS: set(), f"{FLOODS}:own": set()}
