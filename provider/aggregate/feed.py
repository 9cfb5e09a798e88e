"""Reads the harvester's change feed, `oai_change`, in an order that misses no change.

Transactions do not commit in the order of their numbers. Lines are therefore read in the order of
(transaction_id, change_id), and only below the oldest transaction in progress. A line only states which
record changed; its current state is read from `oai_record`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, Final

from sqlalchemy import Row, select, text
from sqlalchemy.orm import Session

from provider.aggregate import sources
from provider.aggregate.merge import Staged
from provider.aggregate.models import AggregateSource
from provider.aggregate.reader import Gatherer

_SAFETY: Final = timedelta(hours=1)
"""Clocks may differ, and the time of a line is the start of its transaction."""

_NEXT: Final = """
SELECT transaction_id, change_id, repository_id, metadata_prefix, identifier
FROM oai_change
WHERE (transaction_id, change_id) > (SELECT transaction_id, change_id FROM aggregate_feed)
    AND transaction_id < :horizon
ORDER BY transaction_id, change_id
LIMIT :most
"""
_HORIZON: Final = "SELECT CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"
_NOTE_PLACE: Final = """
UPDATE aggregate_feed SET transaction_id = :transaction_id, change_id = :change_id
"""
_NOTE_END: Final = """
UPDATE aggregate_feed SET followed = clock_timestamp()
WHERE followed < clock_timestamp() - interval '1 minute'
"""
# A database copied into another cluster restarts its transaction numbers. Lines are pruned from the oldest
# on, except the newest of the old ones: if the last line read is gone, an unread one was old. The number is 0
# if there was no line yet.
_LOST: Final = """
SELECT followed < clock_timestamp() - CAST(:kept AS interval)
    OR transaction_id > CAST(CAST(pg_current_xact_id() AS text) AS bigint)
    OR change_id > 0 AND (
        SELECT (oldest.transaction_id, oldest.change_id) > (feed.transaction_id, feed.change_id)
        FROM oai_change AS oldest ORDER BY oldest.transaction_id, oldest.change_id LIMIT 1
    )
FROM aggregate_feed AS feed
"""
_FOLLOWED: Final = select(AggregateSource).where(AggregateSource.withdrawn.is_(None))


def is_lost(session: Session, kept: timedelta) -> bool:
    """Return whether lines after the current position may have been pruned.

    `kept` is how long lines are kept now; it may have been shorter.
    """
    return bool(session.scalar(text(_LOST), {"kept": max(kept - _SAFETY, kept / 2)}))


def horizon(session: Session) -> int:
    """Return the oldest transaction in progress: no line of an older transaction can still appear.

    One update stops at the horizon of its start, so that it ends even while harvests continue.
    """
    found: int = session.execute(text(_HORIZON)).scalar_one()
    return found


@dataclass(frozen=True, kw_only=True)
class Follower:
    """Continues from the position in `aggregate_feed`."""

    session: Session
    horizon: int
    """The result of `horizon`."""
    together: int
    """Maximum number of lines per transaction."""

    def any_lines(self) -> bool:
        """Return whether there are lines to process."""
        return bool(self.session.execute(text(_NEXT), {"most": 1, "horizon": self.horizon}).first())

    def note_end(self) -> None:
        """Record that the end of the feed has been reached, and commit."""
        self.session.execute(text(_NOTE_END))
        self.session.commit()

    def take(self, gatherer: Gatherer) -> list[Staged]:
        """Return the current state of the records in the next lines; updates the position in the feed."""
        lines = self.session.execute(text(_NEXT), {"most": self.together, "horizon": self.horizon}).all()
        if not lines:
            return []
        last = lines[-1]
        self.session.execute(
            text(_NOTE_PLACE), {"transaction_id": last.transaction_id, "change_id": last.change_id}
        )
        followed = {source.repository_id: source for source in self.session.scalars(_FOLLOWED)}
        wanted = sorted(
            (line for line in lines if line.repository_id in followed),
            key=lambda line: (line.repository_id, line.metadata_prefix),
        )
        return [
            staged
            for (repository_id, prefix), group in groupby(wanted, key=_format)
            for staged in gatherer.named(followed[repository_id], prefix, _identifiers(list(group)))
        ]


def _format(line: Row[Any]) -> tuple[int, str]:
    return line.repository_id, line.metadata_prefix


def _identifiers(lines: Sequence[Row[Any]]) -> set[str]:
    return {line.identifier for line in lines}


Piece = Callable[[Gatherer, AggregateSource, int], Sequence[Staged]]


def walk(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    """Return the next part of the source's walk, at most `most` records; updates the walk's position."""
    return _PIECES[source.walk](gatherer, source, most) if source.walk else ()


def _records(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    rows = gatherer.after(source, most)
    if rows:
        source.walked_prefix, source.walked_key = rows[-1].metadata_prefix, rows[-1].identifier_key
    if len(rows) < most:
        source.walk = sources.GONE
    return gatherer.staged(source, rows)


def _gone(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    return gatherer.leaving(source, most, withdrawn=False)


def _withdrawal(gatherer: Gatherer, source: AggregateSource, most: int) -> Sequence[Staged]:
    return gatherer.leaving(source, most, withdrawn=True)


_PIECES: Mapping[str, Piece] = {
    sources.RECORDS: _records,
    sources.GONE: _gone,
    sources.WITHDRAWAL: _withdrawal,
}
