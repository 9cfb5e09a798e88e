"""Collections: the tree that the archive's staff make, and which documents are in it.

A document has a row in `document_collection` for each collection that it is assigned to (`direct`) and for
each one above it. Assigning and removing change what harvesters see, so the documents are dated anew.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Row, Select, exists, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.models import Collection, Document, DocumentCollection
from provider.publishing import publish_chosen
from provider.selection import Selection, conditions
from provider.sets import COLLECTION_ROOT, ancestors

_ROOT_NAME: Final = "Collections"

_MAKE_DIRECT: Final = """
UPDATE document_collection AS membership SET direct = :direct
FROM chosen WHERE membership.document_id = chosen.id AND membership.collection_id = :leaf
"""
_ADD: Final = """
WITH added AS (
    INSERT INTO document_collection (document_id, collection_id, datestamp, direct)
    SELECT chosen.id, collection.id, :datestamp, collection.id = :leaf
    FROM chosen CROSS JOIN collection WHERE collection.id = ANY(:lineage)
    ORDER BY chosen.id, collection.id
    ON CONFLICT (document_id, collection_id) DO NOTHING
    RETURNING collection_id
)
SELECT collection_id, count(*) AS documents FROM added GROUP BY collection_id ORDER BY collection_id
"""
# A row stays where the document is still assigned to a collection further below.
_TAKE_AWAY: Final = """
WITH removed AS (
    DELETE FROM document_collection AS membership
    USING chosen, collection AS above
    WHERE membership.document_id = chosen.id
        AND membership.collection_id = above.id AND above.id = ANY(:lineage)
        AND NOT membership.direct
        AND NOT EXISTS (
            SELECT FROM document_collection AS other
            JOIN collection AS below ON below.id = other.collection_id
            WHERE other.document_id = membership.document_id AND other.direct
                AND starts_with(below.set_spec, above.set_spec || ':')
        )
    RETURNING membership.collection_id
)
SELECT collection_id, -count(*) AS documents FROM removed GROUP BY collection_id ORDER BY collection_id
"""
_COUNT: Final = "UPDATE collection SET documents = documents + :documents WHERE id = :collection_id"


def add_collection(
    session: Session, set_spec: str, *, name: str | None = None, description: str | None = None
) -> Collection:
    """The collection of a full set spec, made with all above it where it is not there; the caller commits.

    A name or description that is given takes the place of what was there.
    """
    parent_id: int | None = None
    for spec in (*ancestors(set_spec), set_spec):
        default = _ROOT_NAME if spec == COLLECTION_ROOT else spec.rpartition(":")[2]
        row = {"set_spec": spec, "name": default, "parent_id": parent_id}
        session.execute(insert(Collection).values(row).on_conflict_do_nothing(index_elements=["set_spec"]))
        parent_id = session.scalars(select(Collection.id).where(Collection.set_spec == spec)).one()
    collection = session.get_one(Collection, parent_id)
    if name is not None:
        collection.name = name
    if description is not None:
        collection.description = description
    session.flush()
    return collection


def list_collections(session: Session) -> Sequence[Collection]:
    """All collections, each below its parent."""
    return session.scalars(select(Collection).order_by(Collection.set_spec)).all()


def lineage(session: Session, set_spec: str) -> tuple[int, ...]:
    """The ids of a collection and of those above it, itself first. Raises UsageError where there is none."""
    specs = (set_spec, *reversed(ancestors(set_spec)))
    ids = {
        row.set_spec: row.id
        for row in session.scalars(select(Collection).where(Collection.set_spec.in_(specs)))
    }
    if set_spec not in ids:
        raise UsageError(f"no collection {set_spec!r}; `zatva provider collection add` makes one")
    return tuple(ids[spec] for spec in specs)


def assign(session: Session, set_spec: str, selection: Selection, *, margin: float) -> int:
    """Put documents into a collection; gives how many were not in it (directly) before. Commits by itself."""
    family = lineage(session, set_spec)
    values = {"leaf": family[0], "lineage": list(family)}

    def change(datestamp: datetime) -> None:
        session.execute(text(_MAKE_DIRECT), {"leaf": family[0], "direct": True})
        _count(session, session.execute(text(_ADD), {**values, "datestamp": datestamp}).all())

    chosen = _documents(session, selection).where(~_is_direct(family[0]))
    return publish_chosen(session, chosen, change, margin=margin)


def remove(session: Session, set_spec: str, selection: Selection, *, margin: float) -> int:
    """Take documents out of a collection; gives how many were (directly) in it. Commits by itself.

    A document that is also assigned to a collection below this one stays in this one through that.
    """
    family = lineage(session, set_spec)

    def change(_: datetime) -> None:
        session.execute(text(_MAKE_DIRECT), {"leaf": family[0], "direct": False})
        _count(session, session.execute(text(_TAKE_AWAY), {"lineage": list(family)}).all())

    chosen = _documents(session, selection).where(_is_direct(family[0]))
    return publish_chosen(session, chosen, change, margin=margin)


def _documents(session: Session, selection: Selection) -> Select[int]:
    return select(Document.id).where(*conditions(session, selection))


def _is_direct(collection_id: int) -> Any:  # noqa: ANN401 SQLAlchemy's own type is not public
    return exists().where(
        DocumentCollection.document_id == Document.id,
        DocumentCollection.collection_id == collection_id,
        DocumentCollection.direct,
    )


def _count(session: Session, changes: Sequence[Row[Any]]) -> None:
    for row in changes:
        session.execute(text(_COUNT), {"collection_id": row.collection_id, "documents": row.documents})
