"""The manager's tables, by their UIUC names: recurring jobs and jobs; beside them who leads and who works.

The first two are a public interface: a row inserted by plain SQL, with nothing but a repository, is honoured.
A row that cannot be is refused by a constraint, or set aside with the reason in the row.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    SmallInteger,
    Text,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from harvester.harvest_plan import Default, Surface, carried
from oai.failures import Failure
from oai.models import Base

_EARLIEST = "1970-01-01 00:00:00+00"
_LATEST = "9000-01-01 00:00:00+00"


def _plausible(column: str) -> CheckConstraint:
    """PostgreSQL's times reach further than Python's; one such row would stop every reading of the table."""
    return CheckConstraint(f"{column} BETWEEN '{_EARLIEST}' AND '{_LATEST}'", name=column)


class RecurringState(IntEnum):
    """Where a row of `oai_recurring_job` stands (UIUC: 0, 1, 2; the others are ours)."""

    NEW = 0
    """To be read: the manager checks the row and makes its first job."""
    RECURRING = 1
    """Makes a job for each due time; `state_reason` tells why it makes no more."""
    ONE_OFF = 2
    """Has made its only job."""
    PAUSED = 3
    """Makes no jobs until it is resumed."""
    SET_ASIDE = 4
    """Cannot be honoured; `state_reason` tells why. Put it right and set it to 0 again."""
    SUSPENDED = 5
    """Failed so often in a row that it waits for a person; `state_reason` tells the last failure."""


class JobStatus(IntEnum):
    """Where a row of `oai_job` stands (UIUC: 0, 1; the others are ours)."""

    SCHEDULED = 0
    """Is due at `harvest_start_time`; where that has come, `waiting` tells why it has not begun."""
    IN_PROGRESS = 1
    """A harvester runs, or is about to; `worker_id`, `host` and `process_id` tell where."""
    QUEUED = 2
    """Handed out; the next free worker takes it."""
    STOPPING = 3
    """Ends after its page and is then over; what it has is kept."""
    PAUSED = 4
    """Waits until it is resumed, and goes on from its checkpoint then."""
    PAUSING = 5
    """Ends after its page and is paused then."""
    KILLING = 6
    """Is ended at once and is then over."""
    RESTARTING = 7
    """Made no progress; is ended and goes on from its checkpoint in another process."""
    SET_ASIDE = 8
    """Cannot be honoured; `waiting` tells why. Put it right and set it to 0 again."""


IN_HAND: Final = (
    JobStatus.IN_PROGRESS,
    JobStatus.STOPPING,
    JobStatus.PAUSING,
    JobStatus.KILLING,
    JobStatus.RESTARTING,
)
"""In a worker's hands."""

UNDER_WAY: Final = (JobStatus.QUEUED, *IN_HAND)
"""Handed out, or in a worker's hands."""


_TYPES: Final[Mapping[type, Any]] = {
    str: Text,
    Path: Text,
    int: Integer,
    bool: Boolean,
    datetime: DateTime(timezone=True),
}


def _columns(surface: Surface) -> type:
    """A mixin with the columns of the parameters that a table carries."""
    return type(
        "Parameters",
        (),
        {
            one.job_column if surface is Surface.JOB else one.column: mapped_column(
                SmallInteger if one.kind is int and one.stored is not None else _TYPES[one.kind],
                nullable=one.stored is None,
                server_default=_server_default(one.stored),
            )
            for one in carried(surface)
        },
    )


def _server_default(stored: object) -> Any:  # noqa: ANN401 text or an SQL expression
    if stored is None or stored is Default.NOW:
        return None if stored is None else func.now()
    return text(str(stored).lower()) if isinstance(stored, bool) else str(stored)


if TYPE_CHECKING:
    # What rows' readers may rely on; `harvester.harvest_plan` declares the columns.

    class _Parameters:
        metadata_prefix: Mapped[str]
        set_spec: Mapped[str | None]
        harvest_from: Mapped[str | None]
        harvest_to: Mapped[str | None]
        incremental: Mapped[bool]
        validation: Mapped[int]
        filter_file_path: Mapped[str | None]
        normalize_file_path: Mapped[str | None]
        parse_id: Mapped[bool]
        files_per_dir: Mapped[int | None]
        slice: Mapped[str | None]
        priority: Mapped[int]
        owner: Mapped[str | None]

    class _ScheduleParameters(_Parameters):
        frequency: Mapped[str | None]
        time_zone: Mapped[str]
        start_date: Mapped[datetime]
        end_date: Mapped[datetime | None]
        method: Mapped[int]
        overlap: Mapped[str]

    class _JobParameters(_Parameters):
        harvest_method: Mapped[int]
        max_records: Mapped[int | None]

