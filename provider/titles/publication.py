"""New datestamps for titles whose records show something else, after an import or a count.

All statements are set-based. A title gets a new datestamp once per call, and only if a value that its records
show has changed. The datestamps keep the promise of `provider.holdings.mark`.
"""

from collections.abc import Collection
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from provider.holdings.mark import reserve
from provider.titles.capture_counts import follow_documents, hold_figures
from provider.titles.folding import SORT_NAME, WORDS
from provider.titles.front_pages import mark_dated, mark_front_pages
from provider.titles.models import Title, TitleSet
from provider.titles.sets import sets_of

_IS_LISTED: Final = "title.public AND NOT title.gone AND title.captures > 0"
_SHOWN: Final = f"""
CASE WHEN {_IS_LISTED} THEN md5(concat(ROW(
    name, alternative_names, publisher, annotation, languages, issn, catalogue_number, classification,
    subjects, keywords, licence, first_capture, last_capture,
    (SELECT array_agg(url ORDER BY main DESC, position) FROM title_seed
     WHERE title_seed.title_id = title.title_id AND kind = 'include'),
    (SELECT array_agg(set_spec ORDER BY set_spec) FROM title_membership
     WHERE title_membership.title_id = title.title_id)
), (SELECT ' documents' WHERE EXISTS (
    SELECT FROM title_segment AS segment WHERE segment.title_id = title.title_id AND segment.in_set
)), (
    SELECT ROW(languages, alternative_names, place, country, first_published) FROM title_enrichment
    WHERE title_enrichment.title_id = title.title_id
))) END
"""  # noqa: S608 constant text
_CHANGES: Final = f"""
SELECT title_id, shown FROM (
    SELECT title_id, shown_digest, {_SHOWN} AS shown FROM title WHERE title_id = ANY(CAST(:ids AS int[]))
) AS compared
WHERE shown IS DISTINCT FROM shown_digest ORDER BY title_id
"""  # noqa: S608 constant text
_FORGET_SHOWN: Final = """
UPDATE title SET shown_digest = '' WHERE shown_digest IS NOT NULL RETURNING title_id
"""
_DATE: Final = """
UPDATE title SET datestamp = :datestamp, entered = coalesce(entered, :datestamp),
    shown_digest = changed.shown, deleted = changed.shown IS NULL
FROM unnest(CAST(:ids AS int[]), CAST(:shown AS text[])) AS changed (title_id, shown)
WHERE title.title_id = changed.title_id
"""
_DATE_MEMBERSHIPS: Final = """
UPDATE title_membership SET datestamp = title.datestamp FROM title
WHERE title.title_id = title_membership.title_id AND title_membership.datestamp <> title.datestamp
    AND title.title_id = ANY(CAST(:ids AS int[]))
"""
_FOLLOWING: Final = f"""
title.title_id = ANY(CAST(:ids AS int[])) AND CASE
    WHEN title.entered IS NULL THEN title.title_id = ANY(CAST(:imported AS int[]))
    WHEN {_IS_LISTED} THEN title.title_id = ANY(CAST(:imported AS int[])) OR title.shown_digest IS NULL
END
"""
"""Without titles that are deleted records: these stay in the sets in which harvesters know them."""
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


def _follow_sets(session: Session, touched: Collection[int], imported: Collection[int]) -> None:
    """Put titles into the sets of their descriptions; sets get the names that imported public titles give."""
    query = select(Title).where(text(_FOLLOWING)).order_by(Title.title_id)
    values = {"ids": sorted(touched), "imported": sorted(imported)}
    titles = session.scalars(query, values, execution_options={"populate_existing": True}).all()
    wanted = [(title, row) for title in titles for row in sets_of(title)]
    given = insert(TitleSet)
    naming = given.on_conflict_do_update(
        index_elements=["set_spec"],
        set_={"name": given.excluded.name},
        where=TitleSet.described_by.is_(None) & (TitleSet.name != given.excluded.name),
    )
    naming_titles = {title.title_id for title in titles if title.public}.intersection(imported)
    for statement, names in (
        (given.on_conflict_do_nothing(), {row.set_spec: row.name for _, row in wanted}),
        (naming, {row.set_spec: row.name for title, row in wanted if title.title_id in naming_titles}),
    ):
        if names:
            session.execute(statement, [{"set_spec": spec, "name": names[spec]} for spec in sorted(names)])
    members = {
        "all": [title.title_id for title in titles],
        "ids": [title.title_id for title, _ in wanted],
        "specs": [row.set_spec for _, row in wanted],
    }
    for change in _MEMBERSHIPS if titles else ():
        session.execute(text(change), members)


def publish(
    session: Session,
    touched: Collection[int],
    resegmented: Collection[int],
    *,
    imported: Collection[int] = frozenset(),
    margin: float,
) -> int:
    """Bring the figures of all titles up to date, and date every title whose records now show something else.

    `touched` are titles whose records may show something else, `resegmented` those whose segments have
    changed, and `imported` those whose descriptions may have; they change sets and may rename them.
    Returns the number of titles that got a new datestamp. The caller commits.
    """
    hold_figures(session)
    mark_dated(session)
    touched = follow_documents(session, resegmented).union(touched, imported)
    _follow_sets(session, touched, imported)
    rows = session.execute(text(_CHANGES), {"ids": sorted(touched)}).all() if touched else []
    mark_front_pages(session, touched)
    changed = [row.title_id for row in rows]
    if changed:
        values = {"ids": changed, "shown": [row.shown for row in rows]}
        session.execute(text(_DATE), {**values, "datestamp": reserve(session, margin)})
        for statement in (_DATE_MEMBERSHIPS, _LEAVE_SEARCH, _ENTER_SEARCH):
            session.execute(text(statement), {"ids": changed})
    return len(changed)


def redate_titles(session: Session, *, margin: float) -> int:
    """Give all listed titles a new datestamp, because settings that their records show have changed.

    Returns the number of titles. The caller commits.
    """
    hold_figures(session)
    titles = session.scalars(text(_FORGET_SHOWN)).all()
    return publish(session, titles, (), margin=margin)


def count_new(session: Session, *, margin: float) -> int:
    """Bring the figures of all titles up to date with the changes of documents since the last call.

    Returns the number of titles that got a new datestamp. The caller commits.
    """
    if not session.scalar(text("SELECT EXISTS (SELECT FROM title)")):
        return 0  # the first count reads all documents
    return publish(session, (), (), margin=margin)
