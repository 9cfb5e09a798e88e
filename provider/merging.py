"""Joins the staged captures of one archive file with the documents: new, unchanged, moved or duplicate.

Runs inside a publishing transaction (see `provider.publishing`) on the temporary tables of
`provider.staging`. The numbers of documents kept in the sets' tables grow with it, ancestors included.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import CursorResult, Row, text
from sqlalchemy.orm import Session

from provider.arcs import Home
from provider.framing import Problem

# Keys go in in order, so that two loaders with captures in common never wait for each other.
_INSERT: Final = """
WITH inserted AS (
    INSERT INTO document (
        key, arc_id, "offset", length, url, archived, datestamp, tld_id, domain_id, host_id, mime_major_id,
        mime_id, http_status, digest, record_type
    )
    SELECT
        candidate.key, :arc_id, candidate."offset", candidate.length, candidate.url, candidate.archived,
        :datestamp, candidate.tld_id, candidate.domain_id, candidate.host_id, candidate.mime_major_id,
        candidate.mime_id, candidate.http_status, candidate.digest, candidate.record_type
    FROM candidate
    WHERE NOT EXISTS (SELECT FROM document WHERE document.key = candidate.key)
    ORDER BY candidate.key
    ON CONFLICT (key) DO NOTHING
    RETURNING key, id, host_id, mime_id
)
INSERT INTO fresh SELECT key, id, host_id, mime_id FROM inserted
"""

_CLASSIFY: Final = """
INSERT INTO known
SELECT candidate.key, document.id, document.arc_id, candidate."offset", document."offset",
    CASE
        WHEN pg_temp.differ(candidate.digest, document.digest) THEN 'differs'
        WHEN document.arc_id = :arc_id AND document."offset" = candidate."offset" THEN 'unchanged'
        WHEN document.arc_id = :arc_id OR document.arc_id = ANY(:gone) THEN 'moved'
        ELSE 'duplicate'
    END
FROM candidate
JOIN document USING (key)
WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.key = candidate.key)
"""

_MOVE: Final = """
UPDATE document SET arc_id = :arc_id, "offset" = known.new_offset
FROM known WHERE known.id = document.id AND known.state = 'moved'
"""
_STATES: Final = "SELECT state, count(*) AS documents FROM known GROUP BY state"
_MOVED_OUT: Final = """
SELECT arc_id, count(*) AS documents FROM known WHERE state = 'moved' AND arc_id <> :arc_id
GROUP BY arc_id ORDER BY arc_id
"""
_CONFLICTS: Final = """
SELECT known.new_offset, known.old_offset, arc.path
FROM known JOIN arc ON arc.id = known.arc_id WHERE known.state = 'differs' ORDER BY known.new_offset
"""
_REPEATED: Final = """
SELECT
    staged."offset", candidate."offset" AS first, pg_temp.differ(staged.digest, candidate.digest) AS differs
