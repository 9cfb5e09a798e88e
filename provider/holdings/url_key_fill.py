"""Fills `document.url_key` for documents of an earlier version while the archive is served and indexed.

The work is divided into short transactions, each of which also stores its position, so the command may be
killed at any time and simply started again. Look-ups use the keys once every document has one. From then on
a check refuses documents without a key, and the index that look-ups used before is removed.
"""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from psycopg.errors import LockNotAvailable
from sqlalchemy import Connection, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from oai.database import Database
from provider.holdings.url_key_state import FINISHED, HAS_ALL, www_rule
from provider.holdings.urlkeys import stored_key
from provider.indexing.first_load import refuse_unserved
from provider.titles.access import NOTE_ALL

_AT_ONCE: Final = 5000
_STRIDE: Final = 32
"""Only one of so many neighbouring documents, about those of a page, is updated in one transaction.

The next transaction reuses the space of the old row versions on the page, and of their index entries. With
neighbours in one transaction, the table and all its indexes grew to twice their size.
"""
_LOCK: Final = 0x7A_61_74_75_6B  # "zatuk"
_WAIT_SECONDS: Final = 0.5
_BEGIN: Final = "SELECT after_id, (SELECT coalesce(max(id), 0) FROM document) FROM url_key_fill"
# Waiting for a row could deadlock with an indexer, which locks rows in another order. What is skipped here is
# found at the end.
_RANGE: Final = """
SELECT document.id, document.url
FROM generate_series(CAST(:first AS bigint), :last, :stride) AS wanted (id) JOIN document USING (id)
WHERE document.url_key IS NULL FOR NO KEY UPDATE OF document SKIP LOCKED
"""
_REST: Final = """
SELECT id, url FROM document WHERE url_key IS NULL
ORDER BY url_key DESC NULLS FIRST LIMIT :most FOR NO KEY UPDATE SKIP LOCKED
"""
_FILL: Final = """
UPDATE document SET url_key = filled.url_key
FROM unnest(CAST(:ids AS bigint[]), CAST(:keys AS text[])) AS filled (id, url_key)
WHERE document.id = filled.id
"""
_ADVANCE: Final = """
UPDATE url_key_fill SET after_id = coalesce((SELECT min(id) - 1 FROM document WHERE id > :last), :last)
RETURNING after_id
"""
_INVALID: Final = """
SELECT FROM pg_index WHERE indexrelid = to_regclass('ix_document_url_key') AND NOT indisvalid
"""
_DROP: Final = "DROP INDEX CONCURRENTLY IF EXISTS ix_document_url_key"
_CREATE: Final = """
CREATE INDEX CONCURRENTLY IF NOT EXISTS ix_document_url_key ON document (url_key, archived, id)
"""
_CHECKED: Final = "SELECT FROM pg_constraint WHERE conname = 'ck_document_url_key'"
_CHECK: Final = (
    "ALTER TABLE document ADD CONSTRAINT ck_document_url_key CHECK (url_key IS NOT NULL) NOT VALID"
)
_VALIDATE: Final = "ALTER TABLE document VALIDATE CONSTRAINT ck_document_url_key"
_DROP_EARLIER: Final = "DROP INDEX CONCURRENTLY IF EXISTS ix_document_url"
_LOCK_MS: Final = 500
"""How long requests may wait behind this command for the table."""
_FINISH: Final = "UPDATE url_key_fill SET finished = coalesce(finished, clock_timestamp())"


@dataclass(frozen=True, kw_only=True)
class FillSizes:
    """How much is done in one transaction, and how long to wait for others."""

    at_once: int = _AT_ONCE
    stride: int = _STRIDE
    wait_seconds: float = _WAIT_SECONDS


_SIZES: Final = FillSizes()


