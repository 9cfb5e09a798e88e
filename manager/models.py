"""The manager's tables, by their UIUC names: recurring jobs and jobs.

They are a public interface: a row inserted by plain SQL, with nothing but a repository, is honoured.
"""

from datetime import datetime
from enum import IntEnum

from sqlalchemy import CheckConstraint, ForeignKey, Identity, Index, SmallInteger, Text, func, text
from sqlalchemy.orm import Mapped, mapped_column

from oai.models import Base

_EARLIEST = "1970-01-01 00:00:00+00"
_LATEST = "9000-01-01 00:00:00+00"


def _plausible(column: str) -> CheckConstraint:
    """PostgreSQL's times reach further than Python's; one such row would stop every reading of the table."""
    return CheckConstraint(f"{column} BETWEEN '{_EARLIEST}' AND '{_LATEST}'", name=column)


class RecurringState(IntEnum):
    """Where a row of `oai_recurring_job` stands (UIUC: 0, 1, 2; the others are ours)."""

    NEW = 0
    RECURRING = 1
    ONE_OFF = 2
    PAUSED = 3
    SET_ASIDE = 4


class JobStatus(IntEnum):
    """Where a row of `oai_job` stands (UIUC: 0, 1; the others are ours)."""

    SCHEDULED = 0
    IN_PROGRESS = 1
    QUEUED = 2
    STOPPING = 3


class RecurringJob(Base):
    """A schedule: what to harvest, from when on, how often."""

    __tablename__ = "oai_recurring_job"
    __table_args__ = (
        _plausible("start_date"),
        _plausible("end_date"),
        _plausible("date_added"),
        CheckConstraint("state BETWEEN 0 AND 4", name="state"),
        CheckConstraint("method IN (0, 1)", name="method"),
        CheckConstraint("validation IN (0, 1, 2)", name="validation"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), index=True
    )
    start_date: Mapped[datetime] = mapped_column(server_default=func.now())
    end_date: Mapped[datetime | None]
    harvest_from: Mapped[str | None] = mapped_column(Text)
    harvest_to: Mapped[str | None] = mapped_column(Text)
    frequency: Mapped[str | None] = mapped_column(Text)
    """`every 6 hours`, `daily at 02:30`, `weekly on monday at 02:30`, `monthly on 1 at 02:30`, a cron
    expression of five fields; none or empty for a one-off."""
    time_zone: Mapped[str] = mapped_column(Text, server_default="UTC")
    set_spec: Mapped[str | None] = mapped_column(Text)
    metadata_prefix: Mapped[str] = mapped_column(Text, server_default="oai_dc")
    state: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    state_reason: Mapped[str | None] = mapped_column(Text)
    """Why a row was set aside, or makes no more jobs."""
    last_due: Mapped[datetime | None]
    """When the last job made from it was due; the next one is due later. None as long as it made none."""
    method: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    """0 ListRecords, 1 ListIdentifiers and GetRecord."""
    date_added: Mapped[datetime] = mapped_column(server_default=func.now())
    incremental: Mapped[bool] = mapped_column(server_default=text("true"))
    filter_file_path: Mapped[str | None] = mapped_column(Text)
    validation: Mapped[int] = mapped_column(SmallInteger, server_default="2")
    """0 strict, 1 very strict, 2 loose."""
    normalize_file_path: Mapped[str | None] = mapped_column(Text)
    parse_id: Mapped[bool] = mapped_column(server_default=text("true"))
    files_per_dir: Mapped[int | None]


class Job(Base):
    """One harvest that is to start at a time, or runs; its row goes when the history row comes."""

    __tablename__ = "oai_job"
    __table_args__ = (
        _plausible("harvest_start_time"),
        CheckConstraint("status BETWEEN 0 AND 3", name="status"),
        CheckConstraint("harvest_method IN (0, 1)", name="harvest_method"),
        CheckConstraint("validation IN (0, 1, 2)", name="validation"),
    )

    job_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), index=True
    )
    recurring_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_recurring_job.id", ondelete="CASCADE"), index=True
    )
    set_spec: Mapped[str | None] = mapped_column(Text)
    harvest_start_time: Mapped[datetime] = mapped_column(server_default=func.now())
    """When it is due."""
    status: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    harvest_method: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    process_id: Mapped[int | None]
    host: Mapped[str | None] = mapped_column(Text)
    """The machine that the process runs on."""
    started: Mapped[datetime | None]
    harvest_from: Mapped[str | None] = mapped_column(Text)
    harvest_to: Mapped[str | None] = mapped_column(Text)
    metadata_prefix: Mapped[str] = mapped_column(Text, server_default="oai_dc")
    incremental: Mapped[bool] = mapped_column(server_default=text("true"))
    filter_file_path: Mapped[str | None] = mapped_column(Text)
    validation: Mapped[int] = mapped_column(SmallInteger, server_default="2")
    normalize_file_path: Mapped[str | None] = mapped_column(Text)
    parse_id: Mapped[bool] = mapped_column(server_default=text("true"))
    files_per_dir: Mapped[int | None]
    attempt: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    """How many times this harvest has vanished before; each try is a job of its own."""


Index("ix_oai_job_due", Job.status, Job.harvest_start_time)
