"""Lets documents follow a change of the tree of collections or of a rule, in chunks and after interruptions.

The change itself is a short transaction that marks the collection as unsettled; its documents follow in
publishing transactions. Whoever finds a collection unsettled goes on where somebody else stopped: what has
followed already is not touched again.
"""

from datetime import datetime

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from provider.holdings.membership import follow
from provider.holdings.publishing import Check, no_check, publish_chosen
from provider.models import Collection, DocumentCollection


def settle(session: Session, *, margin: float, check: Check = no_check) -> int:
    """Let the documents of all unsettled collections follow; gives how many changed.

    Commits by itself; `check` is called now and then, and may raise what ends it.
    """
    waiting = select(Collection.id).where(Collection.unsettled.is_not(None)).order_by(Collection.set_spec)
    return sum(
        settle_collection(session, collection, margin=margin, check=check)
        for collection in session.scalars(waiting).all()
    )


def settle_collection(session: Session, collection: int, *, margin: float, check: Check = no_check) -> int:
    """Let the documents of one collection (its id) follow, if it is unsettled; gives how many were changed.

    Commits by itself.
    """
    row = session.execute(
        select(Collection.unsettled, Collection.moved).where(Collection.id == collection)
    ).one_or_none()
    if row is None or row.unsettled is None:
        return 0
    since, moved = row

    def change(session: Session, datestamp: datetime) -> None:
        follow(session, datestamp, moved=moved)

    members = select(DocumentCollection.document_id).where(DocumentCollection.collection_id == collection)
    changed = publish_chosen(session, members, change, margin=margin, check=check)
    # Somebody may have changed it once more meanwhile.
    session.execute(
        update(Collection)
        .where(Collection.id == collection, Collection.unsettled == since)
        .values(unsettled=None)
    )
    session.commit()
    return changed
