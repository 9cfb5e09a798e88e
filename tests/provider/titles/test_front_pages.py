"""The search in titles finds words of openly accessible front pages only."""

import gzip
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from oai.database import Database
from oai.settings import Settings
from provider.holdings.takedowns import TakedownRequest, enter, settle_takedown
from provider.indexing.indexer import IndexOptions, index_file
from provider.titles import front_pages
from provider.titles.front_pages import read_front_pages
from provider.titles.search import TitleQuery, find_titles
from tests.commands import results
from tests.provider.archives import Page, write_pages
from tests.provider.titles.conftest import Titles, entry

Search = Callable[..., list[str]]
HOME = "http://a.example/"


def page(body: str, url: str = HOME, year: int = 2010, **values: object) -> Page:
    made = Page(url=url, date=f"{year}-01-01T00:00:00Z", body=f"<title>T</title><p>{body}".encode())
    return replace(made, **values)  # type: ignore[arg-type]


@pytest.fixture
def search(
    database: Database, settings: Settings, tmp_path: Path, titles: Titles
) -> Callable[..., list[str]]:
    """Index pages, count, read front pages; then return the names of the titles that a search finds."""

    def work(words: str, *pages: Page, reading: bool = True) -> list[str]:
        if pages:
            path = write_pages(tmp_path / f"{len(list(tmp_path.iterdir()))}.warc.gz", pages)
            index_file(database, path, IndexOptions(margin=1))
            titles.bring(
                entry("1", HOME, "http://other.example/", name="First"),
                entry("2", "http://b.example/", name="Second"),
            )
        if reading:
            titles.count()
        while reading and read_front_pages(database, settings.provider):
            pass
        with database.session() as session:
            found = find_titles(session, TitleQuery(words=words, front_pages=True)).titles
        return [one.name for one in found]

    return work


def test_a_title_is_found_by_its_front_page(search: Search) -> None:
    pages = [page("Kůň úpěl"), page("other words", "http://b.example/"), page("deep", f"{HOME}deep")]
    assert search("kun upel", *pages) == ["First"]
    assert search("words") == ["Second"]
    assert search("deep") == []
    assert search("kun words") == []


def test_each_word_may_be_in_the_title_or_on_its_front_page(search: Search) -> None:
    assert search("first horse", page("horses"), page("horses", "http://b.example/")) == ["First"]
    assert search("horse") == ["First", "Second"]


def test_the_newest_successful_capture_of_a_front_page_is_searched(search: Search) -> None:
    assert search("old", page("old")) == ["First"]
    assert search("old", page("new", year=2012), page("gone", year=2013, status=404)) == []
    assert search("new") == ["First"]


def test_compressed_pages_and_revisits_are_read(search: Search) -> None:
    packed = gzip.compress(b"<p>packed")
    original = replace(page(""), body=packed, http_headers="Content-Encoding: gzip\r\n")
    revisit = replace(original, date="2011-01-01T00:00:00Z", record_type="revisit")
    assert search("packed", original, revisit) == ["First"]


@pytest.mark.parametrize("reading", [True, False])
def test_the_text_of_a_withheld_capture_is_not_found(
    database: Database, search: Search, *, reading: bool
) -> None:
    """This holds immediately, also before the front page is selected again."""
    assert search("secret", page("secret")) == ["First"]
    with database.session() as session:
        number = enter(session, TakedownRequest(targets=(HOME,), reason="r", requester="r"))
        settle_takedown(session, number, margin=1)
    assert search("secret", reading=reading) == []
    with database.session() as session:
        stored = session.scalar(text("SELECT count(*) FROM title_front_page WHERE words @@ 'secret'"))
    assert stored == (0 if reading else 1)


def test_text_that_was_replaced_in_its_archive_file_is_not_found(
    database: Database, search: Search, tmp_path: Path
) -> None:
    assert search("former", page("former")) == ["First"]
    (path,) = tmp_path.glob("*.warc.gz")
    index_file(database, write_pages(path, [page("present")]), IndexOptions(margin=1))
    assert search("former", reading=False) == []
    assert search("present") == ["First"]


def test_an_older_capture_replaces_a_restricted_one(database: Database, search: Search) -> None:
    assert search("secret", page("harmless"), page("secret", year=2012)) == ["First"]
    with database.engine.begin() as connection:
        connection.execute(
            text(
                "UPDATE document SET access = 'reading room', datestamp = datestamp + interval '1 hour'"
                " WHERE archived >= '2012-01-01'"
            )
        )
        connection.execute(text("UPDATE title_extent SET counted = '2000-01-01'"))
    assert search("secret") == []
    assert search("harmless") == ["First"]


def test_a_revisit_of_a_withheld_capture_is_not_found(database: Database, search: Search) -> None:
    original = page("secret")
    revisit = replace(original, date="2012-01-01T00:00:00Z", record_type="revisit")
    assert search("secret", original, revisit) == ["First"]
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE document SET access = 'withheld' WHERE archived < '2012-01-01'"))
    assert search("secret", reading=False) == []
    with database.engine.begin() as connection:
        connection.execute(text("UPDATE title_front_page SET changes = changes + 1"))
    assert search("secret") == []


def test_a_page_that_cannot_be_read_is_reported(
    search: Search, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    search("x", page("words"), reading=False)
    for file in tmp_path.glob("*.warc.gz"):
        file.unlink()
    with caplog.at_level(logging.WARNING):
        assert search("words") == []
    assert f"of {HOME} was not read" in caplog.text


def test_the_stored_text_is_kept_while_the_archive_is_not_readable(search: Search, tmp_path: Path) -> None:
    assert search("words", page("words")) == ["First"]
    search("new", page("new", year=2012), reading=False)
    for file in tmp_path.glob("*.warc.gz"):
        file.unlink()
    assert search("words") == ["First"]
    assert search("new") == []


def test_only_one_process_reads_front_pages_at_a_time(
    database: Database, settings: Settings, search: Search
) -> None:
    search("words", page("words"), reading=False)
    with database.engine.connect() as other:
        other.execute(text("SELECT pg_advisory_lock(:key)"), {"key": front_pages._LOCK})  # noqa: SLF001 the other's
        assert read_front_pages(database, settings.provider) == 0


def test_a_search_uses_front_pages_only_by_option(
    database: Database, search: Search, environment: dict[str, str]
) -> None:
    search("words", page("words"), reading=False)
    assert results(environment, "provider", "titles", "update")[0]["front_pages"] == 0
    chosen = {**environment, "ZATVA_PROVIDER__TITLE_FRONT_PAGES": "yes"}
    assert results(chosen, "provider", "titles", "update")[0]["front_pages"] == 1
    assert search("words", reading=False) == ["First"]
    with database.session() as session:
        assert not find_titles(session, TitleQuery(words="words")).titles
