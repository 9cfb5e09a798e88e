"""Merges the staged captures of one archive file: new, unchanged, moved or duplicate documents.

Runs inside a publishing transaction (see `provider.holdings.publication`) on the temporary tables of
`indexing.staging`. If all captures of a file are new, which is the case that speed depends on, they are
inserted and counted without further queries.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final, cast

from sqlalchemy import CursorResult, Row, text
from sqlalchemy.orm import Session

from oai.failures import FailureCode
from provider.holdings.arcs import AssignedRow, find_former_files, read_again
from provider.holdings.rules import Enrolment
from provider.holdings.takedowns import hide_new, hold_register
from provider.holdings.unlisted import hold_counts
from provider.indexing.former_documents import vanished_documents
from provider.models import UNLISTED
from provider.reading.framing import FramingProblem
from provider.titles.access import follow_new, hold_titles
from provider.titles.document_sets import TITLE_OF
from provider.titles.front_pages import forget_front_pages

# `:unlisted` is 1 for documents that are withheld from the beginning, otherwise 0.
_TREE: Final = """
WITH RECURSIVE counted (id, documents) AS (
    SELECT {column}, count(*) FROM fresh WHERE {column} IS NOT NULL GROUP BY {column}
    UNION ALL
    SELECT {tree}.parent_id, counted.documents
    FROM counted JOIN {tree} USING (id) WHERE {tree}.parent_id IS NOT NULL
),
summed AS (SELECT id, sum(documents) AS documents FROM counted GROUP BY id)
UPDATE {tree} SET documents = {tree}.documents + summed.documents,
    unlisted = {tree}.unlisted + summed.documents * :unlisted
FROM summed WHERE {tree}.id = summed.id
"""
_MIMETYPES: Final = _TREE.format(tree="mimetype", column="mime_id")
_DOMAINS: Final = _TREE.format(tree="domain", column="host_id")
_TITLES: Final = """
UPDATE title_documents SET documents = title_documents.documents + counted.documents,
    unlisted = title_documents.unlisted + counted.documents * :unlisted
FROM (SELECT title_id AS id, count(*) AS documents FROM fresh GROUP BY title_id) AS counted
WHERE title_documents.id = counted.id
"""
_MONTHS: Final = """
INSERT INTO document_month AS kept (month, mime_major_id, documents)
SELECT month, mime_major_id, count(*) FROM fresh GROUP BY month, mime_major_id ORDER BY month, mime_major_id
ON CONFLICT (month, mime_major_id) DO UPDATE SET documents = kept.documents + excluded.documents
"""


def count_new(session: Session, *, unlisted: bool) -> None:
    """Add the documents in the temporary table `fresh` to the counts of their sets and months."""
    hold_counts(session)
    session.execute(text(_MONTHS))
    for statement in (_MIMETYPES, _DOMAINS, _TITLES):
        session.execute(text(statement), {"unlisted": int(unlisted)})


# A capture known only from a CDX file has its time to the second; it keeps the key made from that time.
SAME_PLACE: Final = """
UPDATE candidate SET key = document.key
FROM document
WHERE document.arc_id = {arc} AND document."offset" = candidate."offset" AND document.url = candidate.url
    AND document.key <> candidate.key
    AND date_trunc('second', document.archived) = date_trunc('second', candidate.archived)
"""

# Ordered by host and URL, so that their indexes are written page by page; all loaders use the same order, so
# that two with captures in common cannot deadlock. The first capture of a key in a file becomes the
# document, but a revisit only if no other record of the file has its content.
_INSERT: Final = f"""
WITH inserted AS (
    INSERT INTO document (
        key, arc_id, "offset", length, url, archived, datestamp, tld_id, domain_id, host_id, mime_major_id,
        mime_id, http_status, digest, record_type, title, url_key, title_id, packed_length, access,
        embargo_until, recognised_type, declared_type, language
    )
    SELECT
        key, coalesce(arc_id, :arc_id), "offset", length, url, archived, :datestamp, tld_id, domain_id,
        host_id, mime_major_id, mime_id, http_status, digest, record_type, title, url_key,
        {TITLE_OF.format(key="candidate.url_key")}, packed_length, :access, :embargo_until, recognised_type,
        declared_type, language
    FROM candidate
    ORDER BY host_id, url_key, key, record_type = 'revisit', "offset"
    ON CONFLICT (key) DO NOTHING
    RETURNING key, id, arc_id, host_id, mime_major_id, mime_id, title_id, archived
)
INSERT INTO fresh
SELECT key, id, arc_id, host_id, mime_major_id, mime_id, title_id,
    date_trunc('month', archived, 'UTC') AT TIME ZONE 'UTC'
