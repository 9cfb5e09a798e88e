"""All stored facts about one document, for the archive's staff."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from oai.models import from_row
from provider.holdings.rules import Rule, rule_of
from provider.holdings.takedowns import holding
from provider.models import UNLISTED, Access, Arc, Collection, Document, DocumentCollection, Domain, Mimetype


@dataclass(frozen=True, kw_only=True)
class InCollection:
    """A collection that the document is in."""

    set_spec: str
    name: str
    direct: bool
    """Assigned to this collection itself, not to a descendant."""
    decides: bool = False
    """Whether its rule is the one that restricts access to the document."""


@dataclass(frozen=True, kw_only=True)
class DocumentFacts:
    """A document."""

    key: uuid.UUID
    url: str
    title: str | None
    archived: datetime
    datestamp: datetime | None
    """None if it was never listed because a rule withholds it."""
    mime_type: str
    """As declared."""
    recognised_type: str | None
    """The type recognised from the content, if the declared one is none or wrong."""
    http_status: int | None
    length: int | None
    digest: str | None
    record_type: str
    deleted: bool
    access: str
    embargo_until: datetime | None
    file: str
    offset: int
    host: str | None
    """setSpec of its host, or of the closest set."""
    collections: Sequence[InCollection]
    takedowns: Sequence[int]
    """Numbers of the active take-downs that cover it."""


def document_facts(session: Session, key: uuid.UUID) -> DocumentFacts | None:
    """Return the document with this key, or None if there is none."""
    row = session.execute(
        select(
            Document,
            Arc,
            func.coalesce(Document.declared_type, Mimetype.name).label("mime_type"),
            Domain.set_spec.label("host"),
        )
        .join(Arc, Arc.id == Document.arc_id)
        .join(Mimetype, Mimetype.id == Document.mime_id)
        .outerjoin(Domain, Domain.id == Document.host_id)
        .where(Document.key == key)
    ).one_or_none()
    if row is None:
        return None
    document: Document = row.Document
    return from_row(
        DocumentFacts,
        document,
        datestamp=None if document.datestamp == UNLISTED else document.datestamp,
        mime_type=row.mime_type,
        file=row.Arc.place,
        host=row.host,
        collections=_collections(session, document),
        takedowns=holding(session, document.id),
    )


def _collections(session: Session, document: Document) -> Sequence[InCollection]:
    rows = session.execute(
        select(Collection, DocumentCollection.direct)
        .join(DocumentCollection, DocumentCollection.collection_id == Collection.id)
        .where(DocumentCollection.document_id == document.id)
        .order_by(Collection.set_spec)
    )
    rule = Rule(access=Access(document.access), embargo_until=document.embargo_until)
    return [
        InCollection(
            set_spec=row.set_spec,
            name=row.name,
            direct=direct,
            decides=rule_of(row) == rule != Rule(),
        )
        for row, direct in rows
    ]
