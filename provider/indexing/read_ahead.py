"""Reads pages of the indexes with random keys that a merge is about to change, over several connections.

The captures of an archive file belong at places all over the indexes of identifiers and of URLs. An insertion
reads each missing page when it comes to it, and waits. When the two indexes have outgrown memory, this takes
half of the time of a merge, while disks answer several requests in about the time of one
(docs/decisions/0075-reading-ahead.md).
"""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from threading import local
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.database import Database, first_line

_log = logging.getLogger(__name__)

CONNECTIONS: Final = 4
"""Of all processes of a command together, but at least one of each."""
_CAPTURES: Final = 500
"""Looked up at once."""
_MOST: Final = 100_000
"""Captures of a file that are looked up: a CDX list can have millions, whose keys would fill the memory."""

# Only with both indexes: during a first load and in archives of earlier versions, one is missing or being
# built, and each look-up would read the whole table.
_OUTGROWN: Final = text(
    """
    SELECT sum(pg_relation_size(indexrelid)) > pg_size_bytes(current_setting('effective_cache_size'))
    FROM pg_index
    WHERE indexrelid IN (to_regclass('uq_document_key'), to_regclass('ix_document_url_key')) AND indisvalid
    HAVING count(*) = 2
    """
)
# In the order in which they will be inserted (`merge`).
_STAGED: Final = text(
    "SELECT CAST(key AS text), url_key FROM candidate ORDER BY host_id, url_key LIMIT :most"
)
# Counting a column that is in no index reads the rows of known captures, which the merge compares.
_READ_KEYS: Final = 'SELECT count("offset") FROM document WHERE key = ANY(CAST(%s AS text[])::uuid[])'
_READ_URL_KEYS: Final = "SELECT count(url_key) FROM document WHERE url_key = ANY(%s)"
_OPTIONS: Final = (
    "-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c default_transaction_read_only=on "
    "-c statement_timeout=60s"
)


class ReadAhead:
    """Connections, opened when they are first needed, and a thread for each."""

    def __init__(self, database: Database, connections: int = CONNECTIONS) -> None:
        self._conninfo = make_conninfo(**database.parameters | {"options": _OPTIONS})
        self._threads = ThreadPoolExecutor(connections, thread_name_prefix="read-ahead")
        self._opened: list[psycopg.Connection] = []
        self._of_thread = local()
        self._failed = False

    def close(self) -> None:
        """End the threads and their connections."""
        self._threads.shutdown(cancel_futures=True)
        for connection in self._opened:
            connection.close()

    @contextlib.contextmanager
    def of_staged(self, session: Session) -> Iterator[Sequence[Future[None]]]:
        """Look up the staged captures during the block, if the indexes have outgrown memory.

        Yields the look-ups; those that have not begun at the end of the block are dropped. Call this when no
        transaction is in progress.
        """
        reads = self._begin(session)
        session.rollback()
        try:
            yield reads
        finally:
            for read in reads:
                read.cancel()

    def _begin(self, session: Session) -> Sequence[Future[None]]:
        if self._failed or not session.scalar(_OUTGROWN):
            return ()
        staged = session.execute(_STAGED, {"most": _MOST}).all()
        parts = [staged[first : first + _CAPTURES] for first in range(0, len(staged), _CAPTURES)]
        return [
            self._threads.submit(self._read, [row.key for row in part], [row.url_key for row in part])
            for part in parts
        ]

    def _read(self, keys: list[str], url_keys: list[str | None]) -> None:
        """Read the pages of these captures; those of the URLs only if not all captures are known."""
        if self._failed:
            return
        try:
            connection = self._connection()
            found = connection.execute(_READ_KEYS, [keys]).fetchone()
            if found is None or found[0] < len(keys):
                connection.execute(_READ_URL_KEYS, [url_keys])
        except psycopg.Error as error:
            self._failed = True
            _log.warning("pages of indexes are not read ahead; indexing is slower: %s", first_line(error))

    def _connection(self) -> psycopg.Connection:
        if not hasattr(self._of_thread, "connection"):
            connection = psycopg.connect(self._conninfo, autocommit=True)
            self._opened.append(connection)
            self._of_thread.connection = connection
        opened: psycopg.Connection = self._of_thread.connection
        return opened
