"""Documents of an archive file that are not among its captures any more, when it is indexed again.

Earlier versions took answers to requests of other methods than GET for captures; their documents are hidden.
Others are reported: they stay, because a copy of the file may have them.
"""

import uuid
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.failures import FailureCode
from provider.holdings.identifiers import capture_digest
from provider.models import UNLISTED
from provider.reading.captures import Capture
from provider.reading.framing import FramingProblem

# One that only a CDX file has listed has its time to the second.
_FIND: Final = """
CREATE TEMP TABLE vanished ON COMMIT DROP AS
SELECT id, "offset", key IN (SELECT unnest(CAST(:keys AS uuid[])))
    OR ("offset", url) IN (SELECT * FROM unnest(CAST(:offsets AS bigint[]), CAST(:urls AS text[])))
    AS is_answer
FROM document
WHERE arc_id = :arc_id AND NOT EXISTS (SELECT FROM candidate WHERE candidate.key = document.key)
"""
# Documents that were never listed keep their datestamp: as deleted records they would become known.
_HIDE: Final = """
WITH hidden AS (
    UPDATE document SET hidden = true, deleted = true,
        datestamp = CASE WHEN deleted OR datestamp = :unlisted THEN datestamp ELSE :datestamp END
    WHERE id = ANY(ARRAY(SELECT id FROM vanished WHERE is_answer)) AND NOT hidden RETURNING id, datestamp
),
members AS (
    UPDATE document_collection AS membership SET datestamp = hidden.datestamp
    FROM hidden WHERE membership.document_id = hidden.id AND membership.datestamp <> hidden.datestamp
)
SELECT count(*) FROM hidden
"""
_COUNT: Final = """
SELECT count(*) AS documents, min("offset") AS first FROM vanished WHERE NOT is_answer
"""


def settle_vanished(
    session: Session, arc_id: int, answers: Sequence[Capture], datestamp: datetime
) -> tuple[int, tuple[FramingProblem, ...]]:
    """Hide the documents of `answers`; return how many were shown, and a problem if others have vanished.

    `answers` are the file's responses to requests of other methods than GET; its captures are in the
    temporary table `candidate`. Call this once within a publishing transaction, whose datestamp the deleted
    records get.
    """
    values = {
        "arc_id": arc_id,
        "keys": [uuid.UUID(bytes=capture_digest(one.url, one.archived)) for one in answers],
        "offsets": [one.offset for one in answers],
        "urls": [one.url for one in answers],
    }
    session.execute(text(_FIND), values)
    hidden = session.scalar(text(_HIDE), {"datestamp": datestamp, "unlisted": UNLISTED}) or 0
    documents, first = session.execute(text(_COUNT)).one()
    if not documents:
        return hidden, ()
    reason = f"documents indexed from this file earlier that are no longer in it: {documents:,}"
    problem = FramingProblem.of(FailureCode.ARCHIVE_DOCUMENTS_GONE, reason, offset=first, count=documents)
    return hidden, (problem,)
