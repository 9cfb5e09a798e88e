"""Workers as rows of `oai_worker`: which ones are alive, where they run, and which are draining."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from sqlalchemy import ColumnElement, and_, delete, exists, func, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import InstrumentedAttribute, Session

from harvester.locks import is_locked
from harvester.models import Repository
from manager import queue
from manager.leader.lock import managers
from manager.models import IN_HAND, Job, JobStatus, RecurringJob, RecurringState, Worker
from manager.notices.models import Mute, MuteKind
from oai.errors import UsageError
from oai.models import from_row

LATE: Final = timedelta(minutes=1)
"""A job that has not begun this long after its due time counts as late."""
WAITING: Final = (JobStatus.SCHEDULED, JobStatus.QUEUED)


@dataclass(frozen=True, kw_only=True)
class WorkerLife:
    """A worker as lists show it; times are UTC."""

    worker_id: int
    host: str
    process_id: int
    started: datetime
    last_sign: datetime
    concurrency: int
    """How many harvests it runs at a time."""
    harvests: int
    """How many harvests it holds."""
    draining: bool
    lost: bool
    """Whether it has been silent for so long that its jobs go to others."""

    @property
    def takes_jobs(self) -> bool:
        """Whether it starts new work."""
        return not self.lost and not self.draining

    @property
    def state(self) -> str:
        """The word for its state: active, draining or lost."""
        return "lost" if self.lost else "draining" if self.draining else "active"


@dataclass(frozen=True, kw_only=True)
class Membership:
    """What a worker reports about itself."""

    host: str
    process_id: int
    concurrency: int
    lost_seconds: float
    """The silence in seconds after which it counts as lost."""


def is_ready() -> ColumnElement[bool]:
    """Return the SQL condition that a job is due, has not begun, and does not wait for its repository.

    A repository may have asked to wait, be in a maintenance window, or be locked.
    """
    asked = exists().where(Repository.repository_id == Job.repository_id, Repository.not_before > func.now())
    # Not by `manager.notices.mutes`, which imports this module.
    maintained = exists().where(
        Mute.kind == MuteKind.MAINTENANCE,
        or_(Mute.repository_id.is_(None), Mute.repository_id == Job.repository_id),
        func.now().between(Mute.starts, Mute.ends),
    )
    due = and_(Job.status.in_(WAITING), Job.harvest_start_time <= func.now())
    return and_(due, ~asked, ~maintained, ~is_locked(Job.repository_id))


def is_late() -> ColumnElement[bool]:
    """Return the SQL condition that a job is ready and has been due for at least `LATE`."""
    return and_(Job.harvest_start_time <= func.now() - LATE, is_ready())


def register(session: Session, membership: Membership) -> int:
    """Add a worker and return its id. The caller commits."""
    added = insert(Worker).values(_row(membership)).returning(Worker.worker_id)
    return session.execute(added).scalar_one()


def give_sign(session: Session, worker_id: int, membership: Membership, *, draining: bool) -> None:
    """Record a heartbeat; restores the row if the worker was believed lost and removed.

    The caller commits.
    """
    # An upsert that never resets `draining`: a heartbeat under way cannot undo a drain request.
    sign = insert(Worker).values(**_row(membership), worker_id=worker_id, draining=draining)
    session.execute(
        sign.on_conflict_do_update(
            index_elements=[Worker.worker_id],
            set_={
                "last_sign": func.now(),
                "good_until": sign.excluded.good_until,
                "draining": Worker.draining | sign.excluded.draining,
            },
        )
    )


def unregister(session: Session, worker_id: int) -> None:
    """Remove a worker that ends. The caller commits."""
    session.execute(delete(Worker).where(Worker.worker_id == worker_id))


def is_draining(session: Session, worker_id: int) -> bool:
    """Return whether the worker must not take new work."""
    return bool(session.scalar(select(Worker.draining).where(Worker.worker_id == worker_id)))


def drain(session: Session, worker_ids: Sequence[int] | None) -> list[int]:
    """Drain these workers, or all: they take no new work and end when idle; returns their ids.

    The caller commits. Raises UsageError if one of the workers does not exist; none is drained then.
    """
    query = update(Worker).values(draining=True).returning(Worker.worker_id)
    if worker_ids is not None:
        query = query.where(Worker.worker_id.in_(worker_ids))
    drained = sorted(session.scalars(query))
    for worker_id in worker_ids or ():
        if worker_id not in drained:
            session.rollback()
            raise UsageError(f"no worker {worker_id}; list workers with `zatva manager status`")
    return drained


def all_workers(session: Session) -> list[WorkerLife]:
    """Return all workers whose rows have not been removed, ordered by id."""
    harvests = (
        select(func.count())
        .where(Job.worker_id == Worker.worker_id, Job.status.in_(IN_HAND))
        .scalar_subquery()
    )
    query = select(Worker, harvests, _is_lost()).order_by(Worker.worker_id)
    return [
        from_row(WorkerLife, worker, harvests=in_hand, lost=lost)
        for worker, in_hand, lost in session.execute(query)
    ]


def places(session: Session) -> int:
    """Return how many harvests the live, non-draining workers can run at a time, all together."""
    able = (~Worker.draining, ~_is_lost())
    return int(session.scalar(select(func.coalesce(func.sum(Worker.concurrency), 0)).where(*able)) or 0)


def forget_lost(session: Session) -> list[int]:
    """Remove the workers that have been silent for several times the allowed silence. The caller commits."""
    silent = text("greatest(now() - last_sign, last_sign - now()) > 3 * (good_until - last_sign)")
    return list(session.scalars(delete(Worker).where(silent).returning(Worker.worker_id)))


def _is_lost() -> ColumnElement[bool]:
    """Return whether a worker's last sign is too old, or as far ahead: from a clock that was wrong."""
    allowed = Worker.good_until - Worker.last_sign
    return or_(Worker.good_until < func.now(), Worker.last_sign - func.now() > allowed)


