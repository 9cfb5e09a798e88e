"""The datestamp guarantee: a change's datestamp is later than every answer sent before it is visible.

A harvester's next request starts at the responseDate of its last answer. A change that became visible
after that answer must therefore have a later datestamp, however long loading took (thesis,
3.7). So answers are dated by the mark (`holdings.mark`), which stays below the datestamps of
changes that are not visible yet, and the provider lists only records that are due. Changes are dated ahead of
the clock, so that they hold the mark back only if they take longer than expected.
"""

from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TypeVar

from psycopg.errors import DeadlockDetected
from sqlalchemy import BigInteger, Select, column, insert, table, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from oai.database import make_statistics
from oai.errors import ZatvaError
from provider.holdings.mark import reserve
from provider.holdings.unlisted import count_changes, unlisted_numbers
from provider.models import UNLISTED

COMMIT_SECONDS = 0.5
"""Minimum time left before the datestamp is due when a transaction starts to commit; with less, the change is
repeated with a later one.

The mark would keep the guarantee. But all answers would be as old as the change is late, and a provider of a
version before the mark, which goes on serving during an upgrade, relies on it.
"""

_ROWS_PER_SECOND = 5000
"""Lower than any measured write rate; the margin grows with the size of a change."""
_ATTEMPTS = 8

CHUNK = 10_000
"""Documents changed by one transaction; larger changes take several, so that the margin stays small."""

_PICKED = table("picked", column("id", BigInteger))
_PICK = "CREATE TEMP TABLE picked (id bigint PRIMARY KEY)"
_CHUNK_END = """
SELECT max(id) AS last, count(*) AS documents
FROM (SELECT id FROM picked WHERE id > :after ORDER BY id LIMIT :most) AS chunk
"""
BEGIN_CHUNK = (
    "CREATE TEMP TABLE chosen (id bigint PRIMARY KEY) ON COMMIT DROP",
    "CREATE TEMP TABLE altered (id bigint) ON COMMIT DROP",
)
# Rows are locked in id order, so that two changes of one document are serialised. Here and below, documents
# are selected by an array of ids: as a join, one chunk can become a scan of the whole archive.
_CHOOSE = """
INSERT INTO chosen
SELECT id FROM document
WHERE id = ANY(ARRAY(SELECT id FROM picked WHERE picked.id > :after AND picked.id <= :last))
ORDER BY id FOR NO KEY UPDATE
"""
# Withheld and hidden documents that were never listed keep their datestamp: as deleted records they would
# be the first to say that they exist. A change may have dated documents itself, so that they are not written
# twice.
_DATE_ALTERED = (
    """
    UPDATE document SET datestamp = :datestamp
    WHERE id = ANY(ARRAY(SELECT DISTINCT id FROM altered)) AND datestamp <> :datestamp
        AND NOT (document.datestamp = :unlisted AND (document.access = 'withheld' OR document.deleted))
    """,
    """
    UPDATE document_collection AS membership SET datestamp = dated.datestamp
    FROM (
        SELECT id, datestamp FROM document WHERE id = ANY(ARRAY(SELECT DISTINCT id FROM altered)) OFFSET 0
    ) AS dated
    WHERE membership.document_id = dated.id AND membership.datestamp <> dated.datestamp
    """,
)
Result = TypeVar("Result")
Change = Callable[[Session, datetime], None]
"""Changes a chunk of documents; receives the datestamp.

It finds them, locked, in the temporary table `chosen` (id), and adds the ids of those that it changes to
`altered` (id), with duplicates if necessary: documents may have changed since they were selected.
"""
Check = Callable[[], None]
"""Raises to stop a long operation between two of its steps."""


class PublishingError(ZatvaError):
    """A change took longer than every margin that was tried."""


def no_check() -> None:
    """Never stop."""


def publish(
    session: Session,
    change: Callable[[datetime], Result],
    *,
    margin: float,
    rows: int = 0,
) -> Result:
    """Run `change` with the datestamp (UTC, whole seconds) for its changes, commit, and return its result.

    Commits; the session must have no other transaction in progress. `margin` is the setting
    `publish_margin` in seconds; `rows` is the approximate number of rows to change. If the clock
    reaches the datestamp before the commit, everything is rolled back and repeated with twice the margin;
    `change` must be repeatable. Raises PublishingError after several attempts.
    """
    margin += rows / _ROWS_PER_SECOND
    for _ in range(_ATTEMPTS):
        datestamp = reserve(session, margin)
        try:
            result = change(datestamp)
        except OperationalError as error:
            session.rollback()
            if not isinstance(error.orig, DeadlockDetected):
                raise
            continue
        if _seconds_left(session, datestamp) >= COMMIT_SECONDS:
            session.commit()
            return result
        session.rollback()
        margin *= 2
    raise PublishingError(
        f"a change of about {rows:,} rows was not completed in {_ATTEMPTS} attempts, the last "
        f"within {margin / 2:,.0f} seconds; raise the setting 'publish_margin', or change less at a "
        "time"
    )


def publish_chosen(
    session: Session,
    chosen: Select[int],
    change: Change,
    *,
    margin: float,
    check: Check = no_check,
    chunk: int = CHUNK,
) -> int:
    """Change selected documents, give changed ones and their memberships a new datestamp; return how many.

    `chosen` selects ids of documents. They are collected at the start and changed in the order of their
    ids, `chunk` of them in one publishing transaction; so this commits several times, and completed
    chunks remain after an interruption. `check` is called before each chunk. The session's current
    transaction is rolled back first; the work uses another connection.
    """
    session.rollback()
    engine = session.get_bind().engine
    # Once, and before any row is locked: each chunk joins its documents with these tables.
    make_statistics(engine, "document", "document_collection", "collection")
    # Temporary tables belong to one connection: a dedicated one keeps them from the pool's other users.
    with engine.connect() as connection, Session(connection) as own:
        try:
            own.execute(text(_PICK))
            own.execute(insert(_PICKED).from_select(["id"], chosen))
            own.commit()
            changed = 0
            for values, rows in _chunks(own, chunk):
                check()
                changed += _publish_chunk(own, values, change, margin=margin, rows=rows)
            return changed
        finally:
            connection.invalidate()


def _chunks(session: Session, most: int) -> Iterator[tuple[dict[str, int | None], int]]:
    after: int | None = -1
    while True:
        row = session.execute(text(_CHUNK_END), {"after": after, "most": most}).one()
        session.rollback()
        if row.last is None:
            return
        yield {"after": after, "last": row.last}, row.documents
        after = row.last


def _publish_chunk(
    session: Session, values: dict[str, int | None], change: Change, *, margin: float, rows: int
) -> int:
    def whole_change(datestamp: datetime) -> int:
        for statement in BEGIN_CHUNK:
            session.execute(text(statement))
        session.execute(text(_CHOOSE), values)
        session.execute(text("ANALYZE chosen"))
        unlisted = unlisted_numbers(session)
        change(session, datestamp)
        session.execute(text("ANALYZE altered"))
        for statement in _DATE_ALTERED:
            session.execute(text(statement), {"datestamp": datestamp, "unlisted": UNLISTED})
        count_changes(session, unlisted)
        return session.scalar(text("SELECT count(DISTINCT id) FROM altered")) or 0

    return publish(session, whole_change, margin=margin, rows=rows)


def _seconds_left(session: Session, datestamp: datetime) -> float:
    statement = text("SELECT extract(epoch FROM :datestamp - clock_timestamp())")
    return float(session.execute(statement, {"datestamp": datestamp}).scalar_one())
