"""Figures of titles from their captures, and new datestamps for those whose records show something else.

All statements are set-based. A title gets a new datestamp once per call, and only if a value that its records
show has changed. The datestamps keep the promise of `provider.holdings.mark`.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from provider.holdings.mark import reserve
from provider.models import UNLISTED
from provider.protocol.catalogue import SetRow
from provider.titles.folding import SORT_NAME, WORDS
from provider.titles.front_pages import mark_front_pages
from provider.titles.models import TitleSet

_LISTED: Final = "NOT document.deleted AND document.access <> 'withheld'"
# LATERAL with OFFSET 0 forces one scan of the index of keys per segment, however many documents there are.
_COUNT: Final = f"""
WITH yearly AS (
    SELECT segment.title_id, extract(year FROM found.archived AT TIME ZONE 'UTC')::int AS year,
        count(*) AS captures, min(found.archived) AS first, max(found.archived) AS last
    FROM title_segment AS segment CROSS JOIN LATERAL (
        SELECT document.archived FROM document
        WHERE document.url_key >= segment.low AND document.url_key < segment.high AND {_LISTED} OFFSET 0
    ) AS found
    WHERE segment.title_id = ANY(CAST(:ids AS int[])) AND NOT segment.is_carve_out
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
    AND (title.captures, title.first_capture, title.last_capture, title.captures_by_year) IS DISTINCT FROM
        (coalesce(total.captures, 0), total.first, total.last, coalesce(total.by_year, '{{}}'))
"""  # noqa: S608 constant text
_AFFECTED: Final = """
SELECT DISTINCT segment.title_id
FROM document CROSS JOIN LATERAL (
    SELECT title_id, high FROM title_segment WHERE low <= document.url_key ORDER BY low DESC LIMIT 1
) AS segment
WHERE document.datestamp > :since AND document.datestamp < :unlisted AND document.url_key < segment.high
"""
_SHOWN: Final = """
CASE WHEN title.public AND NOT title.gone AND title.captures > 0 THEN md5(ROW(
    name, alternative_names, publisher, annotation, languages, issn, catalogue_number, classification,
    subjects, keywords, licence, contract_from, contract_to, captures, first_capture, last_capture,
    captures_by_year,
    (SELECT array_agg(url ORDER BY main DESC, position) FROM title_seed
     WHERE title_seed.title_id = title.title_id AND kind = 'include'),
    (SELECT array_agg(set_spec ORDER BY set_spec) FROM title_membership
     WHERE title_membership.title_id = title.title_id)
)::text) END
"""
_CHANGES: Final = f"""
SELECT title_id FROM (SELECT title_id, shown_digest, {_SHOWN} AS shown FROM title) AS compared
WHERE shown IS DISTINCT FROM shown_digest ORDER BY title_id
"""  # noqa: S608 constant text
_DATE: Final = f"""
UPDATE title SET datestamp = :datestamp, shown_digest = {_SHOWN}, deleted = ({_SHOWN}) IS NULL
WHERE title_id = ANY(CAST(:ids AS int[]))
"""  # noqa: S608 constant text
_DATE_MEMBERSHIPS: Final = """
UPDATE title_membership SET datestamp = title.datestamp FROM title
WHERE title.title_id = title_membership.title_id AND title_membership.datestamp <> title.datestamp
    AND title.title_id = ANY(CAST(:ids AS int[]))
"""
_MEMBERSHIPS: Final = (
    """
    DELETE FROM title_membership WHERE title_id = ANY(CAST(:all AS int[])) AND (title_id, set_spec) NOT IN (
        SELECT * FROM unnest(CAST(:ids AS int[]), CAST(:specs AS text[]))
    )
    """,
    """
    INSERT INTO title_membership (title_id, set_spec, datestamp, key)
    SELECT title.title_id, wanted.set_spec, title.datestamp, title.key
    FROM unnest(CAST(:ids AS int[]), CAST(:specs AS text[])) AS wanted (title_id, set_spec)
    JOIN title ON title.title_id = wanted.title_id
    ON CONFLICT DO NOTHING
    """,
)
_LEAVE_SEARCH: Final = """
DELETE FROM title_search USING title
WHERE title.title_id = title_search.title_id AND title.deleted AND title.title_id = ANY(CAST(:ids AS int[]))
"""
_ENTER_SEARCH: Final = f"""
INSERT INTO title_search (title_id, key, sort_name, words)
SELECT title_id, key, {SORT_NAME}, {WORDS} FROM title
WHERE NOT deleted AND title_id = ANY(CAST(:ids AS int[]))
ON CONFLICT (title_id) DO UPDATE SET sort_name = excluded.sort_name, words = excluded.words
WHERE (title_search.sort_name, title_search.words) IS DISTINCT FROM (excluded.sort_name, excluded.words)
"""  # noqa: S608 constant text
_EXTENT: Final = """
SELECT (SELECT counted FROM title_count) AS since,
    (SELECT date_trunc('second', moment) FROM publication_mark) AS until
"""
_COUNTED: Final = """
INSERT INTO title_count (id, counted) VALUES (1, :until)
ON CONFLICT (id) DO UPDATE SET counted = excluded.counted
"""
_BEGINNING: Final = "SELECT title_id FROM title_segment GROUP BY title_id"
_ALONE: Final = "SELECT pg_advisory_xact_lock(CAST(0x7A61747470 AS bigint))"


def any_imported(session: Session) -> bool:
    """Return whether there is a title."""
    return bool(session.scalar(text("SELECT EXISTS (SELECT FROM title)")))


def follow_sets(session: Session, wanted: Mapping[int, Sequence[SetRow]]) -> None:
    """Put titles, by id, into these sets and out of all others."""
    names = {row.set_spec: row.name for rows in wanted.values() for row in rows}
    if names:
        rows = [{"set_spec": spec, "name": name} for spec, name in sorted(names.items())]
        session.execute(insert(TitleSet).on_conflict_do_nothing(), rows)
    pairs = [(title_id, row.set_spec) for title_id, rows in wanted.items() for row in rows]
    values = {
        "all": list(wanted),
        "ids": [title_id for title_id, _ in pairs],
        "specs": [spec for _, spec in pairs],
    }
    for statement in _MEMBERSHIPS:
        session.execute(text(statement), values)


def publish(session: Session, title_ids: Collection[int], *, margin: float) -> int:
    """Count the captures of these titles, and date every title whose records now show something else.

    Returns the number of titles that got a new datestamp. The caller commits.
    """
    session.execute(text(_ALONE))
    if title_ids:
        session.execute(text(_COUNT), {"ids": sorted(title_ids)})
    changed = list(session.scalars(text(_CHANGES)))
    mark_front_pages(session, {*title_ids, *changed})
    if changed:
        values = {"datestamp": reserve(session, margin), "ids": changed}
        session.execute(text(_DATE), values)
        for statement in (_DATE_MEMBERSHIPS, _LEAVE_SEARCH, _ENTER_SEARCH):
            session.execute(text(statement), {"ids": changed})
    return len(changed)


def count_new(session: Session, *, margin: float) -> int:
    """Bring the figures of all titles up to date with the changes of documents since the last call.

    Returns the number of titles that got a new datestamp. The caller commits.
    """
    session.execute(text(_ALONE))
    extent = session.execute(text(_EXTENT)).one()
    if extent.since is None:
        affected = set(session.scalars(text(_BEGINNING)))
    else:
        # Also by changes that are not due yet: those are looked at again, and then nothing changes.
        values = {"since": extent.since, "unlisted": UNLISTED}
        affected = set(session.scalars(text(_AFFECTED), values))
    changed = publish(session, affected, margin=margin)
    session.execute(text(_COUNTED), {"until": extent.until})
    return changed