FROM staged JOIN candidate USING (key) WHERE staged."offset" <> candidate."offset" ORDER BY staged."offset"
"""
_VANISHED: Final = """
SELECT count(*) AS documents, min("offset") AS first FROM document
WHERE arc_id = :arc_id AND NOT EXISTS (SELECT FROM candidate WHERE candidate.key = document.key)
"""

_COUNT_DOMAINS: Final = """
WITH RECURSIVE counted (id, documents) AS (
    SELECT host_id, count(*) FROM fresh WHERE host_id IS NOT NULL GROUP BY host_id
    UNION ALL
    SELECT domain.parent_id, counted.documents
    FROM counted JOIN domain USING (id) WHERE domain.parent_id IS NOT NULL
),
summed AS (SELECT id, sum(documents) AS documents FROM counted GROUP BY id),
locked AS (SELECT id FROM domain JOIN summed USING (id) ORDER BY id FOR NO KEY UPDATE OF domain)
UPDATE domain SET documents = domain.documents + summed.documents
FROM summed JOIN locked USING (id) WHERE domain.id = summed.id
"""
_COUNT_MIMETYPES: Final = """
WITH counted AS (SELECT mime_id AS id, count(*) AS documents FROM fresh GROUP BY mime_id),
parts AS (
    SELECT id, documents FROM counted
    UNION ALL
    SELECT mimetype.parent_id, counted.documents
    FROM counted JOIN mimetype USING (id) WHERE mimetype.parent_id IS NOT NULL
),
summed AS (SELECT id, sum(documents) AS documents FROM parts GROUP BY id),
locked AS (SELECT id FROM mimetype JOIN summed USING (id) ORDER BY id FOR NO KEY UPDATE OF mimetype)
UPDATE mimetype SET documents = mimetype.documents + summed.documents
FROM summed JOIN locked USING (id) WHERE mimetype.id = summed.id
"""
_COUNT_ARC: Final = "UPDATE arc SET documents = documents + :documents WHERE id = :arc_id"
_ENROL: Final = """
INSERT INTO document_collection (document_id, collection_id, datestamp, direct)
SELECT fresh.id, collection.id, :datestamp, collection.id = :leaf
FROM fresh CROSS JOIN collection WHERE collection.id = ANY(:collections)
"""
_COUNT_COLLECTION: Final = "UPDATE collection SET documents = documents + :documents WHERE id = :collection"


@dataclass(frozen=True, kw_only=True)
class Merged:
    """What became of the captures of one file."""

    new: int = 0
    unchanged: int = 0
    moved: int = 0
    duplicates: int = 0
    problems: tuple[Problem, ...] = ()


def merge(session: Session, home: Home, datestamp: datetime, collections: Sequence[int] = ()) -> Merged:
    """Insert the new documents, move those whose file is gone, and count.

    `collections` are the ids of the collection that new documents go into and of those above it, the
    collection itself first. Document and collection rows get `datestamp`; moved documents keep theirs, for
    nothing that a harvester sees has changed.
    """
    here = {"arc_id": home.arc_id}
    vanished = _vanished(session, here)
    new = _rows(session, _INSERT, {**here, "datestamp": datestamp})
    session.execute(text(_CLASSIFY), {**here, "gone": list(home.gone)})
    states = {row.state: row.documents for row in session.execute(text(_STATES))}
    moved_out = session.execute(text(_MOVED_OUT), here).all()
    if states.get("moved"):
        session.execute(text(_MOVE), here)
    repeated = session.execute(text(_REPEATED)).all()
    if new:
        session.execute(text(_COUNT_DOMAINS))
        session.execute(text(_COUNT_MIMETYPES))
    _count_arcs(session, home.arc_id, new, moved_out)
    if new and collections:
        _enrol(session, collections, datestamp, new)
    unchanged = states.get("unchanged", 0)
    return Merged(
        new=new,
        unchanged=0 if home.moved else unchanged,
        moved=states.get("moved", 0) + (unchanged if home.moved else 0),
        duplicates=states.get("duplicate", 0) + sum(not row.differs for row in repeated),
        problems=(*vanished, *_conflicts(session, repeated)),
    )


def _rows(session: Session, statement: str, values: dict[str, Any]) -> int:
    result = session.execute(text(statement), values)
    assert isinstance(result, CursorResult)  # noqa: S101 tells the type checker what executing data changes gives
    return result.rowcount


def _vanished(session: Session, here: dict[str, int]) -> tuple[Problem, ...]:
    row = session.execute(text(_VANISHED), here).one()
    if not row.documents:
        return ()
    reason = f"{row.documents:,} documents that were indexed from this file before are no longer found in it"
    return (Problem(offset=row.first, reason=reason),)


def _conflicts(session: Session, repeated: Sequence[Row[Any]]) -> list[Problem]:
    """A problem for each capture that has the URL and time of another, but not its digest."""
    found = [
        (row.new_offset, f"the document of the same URL and time at {row.path}, offset {row.old_offset},")
        for row in session.execute(text(_CONFLICTS))
    ]
    found += [
        (row.offset, f"the capture of the same URL and time at offset {row.first} of this file")
        for row in repeated
        if row.differs
    ]
    return [
        Problem(offset=offset, reason=f"not the content (digest) of {other}: not taken")
        for offset, other in sorted(found)
    ]


def _count_arcs(session: Session, arc_id: int, new: int, moved_out: Sequence[Row[Any]]) -> None:
    changes = {row.arc_id: -row.documents for row in moved_out}
    changes[arc_id] = new - sum(changes.values())
    for changed, documents in sorted(changes.items()):
        session.execute(text(_COUNT_ARC), {"arc_id": changed, "documents": documents})


def _enrol(session: Session, collections: Sequence[int], datestamp: datetime, new: int) -> None:
    ids = sorted(collections)
    session.execute(text(_ENROL), {"datestamp": datestamp, "leaf": collections[0], "collections": ids})
    for collection in ids:
        session.execute(text(_COUNT_COLLECTION), {"documents": new, "collection": collection})
