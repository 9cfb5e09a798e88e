"""The manager's tables under their UIUC names: recurring jobs and jobs; also the leader and the workers.

The first two are a public interface: a row inserted by plain SQL with only a repository is valid. An invalid
row is refused by a constraint, or rejected with the reason in the row.
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
    UniqueConstraint,
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
    """Keep out times beyond the range of Python's datetime: one such row would break every query."""
    return CheckConstraint(f"{column} BETWEEN '{_EARLIEST}' AND '{_LATEST}'", name=column)


def in_plain_words(state: str) -> str:
    """Return the word of a state for people; *set aside* is an older word, which programs get."""
    return "rejected" if state == "set aside" else state


class RecurringState(IntEnum):
    """State of a row of `oai_recurring_job` (UIUC defines 0, 1 and 2; the other states are additions)."""

    NEW = 0
    """To be read: the manager checks the row and makes its first job."""
    RECURRING = 1
    """Makes a job for each due time; `state_reason` says why it makes no more jobs."""
    ONE_OFF = 2
    """Has made its only job."""
    PAUSED = 3
    """Makes no jobs until it is resumed."""
    SET_ASIDE = 4
    """Invalid; `state_reason` says why. Correct the row and set it to 0 again."""

    SUSPENDED = 5
    """Failed so many times in a row that a person has to resume it; `state_reason` is the last failure."""

    @property
    def word(self) -> str:
        """The state as pages, commands and the API name it."""
        return self.name.lower().replace("_", " ").replace("one off", "one-off")


class JobStatus(IntEnum):
    """Status of a row of `oai_job` (UIUC defines 0 and 1; the other statuses are additions)."""

    SCHEDULED = 0
    """Is due at `harvest_start_time`; after that time, `waiting` says why it has not begun."""
    IN_PROGRESS = 1
    """A harvester runs, or is about to start; `worker_id`, `host` and `process_id` say where."""
    QUEUED = 2
    """Handed out; the next free worker takes it."""
    STOPPING = 3
    """Ends after its current page and is then over; the records stored so far are kept."""
    PAUSED = 4
    """Waits until it is resumed, and then continues from its checkpoint."""
    PAUSING = 5
    """Ends after its current page and is then paused."""
    KILLING = 6
    """Is ended at once and is then over."""
    RESTARTING = 7
    """Made no progress; is ended, and then continues from its checkpoint in another process."""
    SET_ASIDE = 8
    """Cannot be run; `waiting` says why. Correct the row and set it to 0 again."""


IN_HAND: Final = (
    JobStatus.IN_PROGRESS,
    JobStatus.STOPPING,
    JobStatus.PAUSING,
    JobStatus.KILLING,
    JobStatus.RESTARTING,
)
"""Held by a worker."""

UNDER_WAY: Final = (JobStatus.QUEUED, *IN_HAND)
"""Queued, or held by a worker."""


_TYPES: Final[Mapping[type, Any]] = {
    str: Text,
    Path: Text,
    int: Integer,
    bool: Boolean,
    datetime: DateTime(timezone=True),
}


def _columns(surface: Surface) -> type:
    """Return a mixin with the columns of the parameters that a table carries."""
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
    # The attributes that code reading the rows relies on; `harvester.harvest_plan` declares the columns.

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
    """A schedule: what to harvest, from when on, and how often."""

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
    """0 new, 1 recurring, 2 one-off, 3 paused, 4 rejected, 5 suspended: `RecurringState`."""
    state_reason: Mapped[str | None] = mapped_column(Text)
    """Why a row was rejected, or why it makes no more jobs."""
    state_failure: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """The same as a code with facts (`FailureCode`)."""
    last_due: Mapped[datetime | None]
    """When the last job made from it was due; the next one is due later. None until it has made one."""
    date_added: Mapped[datetime] = mapped_column(server_default=func.now())
    failures: Mapped[int] = mapped_column(server_default="0")
    """How many of its runs have failed since the last good one; each failure delays the next run further."""
    usual_seconds: Mapped[float | None]
    """How long its good runs take, as an average in which later runs weigh more."""

    def explain(self, failure: Failure | None, reason: str | None) -> None:
        """Set why it makes no more jobs: as a code with facts, and in technical words."""
        self.state_failure = failure.as_json() if failure else None
        self.state_reason = reason


