"""The mark: a moment such that every change dated up to it is visible to whoever can see the mark.

Every answer from the holdings takes the mark, read in the answer's own snapshot, as its responseDate and as
the upper bound of its list, instead of a clock. (A request that is refused before is dated by the clock.) A
change that becomes visible later is therefore dated later, however late its transaction commits, and on a
streaming replica as well, whose snapshots are prefixes of the primary's log.

Publishers choose a datestamp above both clock and mark, and hold a shared advisory lock named by it until
their transaction is over. Whoever advances the mark sets it to the clock, but below every datestamp that is
still held. Both take a gate lock first, which publishers share and the writer holds alone: so either the
writer sees the publisher's lock, or the publisher sees the committed mark and dates above it. A lock is
released only after its transaction is visible. No clock has to be right.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.errors import TryLaterError

_PUBLISHING: Final = 0x5A50  # "ZP", "ZG", "ZW": separate these keys from other advisory locks
_GATE: Final = 0x5A47
_WRITING: Final = 0x5A57
_EPOCH: Final = 946_684_800
"""2000-01-01 UTC: seconds since then fit into the key of a lock until 2068."""

_PASS: Final = f"SELECT pg_advisory_lock_shared({_GATE}, 0)"
_LEAVE: Final = f"SELECT pg_advisory_unlock_shared({_GATE}, 0)"
_CHOOSE: Final = """
SELECT ceil(extract(epoch FROM greatest(clock_timestamp(), moment)) + :margin)::bigint FROM publication_mark
"""
# A publisher that stops (a suspended process, a machine that was cut off) would hold the mark for long.
_HOLD: Final = f"""
SELECT pg_advisory_xact_lock_shared({_PUBLISHING}, :key),
    set_config('idle_in_transaction_session_timeout', '5min', true)
"""
_IS_ALONE: Final = f"SELECT pg_try_advisory_xact_lock({_WRITING}, 0)"
_CLOSE: Final = f"SELECT pg_advisory_xact_lock({_GATE}, 0)"
# A clock that was ahead leaves the mark ahead of it. The mark then advances at half the clock's speed, so
# that what is published meanwhile becomes visible, and the clock catches up.
_NEXT: Final = """
CASE WHEN publication_mark.moment <= clock_timestamp() THEN clock_timestamp()
ELSE publication_mark.moment + greatest(
    interval '0', clock_timestamp() - greatest(looked, clock_timestamp() - interval '1 minute')
) / 2 END
"""
_ADVANCE: Final = f"""
UPDATE publication_mark SET
    looked = clock_timestamp(),
    timeline = left(pg_walfile_name(pg_current_wal_lsn()), 8),
    moment = greatest(publication_mark.moment, least({_NEXT}, (
        SELECT to_timestamp({_EPOCH} + min(objid::bigint)) - interval '1 second' FROM pg_locks
        WHERE locktype = 'advisory' AND classid = {_PUBLISHING} AND objsubid = 2 AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    )))
FROM (SELECT moment, timeline FROM publication_mark) AS before
RETURNING before.moment AS known, before.timeline AS former, publication_mark.timeline
"""  # noqa: S608 our own texts and numbers
# Until somebody has looked, the time is -infinity, which PostgreSQL 16 and older cannot subtract.
_READ: Final = text("""
SELECT date_trunc('second', moment) AS moment, pg_is_in_recovery() AS is_replica, clock_timestamp() AS clock,
    looked NOT BETWEEN clock_timestamp() - interval '0.5 seconds' AND clock_timestamp() AS is_old
FROM publication_mark
""")
_FAILED_OVER: Final = (
    "another server is the primary now (timeline %s is followed by %s). If it was not synchronous, what "
    "was published after %s may be lost: index the files again that were indexed since"
)
_LOOKS: Final = 20
_PAUSE_SECONDS: Final = 0.02

_log = logging.getLogger("provider.mark")


@dataclass(frozen=True, kw_only=True)
class _Mark:
    moment: datetime
    clock: datetime
    is_replica: bool
    is_old: bool


class MarkBehindError(TryLaterError):
    """What is asked for may be dated above the mark of the server that was asked."""


def reserve(session: Session, margin: float) -> datetime:
    """Return a datestamp for the changes of the session's transaction, which begins here.

    It is the first whole second at least `margin` seconds above the database's clock and the mark, UTC. Until
    the transaction is over, the mark stays below it.
    """
    with _gate(session):
        seconds: int = session.execute(text(_CHOOSE), {"margin": margin}).scalar_one()
        session.execute(text(_HOLD), {"key": seconds - _EPOCH})
    return datetime.fromtimestamp(seconds, UTC)


@contextmanager
def _gate(session: Session) -> Iterator[None]:
    # Held by the connection, because it is released before the transaction ends: the change itself may take
    # long, and the writer must not wait for it.
    session.execute(text(_PASS))
    try:
        yield
        session.execute(text(_LEAVE))
    except BaseException:
        # A rollback would return the connection to the pool, and the lock with it.
        session.connection().invalidate()
        session.rollback()
        raise


def begin_at_mark(session: Session, *, at_least: datetime | None = None) -> datetime:
    """Begin a read-only transaction with one snapshot, and return the mark in it, in whole seconds, UTC.

    A mark that was last advanced more than half a second ago is advanced first. If another process is doing
    that, the present mark is used, which is only a little older. If `at_least` is not in the future, wait
    until the mark has reached it; raises MarkBehindError if changes up to it are still being published.
    """
    row = _read(session)
    if row.is_old and not row.is_replica:
        row = _advanced(session)
    if at_least is None or not row.moment < at_least <= row.clock:
        return row.moment
    for _ in range(_LOOKS):
        row = _advanced(session)
        if row.moment >= at_least:
            return row.moment
        session.commit()
        time.sleep(_PAUSE_SECONDS)
    raise MarkBehindError("changes up to the requested date are still being published")


def begin_at_replicas_mark(session: Session) -> datetime:
    """Return the mark that a replica has from its primary. The session is one of `oai.database.open_replica`.

    Raises MarkBehindError if the server is no replica (any more): its mark says nothing about the primary's.
    """
    row = _found(session)
    if not row.is_replica:
        raise MarkBehindError("the server is not a replica")
    return row.moment


def advance_mark(session: Session) -> None:
    """Set the mark to the clock, but below every datestamp that a publisher still holds. Commits.

    It never goes back: see `_NEXT` for a clock that does.
    """
    if session.execute(text(_IS_ALONE)).scalar_one():
        session.execute(text(_CLOSE))
        row = session.execute(text(_ADVANCE)).one()
        if row.former not in {None, row.timeline}:
            _log.warning(_FAILED_OVER, row.former, row.timeline, row.known)
    session.commit()


def _advanced(session: Session) -> _Mark:
    session.commit()  # not a rollback: see `Database.reading`
    advance_mark(session)
    return _read(session)


def _read(session: Session) -> _Mark:
    session.connection(execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})
    return _found(session)


def _found(session: Session) -> _Mark:
    return _Mark(**session.execute(_READ).mappings().one())
