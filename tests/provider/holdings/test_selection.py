"""Documents are selected by URL and by the beginning of a URL, whatever their URLs look like."""

from collections.abc import Collection
from pathlib import Path

import pytest
from sqlalchemy import select, update
from sqlalchemy.orm import Session

from oai.database import Database
from oai.errors import UsageError
from provider.holdings.selection import Selection, conditions
from provider.holdings.urlkeys import KEY_CHARACTERS, WwwRule, url_key
from provider.indexing.archive_search import find_archives
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document
from tests.bench.rows import fill
from tests.plans import work_of
from tests.provider.archive import let_keys_be_missing
from tests.provider.archives import Page, warc_record, write_pages
from tests.provider.waczs import wacz

URLS = [
    "http://www.example.cz/",
    "http://www.example.cz/news/a",
    "http://www.example.cz/news/../sport/",
    "http://www.example.cz/news/?b=1&a=2",
    "http://www.example.cz?q",
    "http://www.example.cz:8080/x",
    "http://www.example.cz./x",
    "http://www.example.czech/",
    "HTTP://WWW.Example.CZ/",
    "https://www.example.cz/news",
    "http://user@www.example.cz/",
    "http://čapek.cz/",
    "http://capekč.cz/x",
    "http://www.čapek.cz/",
    "http://192.0.2.1/",
    "http://[2001:db8::1]/x",
    "http://%5B/x",
]


@pytest.fixture
def archive(database: Database, tmp_path: Path) -> Database:
    path = write_pages(tmp_path / "x.warc", [Page(url=url) for url in URLS])
    report = index_file(database, path, IndexOptions(margin=1)).merged
    assert (report.new, report.problems) == (len(URLS), ())
    return database


def selected(session: Session, selection: Selection) -> list[str]:
    chosen = select(Document.url).where(*conditions(session, selection)).order_by(Document.id)
    return list(session.scalars(chosen))


def beginnings(urls: Collection[str]) -> set[str]:
    return {url[:length] for url in urls for length in range(1, len(url) + 1)}


def test_a_prefix_selects_the_urls_that_begin_with_it(archive: Database) -> None:
    with archive.session() as session:
        for prefix in beginnings(URLS):
            expected = {url for url in URLS if url.startswith(prefix)}
            if prefix.startswith("http://u") and "@" not in prefix:
                expected.clear()  # a user's name is not the beginning of a host
            assert set(selected(session, Selection(url_prefix=prefix))) == expected, prefix


def test_a_url_selects_all_captures_with_its_key(archive: Database) -> None:
    with archive.session() as session:
        for url in URLS:
            key = url_key(url, WwwRule.NUMBERED)
            expected = [one for one in URLS if url_key(one, WwwRule.NUMBERED) == key]
            assert selected(session, Selection(url=url)) == expected
        assert selected(session, Selection(url="http://www.example.cz/absent")) == []


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("example.cz:8080/x", ["http://www.example.cz:8080/x"]),
        ("https://EXAMPLE.cz/News/A#top", ["http://www.example.cz/news/a"]),
        ("example.cz/news/?a=2&b=1", ["http://www.example.cz/news/?b=1&a=2"]),
        ("http://%C4%8Dapek.cz", ["http://čapek.cz/", "http://www.čapek.cz/"]),
        ("", []),
    ],
)
def test_a_url_is_found_by_equivalent_spellings(archive: Database, given: str, found: list[str]) -> None:
    with archive.session() as session:
        assert selected(session, Selection(url=given)) == found


def test_long_urls_that_differ_after_the_indexed_part_of_the_key_are_distinguished(
    database: Database, tmp_path: Path
) -> None:
    long = "http://long.example/" + "p" * KEY_CHARACTERS
    urls = [long + end for end in ("", "a", "A", "b")]
    index_file(
        database, write_pages(tmp_path / "x.warc", [Page(url=url) for url in urls]), IndexOptions(margin=1)
    )
    with database.session() as session:
        assert [selected(session, Selection(url=url)) for url in urls] == [
            [long], [long + "a", long + "A"], [long + "a", long + "A"], [long + "b"]
        ]  # fmt: skip


@pytest.mark.copied_database("changes the table")
def test_without_url_keys_a_url_selects_its_common_spellings(archive: Database) -> None:
    with archive.session() as session:
        let_keys_be_missing(archive)
        session.execute(update(Document).values(url_key=None))
        for url in URLS:
            assert url in selected(session, Selection(url=url))
        assert selected(session, Selection(url="https://example.cz/news/a")) == [
            "http://www.example.cz/news/a"
        ]
        assert selected(session, Selection(url="http://www.example.cz/News/A")) == []


@pytest.mark.copied_database("rows that plans go through are counted")
@pytest.mark.parametrize(
    "wanted",
    [
        {"url": "http://www1.site1.cz/"},
        {"url_prefix": "http://www1.site1.cz/"},
        {"url_prefix": "http://www1.site1.c"},
    ],
)
def test_a_selection_does_not_read_all_documents(database: Database, wanted: dict[str, str]) -> None:
    fill(database, 20_000, lambda _: None, statistics=False)
    with database.session() as session, work_of(database, "document") as work:
        selected(session, Selection(**wanted))  # type: ignore[arg-type]
    assert 0 < sum(work) < 4_000


def test_an_ambiguous_archive_file_name_is_refused_with_the_paths(database: Database, tmp_path: Path) -> None:
    urls = [f"http://{number}.example/" for number in range(5)]
    paths = [
        wacz(tmp_path / str(number) / "site.wacz", {"data.warc": warc_record(Page(url=url))})
        for number, url in enumerate(urls)
    ]
    files = find_archives([tmp_path])
    for file in files:
        index_file(database, file, IndexOptions(margin=1))
    with database.session() as session:
        for name, ending in (("data.warc.gz", "#archive/data.warc"), ("site.wacz", "")):
            with pytest.raises(UsageError) as caught:
                selected(session, Selection(arc=name))
            shown = ", ".join(f"{path}{ending}" for path in paths[:3])
            assert str(caught.value) == (
                f"5 archive files are named {name!r}; give the path of one: {shown}, …"
            )
        for path, url in zip(paths, urls, strict=True):
            assert selected(session, Selection(arc=str(path))) == [url]
            assert selected(session, Selection(arc=f"{path}#archive/data.warc")) == [url]


def test_a_copy_without_documents_does_not_make_a_name_ambiguous(database: Database, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        path = write_pages(tmp_path / folder / "x.warc.gz", [Page(url="http://a.example/")])
        index_file(database, path, IndexOptions(margin=1))
    with database.session() as session:
        assert selected(session, Selection(arc="x.warc.gz")) == ["http://a.example/"]
