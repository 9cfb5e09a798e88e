"""The tables of the store: the number of files in its folders, its changes, its audits."""

import uuid
from datetime import datetime

from sqlalchemy import BigInteger, ForeignKey, Identity, Index, Text, func
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Repository
from oai.models import Base


class Directory(Base):
    """Number of files placed in a folder of a repository's store, so that it need not be listed."""

    __tablename__ = "oai_directory"

    repository_id: Mapped[int] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="CASCADE"), primary_key=True
    )
    path_key: Mapped[uuid.UUID] = mapped_column(primary_key=True)
    """First 128 bits of the SHA-256 of the folder's path below the base directory."""
    files: Mapped[int]
    """Files ever placed there, including its `starting_at_` folders."""


class RecordChange(Base):
    """Changes in the store: a line for each new, updated or deleted record, kept for some days (STO-7).

    Transactions do not commit in the order of their numbers. To miss no change, a consumer reads in the order
    of (`transaction_id`, `change_id`), and only below the oldest running transaction. Neither repository nor
    run is a foreign key: checking each line would slow down every harvest.
    """

    __tablename__ = "oai_change"

    transaction_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """`pg_current_xact_id()` of the transaction that wrote it."""
    change_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int]
    harvest_id: Mapped[int]
    run_started: Mapped[datetime]
    """With `harvest_id`, identifies the run, as in `oai_history`."""
    identifier: Mapped[str] = mapped_column(Text)
    metadata_prefix: Mapped[str] = mapped_column(Text)
    change: Mapped[str] = mapped_column(Text)
    """new, updated or deleted."""
    filename: Mapped[str | None] = mapped_column(Text)
    """Path of the record's file below the base directory, after the change."""
    datestamp: Mapped[str] = mapped_column(Text)
    """Datestamp as the repository wrote it."""
    changed: Mapped[datetime] = mapped_column(server_default=func.now())


# A line may cost only one B-tree; the table grows only at its end, so block ranges serve other lookups.
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
    """NULL while it is running, or if it was interrupted."""
    files: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Files that are named in rows."""
    missing: Mapped[int] = mapped_column(BigInteger, server_default="0")
    altered: Mapped[int] = mapped_column(BigInteger, server_default="0")
    stray: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Files that no row names, including incomplete ones."""
