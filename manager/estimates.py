"""When a job should begin and end, told from what runs and how long it took before; for all who show it."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import Harvest
from manager import workers
from manager.models import Job, JobStatus, RecurringJob
from manager.progress import progress_of
from manager.reasons import Code, Reason
from oai.datestamps import parse_datestamp

_WAITING = (JobStatus.QUEUED, JobStatus.SCHEDULED)
_OFF = (JobStatus.PAUSED, JobStatus.SET_ASIDE)


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """What is to be expected of a job; None where nothing tells."""

    position: int | None = None
    """Its place among those that wait, 1 for the next one."""
    start: datetime | None = None
    """When it should begin (UTC), or has begun."""
    seconds: float | None = None
    """How long it should run, from now or from its start."""


@dataclass(kw_only=True)
class _Course:
    """When the workers' places will be free, and the repositories; None where nothing tells."""

    now: datetime
    free: list[datetime]
    repositories: dict[int, datetime | None]

    def begin(self, job: Job, seconds: float | None) -> datetime | None:
        """When the job should begin; its place and repository are taken for as long."""
        busy_until = self.repositories.get(job.repository_id, self.now)
        if not self.free or busy_until is None:
            self.repositories[job.repository_id] = None
            return None
        start = max(self.now, heapq.heappop(self.free), _earliest(job), busy_until)
        end = None if seconds is None else start + timedelta(seconds=seconds)
        self.repositories[job.repository_id] = end
        if end is not None:
            heapq.heappush(self.free, end)
        return start


def estimate(
    session: Session, rows: Sequence[tuple[Job, Harvest | None]], now: datetime
) -> dict[int, Estimate]:
    """An estimate for each of the jobs, which must be all there are, each with its harvest's row.

    A running harvest ends by its own rate and the size that the repository told, or else when the schedule's
    runs usually end. Those that wait begin in their order as places become free and their repository is; the
    limits by host and over all, and the turns between owners, are left out of account.
    """
    usual = _usual_seconds(session)
    some = sum(usual.values()) / len(usual) if usual else None
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
    running = [job for job, _ in rows if job.status not in (*_WAITING, *_OFF)]
    course = _course(session, running, left, now)
    waiting = sorted((job for job, _ in rows if job.status in _WAITING), key=lambda job: _order(job, now))
    for position, job in enumerate(waiting, 1):
        seconds = left[job.job_id]
        found[job.job_id] = Estimate(position=position, start=course.begin(job, seconds), seconds=seconds)
    return found


def _usual_seconds(session: Session) -> Mapping[int, float]:
    query = select(RecurringJob.id, RecurringJob.usual_seconds).where(RecurringJob.usual_seconds.is_not(None))
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


def _course(
    session: Session, running: Iterable[Job], left: Mapping[int, float | None], now: datetime
) -> _Course:
    free: list[datetime] = []
    repositories: dict[int, datetime | None] = {}
    taken = 0
    for job in running:
        taken += 1
        seconds = left[job.job_id]
        end = None if seconds is None else now + timedelta(seconds=seconds)
        repositories[job.repository_id] = end
        if end is not None:
            free.append(end)
    free += [now] * max(workers.places(session) - taken, 0)
    heapq.heapify(free)
    return _Course(now=now, free=free, repositories=repositories)


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
