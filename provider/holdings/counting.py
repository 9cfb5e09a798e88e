"""The numbers of documents that are kept while loading, so that nothing ever has to count 150 million rows.

Each set has its number, those below it included; each month has one for every major type. They count all
documents that are indexed: hiding, withholding and restoring do not change them, for harvesters still see the
documents, as deleted ones.
"""

from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

# Loaders count one at a time, last of all that they do: most have top-level domains in common, and would wait
# for those rows anyway. Locking the rows in order instead took as long as counting.
_LOCK: Final = 0x7A_61_74_63_6E
_HOLD: Final = "SELECT pg_advisory_xact_lock(:lock)"
_DOMAINS: Final = """
WITH RECURSIVE counted (id, documents) AS (
    SELECT host_id, count(*) FROM fresh WHERE host_id IS NOT NULL GROUP BY host_id
    UNION ALL
    SELECT domain.parent_id, counted.documents
    FROM counted JOIN domain USING (id) WHERE domain.parent_id IS NOT NULL
),
summed AS (SELECT id, sum(documents) AS documents FROM counted GROUP BY id)
UPDATE domain SET documents = domain.documents + summed.documents FROM summed WHERE domain.id = summed.id
"""
_MIMETYPES: Final = """
WITH counted AS (SELECT mime_id AS id, count(*) AS documents FROM fresh GROUP BY mime_id),
parts AS (
    SELECT id, documents FROM counted
    UNION ALL
    SELECT mimetype.parent_id, counted.documents
    FROM counted JOIN mimetype USING (id) WHERE mimetype.parent_id IS NOT NULL
),
summed AS (SELECT id, sum(documents) AS documents FROM parts GROUP BY id)
UPDATE mimetype SET documents = mimetype.documents + summed.documents
FROM summed WHERE mimetype.id = summed.id
"""
_MONTHS: Final = """
INSERT INTO document_month AS kept (month, mime_major_id, documents)
SELECT month, mime_major_id, count(*) FROM fresh GROUP BY month, mime_major_id ORDER BY month, mime_major_id
ON CONFLICT (month, mime_major_id) DO UPDATE SET documents = kept.documents + excluded.documents
"""


def count_new(session: Session) -> None:
    """Add the documents in the temporary table `fresh` to the numbers of their sets and months."""
    session.execute(text(_HOLD), {"lock": _LOCK})
    for statement in (_MONTHS, _MIMETYPES, _DOMAINS):
        session.execute(text(statement))
