"""The stored segments of titles and collections: replaced around what changes, and by what they were divided.

The caller holds the lock of imports (`provider.titles.access.IMPORTING`).
"""

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import Any, Final, NamedTuple

from sqlalchemy import insert, select, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.orm import Session

from provider.titles.models import CollectionSegment, TitleDivision, TitleSegment
from provider.titles.ranges import KeyRange, replaced

SegmentRow = tuple[Any, ...]
"""Low, high, and the other columns of the table in their order; arrays as tuples."""

# Segments do not overlap: of those that begin before a span, only the last one may reach it.
_AROUND: Final = """
SELECT DISTINCT stored.* FROM unnest(CAST(:lows AS text[]), CAST(:highs AS text[])) AS span (low, high)
CROSS JOIN LATERAL (
    SELECT * FROM {table} WHERE low >= span.low COLLATE "C" AND low <= span.high COLLATE "C"
    UNION ALL
    (SELECT * FROM {table} WHERE low < span.low COLLATE "C" ORDER BY low DESC LIMIT 1)
) AS stored ORDER BY low
"""
_DELETE: Final = "DELETE FROM {table} WHERE low = ANY(CAST(:lows AS text[]))"


def replace_rows(
    session: Session,
    table: type[TitleSegment | CollectionSegment],
    pieces: Iterable[tuple[KeyRange, tuple[Any, ...]]],
    spans: Sequence[KeyRange],
) -> tuple[set[SegmentRow], set[SegmentRow]]:
    """Store the pieces, each with the other columns, in place of what is stored for the spans.

    Returns the rows that are removed and those that are added: only what differs is written.
    """
    ends = {"lows": [one.low for one in spans], "highs": [one.high for one in spans]}
    found = session.execute(text(_AROUND.format(table=table.__tablename__)), ends)
    stored = [(KeyRange(low, high), tuple(map(_hashable, others))) for low, high, *others in found]
    before = {(*one, *others) for one, others in stored}
    after = {(*one, *others) for one, others in replaced(stored, pieces, spans)}
    removed, added = before - after, after - before
    if removed:
        lows = {"lows": [row[0] for row in removed]}
        session.execute(text(_DELETE.format(table=table.__tablename__)), lows)
    if added:
        names = table.__table__.columns.keys()
        rows = [dict(zip(names, row, strict=True)) for row in sorted(added, key=itemgetter(0))]
        # Otherwise, columns without a value are left out, and rows that differ in these inserted one by one.
        session.execute(insert(table), rows, execution_options={"render_nulls": True})
    return removed, added


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


class Division(NamedTuple):
    """By what the stored segments were divided, as in `TitleDivision`."""

    rules: str | None = None
    collections: list[int] | None = None


def division(session: Session) -> Division:
    """Return by what the stored segments were divided."""
    stored = session.execute(select(TitleDivision.rules, TitleDivision.collections)).one_or_none()
    return Division() if stored is None else Division(*stored)


def note_division(session: Session, **columns: object) -> None:
    """Store by what segments are divided from now on; other columns of `TitleDivision` stay."""
    noted = postgresql.insert(TitleDivision).values(id=1, **columns)
    session.execute(noted.on_conflict_do_update(index_elements=["id"], set_=columns))
