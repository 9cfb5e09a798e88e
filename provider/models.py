"""The archive's tables: files, documents, and the trees of sets that documents belong to.

Every list request is one range scan of one of the indexes here (DESIGN: flat paging): each level of a set
tree has its own column in `document`, and its index ends in (datestamp, id).
"""

import uuid
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    FetchedValue,
    ForeignKey,
    Identity,
    Index,
    SmallInteger,
    Text,
    false,
    func,
    text,
    true,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from oai.failures import Failure, FailureCode
from oai.models import Base

UNLISTED = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""Datestamp of a withheld document that was never listed: it is never due, so no list or record shows it, and
no range scan reads it."""


class Access(StrEnum):
    """Who may see documents, from the most permissive to the strictest rule."""

    OPEN = "open"
    READING_ROOM = "reading room"
    EMBARGO = "embargo"
    WITHHELD = "withheld"


class Arc(Base):
    """One ARC or WARC file."""

    __tablename__ = "arc"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    path: Mapped[str | None] = mapped_column(Text, unique=True)
    """Absolute path or URL at the last indexing, or a `file:` URI if a path is not UTF-8; none if only a CDX
    file has listed the file."""
    name: Mapped[str] = mapped_column(Text, index=True)
    """File name without folder and `.gz` or `.zst`, which identifies a moved or re-compressed file."""
    listed_name: Mapped[str | None] = mapped_column(Text)
    """File name, with `.gz` or `.zst` if any, in the CDX file that listed it last; none if none has."""
    size: Mapped[int] = mapped_column(BigInteger)
    """Bytes in the file; 0 if it has not been seen."""
    modified: Mapped[datetime]
    """The file's modification time."""
    tag: Mapped[str | None] = mapped_column(Text)
    """Of an object behind a URL: what its server calls this version of it (ETag); none for local files."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Documents whose records are in this file."""
    indexed: Mapped[datetime] = mapped_column(server_default=func.now())

    @property
    def place(self) -> str:
        """Its path, or the name by which it is to be found."""
        return self.path or self.listed_name or self.name


