"""Sets `title:…` of documents in `/oai`, by the titles to which they belong."""

from datetime import datetime
from html import escape
from pathlib import Path

import pytest
from sqlalchemy import select

from oai.database import Database
from provider.holdings.access import refresh, set_rule
from provider.holdings.rules import Rule
from provider.holdings.selection import Selection, hide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import UNLISTED, Access, Document
from provider.titles.access import note_pending, settle_access
from provider.titles.entries import TitleEntry
from provider.titles.imports import title_key
from provider.titles.models import TitleDocuments
from provider.titles.ranges import RangeRules
from provider.titles.segments import follow_setting
from tests.commands import results
from tests.provider.archive import Archive
from tests.provider.archives import Page, write_pages
from tests.provider.conftest import BASE_URL, Provider, reply
from tests.provider.titles.conftest import Titles, entry, make_documents_due, settle

SITE = "http://www.example.cz/"
ON = RangeRules(document_sets=True)
ONE, TWO = (f"title:{title_key('test', key).hex}" for key in "12")


@pytest.fixture
def titles(titles: Titles) -> Titles:
    titles.rules = ON
    return titles


def stored(database: Database) -> dict[str, tuple[str | None, datetime]]:
    """The set and the datestamp of each document, by URL."""
    query = select(Document.url, TitleDocuments.set_spec, Document.datestamp)
    with database.session() as session:
        rows = session.execute(query.outerjoin(TitleDocuments, TitleDocuments.id == Document.title_id))
        return {row.url: (row.set_spec, row.datestamp) for row in rows}


def sets(database: Database) -> dict[str, str | None]:
    return {url: set_spec for url, (set_spec, _) in stored(database).items()}


def counts(database: Database) -> dict[str, tuple[int, int, bool]]:
    """Documents of each set, those that are unlisted, and whether it is shown."""
    with database.session() as session:
        rows = session.scalars(select(TitleDocuments))
        return {row.set_spec: (row.documents, row.unlisted, row.listed) for row in rows}


def test_documents_are_in_the_sets_of_public_titles(
    titles: Titles, archive: Archive, database: Database
) -> None:
    for path in ("", "shop/a", "blog/a", "news/a"):
        archive.add(f"{SITE}{path}")
    archive.add("http://other.cz/")
    before = stored(database)
    news = entry("3", f"{SITE}news/", public=False)
    titles.bring(entry("1", SITE, f"-{SITE}shop/"), entry("2", f"{SITE}blog/"), news)
    assert settle(database) == 3
    assert sets(database) == {
        SITE: ONE,
        f"{SITE}shop/a": None,
        f"{SITE}blog/a": TWO,
        f"{SITE}news/a": None,
        "http://other.cz/": None,
    }
    after = stored(database)
    # The carved-out document has another access rule.
    redated = {url for url in after if after[url][1] != before[url][1]}
    assert redated == {SITE, f"{SITE}blog/a", f"{SITE}shop/a"}
    assert counts(database) == {ONE: (1, 0, True), TWO: (1, 0, True)}
    assert settle(database) == 0


@pytest.mark.parametrize(
    ("values", "set_spec", "counted"),
    [
        ({}, ONE, {ONE: (1, 0, True)}),
        ({"access": "reading room"}, ONE, {ONE: (1, 0, True)}),
        ({"access": "withheld"}, ONE, {ONE: (1, 1, False)}),
        ({"public": False}, None, {}),
    ],
)
def test_a_document_indexed_later_is_added_to_its_set_immediately(
    titles: Titles,
    database: Database,
    tmp_path: Path,
    values: dict[str, object],
    set_spec: str | None,
    counted: dict[str, tuple[int, int, bool]],
) -> None:
    titles.bring(entry("1", SITE, **values))
    settle(database)
    write_pages(tmp_path / "a.warc.gz", [Page(url=SITE), Page(url="http://other.cz/")])
    index_file(database, tmp_path / "a.warc.gz", IndexOptions(margin=1))
    assert sets(database) == {SITE: set_spec, "http://other.cz/": None}
    assert counts(database) == counted
    assert settle(database) == 0