FROM inserted
"""  # noqa: S608 constant text

# Where digests say nothing, lengths do; a revisit has no content of its own.
_UNLIKE: Final = """coalesce(
    pg_temp.same(candidate.digest, {other}.digest) IS NULL AND candidate.length <> {other}.length
        AND candidate.record_type = {other}.record_type AND candidate.record_type <> 'revisit', false
)"""
# A capture that equals the document comes before others of its key: its content is still in the file. A
# record with the content of a document that is a revisit reveals it, in whatever file. The file itself knows
# better than a CDX file that has listed its document.
_KNOWN: Final = f"""
INSERT INTO known
SELECT DISTINCT ON (candidate.key)
    candidate.key, document.id, document.arc_id, candidate."offset", document."offset", found.differs,
    {_UNLIKE.format(other="document")},
    found.differs OR NOT reveals AND (
        coalesce(candidate.length <> document.length, false)
        OR document.length IS NOT NULL AND candidate.record_type <> document.record_type
    ) AS alters,
    reveals,
    candidate.length IS NOT NULL
        AND (document.length IS NULL OR document.title IS NULL AND candidate.title IS NOT NULL
            OR document.language IS NULL AND candidate.language IS NOT NULL OR reveals)
FROM candidate
JOIN document USING (key)
CROSS JOIN LATERAL (
    SELECT pg_temp.same(candidate.digest, document.digest) IS FALSE
            AND NOT (document.length IS NULL AND document.arc_id = :arc_id) AS differs,
        document.record_type = 'revisit' AND candidate.record_type <> 'revisit' AS reveals
) AS found
WHERE NOT EXISTS (SELECT FROM fresh WHERE fresh.key = candidate.key)
ORDER BY candidate.key, pg_temp.same(candidate.digest, document.digest) IS FALSE,
    candidate.record_type = 'revisit', alters, candidate."offset"
"""  # noqa: S608 constant text
# The file itself has other content for its document. What is known of the former content is removed; then the
# document gets its facts and its new datestamp like one that only a CDX file had listed. One of another type,
# unless it is unknown, is left as it is: a document stays in its sets.
_REPLACE: Final = """
WITH replaced AS (
    UPDATE known SET differs = false, lacks = true
    FROM candidate JOIN document USING (key) JOIN mimetype ON mimetype.id = document.mime_id
    WHERE known.alters AND known.arc_id = :arc_id AND candidate."offset" = known.new_offset
        AND candidate.key = known.key AND (mimetype.id = candidate.mime_id OR mimetype.name = 'unknown')
    RETURNING known.id, known.new_offset, candidate.declared_type
)
UPDATE document SET length = NULL, digest = NULL, title = NULL, language = NULL, http_status = NULL,
    recognised_type = NULL, declared_type = replaced.declared_type
FROM replaced WHERE document.id = replaced.id
RETURNING document.id, replaced.new_offset
"""
_ELSEWHERE: Final = "SELECT DISTINCT arc_id FROM known WHERE arc_id <> :arc_id"
# A file that has changed may still have its document, which therefore moves only to a record that equals it.
_CLASSIFY: Final = """
UPDATE known SET state = CASE
    WHEN differs THEN 'differs'
    WHEN arc_id = :arc_id AND old_offset = new_offset THEN 'unchanged'
    WHEN arc_id = :arc_id OR reveals OR arc_id = ANY(:missing) THEN 'moved'
    WHEN arc_id = ANY(:doubtful) AND NOT alters THEN 'moved'
    WHEN unlike THEN 'differs'
    ELSE 'duplicate'
END
"""
# Another loader may be moving the same documents: the update waits for it, and then leaves them to it.
_MOVE: Final = """
WITH moved AS (
    UPDATE document SET arc_id = :arc_id, "offset" = known.new_offset
    FROM known WHERE known.id = document.id AND known.state = 'moved' AND known.arc_id = document.arc_id
    RETURNING document.id
)
UPDATE known SET state = 'duplicate' WHERE state = 'moved' AND id NOT IN (SELECT id FROM moved)
"""
# No datestamp changes: harvesters do not see it. The file may have been compressed differently, and types may
# be recognised now. A document stays in its sets: a harvester of a set does not learn that it has left.
_MEASURE: Final = """
UPDATE document SET packed_length = candidate.packed_length,
    recognised_type = coalesce(candidate.recognised_type, document.recognised_type)
