"""Pages of documents and of sets, each from one range scan after the last item of the previous page."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

from sqlalchemy import (
    ARRAY,
    ColumnElement,
    Integer,
    Select,
    Subquery,
    bindparam,
    exists,
    func,
    literal,
    literal_column,
    null,
    or_,
    select,
    true,
    tuple_,
    type_coerce,
    union_all,
)
from sqlalchemy.dialects.postgresql import aggregate_order_by, array
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.types import NullType

from oai.errors import required
from provider.holdings.sets import COLLECTION_ROOT, DOMAIN_ROOT, MIMETYPE_ROOT, TITLE_ROOT
from provider.holdings.unlisted import is_public
from provider.models import UNLISTED, Access, Arc, Collection, Document, DocumentCollection, Domain, Mimetype
from provider.protocol.catalogue import SetRow
from provider.protocol.items import Item
from provider.protocol.scopes import Scope
from provider.protocol.tokens import Position
from provider.titles.models import Title, TitleDocuments

_ROOTS: Final = (
    SetRow(set_spec=COLLECTION_ROOT, name="Collections"),
    SetRow(set_spec=DOMAIN_ROOT, name="Domains"),
    SetRow(set_spec=MIMETYPE_ROOT, name="MIME types"),
)
"""Sets that exist even without a row."""
_ROOT_OF_TITLES: Final[Any] = select(literal(TITLE_ROOT), literal("Titles"), null()).where(
    exists().where(is_public(TitleDocuments))
)
"""Unlike them, it exists only with a set below it."""
_MOST_AHEAD: Final = 5000
"""Maximum number of documents not yet due that are counted for a list's size."""


class Begin(Enum):
    """Where a page begins."""

    FIRST = auto()
    """At the first document of the set."""
    FROM = auto()
    """At the first one from a date on."""
    AFTER_KEY = auto()
    """After the document that a token names."""
    AFTER_ID = auto()
    """After the id of a document, in a token that an earlier version wrote."""


_SET_ID: Final = bindparam("set_id", type_=Integer())
_UNTIL: Final = bindparam("until", type_=Document.datestamp.type)
_FROM: Final = bindparam("from_", type_=Document.datestamp.type)
_DATESTAMP: Final = bindparam("datestamp", type_=Document.datestamp.type)
_PLACES: Final[Mapping[Begin, ColumnElement[int]]] = {
    Begin.AFTER_KEY: select(Document.id).where(Document.key == bindparam("place")).scalar_subquery(),
    Begin.AFTER_ID: bindparam("place", type_=Document.id.type),
}


def page_scan(scope: Scope, begin: Begin, limit: int) -> Subquery:
    """Select at most `limit` ids of the scope by (datestamp, id).

    The values are parameters: `set_id`, `until`, and for a `begin` also `from_`, or `place` and `datestamp`.
    """
    if scope.column is Document.title_id:
        return _page_of_title(begin, limit)
    window = [scope.datestamp <= _UNTIL]
    if begin is Begin.FROM:
        window.append(scope.datestamp >= _FROM)
    elif begin is not Begin.FIRST:
        window.append(tuple_(scope.datestamp, scope.id) > tuple_(_DATESTAMP, _PLACES[begin]))
    if scope.hosts:
        return _merged_page(scope.hosts, window, limit)
    own = () if scope.column is None else (scope.column == _SET_ID,)
    return (
        select(scope.id.label("id"))
        .where(*own, *scope.further, *window)
        .order_by(scope.datestamp, scope.id)
        .limit(_as_constant(limit))
        .subquery()
    )


def _as_constant(limit: int) -> ColumnElement[int]:
    """Return a limit as part of the statement's text.

    For a parameter, a plan that is kept for all values expects a tenth of the table, so PostgreSQL would
    plan each page again, which takes a third as long as its execution. Limits have few values.
    """
    return literal_column(str(limit), Integer)


def _page_of_title(begin: Begin, limit: int) -> Subquery:
    """Select the page by (title, datestamp, id), an order that only the index of titles has.

    A title's documents were put into its set together, so their datestamps lie together. The planner assumes
    that they are spread evenly, and would read the documents of all titles by datestamp to find those of a
    large one.
    """
    order = (Document.title_id, Document.datestamp, Document.id)
    beginning = tuple_(*order[:2])
    # A title_id that is equal to a constant would no longer be a part of the order.
    window = [Document.title_id >= _SET_ID, beginning <= tuple_(_SET_ID, _UNTIL)]
    if begin is Begin.FROM:
        window.append(beginning >= tuple_(_SET_ID, _FROM))
    elif begin is not Begin.FIRST:
        window.append(tuple_(*order) > tuple_(_SET_ID, _DATESTAMP, _PLACES[begin]))
    return (
        select(Document.id.label("id")).where(*window).order_by(*order).limit(_as_constant(limit)).subquery()
    )


