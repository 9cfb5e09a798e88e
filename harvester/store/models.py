"""The tables of the store: the number of files in its folders, its changes, its audits."""

import uuid
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import BigInteger, CheckConstraint, ForeignKey, Identity, Index, LargeBinary, Text, func, text
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from harvester.models import Repository
from oai.failures import Failure, FailureCode
from oai.models import Base


class AuditState(StrEnum):
    """State of an audit of a store."""

    QUEUED = "queued"
    """Waits for a worker."""
    RUNNING = "running"
    """Runs; also `zatva store verify` that was interrupted."""
    DONE = "done"
    """Compared everything; `failure_code` says whether it found something."""
    FAILED = "failed"
    """Did not finish; `failure_code` and `failure_facts` say why."""


OPEN_AUDIT: Final = "due IS NOT NULL AND state IN ('queued', 'running')"
"""Condition of the index that keeps a repository from having two queued or running audits."""


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
    """Changes in the store: a line for each new, updated or deleted record, kept for some days.

    Transactions do not commit in the order of their numbers. To miss no change, a consumer reads in the order
    of (`transaction_id`, `change_id`), and only below the oldest running transaction. Neither repository nor
    run is a foreign key: checking each line would slow down every harvest.
    """

    __tablename__ = "oai_change"

    transaction_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """`pg_current_xact_id()` of the transaction that wrote it; a restore to another server may lower it."""
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


# The table grows only at its end, so block ranges find a line; without summaries, the newest are all read.
Index(
    "ix_oai_change_blocks",
    RecordChange.change_id,
    RecordChange.run_started,
    postgresql_using="brin",
    postgresql_with={"autosummarize": "on"},
)
# The changes of one run are at one place of it, wherever they are in the feed.
Index("ix_oai_change_run", RecordChange.run_started, RecordChange.change_id)


class RecordVersion(Base):
    """A version of a record that a run replaced; kept as long as the change feed's lines."""

    __tablename__ = "oai_record_version"

    version_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    record_id: Mapped[int] = mapped_column(BigInteger, ForeignKey("oai_record.record_id", ondelete="CASCADE"))
    replaced: Mapped[datetime] = mapped_column(server_default=func.now())
    harvest_id: Mapped[int]
    run_started: Mapped[datetime]
    """With `harvest_id`, identifies the run that replaced it, as in `oai_history`."""
    datestamp: Mapped[str] = mapped_column(Text)
    """Datestamp of the version, as the repository wrote it."""
    size: Mapped[int] = mapped_column(BigInteger)
    """Bytes of its file."""
    content: Mapped[bytes] = mapped_column(LargeBinary)
    """Its file, compressed by zlib."""


Index("ix_oai_record_version_record_id", RecordVersion.record_id, RecordVersion.version_id)
Index("ix_oai_record_version_replaced", RecordVersion.replaced)


def damage(*, missing: int, altered: int, stray: int) -> Failure | None:
    """Return these numbers of files as a failure; None if all are 0."""
    facts = {"missing": missing, "altered": altered, "stray": stray}
    return Failure(code=FailureCode.STORE_DAMAGED, facts=facts) if any(facts.values()) else None


class StoreAudit(Base):
    """One comparison of a repository's files with their rows."""

    __tablename__ = "oai_store_audit"
    __table_args__ = (
        CheckConstraint("state IN ('queued', 'running', 'done', 'failed')", name="state"),
        Index("ix_oai_store_audit_open", "repository_id", unique=True, postgresql_where=text(OPEN_AUDIT)),
        Index(
            "ix_oai_store_audit_last",
            "repository_id",
            "audit_id",
            postgresql_where=text("ended IS NOT NULL"),
        ),
        Index(
            "ix_oai_store_audit_unannounced",
            "audit_id",
            postgresql_where=text("announced IS NULL AND ended IS NOT NULL"),
        ),
    )

    audit_id: Mapped[int] = mapped_column(BigInteger, Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(
        ForeignKey(Repository.repository_id, ondelete="CASCADE"), index=True
    )
    state: Mapped[str] = mapped_column(Text, server_default=AuditState.RUNNING)
    due: Mapped[datetime | None]
    """When a worker should have begun it; NULL for `zatva store verify`."""
    host: Mapped[str | None] = mapped_column(Text)
    """The machine of the worker that runs or ran it."""
    started: Mapped[datetime]
    """When it began; of a queued audit, when it was queued."""
    ended: Mapped[datetime | None]
    """NULL while it is running, or if it was interrupted."""
    files: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Files that are named in rows."""
    missing: Mapped[int] = mapped_column(BigInteger, server_default="0")
    altered: Mapped[int] = mapped_column(BigInteger, server_default="0")
    stray: Mapped[int] = mapped_column(BigInteger, server_default="0")
    """Files that no row names, including incomplete ones."""
    findings: Mapped[list[dict[str, Any]]] = mapped_column(JSONB, server_default=text("'[]'"))
    """The first 50 files with a problem: kind, path, identifier, unfinished, removed, reason."""
    failure_code: Mapped[str | None] = mapped_column(Text)
    """`store_damaged` if it found something, `store_audit_incomplete` if it did not finish."""
    failure_facts: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    announced: Mapped[datetime | None]
    """When its notifications were written, if there was something to report."""

    @property
    def failure(self) -> Failure | None:
        """What it found, or why it did not finish; None if the store is intact or it has not ended."""
        return Failure.stored(self.failure_code, self.failure_facts)

    def conclude(self, failure: Failure | None, *, state: AuditState, ended: datetime) -> None:
        """Set the end, and what was found or why it did not finish."""
        self.state, self.ended = state, ended
        self.failure_code = failure.code.value if failure else None
        self.failure_facts = dict(failure.facts) if failure else None