FROM known JOIN candidate ON candidate.key = known.key AND candidate."offset" = known.new_offset
WHERE known.id = document.id AND known.state IN ('unchanged', 'moved')
    AND (document.packed_length IS DISTINCT FROM candidate.packed_length
        OR document.recognised_type
            IS DISTINCT FROM coalesce(candidate.recognised_type, document.recognised_type))
"""
_COMPLETE: Final = """
UPDATE document SET
    length = candidate.length, title = coalesce(candidate.title, document.title),
    language = coalesce(candidate.language, document.language),
    digest = CASE WHEN document.length IS NULL THEN coalesce(candidate.digest, document.digest)
        ELSE coalesce(document.digest, candidate.digest) END,
    http_status = coalesce(candidate.http_status, document.http_status), record_type = candidate.record_type,
    datestamp = CASE WHEN document.datestamp = :unlisted THEN :unlisted ELSE :datestamp END
FROM known JOIN candidate ON candidate.key = known.key AND candidate."offset" = known.new_offset
WHERE known.id = document.id AND known.lacks AND known.state IN ('unchanged', 'moved')
"""
_COMPLETE_MEMBERSHIPS: Final = """
UPDATE document_collection AS membership SET datestamp = document.datestamp
FROM known JOIN document ON document.id = known.id
WHERE membership.document_id = known.id AND known.lacks AND membership.datestamp <> document.datestamp
"""
_STATES: Final = "SELECT state, count(*) AS documents FROM known GROUP BY state"
_MOVED_OUT: Final = """
SELECT arc_id, count(*) AS documents FROM known WHERE state = 'moved' AND arc_id <> :arc_id
GROUP BY arc_id
"""
_CONFLICTS: Final = """
SELECT known.new_offset, known.old_offset, coalesce(arc.path, arc.listed_name, arc.name) AS path
FROM known JOIN arc ON arc.id = known.arc_id WHERE known.state = 'differs' ORDER BY known.new_offset
"""
_REPEATED: Final = f"""
WITH first AS (
    SELECT DISTINCT ON (key) key, "offset", digest, length, record_type FROM candidate
    ORDER BY key, record_type = 'revisit', "offset"
)
SELECT
    candidate."offset", first."offset" AS first,
    pg_temp.same(candidate.digest, first.digest) IS FALSE OR {_UNLIKE.format(other="first")} AS differs
FROM candidate JOIN first USING (key) WHERE candidate."offset" <> first."offset" ORDER BY candidate."offset"
"""  # noqa: S608 constant text
_COUNT_ARC: Final = "UPDATE arc SET documents = documents + :documents WHERE id = :arc_id"
_ENROL: Final = """
INSERT INTO document_collection (document_id, collection_id, datestamp, direct)
SELECT fresh.id, collection.id, :datestamp, collection.id = :leaf
FROM fresh CROSS JOIN collection WHERE collection.id = ANY(:collections)
"""
_COUNT_COLLECTION: Final = """
UPDATE collection SET documents = documents + :documents, unlisted = unlisted + :documents * :unlisted
WHERE id = :collection
"""
# Rows are locked in id order, so that two loaders cannot deadlock.
_COUNT_ARCS: Final = """
WITH counted AS (SELECT arc_id, count(*) AS documents FROM fresh GROUP BY arc_id),
locked AS (SELECT id FROM arc JOIN counted ON arc_id = id ORDER BY id FOR NO KEY UPDATE OF arc)
UPDATE arc SET documents = arc.documents + counted.documents
FROM counted JOIN locked ON locked.id = arc_id WHERE arc.id = arc_id
"""
# Of the lines with a document's key and content, the one that lists it: at its offset if there is one.
_LISTED: Final = """
INSERT INTO known (key, id, arc_id, new_offset)
SELECT DISTINCT ON (key) key, document.id, candidate.arc_id, candidate."offset"
FROM candidate JOIN document USING (key)
WHERE pg_temp.same(candidate.digest, document.digest) IS NOT FALSE
ORDER BY key, candidate.arc_id <> document.arc_id, candidate.digest IS NULL,
    candidate.record_type <> document.record_type, candidate."offset" <> document."offset",
    candidate.record_type = 'revisit', candidate."offset"
