"""Every change is dated later than all responses sent before it was visible."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from oai.database import Database
from provider.holdings.collections import add_collection, lineage
from provider.holdings.publication import PublishingError, publish
from provider.holdings.selection import Selection, hide
from provider.indexing.indexer import IndexOptions, index_file
from provider.models import Document, DocumentCollection
from tests.provider.archives import Page, write_pages

OPTIONS = IndexOptions(margin=1)


def clock(session: Session) -> datetime:
    moment: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return moment


def test_a_datestamp_is_a_whole_second_ahead_of_the_clock(database: Database) -> None:
    with database.session() as session:
        before = clock(session)
        session.rollback()
        datestamp = publish(session, lambda datestamp: datestamp, margin=3)
    assert datestamp.microsecond == 0
    assert timedelta(seconds=3) <= datestamp - before


def test_a_large_change_is_dated_further_ahead(database: Database) -> None:
    with database.session() as session:
        before = clock(session)
        session.rollback()
        datestamp = publish(session, lambda datestamp: datestamp, margin=1, rows=1_000_000)
    assert datestamp - before > timedelta(minutes=1)


def test_a_change_that_commits_too_late_is_repeated_with_a_later_datestamp(database: Database) -> None:
    given: list[datetime] = []

    def change(datestamp: datetime) -> datetime:
        given.append(datestamp)
        session.execute(text("CREATE TABLE left_by_the_first_try ()" if len(given) == 1 else "SELECT 1"))
        session.execute(text("SELECT pg_sleep(1.2)"))
        return datestamp

    with database.session() as session:
        published = publish(session, change, margin=0.1)
        assert published == given[-1] > given[0]
        assert session.scalar(text("SELECT to_regclass('left_by_the_first_try')")) is None


def test_a_change_that_never_commits_in_time_fails_with_the_setting_to_raise(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provider.holdings.publication.COMMIT_SECONDS", 1e9)
    with database.session() as session, pytest.raises(PublishingError, match="publish_margin"):
        publish(session, lambda datestamp: datestamp, margin=0.1)


def test_changes_are_dated_later_than_every_earlier_response(database: Database, tmp_path: Path) -> None:
    files = [
        write_pages(tmp_path / f"{file}.warc", [Page(url=f"http://a.example/{file}/{n}") for n in range(20)])
        for file in range(12)
    ]
    answers: list[tuple[datetime, set[tuple[int, bool]]]] = []
    done = threading.Event()

    def ask() -> None:
        with database.session() as session:
            while not done.is_set():
                response_date = clock(session).replace(microsecond=0)
                rows = session.execute(select(Document.id, Document.deleted)).all()
                answers.append((response_date, {(row.id, row.deleted) for row in rows}))
                session.rollback()

    def load(file: Path) -> None:
        index_file(database, file, OPTIONS)
        with database.session() as session:
            hide(session, Selection(url=f"http://a.example/{file.stem}/7"), margin=1)

    with ThreadPoolExecutor(4) as pool:
        asking = pool.submit(ask)
        for loading in [pool.submit(load, file) for file in files]:
            loading.result()
        done.set()
        asking.result()
    with database.session() as session:
        rows = session.execute(select(Document.id, Document.deleted, Document.datestamp)).all()
    assert len(rows) == 240
    assert len({len(visible) for _, visible in answers}) > 3
    for response_date, visible in answers:
        assert all(row.datestamp > response_date for row in rows if (row.id, row.deleted) not in visible)


def test_concurrent_indexing_of_the_same_captures_does_not_deadlock(
    database: Database, tmp_path: Path
) -> None:
    pages = [Page(url=f"http://h{n % 7}.a{n % 5}.example/{n}") for n in range(200)]
    files = [write_pages(tmp_path / f"{file}.warc", pages if file % 2 else pages[::-1]) for file in range(6)]
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda file: index_file(database, file, OPTIONS), files))
    assert sum(report.merged.new for report in reports) == 200
    assert sum(report.merged.duplicates for report in reports) == 1000
    assert not any(report.merged.problems for report in reports)


def test_a_membership_has_the_datestamp_of_its_document(database: Database, tmp_path: Path) -> None:
    path = write_pages(tmp_path / "x.warc", [Page(url="http://a.example/")])
    with database.session() as session:
        add_collection(session, "collection:x")
        session.commit()
        family = lineage(session, "collection:x")
    index_file(database, path, IndexOptions(margin=1, collections=family))
    with database.session() as session:
        hide(session, Selection(url="http://a.example/"), margin=5)
        stamps = set(session.scalars(select(DocumentCollection.datestamp)))
        assert stamps == {session.scalars(select(Document.datestamp)).one()}
