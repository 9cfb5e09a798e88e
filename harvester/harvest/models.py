"""The tables of runs: what could not be read, which deletions wait, and what a person has to say yes to."""

import uuid
from datetime import datetime
from typing import Any

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
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Harvest, History, Repository
from oai.failures import Failure, FailureCode
from oai.models import Base


class Quarantined(Base):
    """A record, or a part of an answer, that could not be read; the bytes are kept for whoever mends it."""

    __tablename__ = "oai_quarantine"
    __table_args__ = (
        UniqueConstraint("repository_id", "metadata_prefix", "fault_key"),
        Index("ix_oai_quarantine_identifier_key", "repository_id", "metadata_prefix", "identifier_key"),
    )

    quarantine_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(ForeignKey(Repository.repository_id, ondelete="CASCADE"))
    metadata_prefix: Mapped[str] = mapped_column(Text)
    set_spec: Mapped[str] = mapped_column(Text, server_default="")
    """Of the harvest that saw it last; empty for the whole repository."""
    fault_key: Mapped[uuid.UUID]
    """First 128 bits of the SHA-256 of the identifier, or, where that is not known, of the bytes."""
    identifier: Mapped[str | None] = mapped_column(Text)
    """Where the broken bytes name one."""
    identifier_key: Mapped[uuid.UUID | None]
    """As in `oai_record`."""
    reason: Mapped[str] = mapped_column(Text)
    failure_code: Mapped[str | None] = mapped_column(Text)
    """Why, for programs (`FailureCode`); NULL if the reason has no code."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Numbers and texts that the sentence for `failure_code` needs."""

    @property
    def failure(self) -> Failure:
        """Why it could not be read."""
        found = Failure.stored(self.failure_code, self.failure_facts)
        return found or Failure(code=FailureCode.RECORD_OTHER)

    url: Mapped[str] = mapped_column(Text)
    byte_offset: Mapped[int | None] = mapped_column(BigInteger)
    """Where the bytes begin in the answer; none where the whole answer was at fault."""
    raw: Mapped[bytes] = mapped_column(LargeBinary)
    """As they came, decompressed; the first million where there were more."""
    raw_size: Mapped[int] = mapped_column(BigInteger)
    """How many there were."""
    first_seen: Mapped[datetime] = mapped_column(server_default=func.now())
    last_seen: Mapped[datetime] = mapped_column(server_default=func.now())
    last_run: Mapped[datetime]
    """When the run that saw it last began (`oai_harvest.run_started`)."""
    history_id: Mapped[int | None] = mapped_column(BigInteger, index=True)
    """The last run that saw it, once that has ended."""
    job_id: Mapped[int | None]
    resolved: Mapped[datetime | None]
    """When a later run read the record well."""


class ListMarks(Base):
    """Marks of identifiers that the list at hand has brought: one that comes again is no other record."""

    __tablename__ = "oai_list_marks"

    part_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    harvest_id: Mapped[int] = mapped_column(ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), index=True)
    marks: Mapped[bytes] = mapped_column(LargeBinary)
    """Eight bytes each, the lowest one first: a signed number out of the identifier's BLAKE2b."""


class HeldDeletion(Base):
    """A deletion that waits for its run's end, or for a person's yes."""

    __tablename__ = "oai_held_deletion"

    harvest_id: Mapped[int] = mapped_column(
        ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), primary_key=True
    )
    # Before the run in the key: a page's records are looked up for all runs of the harvest at once.
    record_id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    run_started: Mapped[datetime] = mapped_column(primary_key=True)
    datestamp: Mapped[str] = mapped_column(Text)
    set_specs: Mapped[list[str] | None] = mapped_column(JSONB(none_as_null=True))
    """As the tombstone has them; none where the record disappeared, which leaves it in its sets."""
    reason: Mapped[str] = mapped_column(Text)
    digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    """Of the record's file then: a record that has changed since is not deleted."""


class Sighting(Base):
    """Records that a run saw, a group of pages in each row; kept while a run looks for what has disappeared.

    As a row for each record, noting them took a tenth of a repeated harvest's time.
    """

    __tablename__ = "oai_sighting"

    sighting_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    harvest_id: Mapped[int] = mapped_column(ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), index=True)
    run_started: Mapped[datetime]
    record_ids: Mapped[list[int]] = mapped_column(ARRAY(BigInteger))


class Hold(Base):
    """A run that was held, for it would have deleted or changed too large a share of the records."""

    __tablename__ = "oai_hold"

    history_id: Mapped[int] = mapped_column(
        BigInteger, ForeignKey(History.history_id, ondelete="CASCADE"), primary_key=True
    )
    harvest_id: Mapped[int] = mapped_column(ForeignKey(Harvest.harvest_id, ondelete="CASCADE"), index=True)
    run_started: Mapped[datetime]
    kind: Mapped[str] = mapped_column(Text)
    """deletions or updates."""
    state: Mapped[str] = mapped_column(Text, server_default="held")
    """held; released, by a person; superseded, by a later run."""
    would_delete: Mapped[int] = mapped_column(BigInteger, server_default="0")
    would_update: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """As many as had come when the run was held."""
    active: Mapped[int] = mapped_column(BigInteger)
    """Records that lived here before the run."""
    allowed: Mapped[float]
    """Per cent that the run may delete or change."""
    sample: Mapped[list[str]] = mapped_column(JSONB, server_default=text("'[]'"))
    """Some of the identifiers."""
    decided: Mapped[datetime | None]
