"""The manager's second function: due jobs start (UIUC, "Manager Program", 2).

The leading manager hands due jobs to the queue as far as the limits allow, and writes into the others why
they wait; the worker that takes one claims it. Each step is a compare-and-swap on the job's status, so that
nobody starts a job twice, nor one that was deleted meanwhile.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Select, and_, bindparam, case, func, null, select, update
from sqlalchemy.orm import Session

from harvester.harvest_plan import Surface, carried
from harvester.models import Harvest, Repository
from manager import queue
from manager.jobs.reasons import Reason
from manager.leader.admission import AdmissionLimits, Admitted, Contender, admit, host_of
from manager.models import UNDER_WAY, Job, JobStatus
from manager.notices.announcements import tell
from manager.notices.models import Occasion
from manager.schedules.plan import check_job
from manager.worker import registry
from oai.sections import ManagerSettings

logger = logging.getLogger("manager.launching")

_LEAST_LOOKAHEAD: Final = 32
_TURNS_AHEAD: Final = 4
"""How often workers may fill their places from the queue before the leader looks again."""
_LATEST: Final = datetime(9000, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A harvest that a worker has claimed."""

    job_id: int
    repository_id: int
    recurring_id: int | None
    set_spec: str | None
    metadata_prefix: str
    harvest_method: int
    started: datetime
    host: str | None
    process_id: int | None
    arguments: tuple[str, ...]
    """What the harvester is told on its command line."""
    last_history: int | None
    """The newest row of the history that an earlier run of this job wrote."""


def launch_due(session: Session, settings: ManagerSettings) -> list[int]:
    """Queue the jobs that are due and may begin, and give their ids; note in the others why they wait.

    A job that cannot be honoured is set aside with the reason. The caller commits.
    """
    due = _contenders(session, _is_due())
    if not due:
        return []
    under_way = _contenders(session, Job.status.in_(UNDER_WAY))
    ranks = queue.ranks(session)
    admitted, held_back = admit(
        [contender for contender, _ in due],
        [contender for contender, _ in under_way],
        list(ranks.values()),
        _limits(session, settings, busy=len(under_way) - len(ranks)),
    )
    launched = _launch(session, admitted)
    _note_reasons(session, held_back, {contender.job_id: waiting for contender, waiting in due})
    return launched


def claim(session: Session, job_id: int, host: str, worker_id: int | None = None) -> Run | None:
    """Take a queued job for this host; None when it is not queued any more. The caller commits."""
    before = (
        select(Harvest.counts["pages"].as_integer())
        .where(
            Harvest.repository_id == Job.repository_id,
            Harvest.metadata_prefix == Job.metadata_prefix,
            Harvest.set_spec == func.coalesce(Job.set_spec, ""),
        )
        .scalar_subquery()
    )
    taken = (
        update(Job)
        .where(Job.job_id == job_id, Job.status == JobStatus.QUEUED)
        .values(
            status=JobStatus.IN_PROGRESS,
            host=host,
            process_id=None,
            started=func.now(),
            worker_id=worker_id,
            waiting=null(),
            stuck_since=None,
            pages_before=func.coalesce(before, 0),
        )
        .returning(Job)
    )
    job = session.scalars(taken).one_or_none()
    return None if job is None else run_of(job)


def note_process(session: Session, job_id: int, process_id: int) -> None:
    """Write down which process runs a claimed job. The caller commits."""
    session.execute(update(Job).where(Job.job_id == job_id).values(process_id=process_id))


def run_of(job: Job) -> Run:
    """The facts of a job that runs."""
    return Run(
        job_id=job.job_id,
        repository_id=job.repository_id,
        recurring_id=job.recurring_id,
        set_spec=job.set_spec,
        metadata_prefix=job.metadata_prefix,
        harvest_method=job.harvest_method,
        started=job.started or job.harvest_start_time,
        host=job.host,
        process_id=job.process_id,
        arguments=tuple(_arguments(job)),
        last_history=job.last_history,
    )


def _arguments(job: Job) -> list[str]:
    options: dict[str, object] = {
        "repository_id": job.repository_id,
        "job_id": job.job_id,
        "recurring_id": job.recurring_id,
    }
    flags = ["end_with_parent"]
    for one in carried(Surface.JOB, Surface.PROCESS):
        value = getattr(job, one.job_column)
        if one.kind is not bool:
            options[one.process] = None if value == "" else value
        elif value != one.stored:
            flags.append(one.process if value is not one.reversed else f"no_{one.process}")
    # With `=`, a value that begins with a hyphen is a value still.
    given = [(name, f"={value}") for name, value in options.items() if value is not None]
    return [f"--{name.replace('_', '-')}{value}" for name, value in (*given, *((flag, "") for flag in flags))]


