"""What the manager and its workers are at: who leads, who works, how much waits."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from manager import queue
from manager.leadership import managers
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.workers import WorkerLife, all_workers


@dataclass(frozen=True, kw_only=True)
class ManagerStatus:
    """The state of the whole, over all machines."""

    leader: str | None
    """Host and process of the manager that leads; None where none runs."""
    stand_bys: tuple[str, ...]
    """Host and process of the managers that would take over."""
    workers: tuple[WorkerLife, ...]
    queues: Mapping[str, int]
    """How many tasks wait in each queue for a worker: harvests, archive files."""
    jobs: Mapping[str, int]
    """How many jobs there are by status."""
    late: int
    """Jobs that are due and have not begun."""
    stuck: int
    """Jobs that run and get nowhere."""
    schedules: Mapping[str, int]
    """How many schedules there are by state."""


def manager_status(session: Session) -> ManagerStatus:
    """Look at the tables and at the server's locks."""
    jobs = _counts(session, Job.status)
    schedules = _counts(session, RecurringJob.state)
    present = managers(session)
    late = Job.status.in_((JobStatus.SCHEDULED, JobStatus.QUEUED)) & (Job.harvest_start_time <= func.now())
    counted = select(func.count().filter(late), func.count(Job.stuck_since))
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
