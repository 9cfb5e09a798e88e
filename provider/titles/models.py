"""The tables of titles: what is known about each site, the URLs that belong to it, its sets; and lists.

A title is listed while it is public and the archive has a capture of it that may be listed. Like a document
(`provider.models`), one that was never listed has the datestamp `UNLISTED`, and one that is no longer listed
remains as a deleted record.
"""

import uuid
from datetime import date, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    Computed,
    ForeignKey,
    Index,
    Integer,
    SmallInteger,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import BIT, JSONB, TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class SeedKind(StrEnum):
    """What a seed means for the captures below it."""

    INCLUDE = "include"
    CARVE_OUT = "carve-out"
    """A part of an archived site that does not belong to the title."""


_TEXTS = text("'{}'")
BLOCK = 2048
"""Documents whose bits are in one row of `title_counted`."""


class Title(Base):
    """A site as its source describes it, with the figures of its captures."""

    __tablename__ = "title"
    __table_args__ = (
        UniqueConstraint("source", "source_key"),
        CheckConstraint("access IN ('open', 'reading room', 'withheld')", name="access"),
    )

    title_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """Given by imports, one after the other: a plan that is rolled back uses up no number."""
    key: Mapped[uuid.UUID] = mapped_column(unique=True)
    """Derived from the source and its key; the last part of the OAI identifier."""
    source: Mapped[str] = mapped_column(Text)
    """Where it was imported from, as the importer names it: `seeder`."""
    source_key: Mapped[str] = mapped_column(Text)
    """Its identifier there."""
    name: Mapped[str] = mapped_column(Text)
    alternative_names: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    publisher: Mapped[str | None] = mapped_column(Text)
    annotation: Mapped[str | None] = mapped_column(Text)
    """Description in a few sentences, plain text."""
    languages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    """ISO 639-2/B codes of three letters."""
    issn: Mapped[str | None] = mapped_column(Text)
    catalogue_number: Mapped[str | None] = mapped_column(Text)
    """Identifier of the title's record in the library's catalogue."""
    classification: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    """Notations of the Universal Decimal Classification."""
    subjects: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=text("'[]'"))
    """Subject groups (the Conspectus in Seeder), with the fields of `provider.titles.entries.Subject`."""
    keywords: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    collections: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    """Names of the curated collections that it is in."""
    state: Mapped[str | None] = mapped_column(Text)
    """Its state in the source."""
    public: Mapped[bool]
    """Whether it may be listed."""
    access: Mapped[str | None] = mapped_column(Text)
    """Who may see its captures; none if the source says nothing about it."""
    licence: Mapped[str | None] = mapped_column(Text)
    """Key of `provider.titles.licences`; none if there is no licence or its text is not known."""
    contract_from: Mapped[date | None]
    contract_to: Mapped[date | None]
    imported: Mapped[datetime] = mapped_column(server_default=func.now())
    """When an import last changed it."""
    gone: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether the last import of its source no longer contained it."""

    captures: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Captures that may be listed; withheld and hidden ones are not counted."""
    first_capture: Mapped[datetime | None]
    last_capture: Mapped[datetime | None]
    captures_by_year: Mapped[dict[str, int]] = mapped_column(JSONB, server_default=text("'{}'"))
    """Their number by year, UTC."""

    datestamp: Mapped[datetime]
    """Time of the last change in OAI-PMH, whole seconds."""
    entered: Mapped[datetime | None]
    """Its first datestamp as a listed title; none if it was never listed."""
    deleted: Mapped[bool] = mapped_column(server_default=text("true"))
    """Not listed: a deleted record, or none if it was never listed."""
    shown_digest: Mapped[str | None] = mapped_column(Text)
    """MD5 of everything that its records show; none while it is not listed."""


Index("ix_title_datestamp", Title.datestamp, Title.key)


