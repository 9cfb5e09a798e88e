"""The aggregate's tables: its source repositories, their published records, and their sets.

A list request names a format and optionally a set. Each level (all records, a source's, a source's set's)
therefore has an index that ends in (format_id, datestamp, id).
"""

import uuid
from datetime import datetime

from sqlalchemy import (
    ARRAY,
    BigInteger,
    CheckConstraint,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class AggregateSource(Base):
    """A harvested repository that is republished.

    It outlives the repository: its records are then reported as deleted permanently.
    """

    __tablename__ = "aggregate_source"
    __table_args__ = (CheckConstraint("identifiers IN ('original', 'own')", name="identifiers"),)

    repository_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    """As in `oai_repository`, but not a foreign key, because the repository may be removed."""
    name: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    """Its set, a setSpec of one part."""
    title: Mapped[str] = mapped_column(Text)
    """The repository's name."""
    base_url: Mapped[str] = mapped_column(Text)
    """The repository's base URL, used in provenance of records harvested since it is this one."""
    identifiers: Mapped[str] = mapped_column(Text)
    """original: as harvested; own: below this provider's namespace."""
    namespace: Mapped[str | None] = mapped_column(Text)
    """The namespace of its own identifiers, whatever the setting is now: published records keep it. Empty
    before the first such identifier; none if only its records show it, since an earlier version."""
    altered: Mapped[bool] = mapped_column(server_default=text("false"))
    """Its records are reported as altered since they were harvested, whatever its schedules say."""
    added: Mapped[datetime] = mapped_column(server_default=func.now())
    withdrawn: Mapped[datetime | None]
    """Since when its records are reported as deleted."""
    walk: Mapped[str | None] = mapped_column(Text)
    """The task of the current walk: records (checks all), gone (deletes those no longer harvested),
    withdrawal (deletes all); none when the change feed is sufficient."""
    walked_prefix: Mapped[str] = mapped_column(Text, server_default="")
    walked_key: Mapped[uuid.UUID | None]
    """With the prefix: how far the walk has got through `oai_record`."""
    seen_history: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Without a change feed, a hash of the newest `oai_history` row, approval and record fetched again when
    the last walk started; otherwise 0."""


class AggregateFormerAddress(Base):
    """A base URL that a source had before its repository moved, for the provenance of earlier records."""

    __tablename__ = "aggregate_former_address"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey("aggregate_source.repository_id"), primary_key=True, autoincrement=False
    )
    until: Mapped[datetime] = mapped_column(primary_key=True)
    """When the newest record was harvested that was published before the change was noticed."""
    base_url: Mapped[str] = mapped_column(Text)


class AggregateFormat(Base):
    """A metadata format in which records were harvested."""

    __tablename__ = "aggregate_format"
    __table_args__ = (UniqueConstraint("harvested_prefix", "namespace"),)

    id: Mapped[int] = mapped_column(SmallInteger, Identity(), primary_key=True)
    prefix: Mapped[str] = mapped_column(Text, unique=True)
    """metadataPrefix in the aggregate: the harvested one, with a number if sources use it for different
    formats."""
    harvested_prefix: Mapped[str] = mapped_column(Text)
    namespace: Mapped[str] = mapped_column(Text)
    schema: Mapped[str] = mapped_column(Text)


class AggregateSet(Base):
    """A set: a source's own, or one below it that its records' headers name."""

    __tablename__ = "aggregate_set"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey("aggregate_source.repository_id"))
    set_spec: Mapped[str] = mapped_column(Text(collation="C"), unique=True)
    harvested_spec: Mapped[str] = mapped_column(Text)
    """The source's spelling; empty for the source's own set, which has the source's name as its setSpec, and
    for that of an empty setSpec or of one that begins with a colon."""
    name: Mapped[str] = mapped_column(Text)
    lineage: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    """Ids of this set and its ancestors, without the source's own set."""


class AggregateCount(Base):
    """Number of listed records of a format in a set and below; maintained while publishing."""

    __tablename__ = "aggregate_count"

    set_id: Mapped[int] = mapped_column(ForeignKey("aggregate_set.id"), primary_key=True)
    format_id: Mapped[int] = mapped_column(
        SmallInteger, ForeignKey("aggregate_format.id"), primary_key=True, autoincrement=False
    )
    records: Mapped[int] = mapped_column(BigInteger)


class AggregateRecord(Base):
    """A record as it is published.

    Several sources may have the same identifier. One of them is listed; the others have a datestamp that
    is never due, and replace it when it is deleted. Its source, format and sets are not declared as
    foreign keys, because checking them slows publishing.
    """

    __tablename__ = "aggregate_record"
    __table_args__ = (UniqueConstraint("identifier_key", "format_id", "repository_id"),)

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int]
    format_id: Mapped[int] = mapped_column(SmallInteger)
    identifier: Mapped[str] = mapped_column(Text)
    """The published identifier."""
    identifier_key: Mapped[uuid.UUID]
    """First 128 bits of its SHA-256."""
    harvested_identifier: Mapped[str] = mapped_column(Text)
    harvested_key: Mapped[uuid.UUID]
    """`oai_record.identifier_key`."""
    filename: Mapped[str | None] = mapped_column(Text)
    """Path of the record's file below the repository's base directory."""
    digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """SHA-256 of the file's bytes."""
    datestamp: Mapped[datetime]
    """Time of the last change as published, in whole seconds; in the year 9999 if the record is not
    listed."""
    harvested_datestamp: Mapped[str] = mapped_column(Text)
    """As the source wrote it."""
    harvest_time: Mapped[datetime]
    deleted: Mapped[bool]
    altered: Mapped[bool]
    """Changed by normalise rules since it was harvested."""
    set_ids: Mapped[list[int]] = mapped_column(ARRAY(Integer))
    """The sets that its header names; empty if it is only in its source's set."""


