"""Lists of addresses: the meaning of lines, the captures they restrict, and incomplete reads."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from oai.errors import UsageError
from oai.sections.provider import ListMeaning
from provider.holdings.urlkeys import WwwRule, url_key
from provider.indexing.indexer import IndexOptions, index_file
from provider.titles.address_lists import checked_address, closed_addresses, read_addresses
from provider.titles.entries import AddressList
from provider.titles.models import AccessList
from provider.titles.ranges import ranges_of_address
from tests.provider.archive import Archive
from tests.provider.archives import Page, write_pages
from tests.provider.titles.conftest import Titles, entry, settle
from tests.provider.titles.test_access import rules

SITE = "http://www.example.cz/"
WITHHELD: Mapping[str, ListMeaning] = {"7": "withheld"}


def listing(*lines: str, key: str = "7", title: str = "Closed") -> AddressList:
    return AddressList(key=key, title=title, kind="for visibility", text="\r\n".join(lines))


@pytest.mark.parametrize(
    ("given", "inside", "outside"),
    [
        ("x.cz", "https://www.x.cz/a?b=1", "http://xx.cz/"),
        ("x.cz", "http://blog.x.cz/a", "http://x.czech/"),
        ("https://www.x.cz/", "http://x.cz/a", "http://x.sk/"),
        ("blog.x.cz", "http://blog.x.cz/a", "http://x.cz/"),
        ("www.cz", "http://www.cz/a", "http://x.cz/"),
        ("čajovna.cz", "http://xn--ajovna-h2a.cz/a", "http://cajovna.cz/"),
        ("147.228.94.30", "http://147.228.94.30/a", "http://147.228.94.3/"),
        ("[2001:db8::1]", "http://[2001:db8::1]/a", "http://[2001:db8::11]/"),
        ("x.cz:8080", "http://x.cz:8080/a", "http://x.cz/a"),
        ("x.cz/a/", "http://www.x.cz/a", "http://x.cz/a/b"),
        ("x.cz/a.html", "http://x.cz/a.html", "http://x.cz/a.html?b"),
        ("x.cz?b=2&a=1", "http://x.cz/?a=1&b=2", "http://x.cz/"),
        (r"x.cz/Red\ Sea.jpg", "http://x.cz/Red%20Sea.jpg", "http://x.cz/Red"),
    ],
)
def test_an_address_covers_a_domain_or_the_urls_below_a_url(given: str, inside: str, outside: str) -> None:
    ranges = ranges_of_address(f"http://{checked_address(given)}", WwwRule.NUMBERED)
    assert any(low <= url_key(inside, WwwRule.NUMBERED) < high for low, high in ranges)
    assert not any(low <= url_key(outside, WwwRule.NUMBERED) < high for low, high in ranges)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("word", "no host with at least two labels"),
        ("cz", "no host with at least two labels"),
        ("a_b.c$.cz/x", "no host with at least two labels"),
        ("*.x.cz", r"it has \*; write %2A"),
        (r"x\.cz", r"it has \\; write %5C"),
        ("x.cz/#part", "it has #; write %23"),
        ("me@x.cz", "does not begin with a host"),
        ("mailto:x.cz", "does not begin with a host"),
        ("screenshot:http://x.cz/", "does not begin with a host"),
        ("/path", "no host with at least two labels"),
        ("192.168.1", "Expected 4 octets"),
        ("[x.cz]/a", "At least 3 parts"),
        (f"x.cz/{'a' * 1300}", "longer than 1,300 characters"),
    ],
)
def test_an_invalid_address_is_refused_with_the_reason(given: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_address(given)


def test_lines_may_have_several_addresses_and_faults_are_reported_by_line() -> None:
    found, refused = read_addresses(
        listing(" a.cz\tb.cz", "", "http://a.cz", "no", "# since 2019 x.cz", "c.cz")
    )
    assert found == ("a.cz", "b.cz", "c.cz")
    assert [one.place for one in refused] == ["list 7 'Closed', line 4", "list 7 'Closed', line 5"]
    assert (
        refused[1].reason
        == "'# since 2019 x.cz' is not an address: it has #; write %23 if that is part of the URL"
    )


def test_lists_restrict_captures_with_and_without_title_and_later_ones(
    titles: Titles, archive: Archive, database: Database, tmp_path: Path
) -> None:
    for url in (SITE, f"{SITE}a", "http://other.cz/a", "http://blog.room.cz/"):
        archive.add(url)
    lists = (listing("example.cz/a", "other.cz"), listing("room.cz", "other.cz", key="8", title="Room"))
    meanings: Mapping[str, ListMeaning] = {"Closed": "withheld", "8": "reading room"}
    titles.bring(entry("1", SITE, access="open"), *lists, meanings=meanings)
    assert titles["1"].captures == 2
    settle(database)
    write_pages(tmp_path / "a.warc.gz", [Page(url="http://www.other.cz/new"), Page(url="http://x.cz/")])
    index_file(database, tmp_path / "a.warc.gz", IndexOptions(margin=1))
    assert rules(database) == {
        SITE: "open",
        f"{SITE}a": "withheld",
        "http://other.cz/a": "withheld",
        "http://blog.room.cz/": "reading room",
        "http://www.other.cz/new": "withheld",
        "http://x.cz/": "open",
    }
    titles.count()
    assert titles["1"].captures == 1
    assert titles.plan(entry("1", SITE, access="open"), *lists, meanings=meanings).changes_nothing


def test_a_removed_list_leaves_the_access_rule_of_the_title(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    archive.add(f"{SITE}shop/")
    title = entry("1", SITE, f"-{SITE}shop/", access="reading room")
    titles.bring(title, listing("example.cz"), meanings=WITHHELD)
    settle(database)
    assert set(rules(database).values()) == {"withheld"}
    for meaning in ("open", "ignore"):
        meanings: Mapping[str, ListMeaning] = {"7": meaning}
        titles.bring(title, listing("example.cz", "free.cz"), meanings=meanings)
        settle(database)
        assert set(rules(database).values()) == {"reading room"}
    with database.session() as session:
        assert closed_addresses(session, ["example.cz", "free.cz", "example.cz/x"]) == [
            "example.cz",
            "example.cz/x",
        ]


@pytest.mark.parametrize(
    ("now", "meanings", "words"),
    [
        ([], WITHHELD, "is no longer in the source"),
        ([listing()], WITHHELD, "is empty"),
        ([listing("a.cz", "b.c", "c")], WITHHELD, "has lines that are not addresses, and may be"),
        ([listing("a.cz")], {}, "has no meaning in provider.seeder_lists any more"),
        ([listing("a.cz", title="Renamed")], {"Closed": "withheld"}, "'Renamed' has no meaning in"),
    ],
)
def test_a_list_that_is_not_read_completely_keeps_its_restrictions(
    titles: Titles,
    database: Database,
    now: list[AddressList],
    meanings: Mapping[str, ListMeaning],
    words: str,
) -> None:
    titles.bring(listing("a.cz", "b.cz"), meanings=WITHHELD)
    for _ in range(2):
        plan = titles.plan(*now, meanings=meanings)
        assert words in "; ".join(plan.warnings)
        assert plan.lists[0].removed == 0
        titles.bring(*now, meanings=meanings)
    with database.session() as session:
        (row,) = session.scalars(select(AccessList)).all()
    assert row.access == "withheld"
    assert set(row.addresses) >= {"a.cz", "b.cz"}


def test_removing_many_addresses_or_changing_a_meaning_needs_approval(titles: Titles) -> None:
    many = [f"n{number}.cz" for number in range(30)]
    titles.bring(listing(*many), meanings=WITHHELD)
    titles.plan(listing(*many[:12]), meanings=WITHHELD).check(20)
    titles.plan(listing(*many, "more.cz"), meanings=WITHHELD).check(0)
    with pytest.raises(UsageError, match=r"0 titles, and change or remove 25 of 30 addresses.*--approve"):
        titles.plan(listing(*many[:5]), meanings=WITHHELD).check(20)
    for meaning in ("open", "ignore", "reading room"):
        assert titles.plan(listing(*many), meanings={"7": meaning}).exceeds(20)
    assert titles.plan(meanings={"7": "ignore"}).lists[0].removed == 30


def test_captures_of_an_address_removed_from_a_list_are_opened(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(listing("example.cz", "b.cz"), meanings=WITHHELD)
    settle(database)
    titles.bring(listing("b.cz"), meanings=WITHHELD)
    settle(database)
    assert rules(database)[SITE] == "open"


def test_lists_without_a_meaning_and_meanings_without_a_list_are_reported(titles: Titles) -> None:
    found = (listing("a.cz", "no"), listing("b.cz", key="8", title="21"))
    plan = titles.plan(*found, meanings={"21": "withheld", "Other": "open"})
    no_meaning = "has no meaning in provider.seeder_lists and is ignored"
    assert plan.warnings == [
        "provider.seeder_lists gives '21' a meaning, but no list has this id or title",
        "provider.seeder_lists gives 'Other' a meaning, but no list has this id or title",
        f"list 7 'Closed' (for visibility, 2 addresses) {no_meaning}",
        f"list 8 '21' (for visibility, 1 address) {no_meaning}",
    ]
    assert plan.changes_nothing
    assert plan.not_taken == []


def test_a_list_with_two_meanings_stops_the_import(titles: Titles) -> None:
    with pytest.raises(UsageError, match=r"the list 7 'Closed' several meanings: open, withheld; keep one"):
        titles.plan(listing("a.cz"), meanings={"7": "withheld", "Closed": "open"})


def test_faulty_lines_of_lists_do_not_prevent_the_removal_of_titles(titles: Titles) -> None:
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/"))
    plan = titles.plan(entry("2", "http://b.cz/"), listing("no"), meanings=WITHHELD)
    assert [name for _, _, name in plan.gone] == ["Title 1"]
    assert len(plan.not_taken) == 1