def ahead_scan(scope: Scope, mark: datetime, limit: int) -> Subquery:
    """Select at most `limit` ids of the scope that are not due yet.

    They are read from the far end of the index: without that order, a database without statistics would
    read the whole table.
    """
    ahead_of_mark = [scope.datestamp > mark, scope.datestamp < UNLISTED]
    if scope.hosts:
        ahead = _of_each_host(scope.hosts, ahead_of_mark, limit, backwards=True)
        return ahead.limit(limit).subquery()
    return (
        select(scope.id.label("id"))
        .where(*scope.conditions, *ahead_of_mark)
        .order_by(scope.datestamp.desc(), scope.id.desc())
        .limit(limit)
        .subquery()
    )


def _merged_page(hosts: tuple[int, ...], window: list[ColumnElement[bool]], limit: int) -> Subquery:
    """Select the page from one scan for each host.

    A few rows of each host bound the end of the page, so that no host is read much further, however many
    hosts there are and however different in size.
    """
    share = 2 * limit // len(hosts) + 2
    near = _of_each_host(hosts, window, share).subquery()
    furthest = select(near.c.datestamp).order_by(near.c.datestamp, near.c.id).offset(limit - 1).limit(1)
    reach = Document.datestamp <= func.coalesce(furthest.scalar_subquery(), _UNTIL)
    found = _of_each_host(hosts, [*window, reach], limit).subquery()
    return select(found.c.id).order_by(found.c.datestamp, found.c.id).limit(limit).subquery()


def _of_each_host(
    hosts: tuple[int, ...], window: list[ColumnElement[bool]], limit: int, *, backwards: bool = False
) -> Select[tuple[datetime, int]]:
    """Select the first or last rows of every host in the range, unordered."""
    host = select(func.unnest(literal(list(hosts), ARRAY(Integer))).label("id")).subquery("host")
    keys = (Document.datestamp, Document.id)
    one = (
        select(*keys)
        .where(Document.host_id == host.c.id, *window)
        .order_by(*(key.desc() if backwards else key for key in keys))
        .limit(limit)
        .lateral("one")
    )
    return select(one.c.datestamp, one.c.id).select_from(host.join(one, true()))


def item_page(
    session: Session,
    scope: Scope,
    *,
    from_: datetime | None,
    until: datetime,
    after: Position | None,
    limit: int,
) -> list[Item]:
    """Return at most `limit` items of the scope by (datestamp, id), after `after` and up to `until`."""
    begin = Begin.FIRST
    values: dict[str, Any] = {"until": until}
    if after is not None:
        begin = Begin.AFTER_ID if isinstance(after.id, int) else Begin.AFTER_KEY
        values |= {"datestamp": after.datestamp, "place": after.id}
    elif from_ is not None:
        begin = Begin.FROM
        values["from_"] = from_
    if scope.column is not None:
        values["set_id"] = scope.value
    # Neither the set's id nor its size is part of the statement.
    statement = _page_statement(replace(scope, value=None, kept_size=None), begin, limit)
    return _read(session, statement, values)


@lru_cache(maxsize=256)
def _page_statement(scope: Scope, begin: Begin, limit: int) -> Select[Any]:
    """Return the statement of pages; building it for each takes as long as writing a hundred records."""
    return _items(page_scan(scope, begin, limit))


def item_by_key(session: Session, key: UUID, until: datetime) -> Item | None:
    """Return the item with this key, if its datestamp is due."""
    return next(iter(_read(session, _BY_KEY, {"key": key, "until": until})), None)


def list_size(session: Session, scope: Scope, mark: datetime, *, most_ahead: int = _MOST_AHEAD) -> int | None:
    """Return the number of items in the scope from the kept counts; None if it is not known exactly.

    The counts include documents that were just published and are not due. Those are counted here, up to
    `most_ahead`.
    """
    if scope.kept_size is None:
        return None
    ahead = ahead_scan(scope, mark, most_ahead + 1)
    not_due = session.scalar(select(func.count()).select_from(ahead)) or 0
    kept = session.scalar(scope.kept_size)
    if kept is None or not_due > most_ahead:
        return None
    return int(kept) - not_due