"""
# If the archive file itself was read, its offset is more reliable.
_MOVE_LISTED: Final = """
UPDATE document SET "offset" = known.new_offset
FROM known
WHERE document.id = known.id AND document.arc_id = known.arc_id
    AND document."offset" <> known.new_offset AND document.length IS NULL
"""
_DIFFERENT: Final = """
SELECT candidate."offset", candidate.url, coalesce(known.arc_id = candidate.arc_id, false) AS same_file
FROM candidate JOIN document USING (key) LEFT JOIN known USING (key)
WHERE pg_temp.same(candidate.digest, document.digest) IS FALSE ORDER BY candidate."offset"
"""


@dataclass(frozen=True, kw_only=True)
class Merged:
    """The result of merging the captures of one file."""

    new: int = 0
    unchanged: int = 0
    moved: int = 0
    duplicates: int = 0
    completed: int = 0
    """Unchanged and moved documents that were known only from a CDX file or a revisit, or had no title or
    language, or whose content was replaced in their file."""
    problems: tuple[FramingProblem, ...] = ()
    gone: tuple[int, ...] = field(default=(), repr=False)
    """Ids of missing files from which documents were moved here."""


def merge(
    session: Session,
    assigned: AssignedRow,
    captures: int,
    datestamp: datetime,
    enrolment: Enrolment | None = None,
) -> Merged:
    """Insert the new documents, move those that their file has lost, and update the counts.

    `captures` is the number of staged captures. Documents that are new or get new facts get `datestamp`;
    moved ones keep theirs, because their published records do not change.
    """
    vanished: tuple[FramingProblem, ...] = ()
    if assigned.known:
        session.execute(text("ANALYZE candidate"))
        session.execute(text(SAME_PLACE.format(arc=":arc_id")), {"arc_id": assigned.arc_id})
        vanished = vanished_documents(session, assigned.arc_id) if assigned.whole else ()
    new = insert_new(session, assigned.arc_id, datestamp, enrolment)
    if new == captures:
        _count_arcs(session, assigned.arc_id, new, ())
        return Merged(new=new, problems=vanished)
    merged = _merge_known(session, assigned, new, datestamp)
    return replace(merged, new=new, problems=(*vanished, *merged.problems))


def merge_listed(session: Session, captures: int, datestamp: datetime, enrolment: Enrolment | None) -> Merged:
    """Insert the new staged captures, and correct offsets known only from CDX files.

    `captures` is the number of staged captures. Call this within a publishing transaction.
    """
    session.execute(text("ANALYZE candidate"))
    session.execute(text(SAME_PLACE.format(arc="candidate.arc_id")))
    new = insert_new(session, None, datestamp, enrolment)
    session.execute(text(_COUNT_ARCS))
    if new == captures:
        return Merged(new=new)
    listed = rows_changed(session, _LISTED, {})
    moved = rows_changed(session, _MOVE_LISTED, {})
    problems = tuple(
        _different(offset, f"the digest differs from that of the document {url!r}", same_file=same_file)
        for offset, url, same_file in session.execute(text(_DIFFERENT))
    )
    return Merged(
        new=new,
        moved=moved,
        unchanged=listed - new - moved,
        duplicates=captures - listed - len(problems),
        problems=problems,
    )


def insert_new(session: Session, arc_id: int | None, datestamp: datetime, enrolment: Enrolment | None) -> int:
    """Insert new candidates with their memberships, update all counts but the file's; return how many.

    `arc_id` is the file's id, for candidates without one of their own.
    """
    hold_titles(session)
    hold_register(session)
    rule = enrolment.rule if enrolment else None
    dated = rule.datestamp(datestamp) if rule else datestamp
    values = {
        "arc_id": arc_id,
        "datestamp": dated,
        "access": rule.access if rule else "open",
        "embargo_until": rule.embargo_until if rule else None,
    }
    new = rows_changed(session, _INSERT, values)
    if not new:
        return 0
    if enrolment is not None:
        _enrol(session, enrolment.collections, dated, new)
    count_new(session, unlisted=dated == UNLISTED)
    follow_new(session, dated)
    hide_new(session)
    return new


def _merge_known(session: Session, assigned: AssignedRow, new: int, datestamp: datetime) -> Merged:
    here = {"arc_id": assigned.arc_id}
    session.execute(text("ANALYZE candidate, fresh"))
    session.execute(text(_KNOWN), here)
    replaced = _replaced(session, assigned)
    former = find_former_files(session, session.scalars(text(_ELSEWHERE), here).all())
    classes = {"missing": list(former.missing), "doubtful": list(former.doubtful)}
    session.execute(text(_CLASSIFY), here | classes)
    session.execute(text(_MOVE), here)
    states = {row.state: row.documents for row in session.execute(text(_STATES))}
    moved_out = session.execute(text(_MOVED_OUT), here).all()
    session.execute(text(_MEASURE))
    completed = complete(session, datestamp)
    repeated = session.execute(text(_REPEATED)).all()
    _count_arcs(session, assigned.arc_id, new, moved_out)
    read_again(session, [row.arc_id for row in moved_out])
    unchanged = states.get("unchanged", 0)
    return Merged(
        unchanged=0 if assigned.moved else unchanged,
        moved=states.get("moved", 0) + (unchanged if assigned.moved else 0),
        duplicates=states.get("duplicate", 0) + sum(not row.differs for row in repeated),
        completed=completed,
        problems=(*replaced, *_conflicts(session, repeated)),
        gone=former.missing,
    )


def complete(session: Session, datestamp: datetime) -> int:
    """Add facts from the captures that documents lack, with a new datestamp, because records change."""
    completed = rows_changed(session, _COMPLETE, {"datestamp": datestamp, "unlisted": UNLISTED})
    if completed:
        session.execute(text(_COMPLETE_MEMBERSHIPS))
    return completed


def rows_changed(session: Session, statement: str, values: dict[str, Any]) -> int:
    """Execute a statement and return the number of rows that it changed."""
    return cast("CursorResult[Any]", session.execute(text(statement), values)).rowcount


def _replaced(session: Session, assigned: AssignedRow) -> tuple[FramingProblem, ...]:
    """Make documents whose content was replaced in their own file ready for the content that is there now.

    A file that was not read to its end may have the former content in the rest.
    """
    if not (assigned.known and assigned.whole):
        return ()
    rows = session.execute(text(_REPLACE), {"arc_id": assigned.arc_id}).all()
    if not rows:
        return ()
    forget_front_pages(session, [row.id for row in rows])
    reason = f"the file was replaced; documents with other content than when they were indexed: {len(rows):,}"
    first = min(row.new_offset for row in rows)
    return (FramingProblem.of(FailureCode.ARCHIVE_CONTENT_REPLACED, reason, offset=first, count=len(rows)),)


def _conflicts(session: Session, repeated: Sequence[Row[Any]]) -> list[FramingProblem]:
    """Return a problem for each capture with the URL and time of another one, but a different digest."""
    same = "the content differs from the {} with the same URL and time at"
    found = [
        _different(row.new_offset, f"{same.format('document')} {row.path}, offset {row.old_offset}")
        for row in session.execute(text(_CONFLICTS))
    ]
    return found + [
        _different(row.offset, f"{same.format('capture')} offset {row.first} of this file", same_file=True)
        for row in repeated
        if row.differs
    ]


def _different(offset: int, reason: str, *, same_file: bool = False) -> FramingProblem:
    code = FailureCode.ARCHIVE_TIME_REPEATED if same_file else FailureCode.ARCHIVE_DIGEST_DIFFERS
    return FramingProblem.of(code, f"{reason}: not indexed", offset=offset)


def _count_arcs(session: Session, arc_id: int, new: int, moved_out: Sequence[Row[Any]]) -> None:
    changes = {row.arc_id: -row.documents for row in moved_out}
    changes[arc_id] = new - sum(changes.values())
    for changed, documents in sorted(changes.items()):
        session.execute(text(_COUNT_ARC), {"arc_id": changed, "documents": documents})


def _enrol(session: Session, collections: Sequence[int], datestamp: datetime, new: int) -> None:
    enrolled = {"datestamp": datestamp, "leaf": collections[0], "collections": list(collections)}
    session.execute(text(_ENROL), enrolled)
    for collection in sorted(collections):
        values = {"documents": new, "unlisted": int(datestamp == UNLISTED), "collection": collection}
        session.execute(text(_COUNT_COLLECTION), values)
