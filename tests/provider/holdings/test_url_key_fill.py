"""Missing URL keys of documents indexed by an earlier version are filled while the archive is in use."""

from collections.abc import Sequence

import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import IntegrityError

from oai.database import Database
from oai.errors import DatabaseNotReadyError
from provider.holdings import url_key_fill
from provider.holdings.lookup import Query, find_captures
from provider.holdings.url_key_fill import FillSizes, fill_keys
from provider.holdings.url_key_state import keys_complete
from provider.holdings.urlkeys import WwwRule, stored_key
from provider.models import Document, FirstLoad, UrlKeyFill
from provider.titles.access import settle_access
from provider.titles.models import TitlePending
from provider.titles.ranges import RangeRules
from tests.commands import results, zatva
from tests.provider.archive import Archive, let_keys_be_missing
from tests.provider.titles.conftest import Titles, entry

pytestmark = pytest.mark.copied_database("the filling builds an index")
URLS = [f"http://www.a.example/Page?b={number}&a=1" for number in range(7)]
STATE = """
SELECT indisvalid AND pg_get_indexdef(indexrelid) LIKE '%(url_key, archived, id)'
FROM pg_index WHERE indexrelid = to_regclass('ix_document_url_key')
"""
TABLES = """
SELECT to_regclass('ix_document_url'), (
    SELECT convalidated FROM pg_constraint WHERE conname = 'ck_document_url_key'
)
"""
SIZES = FillSizes(at_once=3, stride=2, wait_seconds=0.01)


@pytest.fixture
def titles(database: Database) -> Titles:
    return Titles(database)


@pytest.fixture(autouse=True)
def earlier(archive: Archive, database: Database) -> None:
    """An archive as an earlier version leaves it after the migration; ranges of six documents, halved."""
    for url in URLS:
        archive.add(url)
    let_keys_be_missing(database)
    with database.engine.begin() as connection:
        connection.execute(text("DROP INDEX ix_document_url_key"))
        connection.execute(update(Document).values(url_key=None))
        connection.execute(update(UrlKeyFill).values(finished=None))


def keys(database: Database) -> Sequence[str | None]:
    with database.session() as session:
        return session.scalars(select(Document.url_key).order_by(Document.id)).all()


def complete(database: Database) -> bool:
    with database.session() as session:
        return keys_complete(session) and bool(session.scalar(text(STATE)))


def is_removed(database: Database) -> bool:
    """Whether the earlier index is gone, and no document can be added without a key."""
    with database.session() as session:
        return session.execute(text(TABLES)).one() == (None, True)


def found(database: Database, url: str) -> int:
    with database.session() as session:
        return len(find_captures(session, Query(url=url, limit=10)).found)


def nothing(_step: str, _done: int, _total: int) -> None:
    """Ignore progress."""


def test_missing_keys_are_stored_and_used_by_look_ups(database: Database) -> None:
    asked = "https://a.example/page?a=1&b=3"
    with database.session() as session:
        dated = session.execute(select(Document.id, Document.datestamp).order_by(Document.id)).all()
    assert not complete(database)
    assert found(database, asked) == 0
    assert found(database, URLS[3]) == 1
    assert fill_keys(database, nothing, sizes=SIZES) == 7
    assert complete(database)
    assert is_removed(database)
    assert keys(database) == [stored_key(url, WwwRule.NUMBERED) for url in URLS]
    assert found(database, asked) == found(database, URLS[3]) == 1
    assert fill_keys(database, nothing, sizes=SIZES) == 0
    with database.session() as session:
        assert session.execute(select(Document.id, Document.datestamp).order_by(Document.id)).all() == dated


@pytest.mark.parametrize("steps", range(7))
def test_an_interrupted_fill_continues_where_it_stopped(database: Database, steps: int) -> None:
    seen: list[tuple[str, int]] = []

    def interrupt(step: str, done: int, _total: int) -> None:
        seen.append((step, done))
        if len(seen) > steps:
            raise KeyboardInterrupt

    try:
        fill_keys(database, interrupt, sizes=SIZES)
    except KeyboardInterrupt:
        assert complete(database) == seen[-1][0].startswith("removing")
        assert not is_removed(database)
    filled = sum(key is not None for key in keys(database))
    assert found(database, URLS[3]) == 1
    assert fill_keys(database, nothing, sizes=SIZES) == 7 - filled
    assert complete(database)
    assert is_removed(database)
    assert filled == (0, 3, 6, 7, 7, 7, 7)[steps]


def test_an_invalid_index_of_a_killed_build_is_replaced(database: Database) -> None:
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        doubled = "CREATE UNIQUE INDEX CONCURRENTLY ix_document_url_key ON document ((1))"
        with pytest.raises(Exception, match="could not create unique index"):
            connection.execute(text(doubled))
        assert connection.scalar(text("SELECT indisvalid FROM pg_index WHERE NOT indisvalid")) is False
    fill_keys(database, nothing, sizes=SIZES)
    assert complete(database)