class ArcProblem(Base):
    """A place in an archive file that could not be read or indexed."""

    __tablename__ = "arc_problem"

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    arc_id: Mapped[int] = mapped_column(ForeignKey("arc.id", ondelete="CASCADE"), index=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    """Byte offset of the faulty record in the file as stored, compressed or not."""
    reason: Mapped[str] = mapped_column(Text)
    failure_code: Mapped[str | None] = mapped_column(Text)
    """Reason as a code for programs (`FailureCode`); NULL in a row that an earlier version has written."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Numbers and texts used in the message of `failure_code`."""

    @property
    def failure(self) -> Failure:
        """Return why the place could not be read or indexed."""
        found = Failure.stored(self.failure_code, self.failure_facts)
        return found or Failure(code=FailureCode.ARCHIVE_OTHER)


class Domain(Base):
    """A node of the tree `domain:`: top-level domain, registered domain, and host labels below it."""

    __tablename__ = "domain"
    # Each archive file changes the counts of its hosts. If the page has space for the new version of a row,
    # no index needs an update.
    __table_args__ = ({"postgresql_with": {"fillfactor": 50}},)

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("domain.id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    name: Mapped[str] = mapped_column(Text)
    """The host or domain in its usual spelling: `www.webarchiv.cz`."""
    level: Mapped[int] = mapped_column(SmallInteger)
    """Labels from the right: 1 is a top-level domain."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Documents in this set and below, including deleted ones; maintained while loading."""
    unlisted: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Those among them that were never listed, because a rule withholds them."""
    listed: Mapped[bool] = mapped_column(server_default=true(), server_onupdate=FetchedValue())
    """Whether harvesters may know this set: `documents > unlisted`, by a trigger."""


class Mimetype(Base):
    """A node of the tree `mimetype:`: a major or a full type."""

    __tablename__ = "mimetype"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("mimetype.id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    name: Mapped[str] = mapped_column(Text)
    """`text` or `text/html`."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    unlisted: Mapped[int] = mapped_column(BigInteger, server_default="0")
    listed: Mapped[bool] = mapped_column(server_default=true(), server_onupdate=FetchedValue())


class Collection(Base):
    """A node of the tree `collection:`, maintained by the archive's staff."""

    __tablename__ = "collection"
    __table_args__ = (
        CheckConstraint("access IN ('open', 'reading room', 'embargo', 'withheld')", name="access"),
        CheckConstraint("(access = 'embargo') = (embargo_until IS NOT NULL)", name="embargo"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    parent_id: Mapped[int | None] = mapped_column(ForeignKey("collection.id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    name: Mapped[str] = mapped_column(Text)
    description: Mapped[str | None] = mapped_column(Text)
    access: Mapped[str] = mapped_column(Text, server_default=Access.OPEN)
    """Its own rule; a document's effective rule is the strictest of all its collections and their
    ancestors."""
    embargo_until: Mapped[datetime | None]
    """End of the embargo, if the rule is an embargo."""
    unsettled: Mapped[datetime | None]
    """When its rule or position in the tree last changed, until all its documents are updated."""
    moved: Mapped[datetime | None]
    """When its set spec last changed: records of documents dated before it have the old one."""
    renamed: Mapped[datetime | None]
    """A time after its name last changed, until the documents dated before it have a new datestamp."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    unlisted: Mapped[int] = mapped_column(BigInteger, server_default="0")
    listed: Mapped[bool] = mapped_column(server_default=true(), server_onupdate=FetchedValue())
    from_titles: Mapped[bool] = mapped_column(server_default=false())
    """Whether imports of titles decide which documents are in it (`provider.titles.collection_documents`),
    and not the staff."""


class Document(Base):
    """One capture: the response of a URL at a certain time.

    Its references to `arc`, `domain`, `mimetype` and `title` are not declared as foreign keys, because
    checking them took a third of the publishing time. Only `provider.indexing.merge` and
    `provider.titles.document_sets` write them, rows of domains, types and titles are never deleted, and a
    file's row is deleted only if it has no documents.
    """

    __tablename__ = "document"
    __table_args__ = (
        CheckConstraint("access IN ('open', 'reading room', 'embargo', 'withheld')", name="access"),
        CheckConstraint("url_key IS NOT NULL", name="url_key"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    key: Mapped[uuid.UUID] = mapped_column(unique=True)
    """Derived from URL and capture time; the last part of the OAI identifier."""
    arc_id: Mapped[int] = mapped_column(index=True)
    offset: Mapped[int] = mapped_column(BigInteger)
    """Byte offset of the record in the archive file."""
    length: Mapped[int | None] = mapped_column(BigInteger)
    """Bytes of the archived content without HTTP headers; none if only a CDX file has listed it."""
    url: Mapped[str] = mapped_column(Text(collation="C"))
    url_key: Mapped[str | None] = mapped_column(Text(collation="C"))
    """Canonical key of the URL, as in pywb's indexes, cut to 2,048 characters (`holdings.urlkeys`); none for
    a document of an earlier version until `zatva provider reindex-keys` has processed it. Then the check is
    added, and the index on the beginnings of URLs removed."""
    archived: Mapped[datetime]
    """Time of capture."""
    datestamp: Mapped[datetime]
    """Time of the last change in OAI-PMH, whole seconds."""
    tld_id: Mapped[int | None]
    domain_id: Mapped[int | None]
    host_id: Mapped[int | None]
    mime_major_id: Mapped[int]
    mime_id: Mapped[int]
    http_status: Mapped[int | None] = mapped_column(SmallInteger)
    digest: Mapped[str | None] = mapped_column(Text)
    """Digest of the content as in the archive: usually `sha1:` and base32."""
    record_type: Mapped[str] = mapped_column(Text)
    """WARC record type: response, resource or revisit."""
    title: Mapped[str | None] = mapped_column(Text)
    deleted: Mapped[bool] = mapped_column(server_default=text("false"))
    """Not shown: hidden by the staff, or held by a take-down. Harvesters see a withheld document (`access`)
    as deleted, too."""
    hidden: Mapped[bool] = mapped_column(server_default=text("false"))
    """Hidden by the staff as a single document; a take-down that ends does not show it again."""
    access: Mapped[str] = mapped_column(Text, server_default=Access.OPEN)
    """The effective rule: the strictest of the document's collections; open without any
    (`holdings.rules`)."""
    embargo_until: Mapped[datetime | None]
    """When the latest embargo ends, if the effective rule is an embargo."""
    title_id: Mapped[int | None]
    """The title whose set `title:…` it is in (`provider.titles.document_sets`)."""
    packed_length: Mapped[int | None]
    """Bytes of the record in the archive file, compressed if the file is, so that one request reads it from
    an object store; none for a record of 2.1 GB and more, one that only a CDX file has listed, and one that
    an earlier version has indexed."""
    recognised_type: Mapped[str | None] = mapped_column(Text)
    """The type recognised from the content, if the declared one is none or wrong; only with the setting
    `provider.recognise_types`."""
    declared_type: Mapped[str | None] = mapped_column(Text)
    """The declared type, if the recognised one is that of the document's sets (`mime_id`)."""
    language: Mapped[str | None] = mapped_column(Text)
    """Language of the text, a code of ISO 639; only with the setting `provider.recognise_languages`."""


# There are few of them among millions, and the landing page shows them.
Index("ix_domain_top", Domain.set_spec, postgresql_where=text("parent_id IS NULL"))
# One level of the tree; the counts are not included, because they change with every loaded file.
Index("ix_domain_below", Domain.parent_id, Domain.set_spec)
# ListSets pages through it, because millions of hosts may be withheld in a row. Counting a document changes
# `listed`, and with it the index, only if the document is the set's first.
Index("ix_domain_listed", Domain.set_spec, postgresql_where=text("listed"))
Index("ix_document_datestamp", Document.datestamp, Document.id)
Index("ix_document_tld", Document.tld_id, Document.datestamp, Document.id)
Index("ix_document_domain", Document.domain_id, Document.datestamp, Document.id)
Index("ix_document_host", Document.host_id, Document.datestamp, Document.id)
Index("ix_document_mime_major", Document.mime_major_id, Document.datestamp, Document.id)
Index("ix_document_mime", Document.mime_id, Document.datestamp, Document.id)
# Both are empty, and cost loaders nothing, unless documents have sets by title. The second one's condition
# does not follow from `title_id = x`: without statistics, the planner could filter it for one title.
_TITLED = Document.title_id.is_not(None)
IN_TITLE = func.coalesce(Document.title_id, text("0")) != text("0")
Index("ix_document_title", Document.title_id, Document.datestamp, Document.id, postgresql_where=_TITLED)
Index("ix_document_in_title", Document.datestamp, Document.id, postgresql_where=IN_TITLE)
# Few documents are hidden; this counts them without reading the table.
Index("ix_document_deleted", Document.id, postgresql_where=text("deleted"))
# NULL sorts last, so one index entry shows whether a document lacks its key.
Index("ix_document_url_key", Document.url_key, Document.archived, Document.id)


class Takedown(Base):
    """An entry of the take-down register: what is not shown, why, at whose request, how long."""

    __tablename__ = "takedown"

    takedown_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    targets: Mapped[list[str]] = mapped_column(ARRAY(Text))
    """URLs; with `*` at the end, all that begin with one; `*.host`: the host and those below it."""
    reason: Mapped[str] = mapped_column(Text)
    requester: Mapped[str] = mapped_column(Text)
    """Who asked, and how to reach them."""
    reference: Mapped[str] = mapped_column(Text, server_default="")
    """File number, or where the request is kept."""
    created: Mapped[datetime] = mapped_column(server_default=func.now())
    expires: Mapped[datetime | None]
    lifted: Mapped[datetime | None]
    lifted_because: Mapped[str | None] = mapped_column(Text)
    """Reason; null if it has expired."""
    unsettled: Mapped[datetime | None]
    """When it was entered or lifted, until all its documents are updated."""
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Documents that it covered when it was last applied; later captures come on top."""


class TakedownRange(Base):
    """A range of URL keys that a take-down covers, both ends included; for one URL, they are equal."""

    __tablename__ = "takedown_range"
    __table_args__ = (Index("ix_takedown_range_outermost", "low", postgresql_where=text("outermost")),)

    takedown_id: Mapped[int] = mapped_column(
        ForeignKey("takedown.takedown_id", ondelete="CASCADE"), primary_key=True
    )
    # Not the keys themselves: two of them may be longer than an entry of an index.
    range_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    low: Mapped[str] = mapped_column(Text(collation="C"))
    high: Mapped[str] = mapped_column(Text(collation="C"))
    active: Mapped[bool] = mapped_column(server_default=text("true"))
    """Whether documents in it, also later ones, are not shown."""
    outermost: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it is active and inside no other active range. Of two ranges, one contains the other or they
    are disjoint."""


class UrlKeyFill(Base):
    """Progress of filling `document.url_key`, and the rule that keys follow; a single row."""

    __tablename__ = "url_key_fill"
    __table_args__ = (
        CheckConstraint("id = 1", name="single"),
        CheckConstraint("www_rule IN ('numbered', 'plain', 'kept')", name="www_rule"),
    )

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    after_id: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """The documents up to this id have been processed."""
    finished: Mapped[datetime | None]
    """When all documents had their keys and the index was built; look-ups have used the keys since then."""
    www_rule: Mapped[str] = mapped_column(Text, server_default="numbered")
    """How all keys of the index treat `www.` (`holdings.url_key_state`)."""


class PublicationMark(Base):
    """The moment up to which answers show everything (`provider.holdings.mark`); a single row."""

    __tablename__ = "publication_mark"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    moment: Mapped[datetime]
    """Every change dated up to it is visible to whoever sees this row."""
    looked: Mapped[datetime]
    """When it was last advanced, or an attempt to advance it failed because a publisher holds it back."""
    timeline: Mapped[str | None] = mapped_column(Text)
    """The server's timeline at that time, eight hexadecimal digits; each promotion begins another one."""


class DocumentCollection(Base):
    """A document's membership in a collection or one of its ancestors; survives the document's deletion."""

    __tablename__ = "document_collection"
    __table_args__ = (Index("ix_document_collection_page", "collection_id", "datestamp", "document_id"),)

    document_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("document.id", ondelete="CASCADE"), primary_key=True
    )
    collection_id: Mapped[int] = mapped_column(ForeignKey("collection.id"), primary_key=True)
    datestamp: Mapped[datetime]
    """The document's datestamp, repeated for the index."""
    direct: Mapped[bool]
    """Assigned to this collection itself, not to a descendant."""


class DocumentMonth(Base):
    """Number of documents of a major type captured in a month; maintained while loading."""

    __tablename__ = "document_month"

    month: Mapped[date] = mapped_column(primary_key=True)
    """The month's first day, UTC."""
    mime_major_id: Mapped[int] = mapped_column(ForeignKey("mimetype.id"), primary_key=True)
    documents: Mapped[int] = mapped_column(BigInteger)
    """Including hidden and withheld ones, as in the counts of sets."""


class FirstLoad(Base):
    """Indexes of `document` that a first load has dropped and must rebuild; empty otherwise."""

    __tablename__ = "first_load"

    index_name: Mapped[str] = mapped_column(Text, primary_key=True)
    definition: Mapped[str] = mapped_column(Text)
    """The SQL statement that creates it."""


class Load(Base):
    """An indexing run, queued or by a command, for the list of what is new (`provider.holdings.loads`)."""

    __tablename__ = "load"

    load_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    begun: Mapped[datetime] = mapped_column(server_default=func.now())
    run_id: Mapped[int | None] = mapped_column(ForeignKey("index_run.id", ondelete="SET NULL"), unique=True)
    """The run whose files workers index; NULL if a command indexed them itself."""
    collection_id: Mapped[int | None] = mapped_column(ForeignKey("collection.id", ondelete="SET NULL"))
    """The collection of its new documents."""


class LoadPart(Base):
    """What one publishing transaction of a load has listed; rows are later added up into one.

    Each transaction inserts a row of its own, so that parallel indexers do not wait for each other.
    """

    __tablename__ = "load_part"

    part_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    load_id: Mapped[int] = mapped_column(ForeignKey("load.load_id", ondelete="CASCADE"))
    since: Mapped[datetime]
    """First datestamp of its documents."""
    until: Mapped[datetime]
    """Last datestamp of its documents."""
    new: Mapped[int] = mapped_column(BigInteger)
    """New documents that harvesters may know."""
    changed: Mapped[int] = mapped_column(BigInteger)
    """Documents whose records got further facts."""
    domains: Mapped[dict[str, int]] = mapped_column(JSONB)
    """Number of both for each top-level domain, by its id."""


Index("ix_load_part_load_id_until", LoadPart.load_id, LoadPart.until)
