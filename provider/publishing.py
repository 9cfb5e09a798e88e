"""The datestamp promise: a change becomes visible with a datestamp later than any answer sent before it was.

A harvester asks next time from the responseDate of its last answer. What became visible after that answer
must therefore be dated after it, however long the loading took (thesis, 3.7; requirement PRO-14). So changes
are dated ahead of the database's clock, and the provider lists only what is due.
"""

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from psycopg.errors import DeadlockDetected
from sqlalchemy import BigInteger, Select, column, func, insert, select, table, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from oai.errors import ZatvaError
from provider.models import Document

COMMIT_SECONDS = 0.5
"""What must be left before the datestamp is due when a transaction begins to commit."""

_ROWS_PER_SECOND = 5000
"""Slower than rows were seen to be written; the margin grows with the size of a change."""
_ATTEMPTS = 8

_CHOSEN = table("chosen", column("id", BigInteger))
_DATE_CHOSEN = (
    "UPDATE document SET datestamp = :datestamp FROM chosen WHERE chosen.id = document.id",
    """
    UPDATE document_collection AS membership SET datestamp = :datestamp
    FROM chosen WHERE chosen.id = membership.document_id AND membership.datestamp <> :datestamp
    """,
)
_MOVES = (
    """
    UPDATE document_collection AS membership SET datestamp = :later
    FROM document WHERE document.id = membership.document_id AND document.datestamp = :datestamp
    """,
    "UPDATE document SET datestamp = :later WHERE datestamp = :datestamp",
)

Result = TypeVar("Result")


class PublishingError(ZatvaError):
    """A change took longer than every margin that was tried."""


def publish(
    session: Session, change: Callable[[datetime], Result], *, margin: float, rows: int = 0
) -> Result:
    """Run `change` with the datestamp (UTC, whole seconds) for all that it alters, commit, give its result.

    This commits by itself, and the session must have nothing else under way. `margin` is the setting
    `publish_margin` in seconds; `rows` is about how many documents will change. Where the clock catches up
    before the commit, everything is rolled back and done again with twice the margin; `change` must bear
    that. Raises PublishingError after several times.
    """
    margin += rows / _ROWS_PER_SECOND
    for _ in range(_ATTEMPTS):
        datestamp = _ahead(session, margin)
        try:
            result = change(datestamp)
        except OperationalError as error:
            session.rollback()
            if not isinstance(error.orig, DeadlockDetected):
                raise
            continue
        if _seconds_left(session, datestamp) >= COMMIT_SECONDS:
            session.commit()
            _date_again_if_late(session, datestamp, margin)
            return result
        session.rollback()
        margin *= 2
    raise PublishingError(
        f"a change of about {rows:,} documents was not done in {_ATTEMPTS} tries, the last within"
        f" {margin / 2:,.0f} seconds; raise the setting 'publish_margin', or change less at a time"
    )


def publish_chosen(
    session: Session, chosen: Select[int], change: Callable[[datetime], None], *, margin: float
) -> int:
    """Change chosen documents and date them and their memberships anew; gives how many. Commits by itself.

    `chosen` selects ids of documents. `change` finds them in the temporary table `chosen`, locked, so that
    two changes of one document come one after the other.
    """
    expected = session.scalar(select(func.count()).select_from(chosen.subquery())) or 0

    def whole_change(datestamp: datetime) -> int:
        session.execute(text("CREATE TEMP TABLE chosen (id bigint PRIMARY KEY) ON COMMIT DROP"))
        locked = chosen.order_by(Document.id).with_for_update(key_share=True)
        session.execute(insert(_CHOSEN).from_select(["id"], locked))
        change(datestamp)
        for statement in _DATE_CHOSEN:
            session.execute(text(statement), {"datestamp": datestamp})
        return session.scalar(select(func.count()).select_from(_CHOSEN)) or 0

    session.rollback()
    return publish(session, whole_change, margin=margin, rows=expected) if expected else 0


def _ahead(session: Session, margin: float) -> datetime:
    """The first whole second that is at least `margin` seconds ahead of the database's clock."""
    statement = text("SELECT to_timestamp(ceil(extract(epoch FROM clock_timestamp()) + :margin))")
    moment: datetime = session.execute(statement, {"margin": margin}).scalar_one()
    return moment


def _seconds_left(session: Session, datestamp: datetime) -> float:
    statement = text("SELECT extract(epoch FROM :datestamp - clock_timestamp())")
    return float(session.execute(statement, {"datestamp": datestamp}).scalar_one())


def _date_again_if_late(session: Session, datestamp: datetime, margin: float) -> None:
    """Move a change on whose commit itself ended after its datestamp was due.

    Others' changes of the same second are moved with it: harvesters see some records twice, but lose none.
    """
    late = _seconds_left(session, datestamp) <= 0
    session.rollback()
    if not late:
        return

    def move(later: datetime) -> None:
        for statement in _MOVES:
            session.execute(text(statement), {"later": later, "datestamp": datestamp})

    publish(session, move, margin=margin * 2)