class Job(_JobParameters, Base):
    """A harvest that is planned or running; its row is deleted when its history row is written."""

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
    """0 scheduled, 1 in progress, 2 queued, 3 stopping, 4 paused, 5 pausing, 6 killing, 7 restarting,
    8 rejected: `JobStatus`."""
    process_id: Mapped[int | None]
    host: Mapped[str | None] = mapped_column(Text)
    """The machine on which the process runs."""
    started: Mapped[datetime | None]
    attempt: Mapped[int] = mapped_column(SmallInteger, server_default="0")
    """How many times this harvest was tried before; each try is a separate job."""
    waiting: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    """Why it waits although it is due, or why it was rejected: a `code`, with the facts that belong to it."""
    worker_id: Mapped[int | None]
    """The worker that holds it."""
    pages_before: Mapped[int] = mapped_column(server_default="0")
    """Pages that the run had fetched before this job continued it."""
    stuck_since: Mapped[datetime | None]
    """Its last sign of progress, if that is suspiciously long ago."""
    last_history: Mapped[int | None] = mapped_column(BigInteger)
    """The newest history row written for this job before it was paused."""


Index("ix_oai_job_due", Job.status, Job.harvest_start_time)
# The jobs that are not merely planned, which are few; those that are due are found by `ix_oai_job_list`.
Index(
    "ix_oai_job_current",
    Job.harvest_start_time,
    Job.job_id,
    postgresql_where=text("status <> 0 OR attempt <> 0"),
)
Index("ix_oai_job_list", Job.harvest_start_time, Job.job_id)


class StoreAuditSchedule(Base):
    """How often the stores are audited: of one repository, or of all that have no schedule of their own.

    The manager queues an audit when it is due; several missed times are made up for by one audit.
    """

    __tablename__ = "oai_store_audit_schedule"
    __table_args__ = (
        _plausible("added"),
        _plausible("next_due"),
        UniqueConstraint("repository_id"),
    )

    schedule_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    repository_id: Mapped[int | None] = mapped_column(
        ForeignKey("oai_repository.repository_id", ondelete="CASCADE")
    )
    """NULL for all repositories without a schedule of their own."""
    frequency: Mapped[str] = mapped_column(Text)
    """In the words of `oai_recurring_job.frequency`, such as `weekly on saturday at 02:00`."""
    time_zone: Mapped[str] = mapped_column(Text, server_default="UTC")
    added: Mapped[datetime] = mapped_column(server_default=func.now())
    next_due: Mapped[datetime | None] = mapped_column(server_default=func.now())
    """NULL if the frequency or the time zone cannot be read: it makes no audits until it is set again."""


class Worker(Base):
    """A running worker: a process, on any machine, that takes harvests and archive files."""

    __tablename__ = "oai_worker"

    worker_id: Mapped[int] = mapped_column(Identity(), primary_key=True)
    host: Mapped[str] = mapped_column(Text)
    process_id: Mapped[int]
    started: Mapped[datetime] = mapped_column(server_default=func.now())
    last_sign: Mapped[datetime] = mapped_column(server_default=func.now())
    """The time of its last heartbeat."""
    good_until: Mapped[datetime]
    """When it counts as lost without another heartbeat: `manager.lost_seconds` after the last one."""
    concurrency: Mapped[int]
    """How many harvests it runs at a time."""
    draining: Mapped[bool] = mapped_column(server_default=text("false"))
    """Whether it takes no new work and ends when its current work is done."""


class Leader(Base):
    """The manager that leads or led last: one row, whose number each new leader increments.

    Every write of a leading manager checks its number, so that a manager which has lost the leadership cannot
    write after its successor has begun.
    """

    __tablename__ = "oai_leader"
    __table_args__ = (CheckConstraint('"only"', name="only"),)

    only: Mapped[bool] = mapped_column(primary_key=True, server_default=text("true"))
    number: Mapped[int] = mapped_column(BigInteger)
    host: Mapped[str] = mapped_column(Text)
    process_id: Mapped[int]
    began: Mapped[datetime] = mapped_column(server_default=func.now())
    per_host: Mapped[int | None]
    """The leader's limits, read to estimate when jobs begin: concurrent harvests of one host."""
    overall: Mapped[int | None]
    """Concurrent harvests in total; NULL for no limit."""


class DiskSample(Base):
    """The free space of a disk at a time; the leading manager takes a sample every hour."""

    __tablename__ = "disk_sample"

    host: Mapped[str] = mapped_column(Text, primary_key=True)
    folder: Mapped[str] = mapped_column(Text, primary_key=True)
    at: Mapped[datetime] = mapped_column(server_default=func.now(), primary_key=True)
    total: Mapped[int] = mapped_column(BigInteger)
    """Bytes, as the next one."""
    free: Mapped[int] = mapped_column(BigInteger)