def set_page(session: Session, *, after: str | None, limit: int) -> list[SetRow]:
    """Return at most `limit` sets of all trees after `after`, ordered by their setSpecs' bytes."""
    begin = after or ""
    trees: Sequence[Select[Any]] = (
        _sets(Collection, Collection.description.expression, begin, limit),
        _sets(Domain, null(), begin, limit),
        _sets(Mimetype, null(), begin, limit),
        _ROOT_OF_TITLES,
        _sets_of_titles(begin, limit),
    )
    found = {row.set_spec: row for row in _ROOTS}
    for set_spec, name, description in session.execute(union_all(*trees)):
        found[set_spec] = SetRow(set_spec=set_spec, name=name, description=description)
    return [found[set_spec] for set_spec in sorted(found) if set_spec > begin][:limit]


def _sets(
    tree: type[Collection | Domain | Mimetype], description: ColumnElement[Any], after: str, limit: int
) -> Select[Any]:
    rows = select(tree.set_spec, tree.name, description.label("description"))
    page = rows.where(tree.set_spec > after, is_public(tree)).order_by(tree.set_spec).limit(limit).subquery()
    return select(page)


def _sets_of_titles(after: str, limit: int) -> Select[Any]:
    of_title = Title.title_id == TitleDocuments.id
    rows = select(TitleDocuments.set_spec, Title.name, null()).join(Title, of_title)
    # Documents leave the set of a title that ends in batches; its name is no longer shown at once.
    shown = (Title.public, ~Title.gone, is_public(TitleDocuments))
    later = rows.where(TitleDocuments.set_spec > after, *shown)
    return select(later.order_by(TitleDocuments.set_spec).limit(limit).subquery())


_DIRECT_COLLECTIONS: Final = (
    select(
        func.array_agg(aggregate_order_by(array([Collection.set_spec, Collection.name]), Collection.set_spec))
    )
    .join(DocumentCollection, DocumentCollection.collection_id == Collection.id)
    .where(DocumentCollection.document_id == Document.id, DocumentCollection.direct)
    .correlate(Document)
    .scalar_subquery()
)
_SHOWN_AS_DELETED: Final = or_(Document.deleted, Document.access == Access.WITHHELD)
_COLUMNS: Final[Mapping[str, ColumnElement[Any] | InstrumentedAttribute[Any]]] = {
    "deleted": _SHOWN_AS_DELETED,
    # A moved or re-compressed file keeps its row and `name`, by which it cannot be found.
    "archive_path": func.coalesce(Arc.path, Arc.listed_name, Arc.name),
    "mime_type": Mimetype.name,
    "mimetype_set": Mimetype.set_spec,
    "host": Domain.name,
    "domain_set": Domain.set_spec,
    "title_set": TitleDocuments.set_spec,
    # The driver already returns lists; SQLAlchemy would copy each of them.
    "collections": type_coerce(_DIRECT_COLLECTIONS, NullType()),
}
"""Fields of an item that are not columns of the document with the same name."""


def _read(session: Session, statement: Select[Any], values: Mapping[str, Any]) -> list[Item]:
    """Return the statement's items from the driver's own rows, of which no column needs a conversion."""
    with session.connection().execute(statement, values) as result:
        rows = required(result.cursor, "a query returns rows").fetchall()
    return list(map(Item._make, rows))


_ITEMS: Final[Select[Any]] = (
    select(*[_COLUMNS[field] if field in _COLUMNS else getattr(Document, field) for field in Item._fields])
    .select_from(Document)
    .join(Arc, Arc.id == Document.arc_id)
    .join(Mimetype, Mimetype.id == Document.mime_id)
    .outerjoin(Domain, Domain.id == Document.host_id)
    .outerjoin(TitleDocuments, TitleDocuments.id == Document.title_id)
    .order_by(Document.datestamp, Document.id)
)
"""All facts about documents. Built once, because building it takes as long as writing twenty records."""


def _items(scan: Subquery) -> Select[Any]:
    """Select all facts about the documents of a scan in one query, ordered by (datestamp, id)."""
    return _ITEMS.join(scan, scan.c.id == Document.id)


_BY_KEY: Final = _items(
    select(Document.id).where(Document.key == bindparam("key"), Document.datestamp <= _UNTIL).subquery()
)
