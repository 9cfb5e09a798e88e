"""The tables of indexing runs: archive files that are queued together, and the progress of each."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, SmallInteger, Text, func
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base


class IndexFileState(StrEnum):
    """Progress of indexing one archive file."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class IndexRun(Base):
    """Archive files that were queued together, to be indexed by workers."""

    __tablename__ = "index_run"

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    queued: Mapped[datetime] = mapped_column(server_default=func.now())
    host: Mapped[str] = mapped_column(Text)
    """The machine from which it was requested."""
    collection: Mapped[str | None] = mapped_column(Text)
    """setSpec of the collection for new documents."""
    again: Mapped[bool]
    """Unchanged files are read, too."""
    archive_dir: Mapped[str | None] = mapped_column(Text)
    """Folder of the archive files that CDX files list."""


class IndexFile(Base):
    """One archive file of an indexing run."""

    __tablename__ = "index_file"
    __table_args__ = (
        CheckConstraint("state IN ('waiting', 'running', 'done', 'failed')", name="state"),
        Index("ix_index_file_run", "run_id", "state"),
    )

    id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    run_id: Mapped[int] = mapped_column(ForeignKey("index_run.id", ondelete="CASCADE"))
    path: Mapped[str] = mapped_column(Text)
    """Absolute path, or a `file:` URI if it is not UTF-8; workers must be able to read the file there."""
    size: Mapped[int] = mapped_column(BigInteger)
    """Bytes, when it was queued."""
    state: Mapped[str] = mapped_column(Text, server_default=IndexFileState.WAITING)
    reason: Mapped[str | None] = mapped_column(Text)
    """Why it failed, or why it is waiting again."""
    failure_code: Mapped[str | None] = mapped_column(Text)
    """The same as a code for programs (`FailureCode`); NULL without a reason."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Numbers and texts used in the message of `failure_code`."""
    host: Mapped[str | None] = mapped_column(Text)
    """The machine whose worker claimed it."""
    tries: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    started: Mapped[datetime | None]
    ended: Mapped[datetime | None]
    new: Mapped[int] = mapped_column(BigInteger, server_default="0")
    unchanged: Mapped[int] = mapped_column(BigInteger, server_default="0")
    moved: Mapped[int] = mapped_column(BigInteger, server_default="0")
    duplicates: Mapped[int] = mapped_column(BigInteger, server_default="0")
    problems: Mapped[int] = mapped_column(BigInteger, server_default="0")