def _is_due() -> Any:  # noqa: ANN401 an SQL expression
    return and_(Job.status == JobStatus.SCHEDULED, Job.harvest_start_time <= func.now())


def _contenders(session: Session, condition: Any) -> list[tuple[Contender, Any]]:  # noqa: ANN401 as above
    """The jobs that the condition is true of, each with what it says it waits for."""
    # PostgreSQL's times reach further than Python's.
    waits = case((Repository.not_before > func.now(), func.least(Repository.not_before, _LATEST)))
    query: Select[Any] = (
        select(
            Job.job_id, Job.repository_id, Repository.base_url, Job.owner, Job.priority,
            Job.harvest_start_time, waits.label("not_before"), Job.waiting,
        )
        .join(Repository, Repository.repository_id == Job.repository_id)
        .where(condition)
        .order_by(Job.job_id)
    )  # fmt: skip
    return [
        (
            Contender(
                job_id=row.job_id,
                repository_id=row.repository_id,
                host=host_of(row.base_url),
                owner=row.owner,
                priority=row.priority,
                due=row.harvest_start_time,
                not_before=row.not_before,
            ),
            row.waiting,
        )
        for row in session.execute(query)
    ]


def _limits(session: Session, settings: ManagerSettings, *, busy: int) -> AdmissionLimits:
    """The limits as set; the queue holds what would fill the free places, and every place some more times.

    Quick harvests would empty a short queue between two looks of the leader; a long one harms nobody, since
    what is more urgent overtakes what waits there.
    """
    places = registry.places(session)
    return AdmissionLimits(
        per_host=settings.per_host,
        overall=settings.overall,
        lookahead=max(max(places - busy, 0) + _TURNS_AHEAD * places, _LEAST_LOOKAHEAD),
    )


def _launch(session: Session, admitted: Sequence[Admitted]) -> list[int]:
    """Queue these jobs, but those that somebody has changed or that cannot be honoured; give their ids."""
    numbers = [one.contender.job_id for one in admitted]
    locked = select(Job).where(Job.job_id.in_(numbers)).order_by(Job.job_id).with_for_update()
    jobs = {job.job_id: job for job in session.scalars(locked.execution_options(populate_existing=True))}
    wanted = {job.repository_id for job in jobs.values()}
    # Held here, they are found by the checks, which would ask for each otherwise.
    kept = session.scalars(select(Repository).where(Repository.repository_id.in_(wanted))).all()
    ready = [one for one in admitted if _is_ready(session, jobs.get(one.contender.job_id))]
    for one in ready:
        job = jobs[one.contender.job_id]
        job.status, job.waiting = JobStatus.QUEUED, None
    session.flush()
    del kept
    for one in ready:
        queue.defer(session, one.contender.job_id, one.contender.repository_id, priority=one.rank)
    return [one.contender.job_id for one in ready]


def _is_ready(session: Session, job: Job | None) -> bool:
    """Whether the job waits still and can be honoured; one that cannot is set aside."""
    if job is None or job.status != JobStatus.SCHEDULED:
        return False
    wrong = check_job(session, job)
    if wrong is None:
        return True
    job.status = JobStatus.SET_ASIDE
    job.waiting = wrong.as_json()
    logger.warning("job %d rejected: %s", job.job_id, wrong.facts["text"])
    tell(
        session,
        Occasion.SET_ASIDE,
        repository_id=job.repository_id,
        recurring_id=job.recurring_id,
        job_id=job.job_id,
        reason=wrong.facts["text"],
    )
    return False


def _note_reasons(session: Session, reasons: Mapping[int, Reason], stored: Mapping[int, object]) -> None:
    changed = [
        {"number": job_id, "reason": reason.as_json()}
        for job_id, reason in reasons.items()
        if stored[job_id] != reason.as_json()
    ]
    if changed:
        # Through the connection: the session would have every parameter named after its column.
        session.connection().execute(
            update(Job)
            .where(Job.job_id == bindparam("number"), Job.status == JobStatus.SCHEDULED)
            .values(waiting=bindparam("reason")),
            changed,
        )