Index("ix_aggregate_record_page", AggregateRecord.format_id, AggregateRecord.datestamp, AggregateRecord.id)
Index(
    "ix_aggregate_record_source",
    AggregateRecord.repository_id,
    AggregateRecord.format_id,
    AggregateRecord.datestamp,
    AggregateRecord.id,
)


class AggregateMembership(Base):
    """A listed record's membership in a source's set or in one of that set's ancestors."""

    __tablename__ = "aggregate_membership"
    __table_args__ = (Index("ix_aggregate_membership_page", "set_id", "format_id", "datestamp", "record_id"),)

    record_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("aggregate_record.id", ondelete="CASCADE"), primary_key=True
    )
    set_id: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    format_id: Mapped[int] = mapped_column(SmallInteger)
    datestamp: Mapped[datetime]
    """The record's datestamp, repeated for the index."""


class AggregateUnreadable(Base):
    """A record whose file could not be read; it is not listed until the file is readable."""

    __tablename__ = "aggregate_unreadable"

    record_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey("aggregate_record.id", ondelete="CASCADE"), primary_key=True
    )
    reason: Mapped[str] = mapped_column(Text)
    noticed: Mapped[datetime] = mapped_column(server_default=func.now())
    looked_at: Mapped[datetime | None]
    """When publishing last tried to read it."""


Index("ix_aggregate_unreadable_looked_at", AggregateUnreadable.looked_at.nulls_first())


class AggregateFeed(Base):
    """Position in the harvester's change feed; at most one row."""

    __tablename__ = "aggregate_feed"
    __table_args__ = (CheckConstraint("id = 1", name="one_row"),)

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    transaction_id: Mapped[int] = mapped_column(BigInteger)
    change_id: Mapped[int] = mapped_column(BigInteger)
    """With the transaction: the last line processed, in the order in which the feed is read."""
    followed: Mapped[datetime]
    """When its end was last reached."""
