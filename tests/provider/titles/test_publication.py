"""Figures of titles: which captures count, and when a title gets a new datestamp."""

import asyncio
from datetime import date, timedelta

from aiohttp.pytest_plugin import AiohttpClient

from oai.database import Database
from oai.datestamps import utc_now
from oai.settings import Settings
from provider.app import create_app
from provider.models import UNLISTED
from provider.titles.publication import redate_titles
from tests.provider.archive import BEGINNING, Archive
from tests.provider.conftest import BASE_URL, small_pages
from tests.provider.served import until
from tests.provider.titles.conftest import Titles, entry

SITE = "http://www.example.cz/"
LATER = utc_now() + timedelta(days=1)
"""After every count of the tests."""


def test_a_title_has_the_captures_below_its_seeds(titles: Titles, archive: Archive) -> None:
    archive.add(SITE)
    archive.add(f"{SITE}blog/a")
    archive.add(f"{SITE}shop/a")
    archive.add("http://other.cz/")
    titles.bring(entry("1", SITE, f"-{SITE}shop/"), entry("2", f"{SITE}blog/"))
    assert (titles["1"].captures, titles["2"].captures) == (1, 1)
    assert titles["1"].captures_by_year == {"2020": 1}
    assert titles["1"].first_capture == titles["1"].last_capture == BEGINNING.replace(day=2)


def test_withheld_and_hidden_captures_are_not_counted(titles: Titles, archive: Archive) -> None:
    archive.add(f"{SITE}open")
    archive.add(f"{SITE}room", access="reading room")
    archive.add(f"{SITE}withheld", access="withheld", datestamp=UNLISTED)
    archive.add(f"{SITE}hidden", deleted=True)
    titles.bring(entry("1", SITE))
    assert titles["1"].captures == 2


def test_a_title_with_only_withheld_captures_is_unlisted(titles: Titles, archive: Archive) -> None:
    archive.add(SITE, access="withheld", datestamp=UNLISTED)
    titles.bring(entry("1", SITE), entry("2", "http://nothing.cz/"))
    assert titles["1"].datestamp == titles["2"].datestamp == UNLISTED


def test_a_title_is_redated_only_if_a_published_value_changed(titles: Titles, archive: Archive) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE), entry("2", "http://b.cz/"))
    assert titles.count() == 0
    before, entered = titles["1"].datestamp, titles["1"].entered
    archive.add(f"{SITE}a", datestamp=LATER)
    archive.add(f"{SITE}b", datestamp=LATER)
    assert titles.count() == 1
    assert titles["1"].captures == 3
    assert titles["1"].datestamp > before
    assert titles["1"].entered == entered is not None
    assert titles.count() == 0


def test_contract_dates_and_capture_counts_do_not_redate_a_title(titles: Titles, archive: Archive) -> None:
    archive.add(SITE, archived=BEGINNING)
    archive.add(f"{SITE}a", archived=LATER)
    titles.bring(entry("1", SITE, contract_to=date(2026, 11, 30)))
    before = titles["1"].datestamp
    titles.bring(entry("1", SITE, contract_from=date(2020, 1, 1), contract_to=date(2027, 11, 30)))
    archive.add(f"{SITE}b", datestamp=LATER, archived=BEGINNING + timedelta(days=400))
    titles.count()
    assert (titles["1"].captures, titles["1"].datestamp) == (3, before)


def test_a_title_whose_captures_are_hidden_becomes_a_deleted_record(titles: Titles, archive: Archive) -> None:
    document = archive.add(SITE)
    titles.bring(entry("1", SITE))
    titles.count()
    archive.redate(document, LATER, deleted=True)
    assert titles.count() == 1
    assert titles["1"].deleted
    assert titles["1"].datestamp < UNLISTED


def test_a_title_that_is_not_public_is_not_listed(titles: Titles, archive: Archive) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE, public=False))
    assert titles["1"].datestamp == UNLISTED


def test_redating_gives_all_listed_titles_a_new_datestamp_once(
    titles: Titles, archive: Archive, database: Database
) -> None:
    archive.add(SITE)
    titles.bring(entry("1", SITE), entry("2", "http://nothing.cz/"))
    before = titles["1"].datestamp
    with database.session() as session:
        assert redate_titles(session, margin=0) == 1
        titles.make_due(session)
    assert titles["1"].datestamp > before
    assert titles["2"].datestamp == UNLISTED
    assert titles.count() == 0


async def test_a_running_provider_counts_captures_periodically(
    titles: Titles, archive: Archive, database: Database, settings: Settings, aiohttp_client: AiohttpClient
) -> None:
    titles.bring(entry("1", SITE))
    await aiohttp_client(create_app(small_pages(settings, titles_seconds=0.1), database, base_url=BASE_URL))
    archive.add(SITE, datestamp=LATER)
    await asyncio.to_thread(until, lambda: titles["1"].captures)
    assert not titles["1"].deleted
