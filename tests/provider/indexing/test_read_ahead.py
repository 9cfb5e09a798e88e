"""Pages of indexes are read ahead of a merge only if the indexes are larger than memory."""

import contextlib
import json
import time
from collections.abc import Iterator
from concurrent.futures import wait
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.orm import Session

from oai.database import Database
from provider.indexing.indexer import IndexOptions, index_file
from provider.indexing.read_ahead import ReadAhead
from provider.indexing.staging import open_staging
from tests.commands import zatva
from tests.provider.archives import Page, write_pages
from tests.provider.indexing.indexed import check_counts

KEYS, URL_KEYS = "uq_document_key", "ix_document_url_key"
_STAGE = """
INSERT INTO candidate (key, url_key, host_id)
SELECT CASE WHEN :known THEN key ELSE gen_random_uuid() END, url_key, host_id FROM document
"""
_MOST_SECONDS = 20


def scans(database: Database) -> dict[str, int]:
    """Return how often each index of documents has been searched."""
    with database.session() as session:
        query = "SELECT indexrelname, idx_scan FROM pg_stat_user_indexes WHERE relname = 'document'"
        return {row.indexrelname: row.idx_scan for row in session.execute(text(query))}


def until_searched(database: Database, index: str, before: int) -> dict[str, int]:
    """Return the searches as soon as there are more of this index: backends report when they end."""
    deadline = time.monotonic() + _MOST_SECONDS
    while (found := scans(database))[index] <= before:
        assert time.monotonic() < deadline, found
        time.sleep(0.05)
    return found


@contextlib.contextmanager
def staged(database: Database, *, known: bool) -> Iterator[Session]:
    """Open a session with staged captures that assumes indexes larger than memory."""
    with database.engine.connect() as connection, Session(connection) as session:
        open_staging(session)
        session.execute(text(_STAGE), {"known": known})
        session.execute(text("SET effective_cache_size = '8kB'"))
        session.commit()
        yield session
        connection.invalidate()


@pytest.fixture
def indexed(database: Database, tmp_path: Path) -> Database:
    pages = [Page(url=f"http://www.a.example/{number}") for number in range(30)]
    index_file(database, write_pages(tmp_path / "indexed.warc.gz", pages), IndexOptions(margin=1))
    return database


@pytest.mark.parametrize("known", [False, True])
def test_pages_are_read_ahead_if_the_indexes_are_larger_than_memory(
    indexed: Database, *, known: bool
) -> None:
    """Pages of the URL index are read only for new captures, because known ones are not inserted."""
    before = scans(indexed)
    ahead = ReadAhead(indexed)
    with staged(indexed, known=known) as session, ahead.of_staged(session) as reads:
        assert not session.in_transaction()
        assert wait(reads).done
    ahead.close()
    after = until_searched(indexed, KEYS, before[KEYS])
    assert (after[URL_KEYS] > before[URL_KEYS]) is not known


def test_no_pages_are_read_ahead_while_the_indexes_fit_in_memory(indexed: Database) -> None:
    ahead = ReadAhead(indexed)
    with staged(indexed, known=False) as session:
        session.execute(text("RESET effective_cache_size"))
        session.commit()
        with ahead.of_staged(session) as reads:
            assert not reads
    ahead.close()


@pytest.mark.copied_database("an index is renamed")
def test_no_pages_are_read_ahead_without_the_index_of_url_keys(indexed: Database) -> None:
    with indexed.engine.begin() as connection:
        connection.execute(text(f"ALTER INDEX {URL_KEYS} RENAME TO another"))
    ahead = ReadAhead(indexed)
    with staged(indexed, known=False) as session, ahead.of_staged(session) as reads:
        assert not reads
    ahead.close()


def test_failed_connections_turn_reading_ahead_off_and_are_logged_once(
    indexed: Database, caplog: pytest.LogCaptureFixture
) -> None:
    engine = create_engine("postgresql+psycopg://nobody@127.0.0.1:1/none")
    ahead = ReadAhead(Database(engine=engine), connections=1)
    with staged(indexed, known=False) as session:
        for _ in range(2):
            with ahead.of_staged(session) as reads:
                wait(reads)
        assert not reads
    ahead.close()
    (record,) = caplog.records
    assert "pages of indexes are not read ahead; indexing is slower: connection failed" in record.getMessage()


@pytest.mark.copied_database("the size of the cache is set for the whole database")
def test_files_are_indexed_with_pages_read_ahead(
    environment: dict[str, str], database: Database, tmp_path: Path
) -> None:
    with database.engine.begin() as connection:
        name = connection.scalar(text("SELECT current_database()"))
        connection.execute(text(f"ALTER DATABASE \"{name}\" SET effective_cache_size = '8kB'"))
    before = scans(database)
    for number in range(4):
        pages = [Page(url=f"http://www.site{number}.example/{page}") for page in range(30)]
        write_pages(tmp_path / f"{number}.warc.gz", pages)
    done = zatva(environment, "provider", "index", "--json", "--jobs", "2", tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["total"]["new"] == 120
    until_searched(database, URL_KEYS, before[URL_KEYS])
    check_counts(database)
