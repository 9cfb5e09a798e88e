"""Figures of titles: how many captures each has, by year, with the first and the last one.

A document is counted or not, and `title_counted` says which are, with one bit each. The figures of a title
are always those of the counted documents in its segments. A count looks at the documents dated since the one
before, compares each with its bit, adds or subtracts what differs, and flips these bits. So no one who
changes documents has to report it or waits for a count, a change that is seen twice is counted once, and a
count costs what has changed, however many captures the titles have.

Only a title whose segments have changed, or whose first or last capture has gone, is counted from its
documents again.
"""

from collections.abc import Collection
from typing import Final

from sqlalchemy import func, select, text
from sqlalchemy.orm import Session

from provider.models import UNLISTED
from provider.titles.models import BLOCK

# A document without a key, of an earlier version, belongs to no title. If it were counted, it could be
# subtracted from a title later, when it has its key.
_LISTED: Final = "(NOT document.deleted AND document.access <> 'withheld' AND document.url_key IS NOT NULL)"
_BITS: Final = f"bit_or(set_bit(0::bit({BLOCK}), (id % {BLOCK})::int, 1))"
_FIRST_BITS: Final = (
    "DELETE FROM title_counted",
    f"""
    INSERT INTO title_counted (block, documents)
    SELECT id / {BLOCK}, {_BITS} FROM document WHERE {_LISTED} GROUP BY id / {BLOCK}
    """,  # noqa: S608 constant text
)
_YEAR: Final = "extract(year FROM found.archived AT TIME ZONE 'UTC')::int"
# Each LATERAL subquery is one descent of an index for each row, whatever the statistics say; OFFSET 0 sees to
# that. Counting again reads only the index of keys: whether a document is listed is in its bit.
_FOLLOW: Final = f"""
WITH found AS MATERIALIZED (
    SELECT document.id, document.archived, document.url_key, {_LISTED} AS listed
    FROM document LEFT JOIN LATERAL (
        SELECT documents FROM title_counted WHERE block = document.id / {BLOCK} OFFSET 0
    ) AS counted ON true
    WHERE document.datestamp > :since AND document.datestamp < :unlisted
        AND {_LISTED} <> coalesce(get_bit(counted.documents, (document.id % {BLOCK})::int) = 1, false)
),
turned AS (
    INSERT INTO title_counted (block, documents)
    SELECT id / {BLOCK}, {_BITS} FROM found GROUP BY id / {BLOCK}
    ON CONFLICT (block) DO UPDATE SET documents = title_counted.documents # excluded.documents
),
yearly AS (
    SELECT segment.title_id, {_YEAR} AS year, sum(CASE WHEN found.listed THEN 1 ELSE -1 END) AS captures,
        min(found.archived) FILTER (WHERE found.listed) AS first,
        max(found.archived) FILTER (WHERE found.listed) AS last,
        min(found.archived) FILTER (WHERE NOT found.listed) AS first_gone,
        max(found.archived) FILTER (WHERE NOT found.listed) AS last_gone
    FROM found CROSS JOIN LATERAL (
        SELECT title_id, high, is_carve_out FROM title_segment WHERE low <= found.url_key
        ORDER BY low DESC LIMIT 1
    ) AS segment
    WHERE found.url_key < segment.high AND NOT segment.is_carve_out
    GROUP BY 1, 2
),
total AS (
    SELECT title_id, sum(captures) AS captures, jsonb_object_agg(year, captures) AS by_year,
        min(first) AS first, max(last) AS last, min(first_gone) AS first_gone, max(last_gone) AS last_gone
    FROM yearly GROUP BY title_id
)
UPDATE title SET
    captures = title.captures + total.captures,
    first_capture = least(title.first_capture, total.first),
    last_capture = greatest(title.last_capture, total.last),
    captures_by_year = (
        SELECT coalesce(jsonb_object_agg(year, captures), '{{}}') FROM (
            SELECT year, sum(captures::bigint) AS captures FROM (
                SELECT * FROM jsonb_each_text(title.captures_by_year)
                UNION ALL SELECT * FROM jsonb_each_text(total.by_year)
            ) AS parts (year, captures) GROUP BY year HAVING sum(captures::bigint) <> 0
        ) AS sums
    )
FROM total WHERE title.title_id = total.title_id
RETURNING title.title_id, coalesce(
    total.first_gone <= title.first_capture OR total.last_gone >= title.last_capture, false
) AS lost_its_bounds
"""  # noqa: S608 constant text
_RECOUNT: Final = f"""
WITH yearly AS (
    SELECT found.title_id, {_YEAR} AS year, count(*) AS captures,
        min(found.archived) AS first, max(found.archived) AS last
    FROM (
        SELECT segment.title_id, inside.archived, inside.id
        FROM title_segment AS segment CROSS JOIN LATERAL (
            SELECT document.archived, document.id FROM document
            WHERE document.url_key >= segment.low AND document.url_key < segment.high OFFSET 0
        ) AS inside
        WHERE segment.title_id = ANY(CAST(:ids AS int[])) AND NOT segment.is_carve_out OFFSET 0
    ) AS found JOIN title_counted AS counted ON counted.block = found.id / {BLOCK}
    WHERE get_bit(counted.documents, (found.id % {BLOCK})::int) = 1
    GROUP BY 1, 2
),
total AS (
    SELECT title_id, sum(captures) AS captures, min(first) AS first, max(last) AS last,
        jsonb_object_agg(year, captures) AS by_year
    FROM yearly GROUP BY title_id
)
UPDATE title SET captures = coalesce(total.captures, 0), first_capture = total.first,
    last_capture = total.last, captures_by_year = coalesce(total.by_year, '{{}}')
FROM (SELECT unnest(CAST(:ids AS int[])) AS title_id) AS asked LEFT JOIN total USING (title_id)
WHERE title.title_id = asked.title_id
"""  # noqa: S608 constant text
_EXTENT: Final = """
SELECT (SELECT counted FROM title_extent) AS since,
    (SELECT date_trunc('second', moment) FROM publication_mark) AS until
"""
_COUNTED: Final = """
INSERT INTO title_extent (id, counted) VALUES (1, :until)
ON CONFLICT (id) DO UPDATE SET counted = excluded.counted
"""
_ALL: Final = "SELECT title_id FROM title"
_ALONE: Final = 0x7A_61_74_74_70
"""Key of the advisory lock under which captures are counted."""


