"""The three trees of sets, one level at a time and page by page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import exists, select
from sqlalchemy.orm import Session, aliased

from oai.errors import UsageError
from provider.holdings.sets import DOMAIN_ROOT, MIMETYPE_ROOT
from provider.models import Collection, Domain, Mimetype


class Tree(StrEnum):
    """Which tree."""

    COLLECTION = "collection"
    DOMAIN = DOMAIN_ROOT
    MIMETYPE = MIMETYPE_ROOT


@dataclass(frozen=True, kw_only=True)
class Node:
    """A set, and how much is in it."""

    set_spec: str
    name: str
    documents: int
    """In it and below, hidden ones included."""
    has_children: bool


_TABLES: Final[Mapping[Tree, type[Collection | Domain | Mimetype]]] = {
    Tree.COLLECTION: Collection,
    Tree.DOMAIN: Domain,
    Tree.MIMETYPE: Mimetype,
}


def tree_of(set_spec: str) -> Tree:
    """The tree that a set spec is of. Raises UsageError where there is no such tree."""
    try:
        return Tree(set_spec.partition(":")[0])
    except ValueError:
        raise UsageError(
            "unknown tree in %(set_spec)s; setSpecs begin with %(trees)s",
            set_spec=repr(set_spec),
            trees=", ".join(Tree),
        ) from None


def children(
    session: Session,
    tree: Tree,
    *,
    below: str | None = None,
    limit: int,
    after: str = "",
) -> Sequence[Node]:
    """The sets directly below one, or the uppermost ones, by set spec, behind the one with set spec `after`.

    Raises UsageError where there is no set `below`.
    """
    table = _TABLES[tree]
    child = aliased(table)
    query = select(table.set_spec, table.name, table.documents, exists().where(child.parent_id == table.id))
    if below is None:
        query = query.where(table.parent_id.is_(None))
    else:
        parent = session.scalar(select(table.id).where(table.set_spec == below))
        if parent is None:
            raise UsageError("no set %(below)s; it may have been removed", below=repr(below))
        query = query.where(table.parent_id == parent)
    rows = session.execute(query.where(table.set_spec > after).order_by(table.set_spec).limit(limit))
    return [
        Node(set_spec=spec, name=name, documents=documents, has_children=more)
        for spec, name, documents, more in rows
    ]
