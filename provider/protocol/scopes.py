"""Maps a set to the tables: the condition and the index that find its documents.

Each level of a set tree has its own column and index in `document`, or in `document_collection`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from provider.holdings.sets import COLLECTION_ROOT, DOMAIN_ROOT, MIMETYPE_ROOT, TITLE_ROOT
from provider.holdings.unlisted import is_public
from provider.models import IN_TITLE, Collection, Document, DocumentCollection, Domain, Mimetype
from provider.titles.models import TitleDocuments

_TOP_LEVEL: Final = 1
_REGISTERED_LEVEL: Final = 2
_MOST_HOSTS: Final = 1000
"""Maximum number of hosts that are read one by one and merged; each costs two index descents per page."""
_AFTER_COLON: Final = ";"
"""The character after the colon: from `x:` to `x;` is everything below x in byte order."""

_ALL_DOCUMENTS: Final = select(func.sum(Mimetype.documents - Mimetype.unlisted)).where(
    Mimetype.parent_id.is_(None)
)
"""Every document has one major type, and there are few major types."""
_WITH_HOST: Final = (Document.tld_id.is_not(None),)
_WITH_TITLE: Final = (IN_TITLE,)
_NONE: Final = (Document.id.is_(None),)
_IN_TITLES: Final = select(func.sum(TitleDocuments.documents - TitleDocuments.unlisted))

_Row = Collection | Domain | Mimetype | TitleDocuments
_TREES: Final[Mapping[str, type[_Row]]] = {
    COLLECTION_ROOT: Collection,
    DOMAIN_ROOT: Domain,
    MIMETYPE_ROOT: Mimetype,
    TITLE_ROOT: TitleDocuments,
}


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The documents of a set, or all documents."""

    datestamp: InstrumentedAttribute[datetime]
    id: InstrumentedAttribute[int]
    """The two columns that order the index."""
    column: InstrumentedAttribute[Any] | None = None
    value: int | None = None
    """The column that has this value in the set's documents; without a column, all documents."""
    further: tuple[ColumnElement[bool], ...] = ()
    """What the documents fulfil in addition."""
    hosts: tuple[int, ...] = ()
    """The hosts that the scope consists of, if it has no index of its own and they are few."""
    kept_size: Select[Any] | None = None
    """Selects the number of documents that were or will be listed, if it is kept while loading."""

    @property
    def conditions(self) -> tuple[ColumnElement[bool], ...]:
        """What the documents of the scope fulfil, and no others."""
        if self.hosts:
            return (Document.host_id.in_(self.hosts),)
        return self.further if self.column is None else (self.column == self.value, *self.further)


def find_scope(
    session: Session, set_spec: str | None, *, most_hosts: int = _MOST_HOSTS, withheld: bool = False
) -> Scope | None:
    """Return the scope of a set (all documents if None); None if the set does not exist.

    Sets that the public may not know (`holdings.unlisted`) are found only with `withheld`. If a set below a
    registered domain has at most `most_hosts` hosts, their lists are merged.
    """
    if set_spec is None or set_spec == MIMETYPE_ROOT:
        return _documents(kept_size=_ALL_DOCUMENTS)
    if set_spec == DOMAIN_ROOT:
        return _documents(further=_WITH_HOST)
    if set_spec == TITLE_ROOT:
        return _in_titles(session)
    row = _find(session, set_spec, withheld=withheld)
    if row is None:
        # The tree's root is a set even before the first collection is created.
        return _documents(further=_NONE) if set_spec == COLLECTION_ROOT else None
    if isinstance(row, Domain):
        return _domain(session, row, most_hosts)
    return _collection(row) if isinstance(row, Collection) else _of_column(row)


def _find(session: Session, set_spec: str, *, withheld: bool) -> _Row | None:
    tree = _TREES.get(set_spec.partition(":")[0])
    if tree is None:
        return None
    named: Select[Any] = select(tree).where(tree.set_spec == set_spec)
    row: _Row | None = session.scalar(named if withheld else named.where(is_public(tree)))
    return row


def _in_titles(session: Session) -> Scope | None:
    """Return the documents that are in the set of a title; None if no such set is listed."""
    if session.scalar(select(TitleDocuments.id).where(TitleDocuments.listed).limit(1)) is None:
        return None
    return _documents(further=_WITH_TITLE, kept_size=_IN_TITLES)


def _documents(
    *, further: tuple[ColumnElement[bool], ...] = (), kept_size: Select[Any] | None = None
) -> Scope:
    return Scope(datestamp=Document.datestamp, id=Document.id, further=further, kept_size=kept_size)


def _with(column: InstrumentedAttribute[Any], row: _Row) -> Scope:
    return replace(_documents(kept_size=_kept_size(row)), column=column, value=row.id)


def _kept_size(row: _Row) -> Select[Any]:
    tree = type(row)
    return select(tree.documents - tree.unlisted).where(tree.id == row.id)


def _collection(row: Collection) -> Scope:
    return Scope(
        datestamp=DocumentCollection.datestamp,
        id=DocumentCollection.document_id,
        column=DocumentCollection.collection_id,
        value=row.id,
        kept_size=_kept_size(row),
    )


def _of_column(row: Mimetype | TitleDocuments) -> Scope:
    if isinstance(row, TitleDocuments):
        return _with(Document.title_id, row)
    return _with(Document.mime_major_id if row.parent_id is None else Document.mime_id, row)


def _domain(session: Session, row: Domain, most_hosts: int) -> Scope:
    if row.level == _TOP_LEVEL:
        return _with(Document.tld_id, row)
    if row.level == _REGISTERED_LEVEL:
        return _with(Document.domain_id, row)
    return _below_registered(session, row, most_hosts)


def _below_registered(session: Session, row: Domain, most_hosts: int) -> Scope:
    """Return the scope of a host, or of labels with hosts below them, which share no index."""
    below = (
        Domain.set_spec >= f"{row.set_spec}:",
        Domain.set_spec < f"{row.set_spec}{_AFTER_COLON}",
    )
    found = session.scalars(select(Domain.id).where(*below).order_by(Domain.set_spec).limit(most_hosts))
    hosts = (row.id, *found)
    if len(hosts) == 1:
        return _with(Document.host_id, row)
    if len(hosts) <= most_hosts:
        return replace(_documents(kept_size=_kept_size(row)), hosts=hosts)
    registered = ":".join(row.set_spec.split(":")[: _REGISTERED_LEVEL + 1])
    is_below = or_(Document.host_id == row.id, Document.host_id.in_(select(Domain.id).where(*below)))
    return replace(
        _documents(further=(is_below,), kept_size=_kept_size(row)),
        column=Document.domain_id,
        value=session.scalar(select(Domain.id).where(Domain.set_spec == registered)),
    )
