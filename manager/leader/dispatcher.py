"""The manager's second function: start due jobs (UIUC, "Manager Program", 2).

The leading manager queues due jobs as far as the limits allow, and writes into the other jobs why they wait;
the worker that takes a job claims it (`manager.worker.claim`). Each step is a compare-and-swap on the job's
status, so that a job cannot be started twice, nor after it was deleted.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, func, select, update
from sqlalchemy.orm import Session

from harvester.locks import find_locks
from harvester.models import History, Repository
from harvester.repositories import wait_end
from harvester.vocabulary import Overlap, RunStatus
from manager import queue
from manager.jobs.reasons import WaitReason, locked_by
from manager.jobs.rejection import is_valid
from manager.leader.admission import AdmissionJob, AdmissionLimits, Admitted, admit, host_of
from manager.models import UNDER_WAY, Job, JobStatus, RecurringJob
from manager.notices.mutes import maintenance_end
from manager.schedules.failures import GOOD
from manager.worker import registry
from oai.sections import ManagerSettings

logger = logging.getLogger("manager.launching")

_LEAST_LOOKAHEAD: Final = 32
_RECEIVED: Final = GOOD | {RunStatus.HELD}
"""Statuses of runs that received their records."""
_RUNS_COMPARED: Final = 10
"""How many of a schedule's last runs are compared with the due time of its next one."""
_TURNS_AHEAD: Final = 4
"""How many times workers may refill their places from the queue before the leader runs again."""


def launch_due(session: Session, settings: ManagerSettings, data: Path | None = None) -> list[int]:
    """Queue the due jobs that may begin and return their ids; write into the others why they wait.

    A job that cannot be run is rejected with the reason; without the `data` folder, no rule of an
    organisation is found. The caller commits.
    """
    due = _admission_jobs(session, _is_due())
    if not due:
        return []
    under_way = _admission_jobs(session, Job.status.in_(UNDER_WAY))
    ranks = queue.ranks(session)
    admitted, held_back = admit(
        [job for job, _ in due],
        [job for job, _ in under_way],
        list(ranks.values()),
        _limits(session, settings, busy=len(under_way) - len(ranks)),
    )
    launched = _launch(session, admitted, data)
    _note_reasons(session, held_back, {job.job_id: waiting for job, waiting in due})
    return launched


def is_low(session: Session, settings: ManagerSettings) -> bool:
    """Return whether the queue holds fewer than half of the jobs that may wait in it."""
    return 2 * len(queue.ranks(session)) < _limits(session, settings, busy=0).lookahead


def _is_due() -> Any:  # noqa: ANN401 an SQL expression
    return and_(Job.status == JobStatus.SCHEDULED, Job.harvest_start_time <= func.now())


def _admission_jobs(session: Session, condition: Any) -> list[tuple[AdmissionJob, Any]]:  # noqa: ANN401 as above
    """Return the jobs that match the condition, each with its stored `waiting` value."""
    query: Select[Any] = (
        select(
            Job.job_id, Job.repository_id, Repository.base_url, Job.owner, Job.priority,
            Job.harvest_start_time, wait_end(func.now()).label("not_before"), Job.waiting,
            maintenance_end(Job.repository_id).label("maintained"),
        )
        .join(Repository, Repository.repository_id == Job.repository_id)
        .where(condition)
        .order_by(Job.job_id)
    )  # fmt: skip
    rows = session.execute(query).all()
    locks = find_locks(session)
    return [
        (
            AdmissionJob(
                job_id=row.job_id,
                repository_id=row.repository_id,
                host=host_of(row.base_url),
                owner=row.owner,
                priority=row.priority,
                due=row.harvest_start_time,
                not_before=row.not_before,
                maintained=row.maintained,
                lock=locked_by(locks[row.repository_id]) if row.repository_id in locks else None,
            ),
            row.waiting,
        )
        for row in rows
    ]


def _limits(session: Session, settings: ManagerSettings, *, busy: int) -> AdmissionLimits:
    """Return the limits; the queue holds enough jobs for the free places, plus several for every place.

    Short harvests would empty a short queue between two runs of the leader. A long queue does no harm,
    because more urgent jobs overtake the jobs that wait in it.
    """
    places = registry.places(session)
    return AdmissionLimits(
        per_host=settings.per_host,
        overall=settings.overall,
        lookahead=max(max(places - busy, 0) + _TURNS_AHEAD * places, _LEAST_LOOKAHEAD),
    )