def hold_figures(session: Session) -> None:
    """Wait for others that count, and keep them away until this transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(_ALONE)))


def follow_documents(session: Session, resegmented: Collection[int] = ()) -> set[int]:
    """Bring the figures up to date with all changes of documents; returns the titles that may have others.

    `resegmented` are the titles whose segments have changed. The first time, everything is counted. The
    caller holds the figures.
    """
    extent = session.execute(text(_EXTENT)).one()
    if extent.since is None:
        for statement in _FIRST_BITS:
            session.execute(text(statement))
        changed = stale = set(session.scalars(text(_ALL)))
    else:
        # Changes that are not due yet are seen again by the next count, which finds their bits flipped.
        rows = session.execute(text(_FOLLOW), {"since": extent.since, "unlisted": UNLISTED}).all()
        stale = {row.title_id for row in rows if row.lost_its_bounds} | set(resegmented)
        changed = {row.title_id for row in rows} | stale
    if stale:
        session.execute(text(_RECOUNT), {"ids": sorted(stale)})
    session.execute(text(_COUNTED), {"until": extent.until})
    return changed


def forget_figures(session: Session) -> None:
    """Let the next count begin from the start, after keys of documents have changed without a datestamp."""
    hold_figures(session)
    session.execute(text("DELETE FROM title_extent"))
