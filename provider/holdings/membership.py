"""Memberships that follow the tree: a document is in every ancestor of a collection it is assigned to.

The set-based statements work on the temporary tables of `publication.publish_chosen`: `chosen` contains
the documents, and changed documents are added to `altered`.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, exists, or_, select, text, update
from sqlalchemy.orm import Session

from provider.holdings.publication import CHUNK, Check, no_check, publish_chosen
from provider.holdings.rules import follow_rules, hold_tree
from provider.models import Collection, DocumentCollection

# A concurrent assignment of the same document waits for its locked row in `document`.
_ASSIGN: Final = """
WITH changed AS (
    INSERT INTO document_collection AS membership (document_id, collection_id, datestamp, direct)
    SELECT chosen.id, :collection, :datestamp, true FROM chosen ORDER BY chosen.id
    ON CONFLICT (document_id, collection_id) DO UPDATE SET direct = true WHERE NOT membership.direct
    RETURNING document_id, xmax = 0 AS added
),
noted AS (INSERT INTO altered SELECT document_id FROM changed)
SELECT CAST(:collection AS int) AS collection_id, count(*) FILTER (WHERE added) AS documents FROM changed
"""
# A segment of URL keys says in which curated collections a document is (`titles.collection_documents`).
_CURATED: Final = """
WITH named AS MATERIALIZED (
    SELECT chosen.id, segment.collections, document.datestamp
    FROM chosen JOIN document ON document.id = chosen.id LEFT JOIN LATERAL (
        SELECT CASE WHEN document.url_key < high THEN collections END AS collections
        FROM collection_segment WHERE low <= document.url_key ORDER BY low DESC LIMIT 1
    ) AS segment ON true
    WHERE document.id = ANY(ARRAY(SELECT id FROM chosen))
)
"""
_LEAVE_CURATED: Final = f"""
{_CURATED},
changed AS (
    UPDATE document_collection AS membership SET direct = false FROM named, collection
    WHERE membership.document_id = named.id AND membership.document_id = ANY(ARRAY(SELECT id FROM chosen))
        AND membership.direct AND collection.id = membership.collection_id AND collection.from_titles
        AND NOT membership.collection_id = ANY(coalesce(named.collections, '{{}}'))
    RETURNING membership.document_id
)
INSERT INTO altered SELECT document_id FROM changed
"""  # noqa: S608 constant text
_ENTER_CURATED: Final = f"""
{_CURATED},
changed AS (
    INSERT INTO document_collection AS membership (document_id, collection_id, datestamp, direct)
    SELECT named.id, collection_id, named.datestamp, true
    FROM named CROSS JOIN LATERAL unnest(named.collections) AS collection_id
    ORDER BY named.id, collection_id
    ON CONFLICT (document_id, collection_id) DO UPDATE SET direct = true WHERE NOT membership.direct
    RETURNING document_id, collection_id, xmax = 0 AS added
),
noted AS (INSERT INTO altered SELECT document_id FROM changed)
SELECT collection_id, count(*) FILTER (WHERE added) AS documents FROM changed GROUP BY collection_id
"""  # noqa: S608 constant text
_UNASSIGN: Final = """
WITH changed AS (
    UPDATE document_collection AS membership SET direct = false
    WHERE membership.document_id = ANY(ARRAY(SELECT id FROM chosen)) AND membership.direct
        AND membership.collection_id = ANY(:collections)
    RETURNING membership.document_id
)
INSERT INTO altered SELECT document_id FROM changed
"""
_ANCESTRY: Final = """
WITH RECURSIVE ancestry (below, above) AS (
    SELECT id, parent_id FROM collection WHERE parent_id IS NOT NULL
    UNION
    SELECT ancestry.below, collection.parent_id
    FROM ancestry JOIN collection ON collection.id = ancestry.above WHERE collection.parent_id IS NOT NULL
)
"""
# OFFSET forces one index look-up per chosen document: as a join, it could become a scan of all memberships
# of the archive, repeated for each chunk of documents.
_WANTED: Final = f"""
{_ANCESTRY},
ours AS MATERIALIZED (
    SELECT membership.document_id, membership.collection_id, membership.direct
    FROM chosen CROSS JOIN LATERAL (
        SELECT document_id, collection_id, direct FROM document_collection
        WHERE document_id = chosen.id OFFSET 0
    ) AS membership
),
wanted AS (
    SELECT DISTINCT ours.document_id, ancestry.above AS collection_id
    FROM ours JOIN ancestry ON ancestry.below = ours.collection_id WHERE ours.direct
)
"""  # noqa: S608 constant names
_ADD_ABOVE: Final = f"""
{_WANTED},
added AS (
    INSERT INTO document_collection (document_id, collection_id, datestamp, direct)
    SELECT document_id, collection_id, :datestamp, false FROM wanted ORDER BY document_id, collection_id
    ON CONFLICT (document_id, collection_id) DO NOTHING
    RETURNING document_id, collection_id
),
noted AS (INSERT INTO altered SELECT document_id FROM added)
SELECT collection_id, count(*) AS documents FROM added GROUP BY collection_id ORDER BY collection_id
"""  # noqa: S608 constant names
_TAKE_STRAY: Final = f"""
{_WANTED},
stray AS (
    SELECT document_id, collection_id FROM ours WHERE NOT direct
    EXCEPT SELECT document_id, collection_id FROM wanted
),
removed AS (
    DELETE FROM document_collection AS membership
    USING stray
    WHERE membership.document_id = ANY(ARRAY(SELECT document_id FROM stray))
        AND membership.document_id = stray.document_id AND membership.collection_id = stray.collection_id
        AND NOT membership.direct
    RETURNING membership.document_id, membership.collection_id
),
noted AS (INSERT INTO altered SELECT document_id FROM removed)
SELECT collection_id, -count(*) AS documents FROM removed GROUP BY collection_id ORDER BY collection_id
"""  # noqa: S608 constant names
# Rows are locked in the order of ids, so that two concurrent changes cannot deadlock.
_COUNT: Final = """
WITH held AS MATERIALIZED (
    SELECT id FROM collection WHERE id = ANY(CAST(:ids AS int[])) ORDER BY id FOR NO KEY UPDATE
)
UPDATE collection SET documents = collection.documents + change.documents
FROM held JOIN unnest(CAST(:ids AS int[]), CAST(:documents AS bigint[])) AS change (id, documents)
    ON change.id = held.id