else:
    _ScheduleParameters, _JobParameters = _columns(Surface.SCHEDULE), _columns(Surface.JOB)


class RecurringJob(_ScheduleParameters, Base):
    """A schedule: what to harvest, from when on, how often."""

    __tablename__ = "oai_recurring_job"

    __table_args__ = (
        _plausible("start_date"),
        _plausible("end_date"),
        _plausible("date_added"),
        _plausible("last_due"),
        CheckConstraint("state BETWEEN 0 AND 5", name="state"),
        CheckConstraint("overlap IN ('skip', 'queue')", name="overlap"),
        CheckConstraint("priority BETWEEN -1000 AND 1000", name="priority"),
        CheckConstraint("method IN (0, 1)", name="method"),
        CheckConstraint("validation IN (0, 1, 2)", name="validation"),
    )

    id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE"), index=True
    )
    state: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    state_reason: Mapped[str | None] = mapped_column(Text)
    """Why a row was set aside, or makes no more jobs."""
    state_failure: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """The same as a code with facts (`FailureCode`)."""
    last_due: Mapped[datetime | None]
    """When the last job made from it was due; the next one is due later. None as long as it made none."""
    date_added: Mapped[datetime] = mapped_column(server_default=func.now())
    failures: Mapped[int] = mapped_column(server_default="0")
    """How many of its runs have failed since the last good one; each lets the next one wait longer."""
    usual_seconds: Mapped[float | None]
    """How long its good runs take, the later ones counting for more."""

    def explain(self, failure: Failure | None, reason: str | None) -> None:
        """Set why it makes no more jobs: as a code with facts, and in technical words."""
        self.state_failure = failure.as_json() if failure else None
        self.state_reason = reason


class Job(_JobParameters, Base):
    """One harvest that is to start at a time, or runs; its row goes when the history row comes."""

    __tablename__ = "oai_job"
    __table_args__ = (
        _plausible("harvest_start_time"),
        _plausible("started"),
        CheckConstraint("status BETWEEN 0 AND 8", name="status"),
        CheckConstraint("priority BETWEEN -1000 AND 1000", name="priority"),
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
    harvest_start_time: Mapped[datetime] = mapped_column(server_default=func.now())
    """When it is due."""
    status: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    process_id: Mapped[int | None]
    host: Mapped[str | None] = mapped_column(Text)
    """The machine that the process runs on."""
    started: Mapped[datetime | None]
    attempt: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    """How many times this harvest has vanished before; each try is a job of its own."""
    waiting: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Why it waits though it is due, or is set aside: a `code`, and beside it the facts that go with it."""
    worker_id: Mapped[int | None]
    """The worker in whose hands it is."""
    pages_before: Mapped[int] = mapped_column(server_default="0")
    """Pages that the run had before this job went on with it."""
    stuck_since: Mapped[datetime | None]
    """Its last sign of progress, where that is suspiciously long ago."""
    last_history: Mapped[int | None] = mapped_column(BigInteger)
    """The newest row of the history that comes from this job, before it was paused."""


Index("ix_oai_job_due", Job.status, Job.harvest_start_time)
Index("ix_oai_job_list", Job.harvest_start_time, Job.job_id)


class Worker(Base):
    """A worker that lives: a process, on any machine, that takes harvests and archive files."""

    __tablename__ = "oai_worker"

    worker_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    host: Mapped[str] = mapped_column(Text)
    process_id: Mapped[int]
    started: Mapped[datetime] = mapped_column(server_default=func.now())
    last_sign: Mapped[datetime] = mapped_column(server_default=func.now())
    """Its last sign of life."""
    good_until: Mapped[datetime]
    """When it counts as lost unless it gives another sign: `manager.lost_seconds` after the last one."""
    concurrency: Mapped[int]
    """Harvests that it runs at a time."""
    draining: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it takes nothing more and ends when what it has is done."""


class Leader(Base):
    """The manager that leads, or led last: one row, whose number each new leader counts up.

    What a manager writes while it leads is written under its number, so that one which has lost the lead
    cannot write after its successor has begun.
    """

    __tablename__ = "oai_leader"
    __table_args__ = (CheckConstraint('"only"', name="only"),)

    only: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    number: Mapped[int] = mapped_column(BigInteger)
    host: Mapped[str] = mapped_column(Text)
    process_id: Mapped[int]
    began: Mapped[datetime] = mapped_column(server_default=func.now())
    per_host: Mapped[int | None]
    """Its limits, for whoever tells when jobs should begin: harvests at a time from one host."""
    overall: Mapped[int | None]
    """Harvests at a time in all; none: no limit."""
