"""The tables of the store: how full its folders are, what changed in it, how it was audited."""

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, Text, func
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Repository
from oai.models import Base


class Directory(Base):
    """How many files a folder of a repository's store has got, so that nobody has to list it."""

    __tablename__ = "oai_directory"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="CASCADE"), primary_key=True
    )
    path_key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """First 128 bits of the SHA-256 of the folder's path below the base directory."""
    files: Mapped[int]
    """Files ever placed there, its `starting_at_` folders included."""


class RecordChange(Base):
    """What changed in the store: a line for each new, updated or deleted record, kept for some days (STO-7).

    Transactions do not commit in the order of their numbers. Whoever follows along reads in the order of
    (`transaction_id`, `change_id`), and only below the oldest transaction under way, so as to miss nothing.
    Neither repository nor run is a foreign key: a check of each line would slow every harvest.
    """

    __tablename__ = "oai_change"

    transaction_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """`pg_current_xact_id()` of the transaction that wrote it."""
    change_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int]
    harvest_id: Mapped[int]
    run_started: Mapped[datetime]
    """With `harvest_id` the run, as in `oai_history`."""
    identifier: Mapped[str] = mapped_column(Text)
    metadata_prefix: Mapped[str] = mapped_column(Text)
    change: Mapped[str] = mapped_column(Text)
    """new, updated or deleted."""
    filename: Mapped[str | None] = mapped_column(Text)
    """Path of the record's file below the base directory, after the change."""
    datestamp: Mapped[str] = mapped_column(Text)
    """As the repository wrote it."""
    changed: Mapped[datetime] = mapped_column(server_default=func.now())


# One B-tree is what a line may cost; the table only grows at its end, so block ranges find the rest.
Index("ix_oai_change_blocks", RecordChange.change_id, RecordChange.run_started, postgresql_using="brin")


class StoreAudit(Base):
    """One comparison of a repository's files with their rows (STO-6)."""

    __tablename__ = "oai_store_audit"

    audit_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="CASCADE"), index=True
    )
    started: Mapped[datetime]
    ended: Mapped[datetime | None]
    """None while it goes on, or where it was cut off."""
    files: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Files that rows name."""
    missing: Mapped[int] = mapped_column(BigInteger, server_default="0")
    altered: Mapped[int] = mapped_column(BigInteger, server_default="0")
    stray: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Files that no row names, unfinished ones included."""
