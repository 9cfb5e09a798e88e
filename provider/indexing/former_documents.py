"""Documents that an archive file has from the last time it was indexed, when it is indexed again.

Earlier versions took answers to requests of other methods than GET for captures. Their documents stay and
follow their file as others do: another file may have the page of that URL and second, and a document that
harvesters know is not withdrawn because Zatva judges differently now.
"""

import uuid
from collections.abc import Sequence
from typing import Final

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from oai.failures import FailureCode
from provider.holdings.identifiers import capture_digest
from provider.models import Document
from provider.reading.captures import Capture
from provider.reading.framing import FramingProblem

_VANISHED: Final = """
SELECT count(*) AS documents, min("offset") AS first FROM document
WHERE arc_id = :arc_id AND NOT EXISTS (SELECT FROM candidate WHERE candidate.key = document.key)
"""
_AT_ONCE: Final = 1000


def former_answers(session: Session, answers: Sequence[Capture]) -> list[Capture]:
    """Return the answers of which earlier versions made documents."""
    found: list[Capture] = []
    for begin in range(0, len(answers), _AT_ONCE):
        keyed = [(_keys(one), one) for one in answers[begin : begin + _AT_ONCE]]
        wanted = {key for keys, _ in keyed for key in keys}
        rows = session.execute(
            select(Document.key, Document.length, Document.digest).where(Document.key.in_(wanted))
        )
        documents = {key: (length, digest) for key, length, digest in rows}
        for keys, one in keyed:
            known = [documents[key] for key in keys if key in documents]
            # The document may be that of the page, which has the same URL and second.
            if any(
                length is None or (length, digest) == (one.length, one.digest) for length, digest in known
            ):
                found.append(one)
    return found


def _keys(capture: Capture) -> set[uuid.UUID]:
    """Return the capture's key, and the one by which a CDX file lists it, whose times are to the second."""
    times = (capture.archived, capture.archived.replace(microsecond=0))
    return {uuid.UUID(bytes=capture_digest(capture.url, time)) for time in times}


def vanished_documents(session: Session, arc_id: int) -> tuple[FramingProblem, ...]:
    """Return a problem if the file has documents that are not among its staged captures.

    They stay, because a copy of the file may have them.
    """
    documents, first = session.execute(text(_VANISHED), {"arc_id": arc_id}).one()
    if not documents:
        return ()
    reason = f"documents indexed from this file earlier that are no longer in it: {documents:,}"
    return (FramingProblem.of(FailureCode.ARCHIVE_DOCUMENTS_GONE, reason, offset=first, count=documents),)
