"""The tables of the bibliographic import: records, their names and identifiers, filtering sets, imports.

Values that are searched or counted have columns; names and identifiers, which are looked up, have rows; what
is only shown with its record (subjects, notes, links …) is JSON in the record's row, so that an import writes
one row instead of thirty.
"""

import uuid
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    SmallInteger,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, TSVECTOR
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Repository
from oai.models import Base

_NO_TEXTS = text("'{}'")
_NO_ITEMS = text("'[]'")


class FilteringSet(Base):
    """A named list of conditions that select which records are imported."""

    __tablename__ = "bibliographic_set"
    __table_args__ = (CheckConstraint("match IN ('any', 'all')", name="match"),)

    set_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    name: Mapped[str] = mapped_column(Text, unique=True)
    description: Mapped[str] = mapped_column(Text, server_default="")
    match: Mapped[str] = mapped_column(Text, server_default="all")
    """any or all of the conditions."""
    revision: Mapped[int] = mapped_column(server_default="1")
    """The number of the set's revision; records imported under an earlier one are processed again."""
    changed: Mapped[datetime] = mapped_column(server_default=func.now())


class FilteringCondition(Base):
    """A condition of a filtering set, on the original fields of a record."""

    __tablename__ = "bibliographic_set_condition"
    __table_args__ = (
        CheckConstraint("operator IN ('equals', 'contains', 'matches', 'exists')", name="operator"),
    )

    set_id: Mapped[int] = mapped_column(
        ForeignKey("bibliographic_set.set_id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    field: Mapped[str] = mapped_column(Text)
    """A MARC tag, in which X is any character, LDR, or a Dublin Core element."""
    first_character: Mapped[int | None] = mapped_column(SmallInteger)
    """For a control field: the first position, counted from 0, that is compared."""
    last_character: Mapped[int | None] = mapped_column(SmallInteger)
    indicators: Mapped[str] = mapped_column(Text, server_default="")
    """Both indicators, with `_` for a blank and `*` for any; empty for any."""
    subfield: Mapped[str] = mapped_column(Text, server_default="")
    """Subfield code; empty for any."""
    operator: Mapped[str] = mapped_column(Text)
    value: Mapped[str] = mapped_column(Text, server_default="")
    inverted: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    """Whether the condition requires that no such field exists."""


class ImportSource(Base):
    """How the records of a repository are imported; a repository without a row uses the defaults."""

    __tablename__ = "bibliographic_source"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="CASCADE"), primary_key=True
    )
    record_url_template: Mapped[str | None] = mapped_column(Text)
    """Address of a record's page at its institution, with {identifier}, {local}, {control_number}."""
    after_harvest: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    """Whether an import runs after each harvest, if a converter reads the records."""
    metadata_prefix: Mapped[str | None] = mapped_column(Text)
    """The format to import; NULL for the most detailed one."""
    set_id: Mapped[int | None] = mapped_column(
        ForeignKey("bibliographic_set.set_id", ondelete="RESTRICT"), index=True
    )