def fill_keys(
    database: Database, report: Callable[[str, int, int], None], *, sizes: FillSizes = _SIZES
) -> int:
    """Store the keys that are missing and build their index; return the number of documents filled. Commits.

    `report` receives the current step, and the last document's id and the highest one. Raises
    DatabaseNotReadyError during a first load.
    """
    with database.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        with database.session() as session:
            refuse_unserved(session)
        with _alone(connection, report, sizes.wait_seconds):
            filled = sum(_fill_ranges(database, report, sizes))
            report("building the index ix_document_url_key", 1, 1)
            _build_index(connection)
            _add_check(connection, report, sizes.wait_seconds)
            filled += sum(_fill_rest(database, report, sizes))
            connection.execute(text("ANALYZE document"))
            if filled or not connection.scalar(text(FINISHED)):
                # Without keys, the documents could not follow their titles.
                connection.execute(text(NOTE_ALL))
            connection.execute(text(_FINISH))
            report("removing the index ix_document_url", 1, 1)
            connection.execute(text(_VALIDATE))
            connection.execute(text(_DROP_EARLIER))
    return filled


@contextlib.contextmanager
def _alone(
    connection: Connection, report: Callable[[str, int, int], None], wait_seconds: float
) -> Iterator[None]:
    """Hold the lock for the block; wait while another command works, or its server process still ends.

    The wait is not left to PostgreSQL: a statement that waits has a snapshot, for which the other one would
    wait when it builds the index.
    """
    while not connection.scalar(text("SELECT pg_try_advisory_lock(:key)"), {"key": _LOCK}):
        report("waiting for another `zatva provider reindex-keys`", 0, 1)
        time.sleep(wait_seconds)
    try:
        yield
    finally:
        connection.execute(text("SELECT pg_advisory_unlock(:key)"), {"key": _LOCK})


def _fill_ranges(
    database: Database, report: Callable[[str, int, int], None], sizes: FillSizes
) -> Iterator[int]:
    """Fill the documents after the stored position, range by range; yield how many in each transaction."""
    with database.session() as session:
        after, highest = session.execute(text(_BEGIN)).one()
    while after < highest:
        last = min(after + sizes.stride * sizes.at_once, highest)
        for place in range(sizes.stride):
            report("filling", after + (last - after) * place // sizes.stride, highest)
            with database.session() as session:
                values = {"first": after + 1 + place, "last": last, "stride": sizes.stride}
                filled = _fill(session, _RANGE, values)
                session.commit()
            yield filled
        with database.session() as session:
            after = session.execute(text(_ADVANCE), {"last": last}).scalar_one()
            session.commit()


def _fill_rest(
    database: Database, report: Callable[[str, int, int], None], sizes: FillSizes
) -> Iterator[int]:
    """Fill the documents that were locked, and those that an earlier version has added since."""
    while True:
        with database.session() as session:
            filled = _fill(session, _REST, {"most": sizes.at_once})
            session.commit()
            yield filled
            if session.scalar(text(HAS_ALL)):
                return
        if not filled:
            report("waiting for documents that are being changed", 1, 1)
            time.sleep(sizes.wait_seconds)


def _fill(session: Session, statement: str, values: dict[str, int]) -> int:
    """Fill the documents that a statement selects and locks; return how many."""
    rule = www_rule(session)
    rows = session.execute(text(statement), values).all()
    keys = [stored_key(row.url, rule) for row in rows]
    session.execute(text(_FILL), {"ids": [row.id for row in rows], "keys": keys})
    return len(rows)


def _add_check(connection: Connection, report: Callable[[str, int, int], None], wait_seconds: float) -> None:
    """Add a check that refuses documents without a key; wait while transactions use the table."""
    connection.execute(text(f"SET lock_timeout = {_LOCK_MS}"))
    try:
        while connection.execute(text(_CHECKED)).first() is None:
            try:
                connection.execute(text(_CHECK))
            except OperationalError as error:
                if not isinstance(error.orig, LockNotAvailable):
                    raise
                report("waiting for transactions that use the documents", 1, 1)
                time.sleep(wait_seconds)
    finally:
        connection.execute(text("RESET lock_timeout"))


def _build_index(connection: Connection) -> None:
    """Build the index unless it is there; an interrupted build leaves an invalid one, which is replaced."""
    if connection.execute(text(_INVALID)).first() is not None:
        connection.execute(text(_DROP))
    connection.execute(text(_CREATE))