def _row(membership: Membership) -> dict[str, Any]:
    lost_seconds = timedelta(seconds=membership.lost_seconds)
    return {
        "host": membership.host,
        "process_id": membership.process_id,
        "concurrency": membership.concurrency,
        "good_until": func.now() + lost_seconds,
    }


@dataclass(frozen=True, kw_only=True)
class ManagerStatus:
    """The state of the whole system, over all machines."""

    leader: str | None
    """Host and process id of the leading manager; None if no manager runs."""
    stand_bys: tuple[str, ...]
    """Host and process id of each standby manager."""
    workers: tuple[WorkerLife, ...]
    queues: Mapping[str, int]
    """How many tasks wait for a worker in each queue: harvests, archive files."""
    jobs: Mapping[str, int]
    """The number of jobs by status."""
    late: int
    """Jobs that are due and have not begun, without those that wait for their repository."""
    stuck: int
    """Running jobs that make no progress."""
    schedules: Mapping[str, int]
    """The number of schedules by state."""


def manager_status(session: Session) -> ManagerStatus:
    """Read the status from the tables and from the server's locks."""
    jobs = _counts(session, Job.status)
    schedules = _counts(session, RecurringJob.state)
    present = managers(session)
    counted = select(func.count().filter(is_late()), func.count(Job.stuck_since))
    late_jobs, stuck_jobs = session.execute(counted).one()
    return ManagerStatus(
        leader=present.leader,
        stand_bys=present.stand_bys,
        workers=tuple(all_workers(session)),
        queues=queue.sizes(session),
        late=late_jobs,
        stuck=stuck_jobs,
        jobs={_word(status): jobs.get(status, 0) for status in JobStatus},
        schedules={_word(state): schedules.get(state, 0) for state in RecurringState},
    )


def _counts(session: Session, column: InstrumentedAttribute[int]) -> dict[int, int]:
    rows = session.execute(select(column, func.count()).group_by(column))
    return {row[0]: row[1] for row in rows}


def _word(member: JobStatus | RecurringState) -> str:
    return member.name.lower().replace("_", " ")