class Import(Base):
    """An import of a repository's records; its counts are written while it runs."""

    __tablename__ = "bibliographic_import"

    import_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey(Repository.repository_id, ondelete="CASCADE"))
    metadata_prefix: Mapped[str | None] = mapped_column(Text)
    state: Mapped[str] = mapped_column(Text, server_default="running")
    """running, completed, completed with errors, no changes, incomplete, failed, or lost."""
    started_by: Mapped[str] = mapped_column(Text)
    """A user, or `harvest`."""
    started: Mapped[datetime] = mapped_column(server_default=func.now())
    ended: Mapped[datetime | None]
    updated: Mapped[datetime] = mapped_column(server_default=func.now())
    """When the counts were last written."""
    expected: Mapped[int | None] = mapped_column(BigInteger)
    """The number of records to process when it began."""
    seen_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    new_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    updated_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    unchanged_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Records that were converted with the same result as before."""
    deleted_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Deleted rows: of records that were deleted, or that are no longer selected or readable."""
    filtered_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Rejected by the filtering set."""
    refused_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Could not be read; `bibliographic_omission` has the reasons."""
    total_count: Mapped[int | None] = mapped_column(BigInteger)
    """Bibliographic records of the repository at the end of the import."""
    failure_reason: Mapped[str | None] = mapped_column(Text)
    failure_code: Mapped[str | None] = mapped_column(Text)
    """Why it failed or was cut off (`FailureCode`)."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """The facts that belong to `failure_code`."""
    host: Mapped[str | None] = mapped_column(Text)
    process_id: Mapped[int | None]
    basis: Mapped[str | None] = mapped_column(Text)
    """With what it converted, as in `bibliographic_record`."""
    whole: Mapped[bool] = mapped_column(Boolean, server_default=text("true"))
    """Whether it compared all records of the repository, not only those changed since the last import."""
    feed_mark: Mapped[int | None] = mapped_column(BigInteger)
    """Changes of transactions below this number had been read when it began, as in `oai_change`."""


Index("ix_bibliographic_import_repository_id", Import.repository_id, Import.import_id.desc())


class Omission(Base):
    """A harvested record without a bibliographic row, and the reason."""

    __tablename__ = "bibliographic_omission"
    __table_args__ = (CheckConstraint("kind IN ('filtered', 'refused', 'unreadable')", name="kind"),)

    repository_id: Mapped[int] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="CASCADE"), primary_key=True
    )
    metadata_prefix: Mapped[str] = mapped_column(Text, primary_key=True)
    identifier_key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """As in `oai_record`."""
    file_digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """The digest of the record's file at that time, as in `oai_record`."""
    basis: Mapped[str] = mapped_column(Text)
    """As in `bibliographic_record`."""
    kind: Mapped[str] = mapped_column(Text)
    """filtered, refused or unreadable.

    filtered: by the filtering set; refused: no converter reads it, or it is not bibliographic (MARC holdings,
    authority, classification or community information data); unreadable: the file is missing or was altered,
    or the converter failed on it; each import of all records tries it again, and one after a harvest if the
    file can be read again.
    """
    reason: Mapped[str] = mapped_column(Text, server_default="")


class BibliographicRow(Base):
    """A bibliographic record, made from one harvested record."""

    __tablename__ = "bibliographic_record"
    __table_args__ = (UniqueConstraint("repository_id", "metadata_prefix", "identifier_key"),)

    bibliographic_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey(Repository.repository_id, ondelete="CASCADE"))
    metadata_prefix: Mapped[str] = mapped_column(Text)
    identifier_key: Mapped[uuid.UUID]
    """As in `oai_record`."""
    identifier: Mapped[str] = mapped_column(Text)
    datestamp: Mapped[str] = mapped_column(Text)
    """As the repository wrote it."""
    file_digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """SHA-256 of the record's file, as in `oai_record`."""
    content_digest: Mapped[bytes] = mapped_column(LargeBinary)
    """First 16 bytes of the SHA-256 of the converted record: an equal digest is not an update."""
    basis: Mapped[str] = mapped_column(Text)
    """What it was made with: format, the converter's version, filtering set and its revision."""
    format: Mapped[str] = mapped_column(Text)
    """marc21 or dublin_core."""
    imported: Mapped[datetime] = mapped_column(server_default=func.now())
    """When it was created or last changed."""
    control_number: Mapped[str] = mapped_column(Text, server_default="")
    control_source: Mapped[str] = mapped_column(Text, server_default="")
    kind: Mapped[str] = mapped_column(Text, server_default="other")
    """book, article, serial …"""
    title: Mapped[str] = mapped_column(Text, server_default="")
    subtitle: Mapped[str] = mapped_column(Text, server_default="")
    sort_title: Mapped[str] = mapped_column(Text(collation="C"), server_default="")
    """Folded, without leading articles, at most 200 characters."""
    statement: Mapped[str] = mapped_column(Text, server_default="")
    """Statement of responsibility."""
    place: Mapped[str] = mapped_column(Text, server_default="")
    publisher: Mapped[str] = mapped_column(Text, server_default="")
    date_text: Mapped[str] = mapped_column(Text, server_default="")
    year_from: Mapped[int | None] = mapped_column(SmallInteger)
    year_to: Mapped[int | None] = mapped_column(SmallInteger)
    sort_year: Mapped[int] = mapped_column(SmallInteger, server_default="-32768")
    """The first year; the lowest possible number if none is known."""
    country: Mapped[str] = mapped_column(Text, server_default="")
    edition: Mapped[str] = mapped_column(Text, server_default="")
    extent: Mapped[str] = mapped_column(Text, server_default="")
    languages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_NO_TEXTS)
    """ISO 639-2/B codes."""
    original_languages: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_NO_TEXTS)
    titles: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    """Other titles: kind, text, label."""
    publications: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    """All statements: place, publisher, date, function."""
    series: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    subjects: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    """text, kind, source, authority_ids."""
    genres: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    related: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    links: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    notes: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=_NO_ITEMS)
    """kind (note, kept, broken), field, text, fault: what has no column, and what is invalid."""
    words: Mapped[Any] = mapped_column(TSVECTOR)
    """Folded words: A titles, B names, C subjects, series and numbers, D notes."""


