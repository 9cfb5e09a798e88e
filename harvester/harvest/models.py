"""The tables of runs: quarantined records, waiting deletions, and holds that need a person's approval."""

import uuid
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    ForeignKey,
    Identity,
    Index,
    LargeBinary,
    Text,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB
from sqlalchemy.orm import Mapped, defer, mapped_column

from harvester.models import Harvest, History, Repository
from oai.failures import Failure, FailureCode
from oai.models import Base


class Quarantined(Base):
    """A record, a part of an answer, or a date range, that could not be read; its bytes are kept."""

    __tablename__ = "oai_quarantine"
    __table_args__ = (
        UniqueConstraint("repository_id", "metadata_prefix", "fault_key"),
        Index("ix_oai_quarantine_identifier_key", "repository_id", "metadata_prefix", "identifier_key"),
    )

    quarantine_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey(Repository.repository_id, ondelete="CASCADE"))
    metadata_prefix: Mapped[str] = mapped_column(Text)
    set_spec: Mapped[str] = mapped_column(Text, server_default="")
    """Set of the harvest that saw it last; empty for the whole repository."""
    fault_key: Mapped[uuid.UUID]
    """First 128 bits of the SHA-256 of the identifier or, if that is unknown, of the bytes. For a whole
    answer, of its request and failure code."""
    identifier: Mapped[str | None] = mapped_column(Text)
    """Identifier, if the broken bytes contain one."""
    identifier_key: Mapped[uuid.UUID | None]
    """Key of the identifier, as in `oai_record`."""
    reason: Mapped[str] = mapped_column(Text)
    failure_code: Mapped[str | None] = mapped_column(Text)
    """Reason as a code for programs (`FailureCode`); NULL if the reason has no code."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Numbers and texts used in the message of `failure_code`."""

    @property
    def failure(self) -> Failure:
        """Return the reason why it could not be read."""
        found = Failure.stored(self.failure_code, self.failure_facts)
        return found or Failure(code=FailureCode.RECORD_OTHER)

    @property
    def date_range(self) -> str | None:
        """The date range that could not be listed; None for a record."""
        failure = self.failure
        return failure.facts.get("range") if failure.code is FailureCode.LIST_PARTLY_READ else None

    url: Mapped[str] = mapped_column(Text)
    byte_offset: Mapped[int | None] = mapped_column(BigInteger)
    """Offset of the bytes in the answer; NULL if the whole answer is at fault."""
    raw: Mapped[bytes] = mapped_column(LargeBinary)
    """The bytes as received, decompressed; at most the first million."""
    raw_size: Mapped[int] = mapped_column(BigInteger)
    """Total number of bytes."""
    first_seen: Mapped[datetime] = mapped_column(server_default=func.now())
    last_seen: Mapped[datetime] = mapped_column(server_default=func.now())
    last_run: Mapped[datetime]
    """Start of the run that saw it last (`oai_harvest.run_started`)."""
    history_id: Mapped[int | None] = mapped_column(BigInteger, index=True)
    """The last run that saw it, once that run has ended."""
    job_id: Mapped[int | None]
    resolved: Mapped[datetime | None]
    """Time at which a later run read the record successfully; removed `harvester.keep_changes` days later."""


WITHOUT_BYTES: Final = defer(Quarantined.raw, raiseload=True)
"""Option of queries for lists of quarantined records: with their bytes, one page could take gigabytes."""


class ListMarks(Base):
    """Marks of the identifiers already received in the current list, so that repeated records count once."""

    __tablename__ = "oai_list_marks"

    part_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    harvest_id: Mapped[int] = mapped_column(ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), index=True)
    marks: Mapped[bytes] = mapped_column(LargeBinary)
    """Eight bytes each, lowest byte first: a signed number derived from the identifier's BLAKE2b."""


class HeldDeletion(Base):
    """A deletion that waits for the end of its run, or for a person's approval."""

    __tablename__ = "oai_held_deletion"

    harvest_id: Mapped[int] = mapped_column(
        ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), primary_key=True
    )
    # Precedes the run in the key: a page's records are looked up for all runs of the harvest at once.
    record_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    run_started: Mapped[datetime] = mapped_column(primary_key=True)
    datestamp: Mapped[str] = mapped_column(Text)
    set_specs: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    """Sets of the tombstone; NULL if the record disappeared, which leaves it in its sets."""
    reason: Mapped[str] = mapped_column(Text)
    """As in `oai_record.deletion_reason`; `unconfirmed` if the next full harvest has to confirm the deletion,
    because the list that lacked the record changed while it was read."""
    digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Digest of the record's file at that time: a record that has changed since is not deleted."""


class Sighting(Base):
    """Records that a run saw, one row per group of pages; kept while the run looks for disappeared records.

    With a row per record, these notes took a tenth of the time of a repeated harvest.
    """

    __tablename__ = "oai_sighting"

    sighting_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    harvest_id: Mapped[int] = mapped_column(ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), index=True)
    run_started: Mapped[datetime]
    record_ids: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class Hold(Base):
    """A run that was held because it would have deleted or changed too large a share of the records."""

    __tablename__ = "oai_hold"

    history_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey(History.history_id, ondelete="CASCADE"), primary_key=True
    )
    harvest_id: Mapped[int] = mapped_column(ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), index=True)
    run_started: Mapped[datetime]
    kind: Mapped[str] = mapped_column(Text)
    """deletions or updates."""
    state: Mapped[str] = mapped_column(Text, server_default="held")
    """held; released (by a person); superseded (by a later run); done."""
    would_delete: Mapped[int] = mapped_column(BigInteger, server_default="0")
    would_update: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Number of updates received when the run was held."""
    active: Mapped[int] = mapped_column(BigInteger)
    """Active records in the store before the run."""
    allowed: Mapped[float]
    """Percentage of the records that the run may delete or change."""
    sample: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    """Some of the affected identifiers."""
    decided: Mapped[datetime | None]
