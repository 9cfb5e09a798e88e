"""The stored counts equal a new count."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from oai.database import Database
from provider.holdings.collections import add_collection, lineage
from provider.holdings.selection import Selection, hide
from provider.holdings.status import by_collection, by_domain, by_month, by_type
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import DocumentMonth
from tests.commands import zatva
from tests.provider.archives import Page, write_pages

OPTIONS = IndexOptions(margin=1)
PAGES = [
    Page(url="http://www.a.example/1", date="2007-10-31T23:59:59Z"),
    Page(url="http://www.a.example/2", date="2007-11-01T00:00:00Z"),
    Page(url="http://b.test/3", date="2007-11-30T00:00:00Z", mime_type="text/css"),
    Page(url="http://b.test/4", date="2007-11-30T00:00:00Z", mime_type="image/png"),
]


@pytest.fixture
def indexed(database: Database, tmp_path: Path) -> Database:
    with database.session() as session:
        add_collection(session, "collection:x")
        session.commit()
        family = lineage(session, "collection:x")
    path = write_pages(tmp_path / "x.warc.gz", PAGES)
    index_file(database, path, IndexOptions(margin=1, collections=family))
    index_file(database, path, IndexOptions(margin=1, again=True))
    return database


def test_months_are_counted_by_major_type(indexed: Database) -> None:
    with indexed.session() as session:
        assert [tuple(row.values()) for row in by_month(session)] == [
            ("2007-10", "text", 1),
            ("2007-11", "image", 1),
            ("2007-11", "text", 2),
        ]


def test_indexing_further_files_adds_to_the_counts(indexed: Database, tmp_path: Path) -> None:
    more = [Page(url=f"http://c.test/{n}", date="2007-11-05T00:00:00Z") for n in range(5)]
    index_file(indexed, write_pages(tmp_path / "y.warc.gz", [*PAGES, *more]), OPTIONS)
    with indexed.session() as session:
        kept = {
            (row.month, row.mime_major_id): row.documents for row in session.scalars(select(DocumentMonth))
        }
        counted = session.execute(
            text(
                "SELECT date_trunc('month', archived, 'UTC')::date, mime_major_id, count(*)"
                " FROM document GROUP BY 1, 2"
            )
        )
        assert kept == {(month, major): number for month, major, number in counted}


def test_the_year_of_a_month_has_four_digits(database: Database, tmp_path: Path) -> None:
    page = Page(url="http://old.example/", date="0001-01-01T00:00:00Z")
    index_file(database, write_pages(tmp_path / "x.warc.gz", [page]), OPTIONS)
    with database.session() as session:
        assert [row["month"] for row in by_month(session)] == ["0001-01"]


def test_the_count_of_a_set_includes_the_sets_below_it(indexed: Database) -> None:
    with indexed.session() as session:
        types = {row["set_spec"]: row["documents"] for row in by_type(session)}
        domains = {row["set_spec"]: row["documents"] for row in by_domain(session)}
        collections = {row["set_spec"]: row["documents"] for row in by_collection(session)}
    assert (types["mimetype:text"], types["mimetype:text:html"]) == (3, 2)
    assert domains == {
        "domain:example": 2,
        "domain:example:a": 2,
        "domain:test": 2,
        "domain:test:b": 2,
    }
    assert collections == {"collection": 4, "collection:x": 4}


def test_hiding_documents_does_not_change_the_counts(indexed: Database) -> None:
    with indexed.session() as session:
        before = by_month(session), by_type(session), by_domain(session)
        session.rollback()
        assert hide(session, Selection(url_prefix="http"), margin=1) == 4
        assert (by_month(session), by_type(session), by_domain(session)) == before


@pytest.mark.usefixtures("indexed")
def test_the_command_prints_each_table(environment: dict[str, str]) -> None:
    def run(by: str, *options: str) -> list[str]:
        return zatva(environment, "provider", "statistics", "--by", by, *options).stdout.splitlines()

    for by, number in (("month", 3), ("type", 5), ("domain", 4), ("collection", 2)):
        rows: list[dict[str, Any]] = [json.loads(line) for line in run(by, "--json")]
        assert len(rows) == number, by
        assert all(row["documents"] for row in rows), by
    assert len(run("month")) == 3 + 1


def test_without_collections_the_command_that_creates_one_is_shown(environment: dict[str, str]) -> None:
    done = zatva(environment, "provider", "statistics", "--by", "collection")

    assert "no collections yet" in done.stdout + done.stderr
    assert "no documents indexed" not in done.stdout + done.stderr
