"""When a job should begin and end, told from what runs and how long it took before; for all who show it."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import Harvest, Repository
from manager import workers
from manager.admission import host_of
from manager.course import Room, Stay, starts
from manager.models import Job, JobStatus, Leader, RecurringJob
from manager.progress import progress_of
from manager.reasons import Code, Reason
from oai.datestamps import parse_datestamp

_WAITING = (JobStatus.QUEUED, JobStatus.SCHEDULED)
_OFF = (JobStatus.PAUSED, JobStatus.SET_ASIDE)
_NEVER = datetime.max.replace(tzinfo=UTC)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What is to be expected of a job; None where nothing tells."""

    position: int | None = None
    """Its place among those that wait, 1 for the next one."""
    start: datetime | None = None
    """When it should begin (UTC), or has begun."""
    seconds: float | None = None
    """How long it should run, from now or from its start."""


def estimate(
    session: Session, rows: Sequence[tuple[Job, Harvest | None]], now: datetime
) -> dict[int, Estimate]:
    """An estimate for each of the jobs, which must be all there are, each with its harvest's row.

    A running harvest ends by its own rate and the size that the repository told, or else when the schedule's
    runs usually end. Those that wait begin in their order as soon as a place is free, their repository and
    their host are, and the limit over all allows it; the turns between owners are left out of account. A
    position tells how many should begin before; those of which it is known when come first.
    """
    usual = _usual_seconds(session, {job.recurring_id for job, _ in rows})
    some = session.scalar(select(func.avg(RecurringJob.usual_seconds)))
    left: dict[int, float | None] = {}
    found: dict[int, Estimate] = {}
    for job, harvest in rows:
        seconds = usual.get(job.recurring_id or 0, some)
        left[job.job_id] = seconds
        if job.status not in (*_WAITING, *_OFF):
            left[job.job_id] = _seconds_left(job, harvest, usual, now)
            found[job.job_id] = Estimate(start=job.started, seconds=left[job.job_id])
        elif job.status in _OFF:
            found[job.job_id] = Estimate(seconds=seconds)
    return found | _in_line(session, rows, left, now)


def _in_line(
    session: Session,
    rows: Sequence[tuple[Job, Harvest | None]],
    left: Mapping[int, float | None],
    now: datetime,
) -> dict[int, Estimate]:
    """The estimates of those that wait; `left` is how long each job takes, or has still to take."""
    hosts = _hosts(session, rows)

    def stay(job: Job) -> Stay:
        return Stay(
            job_id=job.job_id,
            repository_id=job.repository_id,
            host=hosts[job.repository_id],
            earliest=_earliest(job),
            seconds=left[job.job_id],
        )

    running = [stay(job) for job, _ in rows if job.status not in (*_WAITING, *_OFF)]
    waiting = sorted((job for job, _ in rows if job.status in _WAITING), key=lambda job: _order(job, now))
    begin = starts([stay(job) for job in waiting], running, _room(session), now)
    # The sorting keeps the order of those that begin at the same time.
    in_turn = sorted(waiting, key=lambda job: begin.get(job.job_id, _NEVER))
    return {
        job.job_id: Estimate(position=position, start=begin.get(job.job_id), seconds=left[job.job_id])
        for position, job in enumerate(in_turn, 1)
    }


def _usual_seconds(session: Session, schedules: Collection[int | None]) -> Mapping[int, float]:
    query = select(RecurringJob.id, RecurringJob.usual_seconds).where(
        RecurringJob.id.in_([number for number in schedules if number is not None]),
        RecurringJob.usual_seconds.is_not(None),
    )
    return {number: seconds for number, seconds in session.execute(query) if seconds is not None}


def _seconds_left(
    job: Job, harvest: Harvest | None, usual: Mapping[int, float], now: datetime
) -> float | None:
    told = progress_of(harvest, now).seconds_left if harvest is not None else None
    seconds = usual.get(job.recurring_id or 0)
    if told is not None or seconds is None:
        return told
    elapsed = (now - job.started).total_seconds() if job.started is not None else 0
    return max(seconds - elapsed, 0)


def _room(session: Session) -> Room:
    """The workers' places, and the limits that the leading manager keeps, or the last one kept."""
    limits = session.execute(select(Leader.per_host, Leader.overall)).one_or_none()
    per_host, overall = limits or (None, None)
    return Room(places=workers.places(session), per_host=per_host, overall=overall)


def _hosts(session: Session, rows: Iterable[tuple[Job, Harvest | None]]) -> Mapping[int, str]:
    numbers = {job.repository_id for job, _ in rows}
    query = select(Repository.repository_id, Repository.base_url).where(Repository.repository_id.in_(numbers))
    return {number: host_of(base_url) for number, base_url in session.execute(query)}


def _order(job: Job, now: datetime) -> tuple[bool, bool, int, datetime, int]:
    """What is in the queue, then what is due, each by priority; then what is due later, by its time."""
    later = job.status == JobStatus.SCHEDULED and job.harvest_start_time > now
    queued = job.status == JobStatus.QUEUED
    return (later, not queued, 0 if later else -job.priority, job.harvest_start_time, job.job_id)


def _earliest(job: Job) -> datetime:
    """When it is due, or its repository may be asked again."""
    reason = Reason.from_json(job.waiting)
    if reason is not None and reason.code is Code.NOT_BEFORE:
        try:
            return max(job.harvest_start_time, parse_datestamp(str(reason.facts.get("until"))).moment)
        except ValueError:
            return job.harvest_start_time
    return job.harvest_start_time