Index("ix_bibliographic_record_words", BibliographicRow.words, postgresql_using="gin")
Index("ix_bibliographic_record_languages", BibliographicRow.languages, postgresql_using="gin")
Index("ix_bibliographic_record_sort_title", BibliographicRow.sort_title, BibliographicRow.bibliographic_id)
Index("ix_bibliographic_record_sort_year", BibliographicRow.sort_year, BibliographicRow.bibliographic_id)
Index("ix_bibliographic_record_kind", BibliographicRow.kind)


class ContributorRow(Base):
    """A person, corporate body or meeting named by a record."""

    __tablename__ = "bibliographic_contributor"

    bibliographic_id: Mapped[int] = mapped_column(
        BigInteger,
        ForeignKey("bibliographic_record.bibliographic_id", ondelete="CASCADE"),
        primary_key=True,
    )
    position: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    name: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    """person, family, corporate, meeting or unknown."""
    dates: Mapped[str] = mapped_column(Text, server_default="")
    titles: Mapped[str] = mapped_column(Text, server_default="")
    roles: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_NO_TEXTS)
    """Relator codes, or words for which there is no code."""
    authority_ids: Mapped[list[str]] = mapped_column(ARRAY(Text), server_default=_NO_TEXTS)
    work: Mapped[str] = mapped_column(Text, server_default="")
    main: Mapped[bool] = mapped_column(Boolean, server_default=text("false"))
    linked: Mapped[str] = mapped_column(Text, server_default="")
    """The name in another script."""


Index(
    "ix_bibliographic_contributor_authority_ids",
    ContributorRow.authority_ids,
    postgresql_using="gin",
    postgresql_where=text("authority_ids <> '{}'::text[]"),
)


class IdentifierRow(Base):
    """A number or name that identifies the publication."""

    __tablename__ = "bibliographic_identifier"

    bibliographic_id: Mapped[int] = mapped_column(
        BigInteger,
        ForeignKey("bibliographic_record.bibliographic_id", ondelete="CASCADE"),
        primary_key=True,
    )
    position: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    scheme: Mapped[str] = mapped_column(Text)
    value: Mapped[str] = mapped_column(Text)
    found: Mapped[str] = mapped_column(Text)
    """As written in the record."""
    state: Mapped[str] = mapped_column(Text, server_default="valid")
    """valid, cancelled or invalid."""
    qualifier: Mapped[str] = mapped_column(Text, server_default="")


# Values may have any length and are looked up whole: a B-tree entry could not hold every value.
Index("ix_bibliographic_identifier_value", IdentifierRow.value, postgresql_using="hash")
