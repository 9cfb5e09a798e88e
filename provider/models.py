"""The archive's tables: files, documents, and the three trees of sets that documents belong to.

Every list request is one range scan over one of the indexes here (DESIGN: flat paging): each level of a set
tree has its own column in `document`, and its index ends in (datestamp, id).
"""

import uuid
from datetime import datetime
from enum import StrEnum

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    Text,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class Access(StrEnum):
    """Who may see a collection's documents."""

    OPEN = "open"
    READING_ROOM = "reading room"
    EMBARGO = "embargo"
    WITHHELD = "withheld"


class Arc(Base):
    """One ARC or WARC file."""

    __tablename__ = "arc"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    path: Mapped[str] = mapped_column(Text, unique=True)
    """Absolute path at the last indexing."""
    name: Mapped[str] = mapped_column(Text, index=True)
    """File name without folder and without `.gz`, by which a moved or re-compressed file is known again."""
    size: Mapped[int] = mapped_column(BigInteger)
    """Bytes in the file."""
    modified: Mapped[datetime]
    """The file's own time of change."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Documents whose place is this file."""
    indexed: Mapped[datetime] = mapped_column(server_default=func.now())


class ArcProblem(Base):
    """Something in an archive file that could not be read or taken."""

    __tablename__ = "arc_problem"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    arc_id: Mapped[int] = mapped_column(ForeignKey("arc.id", ondelete="CASCADE"), index=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    """Byte in the file (compressed as it lies there) where the faulty record begins."""
    reason: Mapped[str] = mapped_column(Text)


class Domain(Base):
    """A node of the tree `domain:`: top-level domain, registered domain, and host labels below it."""

    __tablename__ = "domain"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("domain.id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    name: Mapped[str] = mapped_column(Text)
    """The host or domain as people write it: `www.webarchiv.cz`."""
    level: Mapped[int] = mapped_column(SmallInteger)
    """Labels from the right: 1 is a top-level domain."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Documents in this set and below, deleted ones included; kept while loading."""


class Mimetype(Base):
    """A node of the tree `mimetype:`: a major type or a full one."""

    __tablename__ = "mimetype"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("mimetype.id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    name: Mapped[str] = mapped_column(Text)
    """`text` or `text/html`."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")


class Collection(Base):
    """A node of the tree `collection:`, made by the archive's staff."""

    __tablename__ = "collection"
    __table_args__ = (
        CheckConstraint("access IN ('open', 'reading room', 'embargo', 'withheld')", name="access"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("collection.id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    name: Mapped[str] = mapped_column(Text)
    description: Mapped[str | None] = mapped_column(Text)
    access: Mapped[str] = mapped_column(Text, server_default=Access.OPEN)
    embargo_until: Mapped[datetime | None]
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")


class Document(Base):
    """One capture: what stood at a URL at a moment."""

    __tablename__ = "document"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    key: Mapped[uuid.UUID] = mapped_column(unique=True)
    """From URL and capture time; the last part of the OAI identifier."""
    arc_id: Mapped[int] = mapped_column(ForeignKey("arc.id"), index=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    """Byte in the archive file where the record begins."""
    length: Mapped[int] = mapped_column(BigInteger)
    """Bytes of the archived content, HTTP headers left out."""
    url: Mapped[str] = mapped_column(Text(collation="C"))
    archived: Mapped[datetime]
    """Time of capture."""
    datestamp: Mapped[datetime]
    """Time of the last change as OAI-PMH tells it, whole seconds."""
    tld_id: Mapped[int | None]
    domain_id: Mapped[int | None]
    host_id: Mapped[int | None] = mapped_column(ForeignKey("domain.id"))
    mime_major_id: Mapped[int]
    mime_id: Mapped[int] = mapped_column(ForeignKey("mimetype.id"))
    http_status: Mapped[int | None] = mapped_column(SmallInteger)
    digest: Mapped[str | None] = mapped_column(Text)
    """Of the content, as the archive gives it: `sha1:` and base32, mostly."""
    record_type: Mapped[str] = mapped_column(Text)
    """WARC record type: response, resource or revisit."""
    title: Mapped[str | None] = mapped_column(Text)
    deleted: Mapped[bool] = mapped_column(server_default=text("false"))


Index("ix_document_datestamp", Document.datestamp, Document.id)
Index("ix_document_tld", Document.tld_id, Document.datestamp, Document.id)
Index("ix_document_domain", Document.domain_id, Document.datestamp, Document.id)
Index("ix_document_host", Document.host_id, Document.datestamp, Document.id)
Index("ix_document_mime_major", Document.mime_major_id, Document.datestamp, Document.id)
Index("ix_document_mime", Document.mime_id, Document.datestamp, Document.id)
# Few are hidden; this counts them without reading the table.
Index("ix_document_deleted", Document.id, postgresql_where=text("deleted"))
# URLs may be longer than an index entry can be; the full URL is compared after the scan.
Index("ix_document_url", func.left(Document.url, 512), Document.archived)


class DocumentCollection(Base):
    """A document's membership in a collection, its ancestors included; survives the document's deletion."""

    __tablename__ = "document_collection"
    __table_args__ = (Index("ix_document_collection_page", "collection_id", "datestamp", "document_id"),)

    document_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("document.id", ondelete="CASCADE"), primary_key=True
    )
    collection_id: Mapped[int] = mapped_column(ForeignKey("collection.id"), primary_key=True)
    datestamp: Mapped[datetime]
    """The document's datestamp, repeated for the index."""
    direct: Mapped[bool]
    """Assigned to this very collection, not to one below it."""