@pytest.mark.parametrize("ended", [[entry("1", SITE, public=False)], []])
def test_documents_of_a_title_no_longer_public_leave_its_set_and_are_redated(
    titles: Titles, archive: Archive, database: Database, ended: list[TitleEntry]
) -> None:
    archive.add(SITE)
    archive.add("http://b.cz/")
    other = entry("2", "http://b.cz/")
    titles.bring(entry("1", SITE), other)
    settle(database)
    make_documents_due(database)
    before = stored(database)
    titles.bring(*ended, other)
    assert settle(database) == 1
    assert sets(database) == {SITE: None, "http://b.cz/": TWO}
    assert stored(database)[SITE][1] > before[SITE][1]
    assert stored(database)["http://b.cz/"] == before["http://b.cz/"]
    assert counts(database) == {ONE: (0, 0, False), TWO: (1, 0, True)}


def test_a_document_moves_between_titles(titles: Titles, archive: Archive, database: Database) -> None:
    archive.add(f"{SITE}blog/a")
    titles.bring(entry("1", SITE))
    settle(database)
    titles.bring(entry("1", SITE), entry("2", f"{SITE}blog/"))
    assert settle(database) == 1
    assert counts(database) == {ONE: (0, 0, False), TWO: (1, 0, True)}


def test_the_setting_turns_sets_of_titles_on_and_off(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.rules = RangeRules()
    titles.bring(entry("1", SITE))
    assert settle(database) == 0
    titles.rules = ON
    titles.bring(entry("1", SITE))
    assert settle(database) == 1
    assert sets(database) == {SITE: ONE}
    before = titles["1"].datestamp
    with database.session() as session:
        assert follow_setting(session, RangeRules(), margin=0) == 1
        assert follow_setting(session, RangeRules(), margin=0) == 0
        session.commit()
    assert settle(database) == 1
    assert sets(database) == {SITE: None}
    assert titles["1"].datestamp != before


def test_the_unlisted_count_follows_added_and_opened_documents(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE, collections=["collection:a"], datestamp=UNLISTED, access=Access.WITHHELD)
    with database.session() as session:
        set_rule(session, "collection:a", Rule(access=Access.WITHHELD), margin=1)
    titles.bring(entry("1", SITE))
    settle(database)
    assert sets(database) == {SITE: ONE}
    assert stored(database)[SITE][1] == UNLISTED
    assert counts(database) == {ONE: (1, 1, False)}
    with database.session() as session:
        set_rule(session, "collection:a", Rule(), margin=1)
    assert counts(database) == {ONE: (1, 0, True)}


class StoppedError(Exception):
    pass


def test_an_interrupted_assignment_of_sets_is_completed_by_the_next_refresh(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE))

    def stop() -> None:
        raise StoppedError

    with database.session() as session, pytest.raises(StoppedError):
        settle_access(session, margin=1, check=stop)
    assert sets(database) == {SITE: None}
    with database.session() as session:
        assert refresh(session, margin=1) == 1
    assert sets(database) == {SITE: ONE}


def test_a_range_changed_during_its_assignment_stays_pending(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE))
    rounds: list[int] = []

    def change_again() -> None:
        rounds.append(len(rounds))
        if len(rounds) == 1:
            with database.session() as session:
                note_pending(session, [("cz,example)", "cz,example*")])
                session.commit()

    with database.session() as session:
        settle_access(session, margin=1, check=change_again)
    assert rounds == [0, 1]


async def test_a_set_can_be_harvested_like_any_other(
    titles: Titles, archive: Archive, database: Database, provider: Provider
) -> None:
    found = [archive.add(f"{SITE}{number}") for number in range(7)]
    blog = archive.add(f"{SITE}blog/a")
    archive.add("http://other.cz/")
    titles.bring(entry("1", SITE), entry("2", f"{SITE}blog/", name="Blog & more"))
    settle(database)
    make_documents_due(database)
    pages = await provider.pages(verb="ListSets")
    listed = [set_spec for page in pages for set_spec in page.set_specs]
    assert listed[-3:] == ["title", *sorted([ONE, TWO])]
    assert "Blog & more" in [name for page in pages for name in page.texts("//o:setName")]
    assert await provider.listed(set=ONE) == found
    assert await provider.listed(set=TWO) == [blog]
    assert await provider.listed(set="title") == [*found, blog]
    first = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", set=ONE)
    assert first.token_facts["completeListSize"] == "7"
    assert set(first.set_specs) == {"domain:cz:example:www", "mimetype:text:html", ONE}