def _launch(session: Session, admitted: Sequence[Admitted], data: Path | None) -> list[int]:
    """Queue these jobs except those that have changed or cannot be run; return the ids of the queued ones."""
    numbers = [one.job.job_id for one in admitted]
    _skip_overlapped(session, numbers)
    locked = select(Job).where(Job.job_id.in_(numbers)).order_by(Job.job_id).with_for_update()
    # Locked in the order of ids, against deadlocks; reloaded under the lock, so that a pause or a removal
    # since the jobs were selected is seen.
    jobs = {job.job_id: job for job in session.scalars(locked.execution_options(populate_existing=True))}
    wanted = {job.repository_id for job in jobs.values()}
    # The references keep the repositories in the session, so that the checks do not query each one
    # separately.
    kept = session.scalars(select(Repository).where(Repository.repository_id.in_(wanted))).all()
    ready = [one for one in admitted if _is_ready(session, jobs.get(one.job.job_id), data)]
    for one in ready:
        job = jobs[one.job.job_id]
        job.status, job.waiting = JobStatus.QUEUED, None
    session.flush()
    del kept
    if ready:
        queue.defer(
            session,
            [
                queue.QueuedHarvest(
                    job_id=one.job.job_id,
                    repository_id=one.job.repository_id,
                    priority=one.rank,
                )
                for one in ready
            ],
        )
    return [one.job.job_id for one in ready]


def _skip_overlapped(session: Session, numbers: Sequence[int]) -> None:
    """Remove planned jobs that became due during a run, for example by hand, of a schedule that skips such.

    The run must have received its records: one that failed makes up for nothing. The planner then records
    what was skipped, and plans the next run.
    """
    due = Job.harvest_start_time
    latest = (
        select(History.harvest_start_time, History.harvest_end_time)
        .where(History.recurring_id == Job.recurring_id, History.status.in_(_RECEIVED))
        .order_by(History.history_id.desc())
        .limit(_RUNS_COMPARED)
        .lateral()
    )
    overlapped = (
        select(Job.job_id, RecurringJob.id, func.min(latest.c.harvest_start_time))
        .join(RecurringJob, RecurringJob.id == Job.recurring_id)
        .join(latest, and_(latest.c.harvest_start_time < due, latest.c.harvest_end_time > due))
        # An end in the future is that of a clock that was ahead.
        .where(latest.c.harvest_end_time <= func.now())
        .where(Job.job_id.in_(numbers), Job.attempt == 0, due == RecurringJob.last_due)
        .where(RecurringJob.overlap == Overlap.SKIP, RecurringJob.frequency.is_not(None))
        .group_by(Job.job_id, RecurringJob.id)
    )
    for job_id, recurring_id, began in session.execute(overlapped).all():
        # Locked in this order, against deadlocks with users who change the schedule.
        schedule = session.get(RecurringJob, recurring_id, with_for_update=True)
        job = session.get(Job, job_id, with_for_update=True, populate_existing=True)
        if schedule is not None and job is not None and job.status == JobStatus.SCHEDULED:
            schedule.last_due = began
            session.delete(job)
            logger.info("schedule %d: job %d became due during another run: skipped", recurring_id, job_id)
    session.flush()


def _is_ready(session: Session, job: Job | None, data: Path | None) -> bool:
    """Return whether the job still waits and can be run; reject it if it cannot be run."""
    return job is not None and job.status == JobStatus.SCHEDULED and is_valid(session, job, data)


def _note_reasons(session: Session, reasons: Mapping[int, WaitReason], stored: Mapping[int, object]) -> None:
    changed = [
        {"number": job_id, "reason": reason.as_json()}
        for job_id, reason in reasons.items()
        if stored[job_id] != reason.as_json()
    ]
    if changed:
        # On the connection, because the session would require parameters named after their columns. The
        # status in the condition leaves jobs unchanged that another transaction has changed meanwhile.
        session.connection().execute(
            update(Job)
            .where(Job.job_id == bindparam("number"), Job.status == JobStatus.SCHEDULED)
            .values(waiting=bindparam("reason")),
            changed,
        )