class TitleEnrichment(Base):
    """What the library's catalogue adds to a title (`provider.titles.enrichment`).

    It has rows of its own because an import from the title's source replaces all values of `title`.
    """

    __tablename__ = "title_enrichment"

    title_id: Mapped[int] = mapped_column(
        ForeignKey("title.title_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    control_number: Mapped[str] = mapped_column(Text)
    """MARC 001 of the record in the catalogue; empty if the record has none."""
    identifier: Mapped[str | None] = mapped_column(Text)
    """The record's OAI identifier; none if it was read from a file."""
    languages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    """ISO 639-2/B codes, used if the title's source gives none."""
    alternative_names: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    """Varying and former names, shown after those of the title's source."""
    place: Mapped[str | None] = mapped_column(Text)
    """Place of publication in words."""
    country: Mapped[str | None] = mapped_column(Text)
    """Country of publication, a MARC code such as `xr`."""
    first_published: Mapped[int | None] = mapped_column(SmallInteger)
    """Year of the first publication."""
    enriched: Mapped[datetime] = mapped_column(server_default=func.now())
    """When it last changed."""


class TitleSeed(Base):
    """A URL from which a title is harvested, and the ranges of URL keys that it means."""

    __tablename__ = "title_seed"
    __table_args__ = (CheckConstraint("kind IN ('include', 'carve-out')", name="kind"),)

    title_id: Mapped[int] = mapped_column(
        ForeignKey("title.title_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    position: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Order in the source, from 0."""
    url: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text, server_default=SeedKind.INCLUDE)
    main: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it is the title's address; otherwise the first seed is."""
    harvested_from: Mapped[date | None]
    harvested_to: Mapped[date | None]
    """When it is harvested; captures before and after belong to the title as well."""


class AccessList(Base):
    """A list of addresses whose captures are closed, such as a blacklist of Seeder (`titles.address_lists`).

    Lists that mean nothing else than *open*, or are ignored, have no row.
    """

    __tablename__ = "access_list"
    __table_args__ = (CheckConstraint("access IN ('reading room', 'withheld')", name="access"),)

    source: Mapped[str] = mapped_column(Text, primary_key=True)
    """Where it was imported from, as in `title`."""
    source_key: Mapped[str] = mapped_column(Text, primary_key=True)
    """Its identifier there."""
    title: Mapped[str] = mapped_column(Text)
    access: Mapped[str] = mapped_column(Text)
    """Who may see the captures."""
    addresses: Mapped[list[str]] = mapped_column(ARRAY(Text))
    """Hosts, which mean their domains, and URLs."""
    imported: Mapped[datetime] = mapped_column(server_default=func.now())
    """When an import last changed it."""


class TitleSegment(Base):
    """A range of URL keys of a title, or of lists; no two overlap (`provider.titles.ranges`)."""

    __tablename__ = "title_segment"
    __table_args__ = (
        Index(
            "ix_title_segment_closed", "low", postgresql_where=text("access IN ('reading room', 'withheld')")
        ),
    )

    low: Mapped[str] = mapped_column(Text(collation="C"), primary_key=True)
    """The first key."""
    high: Mapped[str] = mapped_column(Text(collation="C"))
    """The end, which is not in the range."""
    title_id: Mapped[int | None] = mapped_column(ForeignKey("title.title_id", ondelete="CASCADE"), index=True)
    """None for what only lists name."""
    is_carve_out: Mapped[bool] = mapped_column(server_default=text("false"))
    """Its captures are carved out of the title, and belong to none."""
    access: Mapped[str | None] = mapped_column(Text)
    """Who may see its captures: the strictest of the title's rule (or that of carve-outs) and the lists'."""
    in_set: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether its documents are in the title's set in `/oai` (`provider.titles.document_sets`)."""


class CollectionSegment(Base):
    """A range of URL keys whose documents are in collections of `/oai`; no two overlap.

    There are rows only with the setting `provider.title_document_sets`
    (`provider.titles.collection_documents`).
    """

    __tablename__ = "collection_segment"

    low: Mapped[str] = mapped_column(Text(collation="C"), primary_key=True)
    """The first key."""
    high: Mapped[str] = mapped_column(Text(collation="C"))
    """The end, which is not in the range."""
    collections: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    """Ids of the collections, sorted. They are not foreign keys: an array cannot be one."""


class TitleDivision(Base):
    """By what the stored segments were divided (`provider.titles.segments`); a single row, or none yet.

    As long as it is the same, only what an import changes is divided again.
    """

    __tablename__ = "title_division"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    rules: Mapped[str | None] = mapped_column(Text)
    """The rules of `title_segment`; none if it has to be divided again."""
    collections: Mapped[list[int] | None] = mapped_column(ARRAY(Integer))
    """Ids of all collections of `collection_segment`, sorted; none if it was never divided."""


class TitlePending(Base):
    """A range of URL keys whose documents have yet to follow a changed rule or set (`titles.access`)."""

    __tablename__ = "title_pending"

    low: Mapped[str] = mapped_column(Text(collation="C"), primary_key=True)
    high: Mapped[str] = mapped_column(Text(collation="C"), primary_key=True)
    noted: Mapped[datetime] = mapped_column(server_default=func.clock_timestamp())
    """When an import last changed it; documents that have followed an earlier change follow again."""


class TitleDocuments(Base):
    """A set `title:…` of documents in `/oai`; its name is the title's."""

    __tablename__ = "title_documents"
    __table_args__ = (Index("ix_title_documents_listed", "set_spec", postgresql_where=text("listed")),)

    id: Mapped[int] = mapped_column(
        ForeignKey("title.title_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    """The title's id."""
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    documents: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Documents in the set, including deleted ones."""
    unlisted: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Those among them that were never listed."""
    listed: Mapped[bool] = mapped_column(Computed("documents > unlisted", persisted=True))
    """Whether harvesters may know this set."""


class TitleSet(Base):
    """A set of titles: `subject:…`, `collection:…`, `licence:…`, `publisher:…`, and their parents."""

    __tablename__ = "title_set"

    set_spec: Mapped[str] = mapped_column(Text(collation="C"), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    description: Mapped[str | None] = mapped_column(Text)
    """Plain text, paragraphs separated by line breaks."""
    picture: Mapped[str | None] = mapped_column(Text)
    """URL of a picture."""
    position: Mapped[int | None]
    """Place in lists; those without one come last."""
    described_by: Mapped[str | None] = mapped_column(Text)
    """The source of titles whose import describes the set."""
    seeds: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_TEXTS)
    """URLs whose captures are in a collection, beside those of its titles."""


class TitleMembership(Base):
    """A title's membership in a set or one of its parents."""

    __tablename__ = "title_membership"
    __table_args__ = (Index("ix_title_membership_page", "set_spec", "datestamp", "key"),)

    title_id: Mapped[int] = mapped_column(
        ForeignKey("title.title_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    set_spec: Mapped[str] = mapped_column(ForeignKey("title_set.set_spec"), primary_key=True)
    datestamp: Mapped[datetime]
    key: Mapped[uuid.UUID]
    """The title's datestamp and key, repeated for the index."""


class TitleExtent(Base):
    """How far captures have been counted for titles; a single row."""

    __tablename__ = "title_extent"
    __table_args__ = (CheckConstraint("id = 1", name="single"),)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    counted: Mapped[datetime]
    """All changes of documents with datestamps up to this one are in the figures of the titles."""


class TitleCounted(Base):
    """Which documents are in the figures of titles, or would be if they belonged to one."""

    __tablename__ = "title_counted"

    block: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """The documents' ids, divided by `BLOCK`."""
    documents: Mapped[str] = mapped_column(BIT(BLOCK))
    """A bit for each document, at the remainder of that division: whether it is counted."""


class TitleSearch(Base):
    """The text of each listed title, for the search on the public pages."""

    __tablename__ = "title_search"
    __table_args__ = (
        Index("ix_title_search_name", "sort_name", "key"),
        Index("ix_title_search_words", "words", postgresql_using="gin"),
    )

    title_id: Mapped[int] = mapped_column(
        ForeignKey("title.title_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    key: Mapped[uuid.UUID]
    sort_name: Mapped[str] = mapped_column(Text(collation="C"))
    """The beginning of the name in lower case without accents, by which lists are ordered."""
    words: Mapped[Any] = mapped_column(TSVECTOR)
    """The words of the names (also those of `title_enrichment`), publisher, annotation and keywords, in lower
    case without accents."""


class TitleFrontPage(Base):
    """The text of a title's front page (`provider.titles.front_pages`).

    There are rows only with the setting `provider.title_front_pages`, and only for listed titles: a row ends
    with that in `title_search`.
    """

    __tablename__ = "title_front_page"
    __table_args__ = (
        Index("ix_title_front_page_words", "words", postgresql_using="gin"),
        Index("ix_title_front_page_waiting", "title_id", postgresql_where=text("changes <> seen")),
    )

    title_id: Mapped[int] = mapped_column(
        ForeignKey("title_search.title_id", ondelete="CASCADE"), primary_key=True, autoincrement=False
    )
    document_id: Mapped[int | None] = mapped_column(BigInteger)
    """The capture; none if there is none that everyone may see."""
    holder_id: Mapped[int | None] = mapped_column(BigInteger)
    """The document with its content: another one if the capture is a revisit."""
    words: Mapped[Any | None] = mapped_column(TSVECTOR)
    """The words that a reader of the page sees, in lower case without accents."""
    changes: Mapped[int] = mapped_column(BigInteger, server_default="1")
    """How often captures of the title have changed."""
    seen: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """The value of `changes` when the front page was last looked for."""
