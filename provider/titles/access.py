"""Access to documents and their sets that follow the titles they belong to.

A document's effective rule is the strictest of the rules of its collections and of its segment
(`provider.holdings.rules`). That of a segment is the strictest of the title's (or, where a seed is carved
out, the rule of carve-outs) and of the lists that name it (`provider.titles.address_lists`). So titles and
lists only close documents and never open what something else closes. Documents that are indexed later follow
at once; when an import changes rules or sets (`provider.titles.document_sets`), the ranges concerned are
noted in its transaction, and their documents follow in batches, which may be interrupted and continued.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from sqlalchemy import delete, func, select, text, true, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from provider.holdings.membership import follow_curated, settle
from provider.holdings.publication import BEGIN_CHUNK, Check, no_check, publish_chosen
from provider.holdings.unlisted import count_changes, unlisted_numbers
from provider.models import UNLISTED
from provider.titles.collection_documents import remove_empty
from provider.titles.document_sets import documents_between, follow_segments
from provider.titles.models import TitlePending

IMPORTING: Final = 0x7A_61_74_74_69
"""Key of the advisory lock that imports of titles hold, and that transactions which add documents share."""
NOTE_ALL: Final = """
INSERT INTO title_pending (low, high)
SELECT low, high FROM title_segment WHERE in_set OR access IN ('reading room', 'withheld')
UNION SELECT low, high FROM collection_segment
ON CONFLICT (low, high) DO UPDATE SET noted = excluded.noted
"""
"""Notes the ranges of all titles and collections whose documents have to follow a rule or a set."""
MOST_COUNTED: Final = 1_000_000
"""Documents that are counted before a change is announced."""
_RANGES_AT_ONCE: Final = 200
_CLOSES: Final = """
SELECT EXISTS (SELECT FROM title_segment WHERE access IN ('reading room', 'withheld'))
    OR EXISTS (SELECT FROM collection_segment)
"""
_CHOOSE_NEW: Final = """
INSERT INTO chosen
SELECT document.id FROM document CROSS JOIN LATERAL (
    SELECT access, high FROM title_segment WHERE low <= document.url_key ORDER BY low DESC LIMIT 1
) AS segment
WHERE document.id = ANY(ARRAY(SELECT id FROM fresh)) AND document.url_key < segment.high
    AND segment.access IN ('reading room', 'withheld')
ORDER BY document.id
"""
_CHOOSE_CURATED: Final = """
INSERT INTO chosen
SELECT document.id FROM document CROSS JOIN LATERAL (
    SELECT high FROM collection_segment WHERE low <= document.url_key ORDER BY low DESC LIMIT 1
) AS segment
WHERE document.id = ANY(ARRAY(SELECT id FROM fresh)) AND document.url_key < segment.high
ORDER BY document.id
ON CONFLICT DO NOTHING
"""
# Withheld documents that were never listed stay unknown.
_UNLIST_NEW: Final = (
    """
    UPDATE document SET datestamp = :unlisted
    WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND access = 'withheld'
    """,
    """
    UPDATE document_collection SET datestamp = :unlisted
    WHERE document_id = ANY(ARRAY(
        SELECT id FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND access = 'withheld'
    ))
    """,
)
# LATERAL with OFFSET 0 forces one scan of the index of keys for each range, however many there are.
# An import counts while other imports, and those who add documents, wait: so it has a bound.
_COUNT_PENDING: Final = """
SELECT count(DISTINCT id) FROM (
    SELECT inside.id FROM title_pending CROSS JOIN LATERAL (
        SELECT document.id FROM document
        WHERE document.url_key >= title_pending.low AND document.url_key < title_pending.high OFFSET 0
    ) AS inside
    LIMIT :most
) AS pending
"""


def hold_titles(session: Session) -> None:
    """Let no import of titles begin until this transaction, which adds documents, ends."""
    session.execute(select(func.pg_advisory_xact_lock_shared(IMPORTING)))


def follow_new(session: Session, datestamp: datetime) -> None:
    """Apply the rules of their titles to the documents in `fresh`, and put them into curated collections.

    Their other sets have been counted; `datestamp` is theirs. The caller holds the titles.
    """
    if not session.scalar(text(_CLOSES)):
        return
    for statement in BEGIN_CHUNK:
        session.execute(text(statement))
    session.execute(text(_CHOOSE_NEW))
    session.execute(text(_CHOOSE_CURATED))
    unlisted = unlisted_numbers(session)
    follow_curated(session, datestamp, are_new=True)
    for statement in _UNLIST_NEW:
        session.execute(text(statement), {"unlisted": UNLISTED})
    count_changes(session, unlisted)
    # Take-downs, which follow, use tables with these names.
    session.execute(text("DROP TABLE chosen, altered"))


def note_pending(session: Session, ranges: Collection[tuple[str, str]]) -> None:
    """Note ranges of keys, low and high, whose documents have to follow rules and sets again."""
    if ranges:
        rows = [{"low": low, "high": high} for low, high in sorted(set(ranges))]
        again = insert(TitlePending).on_conflict_do_update(
            index_elements=["low", "high"], set_={"noted": func.clock_timestamp()}
        )
        session.execute(again, rows)


def count_pending(session: Session) -> int:
    """Return the number of documents that may get another rule or set; about `MOST_COUNTED` if many."""
    return int(session.scalar(text(_COUNT_PENDING), {"most": MOST_COUNTED}) or 0)


def settle_access(session: Session, *, margin: float, check: Check = no_check) -> int:
    """Let documents in pending ranges, and in changed collections, follow; returns how many changed.

    Commits several times; after an interruption, the next call continues. Costs almost nothing if nothing is
    pending.
    """
    changed = 0
    while lows := session.scalars(
        select(TitlePending.low).distinct().order_by(TitlePending.low).limit(_RANGES_AT_ONCE)
    ).all():
        due = TitlePending.low.in_(lows)
        noted = session.execute(
            select(TitlePending.low, TitlePending.high, TitlePending.noted).where(due)
        ).all()
        inside = documents_between(TitlePending.low, TitlePending.high)
        chosen = select(inside.c.id).select_from(TitlePending).join(inside, true()).where(due).distinct()
        changed += publish_chosen(session, chosen, _follow, margin=margin, check=check)
        # Compare-and-swap: a range that another import has changed meanwhile stays pending.
        done = tuple_(TitlePending.low, TitlePending.high, TitlePending.noted).in_(map(tuple, noted))
        session.execute(delete(TitlePending).where(done))
        remove_empty(session)
        session.commit()
    session.rollback()
    return changed + settle(session, margin=margin, check=check)


def _follow(session: Session, datestamp: datetime) -> None:
    follow_segments(session, datestamp)
    follow_curated(session, datestamp)