def test_a_locked_document_is_skipped_and_filled_later(database: Database) -> None:
    """Waiting could deadlock with an indexer, which locks rows in a different order."""
    with database.session() as changing:
        changing.scalars(select(Document.id).where(Document.url == URLS[4]).with_for_update()).one()
        steps: list[str] = []

        def watch(step: str, _done: int, _total: int) -> None:
            steps.append(step)
            if step.startswith("building"):
                assert [key is None for key in keys(database)] == [url == URLS[4] for url in URLS]
                changing.rollback()

        assert fill_keys(database, watch, sizes=SIZES) == 7
    assert complete(database)


def test_a_document_added_by_an_earlier_version_during_the_fill_is_filled(
    database: Database, archive: Archive
) -> None:
    def add(step: str, _done: int, _total: int) -> None:
        if step.startswith("building"):
            archive.add("http://late.example/%C4%8D", url_key=None)
            assert not complete(database)
            assert found(database, "http://late.example/%C4%8D") == 1

    assert fill_keys(database, add, sizes=SIZES) == 8
    assert complete(database)
    assert found(database, "http://late.example/%c4%8d") == 1


def test_after_the_fill_a_document_without_a_key_is_refused(database: Database, archive: Archive) -> None:
    """An earlier version that still indexes would hide its documents from look-ups."""
    fill_keys(database, nothing, sizes=SIZES)
    with pytest.raises(IntegrityError, match="ck_document_url_key"):
        archive.add("http://late.example/", url_key=None)


def test_the_old_index_is_removed_once_no_transaction_uses_the_table(database: Database) -> None:
    steps: list[str] = []
    with database.engine.begin() as connection:
        connection.execute(text("CREATE INDEX ix_document_url_key ON document (url_key, archived, id)"))
    with database.session() as reading:

        def watch(step: str, _done: int, _total: int) -> None:
            steps.append(step)
            if step.startswith("building"):
                reading.execute(select(Document.id).where(Document.url == "")).all()
            elif step.startswith("waiting"):
                reading.rollback()

        assert fill_keys(database, watch, sizes=SIZES) == 7
    assert "waiting for transactions that use the documents" in steps
    assert is_removed(database)


def test_documents_get_title_and_access_once_their_keys_are_filled(
    database: Database, titles: Titles
) -> None:
    titles.rules = RangeRules(document_sets=True)
    titles.bring(entry("1", "http://www.a.example/", access="reading room"))
    with database.session() as session:
        assert settle_access(session, margin=1) == 0
    fill_keys(database, nothing, sizes=SIZES)
    with database.session() as session:
        assert settle_access(session, margin=1) == len(URLS)
        assert set(session.scalars(select(Document.access))) == {"reading room"}
        assert None not in set(session.scalars(select(Document.title_id)))
    fill_keys(database, nothing, sizes=SIZES)
    with database.session() as session:
        assert session.scalar(select(func.count()).select_from(TitlePending)) == 0


def test_filling_keys_is_refused_during_a_first_load(database: Database) -> None:
    with database.session() as session:
        session.add(FirstLoad(index_name="ix_document_url", definition="CREATE INDEX"))
        session.commit()
    with pytest.raises(DatabaseNotReadyError, match="a first load is incomplete"):
        fill_keys(database, nothing, sizes=SIZES)


def test_a_second_command_waits_for_the_first(database: Database) -> None:
    steps: list[str] = []
    lock = text("SELECT pg_advisory_lock(:key)"), {"key": url_key_fill._LOCK}  # noqa: SLF001 the other command's
    with database.engine.connect() as other:
        other.execute(*lock)

        def watch(step: str, _done: int, _total: int) -> None:
            steps.append(step)
            if step.startswith("waiting for another"):
                other.execute(select(func.pg_advisory_unlock(url_key_fill._LOCK)))  # noqa: SLF001 the same
                other.rollback()

        assert fill_keys(database, watch, sizes=SIZES) == 7
    assert steps[:2] == ["waiting for another `zatva provider reindex-keys`", "filling"]


def test_the_command_fills_keys_and_status_shows_completeness(environment: dict[str, str]) -> None:
    assert results(environment, "provider", "status")[0]["url_keys_complete"] is False
    assert "run `zatva provider reindex-keys`" in zatva(environment, "provider", "status").stderr
    assert results(environment, "provider", "reindex-keys") == [{"documents": 7, "complete": True}]
    assert results(environment, "provider", "status")[0]["url_keys_complete"] is True
    output = zatva(environment, "provider", "reindex-keys").stdout
    assert output == "stored the URL keys of 0 documents; look-ups use the keys of all documents\n"


def test_an_unused_index_of_an_earlier_version_is_reported_and_removed(
    database: Database, environment: dict[str, str]
) -> None:
    fill_keys(database, nothing, sizes=SIZES)
    let_keys_be_missing(database)
    status = zatva(environment, "provider", "status")
    assert "ix_document_url" in status.stdout
    assert "to remove it as soon as no provider of an earlier version runs" in status.stderr
    results(environment, "provider", "reindex-keys")
    assert is_removed(database)
    assert results(environment, "provider", "status")[0]["unused_indexes"] == []
