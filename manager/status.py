"""What the manager and its workers are at: who leads, who works, how much waits."""

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from manager import queue
from manager.leadership import leader
from manager.models import Job, JobStatus, RecurringJob, RecurringState
from manager.queue import WorkerLife


@dataclass(frozen=True, kw_only=True)
class ManagerStatus:
    """The state of the whole, over all machines."""

    leader: str | None
    """Host and process of the manager that leads; None where none runs."""
    workers: tuple[WorkerLife, ...]
    jobs: Mapping[str, int]
    """How many jobs there are by status: scheduled, in progress, queued, stopping."""
    schedules: Mapping[str, int]
    """How many schedules there are by state: new, recurring, one off, paused, set aside."""


def manager_status(session: Session) -> ManagerStatus:
    """Look at the tables and at the server's locks."""
    jobs = _counts(session, Job.status)
    schedules = _counts(session, RecurringJob.state)
    return ManagerStatus(
        leader=leader(session),
        workers=tuple(queue.workers(session)),
        jobs={_word(status): jobs.get(status, 0) for status in JobStatus},
        schedules={_word(state): schedules.get(state, 0) for state in RecurringState},
    )


def _counts(session: Session, column: InstrumentedAttribute[int]) -> dict[int, int]:
    rows = session.execute(select(column, func.count()).group_by(column))
    return {row[0]: row[1] for row in rows}


def _word(member: JobStatus | RecurringState) -> str:
    return member.name.lower().replace("_", " ")
