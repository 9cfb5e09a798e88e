"""Sets `title:…` of documents in `/oai`: a listed title's set has the documents that belong to the title.

With the setting `title_document_sets`, the segments of public titles are `in_set`. A document is in the set
of the segment that has its URL key, and therefore in one at most: so the set is a column of the document, as
its domains are, and not a row for each document and set. Documents that are indexed later are put into it
when they are inserted. When segments change, the documents in them follow as they follow access rules
(`provider.titles.access`), with a new datestamp, because their headers change.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import Row, select, text
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased
from sqlalchemy.sql.selectable import LateralFromClause

from provider.holdings.sets import TITLE_ROOT
from provider.holdings.unlisted import hold_counts
from provider.models import UNLISTED, Document

TITLE_OF: Final = """(
    SELECT CASE WHEN {key} < high AND in_set THEN title_id END FROM title_segment
    WHERE low <= {key} ORDER BY low DESC LIMIT 1
)"""
"""Selects the title whose set has the documents with this URL key; NULL if there is none."""
_HAS_SET: Final = "(:switched_on AND title.public AND NOT title.gone AND NOT segment.is_carve_out)"
_SWITCH: Final = f"""
UPDATE title_segment AS segment SET in_set = {_HAS_SET}
FROM title WHERE title.title_id = segment.title_id AND segment.in_set <> {_HAS_SET}
RETURNING segment.low, segment.high, segment.title_id
"""  # noqa: S608 constant text
_ADD: Final = f"""
INSERT INTO title_documents (id, set_spec)
SELECT title_id, '{TITLE_ROOT}:' || replace(key::text, '-', '') FROM title
WHERE EXISTS (SELECT FROM title_segment AS segment WHERE segment.title_id = title.title_id AND segment.in_set)
ON CONFLICT (id) DO NOTHING
"""  # noqa: S608 constant text
# Dated at once: a row that is written twice costs two entries in each of its indexes.
_FOLLOW: Final = f"""
WITH compared AS MATERIALIZED (
    SELECT id, title_id AS former, {TITLE_OF.format(key="document.url_key")} AS title_id
    FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen))
),
changed AS (
    UPDATE document SET title_id = compared.title_id,
        datestamp = CASE WHEN document.datestamp = :unlisted THEN :unlisted ELSE :datestamp END
    FROM compared
    WHERE document.id = compared.id AND document.id = ANY(ARRAY(SELECT id FROM chosen))
        AND compared.title_id IS DISTINCT FROM compared.former
    RETURNING document.id, compared.former, compared.title_id AS now
),
noted AS (INSERT INTO altered SELECT id FROM changed)
SELECT title_id, sum(number) AS documents
FROM (SELECT former AS title_id, -1 AS number FROM changed UNION ALL SELECT now, 1 FROM changed) AS moved
WHERE title_id IS NOT NULL GROUP BY title_id
"""  # noqa: S608 constant text
_COUNT: Final = """
UPDATE title_documents SET documents = title_documents.documents + moved.documents
FROM unnest(CAST(:ids AS int[]), CAST(:documents AS bigint[])) AS moved (id, documents)
WHERE title_documents.id = moved.id
"""


def documents_between(low: InstrumentedAttribute[str], high: InstrumentedAttribute[str]) -> LateralFromClause:
    """Return the ids of the documents with keys from `low` to before `high`, columns of a table of ranges.

    OFFSET forces one scan of the index of keys for each range: joined by its conditions alone, every document
    would be compared with every range.
    """
    document = aliased(Document)  # the statement around it may have documents of its own
    return select(document.id).where(document.url_key >= low, document.url_key < high).offset(0).lateral()


def document_set_spec(key: UUID) -> str:
    """Return the setSpec of the documents of the title with this key."""
    return f"{TITLE_ROOT}:{key.hex}"


def switch_sets(session: Session, *, switched_on: bool) -> Sequence[Row[tuple[str, str, int]]]:
    """Put the segments of public titles into their sets, or all segments out of them.

    Returns low, high and title of each range whose documents have to follow. The caller holds the lock of
    imports.
    """
    changed = session.execute(text(_SWITCH), {"switched_on": switched_on}).all()
    if changed:
        add_sets(session)
    return changed


def add_sets(session: Session) -> None:
    """Create the sets that segments need; a set without documents is not shown."""
    session.execute(text(_ADD))


def follow_segments(session: Session, datestamp: datetime) -> None:
    """Move the documents in `chosen` to the sets of their segments; adds changes to `altered`."""
    moved = session.execute(text(_FOLLOW), {"datestamp": datestamp, "unlisted": UNLISTED}).all()
    if not moved:
        return
    hold_counts(session)
    values = {"ids": [row.title_id for row in moved], "documents": [int(row.documents) for row in moved]}
    session.execute(text(_COUNT), values)