async def test_a_hidden_document_keeps_its_set(
    titles: Titles, archive: Archive, database: Database, provider: Provider
) -> None:
    found = archive.add(SITE)
    titles.bring(entry("1", SITE))
    settle(database)
    with database.session() as session:
        assert hide(session, Selection(url=SITE), margin=1) == 1
    make_documents_due(database)
    answer = await provider.ask(verb="ListRecords", metadataPrefix="oai_dc", set=ONE)
    assert answer.deleted == [found]
    assert ONE in answer.set_specs


async def test_a_set_without_listed_documents_does_not_exist(
    titles: Titles, archive: Archive, database: Database, provider: Provider
) -> None:
    archive.add("http://other.cz/", datestamp=UNLISTED, access=Access.WITHHELD)
    titles.bring(entry("1", "http://other.cz/", access="withheld"))
    settle(database)
    for set_spec in ("title", ONE):
        answer = await provider.ask(verb="ListIdentifiers", metadataPrefix="oai_dc", set=set_spec)
        assert answer.codes == ["noRecordsMatch"]
    assert (await provider.ask(verb="ListSets")).set_specs == ["collection", "domain", "mimetype"]


async def all_sets(provider: Provider) -> list[str]:
    answer = await provider.ask(verb="ListSets")
    found = answer.set_specs
    while answer.token:
        answer = await provider.ask(verb="ListSets", resumptionToken=answer.token)
        found += answer.set_specs
    return found


async def test_the_set_of_a_title_no_longer_public_is_hidden_immediately(
    titles: Titles, archive: Archive, database: Database, provider: Provider
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE))
    settle(database)
    make_documents_due(database)
    assert ONE in await all_sets(provider)
    titles.bring(entry("1", SITE, public=False))
    assert ONE not in await all_sets(provider)


async def test_records_and_page_of_a_title_link_to_the_records_of_its_documents(
    titles: Titles, archive: Archive, database: Database, provider: Provider
) -> None:
    found = archive.add(SITE)
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/", public=False))
    settle(database)
    make_documents_due(database)
    link = f"{BASE_URL}?verb=ListRecords&metadataPrefix=oai_dc&set={ONE}"
    for prefix in ("oai_dc", "mods", "marc21"):
        asked = {"verb": "ListRecords", "metadataPrefix": prefix}
        answer = await reply(await provider.client.get("/oai/titles", params=asked))
        assert [text for text in answer.root.itertext() if "set=" in str(text)] == [link]
    page = await (await provider.client.get(f"/titles/{titles['1'].key.hex}")).text()
    assert f'href="{escape(link)}"' in page
    assert (await provider.ask_raw(link.partition("?")[2])).identifiers == [found]


async def test_without_sets_records_and_pages_of_titles_have_no_links_to_them(
    titles: Titles, archive: Archive, provider: Provider
) -> None:
    archive.add(SITE)
    titles.rules = RangeRules()
    titles.bring(entry("1", SITE))
    record = await provider.client.get("/oai/titles?verb=ListRecords&metadataPrefix=oai_dc")
    page = await provider.client.get(f"/titles/{titles['1'].key.hex}")
    for answer in (await record.text(), await page.text()):
        assert "Title 1" in answer
        assert "set=title" not in answer


def test_the_commands_apply_the_setting(
    titles: Titles, archive: Archive, database: Database, environment: dict[str, str], tmp_path: Path
) -> None:
    archive.add(SITE)
    archive.add(f"{SITE}later")
    file = tmp_path / "titles.jsonl"
    file.write_text(f'{{"key": "1", "name": "One", "seeds": [{{"url": "{SITE}"}}]}}', encoding="utf-8")
    switched_on = {**environment, "ZATVA_PROVIDER__TITLE_DOCUMENT_SETS": "true"}
    asked = ("provider", "titles", "import", file, "--source", "test")
    (planned,) = results(switched_on, *asked, "--dry-run")
    assert planned["documents"] == 2
    results(environment, *asked)
    assert set(sets(database).values()) == {None}
    assert results(switched_on, "provider", "titles", "update") == [
        {"changed": 1, "documents": 2, "front_pages": 0}
    ]
    assert set(sets(database).values()) == {ONE}
    assert results(environment, "provider", "titles", "update") == [
        {"changed": 1, "documents": 2, "front_pages": 0}
    ]
    assert titles["1"].captures == 2
