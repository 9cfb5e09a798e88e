"""Hiding documents from harvesters, as deleted records, and showing them again.

The repository keeps deletions (`deletedRecord` is persistent): a hidden document stays in its sets, so that
harvests by set see the deletion (specification, section 2.5.1).
"""

from datetime import datetime

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from provider.holdings.publishing import publish_chosen
from provider.holdings.selection import Selection, conditions
from provider.models import Document

_MARK = """
WITH changed AS (
    UPDATE document SET deleted = :deleted
    WHERE id = ANY(ARRAY(SELECT id FROM chosen)) AND deleted <> :deleted RETURNING id
)
INSERT INTO altered SELECT id FROM changed
"""


def hide(session: Session, selection: Selection, *, margin: float) -> int:
    """Mark documents as deleted; gives how many were not before. Commits by itself."""
    return _mark(session, selection, deleted=True, margin=margin)


def unhide(session: Session, selection: Selection, *, margin: float) -> int:
    """Show hidden documents again; gives how many were hidden. Commits by itself.

    What an access rule withholds stays deleted for harvesters.
    """
    return _mark(session, selection, deleted=False, margin=margin)


def _mark(session: Session, selection: Selection, *, deleted: bool, margin: float) -> int:
    def change(session: Session, _datestamp: datetime) -> None:
        session.execute(text(_MARK), {"deleted": deleted})

    chosen = select(Document.id).where(*conditions(session, selection), Document.deleted.is_not(deleted))
    return publish_chosen(session, chosen, change, margin=margin)
