"""Collections: the tree that the archive's staff maintain, and the documents in it.

A document has a row in `document_collection` for each collection that it is assigned to (`direct`) and
for each of that collection's ancestors. Assigning and removing change what harvesters see, so the
documents get a new datestamp.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, delete, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from oai.errors import UsageError
from oai.folding import contains_folded
from provider.holdings import membership
from provider.holdings.membership import settle_collection
from provider.holdings.publication import CHUNK, publish_chosen
from provider.holdings.rules import change_tree, rule_of
from provider.holdings.selection import Selection, conditions
from provider.holdings.sets import COLLECTION_ROOT, ancestors
from provider.indexing.models import IndexRun
from provider.models import Collection, Document, DocumentCollection

_ROOT_NAME: Final = "Collections"


def add_collection(
    session: Session, set_spec: str, *, name: str | None = None, description: str | None = None
) -> Collection:
    """Return the collection of a full set spec; creates it and its ancestors if missing.

    A given name or description replaces the existing one. The caller commits, and settles the collection as
    after `rename`. Raises UsageError if the name is empty.
    """
    if name is not None and not name.strip():
        raise UsageError("the name of a collection must not be empty")
    parent_id: int | None = None
    names = {COLLECTION_ROOT: _ROOT_NAME} | ({} if name is None else {set_spec: name})
    for spec in (*ancestors(set_spec), set_spec):
        row = {"set_spec": spec, "name": names.get(spec, spec.rpartition(":")[2]), "parent_id": parent_id}
        # If another transaction creates the same collection at once, the insert waits for it, and its row
        # is read.
        session.execute(insert(Collection).values(row).on_conflict_do_nothing(index_elements=["set_spec"]))
        parent_id = session.scalars(select(Collection.id).where(Collection.set_spec == spec)).one()
    collection = session.get_one(Collection, parent_id)
    if name is not None:
        rename(session, collection, name)
    if description is not None:
        collection.description = description
    session.flush()
    return collection


def rename(session: Session, collection: Collection, name: str) -> None:
    """Replace a collection's name, which the records of the documents assigned to it show.

    The caller commits, and gives them a new datestamp by `membership.settle_collection`.
    """
    # Documents that become due before the caller commits still show the old name.
    renamed = text("clock_timestamp() + interval '10 minutes'")
    changed = update(Collection).where(Collection.id == collection.id, Collection.name != name)
    session.execute(changed.values(name=name, renamed=renamed))


def list_collections(session: Session, *, limit: int | None = None, after: str = "") -> Sequence[Collection]:
    """Return collections in tree order, each after its parent, after the one with set spec `after`."""
    behind = select(Collection).where(Collection.set_spec > after)
    return session.scalars(behind.order_by(Collection.set_spec).limit(limit)).all()


def find_by_name(session: Session, words: str, *, limit: int) -> Sequence[Collection]:
    """Return collections whose name, whatever its case and accents, or set spec contains the words."""
    spec_has = Collection.set_spec.icontains(words, autoescape=True)
    found = select(Collection).where(or_(contains_folded(Collection.name, words), spec_has))
    return session.scalars(found.order_by(Collection.set_spec).limit(limit)).all()


def deciding(session: Session, found: Sequence[Collection]) -> dict[str, Collection]:
    """Return, by set spec, the collection whose rule applies to each one's documents: itself or an ancestor.

    Of equal rules, its own counts, or the closest ancestor's.
    """
    above = {one.set_spec: ancestors(one.set_spec)[::-1] for one in found}
    specs = {spec for line in above.values() for spec in line}
    known = {
        one.set_spec: one for one in session.scalars(select(Collection).where(Collection.set_spec.in_(specs)))
    }
    return {
        own.set_spec: max(
            [own, *(known[spec] for spec in above[own.set_spec] if spec in known)],
            key=lambda row: rule_of(row).strictness,
        )
        for own in found
    }


def find_collection(session: Session, set_spec: str) -> Collection:
    """Return the collection of a full set spec; raises UsageError if there is none."""
    found = session.scalar(select(Collection).where(Collection.set_spec == set_spec))
    if found is None:
        raise UsageError(
            "no collection %(set_spec)s; add one with `zatva provider collection add`",
            set_spec=repr(set_spec),
        )
    return found


def find_staff_collection(session: Session, set_spec: str) -> Collection:
    """Return the collection, whose documents the staff choose.

    Raises UsageError if there is none, or if imports of titles decide which documents are in it: they would
    undo the change.
    """
    found = find_collection(session, set_spec)
    if found.from_titles:
        raise UsageError(
            "collection %(set_spec)s belongs to imports of titles, which decide which documents are in it; "
            "change its titles or URLs in their source, and import them again",
            set_spec=repr(set_spec),
        )
    return found


def lineage(session: Session, set_spec: str) -> tuple[int, ...]:
    """Return the ids of a collection and its ancestors, itself first.

    Raises UsageError if there is none, or if it belongs to imports of titles.
    """
    own = find_staff_collection(session, set_spec).id
    above = ancestors(set_spec)
    rows = session.execute(select(Collection.set_spec, Collection.id).where(Collection.set_spec.in_(above)))
    ids = {row.set_spec: row.id for row in rows}
    return (own, *(ids[spec] for spec in reversed(above)))


def assign(
    session: Session, set_spec: str, selection: Selection, *, margin: float, chunk: int = CHUNK
) -> int:
    """Assign documents to a collection; return how many were not (directly) in it before. Commits.

    Raises UsageError as `lineage` does.
    """
    collection = find_staff_collection(session, set_spec).id

    def change(session: Session, datestamp: datetime) -> None:
        membership.assign_chosen(session, collection, datestamp)

    chosen = documents_to_change(session, collection, selection, takes_out=False)
    return publish_chosen(session, chosen, change, margin=margin, chunk=chunk)


def remove(
    session: Session, set_spec: str, selection: Selection, *, margin: float, chunk: int = CHUNK
) -> int:
    """Remove documents from a collection; return how many were (directly) in it. Commits.

    A document that is also assigned to a descendant of the collection remains in it because of that. Raises
    UsageError as `lineage` does.
    """
    collection = find_staff_collection(session, set_spec).id

    def change(session: Session, datestamp: datetime) -> None:
        membership.unassign_chosen(session, [collection], datestamp)

    chosen = documents_to_change(session, collection, selection, takes_out=True)
    return publish_chosen(session, chosen, change, margin=margin, chunk=chunk)


def move(session: Session, set_spec: str, new_set_spec: str, *, margin: float) -> int:
    """Move or rename a collection and its descendants; return the number of documents with a new datestamp.

    Files that are queued for them follow. Missing ancestors of the new position are created.
    Commits: first the tree, then the documents in several transactions; after an interruption,
    `membership.settle` finishes them. Raises UsageError if the new position is taken or below the collection
    itself, or as `lineage` does.
    """
    _check_place(set_spec, new_set_spec)
    change_tree(session)
    moved = find_staff_collection(session, set_spec)
    if session.scalar(select(Collection.id).where(Collection.set_spec == new_set_spec)) is not None:
        raise UsageError(
            "collection %(new_set_spec)s already exists; choose another name",
            new_set_spec=repr(new_set_spec),
        )
    above = new_set_spec.rpartition(":")[0]
    moved.parent_id = add_collection(session, above).id
    session.flush()
    for table, column in ((Collection, Collection.set_spec), (IndexRun, IndexRun.collection)):
        renamed = func.concat(new_set_spec, func.substr(column, len(set_spec) + 1))
        session.execute(update(table).where(_in_tree(set_spec, column)).values({column: renamed}))
    now = func.clock_timestamp()
    session.execute(update(Collection).where(Collection.id == moved.id).values(unsettled=now, moved=now))
    number = moved.id
    session.commit()
    return settle_collection(session, number, margin=margin)


def _check_place(set_spec: str, new_set_spec: str) -> None:
    """Reject target positions that are invalid whatever other collections exist."""
    if new_set_spec == set_spec or new_set_spec.startswith(f"{set_spec}:"):
        raise UsageError(
            "collection %(set_spec)s cannot be moved to %(new_set_spec)s, which is below it",
            set_spec=repr(set_spec),
            new_set_spec=repr(new_set_spec),
        )
    if COLLECTION_ROOT in {set_spec, new_set_spec}:
        raise UsageError(
            "the root %(set_spec)s cannot be moved or renamed; name a collection below it",
            set_spec=repr(COLLECTION_ROOT),
        )


def drop(session: Session, set_spec: str, *, force: bool, margin: float) -> int:
    """Remove a collection; return how many documents were in it. Commits.

    With `force`, its documents are removed from it first, and its descendants are removed, too; its
    access rule no longer applies to the documents. Without `force`, raises UsageError if it is not empty; in
    any case as `lineage` does.
    """
    if set_spec == COLLECTION_ROOT:
        raise UsageError("the root %(set_spec)s cannot be removed", set_spec=repr(COLLECTION_ROOT))
    collection = find_staff_collection(session, set_spec)
    below = session.scalars(select(Collection.id).where(_in_tree(set_spec))).all()
    if not force and (collection.documents or len(below) > 1):
        raise UsageError(
            "%(set_spec)s has %(documents)s documents and %(below)s collections below it; remove "
            "them first, or use --force",
            set_spec=repr(set_spec),
            documents=f"{collection.documents:,}",
            below=f"{len(below) - 1:,}",
        )
    taken = 0
    while True:
        taken += _empty(session, collection.id, below, margin=margin)
        change_tree(session)
        below = session.scalars(select(Collection.id).where(_in_tree(set_spec))).all()
        members = select(DocumentCollection.document_id).where(DocumentCollection.collection_id.in_(below))
        if session.scalar(members.limit(1)) is None:
            break
        session.rollback()  # documents were added meanwhile: release the tree lock and empty it again
    for spec in sorted(session.scalars(select(Collection.set_spec).where(_in_tree(set_spec))), reverse=True):
        session.execute(delete(Collection).where(Collection.set_spec == spec))
    session.commit()
    return taken


def _empty(session: Session, collection: int, below: Sequence[int], *, margin: float) -> int:
    def change(session: Session, datestamp: datetime) -> None:
        membership.unassign_chosen(session, below, datestamp)

    members = select(DocumentCollection.document_id).where(DocumentCollection.collection_id == collection)
    return publish_chosen(session, members, change, margin=margin)


def _in_tree(set_spec: str, column: InstrumentedAttribute[Any] = Collection.set_spec) -> ColumnElement[bool]:
    """Return the condition for the collection and its descendants."""
    return or_(column == set_spec, column.startswith(f"{set_spec}:", autoescape=True))


def documents_to_change(
    session: Session, collection_id: int, selection: Selection, *, takes_out: bool
) -> Select[int]:
    """Return the selected documents that are (directly) in a collection, or those that are not."""
    is_direct = exists().where(
        DocumentCollection.document_id == Document.id,
        DocumentCollection.collection_id == collection_id,
        DocumentCollection.direct,
    )
    chosen = select(Document.id).where(*conditions(session, selection))
    return chosen.where(is_direct if takes_out else ~is_direct)
