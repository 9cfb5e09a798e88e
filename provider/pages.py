"""Pages of documents and of sets, each from one range scan behind the last item of the page before."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Row, Select, Subquery, func, literal, null, select, tuple_, union_all
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.orm import Session

from provider.items import Item
from provider.models import Collection, Document, DocumentCollection, Domain, Mimetype
from provider.scopes import Scope
from provider.sets import COLLECTION_ROOT, DOMAIN_ROOT, MIMETYPE_ROOT
from provider.tokens import Position


@dataclass(frozen=True, kw_only=True)
class SetRow:
    """A set as ListSets tells it."""

    set_spec: str
    name: str
    description: str | None = None


_ROOTS: Final = (
    SetRow(set_spec=COLLECTION_ROOT, name="Collections"),
    SetRow(set_spec=DOMAIN_ROOT, name="Domains"),
    SetRow(set_spec=MIMETYPE_ROOT, name="MIME types"),
)
"""Sets that are there whether they have a row or not."""


def item_page(
    session: Session,
    scope: Scope,
    *,
    from_: datetime | None,
    until: datetime,
    after: Position | None,
    limit: int,
) -> list[Item]:
    """At most `limit` items of the scope by (datestamp, id), from behind `after` up to `until`."""
    conditions = [*scope.conditions, scope.datestamp <= until]
    if after is not None:
        conditions.append(
            tuple_(scope.datestamp, scope.id) > tuple_(literal(after.datestamp), literal(after.id))
        )
    elif from_ is not None:
        conditions.append(scope.datestamp >= from_)
    scan = (
        select(scope.id.label("id"))
        .where(*conditions)
        .order_by(scope.datestamp, scope.id)
        .limit(limit)
        .subquery()
    )
    return [_item(row) for row in session.execute(_items(scan))]


def item_by_key(session: Session, key: UUID, until: datetime) -> Item | None:
    """The item with this key, if its datestamp is due."""
    scan = select(Document.id).where(Document.key == key, Document.datestamp <= until).subquery()
    row = session.execute(_items(scan)).one_or_none()
    return None if row is None else _item(row)


def list_size(session: Session, scope: Scope, now: datetime) -> int | None:
    """How many items the whole scope has, from the kept counts; None where that is not known for sure.

    The counts have documents, too, that are not yet due.
    """
    if scope.kept_size is None:
        return None
    ahead = select(scope.id).where(*scope.conditions, scope.datestamp > now).limit(1)
    if session.scalar(ahead) is not None:
        return None
    size = session.scalar(scope.kept_size)
    return None if size is None else int(size)


def set_page(session: Session, *, after: str | None, limit: int) -> list[SetRow]:
    """At most `limit` sets behind `after`, of all three trees, in the order of their setSpecs' bytes."""
    begin = after or ""
    trees = (
        _sets(Collection, Collection.description.expression, begin, limit),
        _sets(Domain, null(), begin, limit),
        _sets(Mimetype, null(), begin, limit),
    )
    found = {row.set_spec: row for row in _ROOTS if row.set_spec > begin}
    for set_spec, name, description in session.execute(union_all(*trees)):
        found[set_spec] = SetRow(set_spec=set_spec, name=name, description=description)
    return [found[set_spec] for set_spec in sorted(found)[:limit]]


def _sets(
    tree: type[Collection | Domain | Mimetype], description: ColumnElement[Any], after: str, limit: int
) -> Select[Any]:
    rows = select(tree.set_spec, tree.name, description.label("description"))
    page = rows.where(tree.set_spec > after).order_by(tree.set_spec).limit(limit).subquery()
    return select(page)


_DIRECT_COLLECTIONS: Final = (
    select(func.array_agg(aggregate_order_by(Collection.set_spec, Collection.set_spec)))
    .join(DocumentCollection, DocumentCollection.collection_id == Collection.id)
    .where(DocumentCollection.document_id == Document.id, DocumentCollection.direct)
    .correlate(Document)
    .scalar_subquery()
)


def _items(scan: Subquery) -> Select[Any]:
    """All that is said about the documents of a scan, in one query, in the order of (datestamp, id)."""
    return (
        select(
            Document.id,
            Document.key,
            Document.datestamp,
            Document.deleted,
            Document.url,
            Document.archived,
            Document.title,
            Mimetype.name.label("mime_type"),
            Domain.name.label("host"),
            _DIRECT_COLLECTIONS.label("collections"),
            Domain.set_spec.label("domain_set"),
            Mimetype.set_spec.label("mimetype_set"),
        )
        .join(scan, scan.c.id == Document.id)
        .join(Mimetype, Mimetype.id == Document.mime_id)
        .outerjoin(Domain, Domain.id == Document.host_id)
        .order_by(Document.datestamp, Document.id)
    )


def _item(row: Row[Any]) -> Item:
    fields = row._asdict()
    sets = _minimal(fields.pop("collections") or (), fields.pop("domain_set"), fields.pop("mimetype_set"))
    return Item(**fields, set_specs=tuple(sets))


def _minimal(collections: Sequence[str], domain: str | None, mimetype: str) -> Iterator[str]:
    yield from collections
    if domain is not None:
        yield domain
    yield mimetype