WHERE collection.id = held.id
"""
_ENTER_OLD_SPEC: Final = """
INSERT INTO altered
SELECT id FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND datestamp <= :moved
"""
# The headers of deleted and withheld documents have no names of collections.
_SHOW_OLD_NAME: Final = """
INSERT INTO altered
SELECT id FROM document WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND datestamp <= :renamed
    AND NOT deleted AND access <> 'withheld'
"""


def assign_chosen(session: Session, collection: int, datestamp: datetime) -> None:
    """Assign the documents in `chosen` to a collection (its id), and update memberships and access."""
    hold_tree(session)
    values = {"collection": collection, "datestamp": datestamp}
    _follow(session, datestamp, session.execute(text(_ASSIGN), values).all())


def unassign_chosen(session: Session, collections: Sequence[int], datestamp: datetime) -> None:
    """Unassign the documents in `chosen` from these collections, and update memberships and access."""
    hold_tree(session)
    session.execute(text(_UNASSIGN), {"collections": list(collections)})
    _follow(session, datestamp)


def follow_curated(session: Session, datestamp: datetime, *, are_new: bool = False) -> None:
    """Let the documents in `chosen` be in the curated collections that their segments of URL keys name.

    Updates memberships, counts and access; `datestamp` is that of new memberships in their ancestors. New
    documents are in no curated collection yet.
    """
    if not session.scalar(select(exists().where(Collection.from_titles))):
        follow_rules(session)
        return
    hold_tree(session)
    if not are_new:
        session.execute(text(_LEAVE_CURATED))
    _follow(session, datestamp, session.execute(text(_ENTER_CURATED)).all())


def follow(session: Session, datestamp: datetime, *, moved: datetime | None) -> None:
    """Update memberships, counts and access of the documents in `chosen` from tree, assignments and rules.

    Documents dated up to `moved` were published with an obsolete set spec and get a new datestamp in any
    case.
    """
    hold_tree(session)
    _follow(session, datestamp)
    if moved is not None:
        session.execute(text(_ENTER_OLD_SPEC), {"moved": moved})


def _follow(session: Session, datestamp: datetime, changes: Sequence[Row[Any]] = ()) -> None:
    numbers: Counter[int] = Counter()
    stray = session.execute(text(_TAKE_STRAY)).all()
    added = session.execute(text(_ADD_ABOVE), {"datestamp": datestamp}).all()
    for row in (*changes, *stray, *added):
        numbers[row.collection_id] += row.documents
    if counted := {collection: documents for collection, documents in numbers.items() if documents}:
        values = {"ids": list(counted), "documents": list(counted.values())}
        session.execute(text(_COUNT), values)
    follow_rules(session)


def settle(session: Session, *, margin: float, check: Check = no_check) -> int:
    """Update the documents of all unsettled collections; return how many changed.

    Commits; `check` is called periodically and may raise to stop.
    """
    changed = or_(Collection.unsettled.is_not(None), Collection.renamed.is_not(None))
    waiting = select(Collection.id).where(changed).order_by(Collection.set_spec)
    return sum(
        settle_collection(session, collection, margin=margin, check=check)
        for collection in session.scalars(waiting).all()
    )


def settle_collection(
    session: Session,
    collection: int,
    *,
    margin: float,
    check: Check = no_check,
    chunk: int = CHUNK,
) -> int:
    """Update the documents of one collection (its id) if it is unsettled or renamed; return how many changed.

    Commits.
    """
    row = session.execute(
        select(Collection.unsettled, Collection.moved, Collection.renamed).where(Collection.id == collection)
    ).one_or_none()
    if row is None:
        return 0

    def follow_tree(session: Session, datestamp: datetime) -> None:
        follow(session, datestamp, moved=row.moved)

    def follow_name(session: Session, _datestamp: datetime) -> None:
        session.execute(text(_SHOW_OLD_NAME), {"renamed": row.renamed})

    members = select(DocumentCollection.document_id).where(DocumentCollection.collection_id == collection)
    changed = 0
    for column, since, chosen, change in (
        (Collection.unsettled, row.unsettled, members, follow_tree),
        (Collection.renamed, row.renamed, members.where(DocumentCollection.direct), follow_name),
    ):
        if since is None:
            continue
        changed += publish_chosen(session, chosen, change, margin=margin, check=check, chunk=chunk)
        # Compare-and-swap: if the collection was changed again meanwhile, it stays unsettled.
        unchanged = update(Collection).where(Collection.id == collection, column == since)
        session.execute(unchanged.values({column: None}))
        session.commit()
    return changed
