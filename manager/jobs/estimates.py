"""Estimates of when a job begins and ends, from what is running and from the durations of earlier runs."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import Harvest
from manager.jobs.reasons import Code, Maintenance, WaitReason
from manager.leader.admission import host_of
from manager.models import Job, JobStatus, Leader, RecurringJob
from manager.worker import registry
from oai.datestamps import parse_datestamp
from oai.failures import Failure, FailureCode

_WAITING = (JobStatus.QUEUED, JobStatus.SCHEDULED)
_OFF = (JobStatus.PAUSED, JobStatus.SET_ASIDE)
_STALLED_SECONDS = 4.0
"""Seconds without a sign of life, or without a stored page, after which a harvest counts as stalled.

The latter is longer if its pages take long.
"""
_OVERDUE_PAGES = 3
"""So many times the usual time of a page must pass."""


@dataclass(frozen=True, kw_only=True)
class TimedJob:
    """A job and its duration."""

    job_id: int
    repository_id: int
    host: str
    earliest: datetime
    """When a waiting job is due, or when its repository may be asked again."""
    seconds: float | None
    """How long it runs, or how much longer it will run; None if this cannot be estimated."""


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """How many harvests may run at a time."""

    places: int
    """The places of all workers together."""
    per_host: int | None = None
    """None: no limit."""
    overall: int | None = None

    @property
    def total(self) -> int:
        """Return how many may run at a time in total."""
        return self.places if self.overall is None else min(self.places, self.overall)


def starts(
    waiting: Sequence[TimedJob], running: Iterable[TimedJob], capacity: Capacity, now: datetime
) -> dict[int, datetime]:
    """Return when each waiting job, in the given order, should begin; jobs without an estimate are absent."""
    course = _Course(waiting, capacity, now)
    for timed in running:
        course.take(timed)
    course.follow()
    return course.started


class _Course:
    """A simulation that advances from each moment at which a job arrives or ends to the next."""

    def __init__(self, waiting: Sequence[TimedJob], capacity: Capacity, now: datetime) -> None:
        self.started: dict[int, datetime] = {}
        self._waiting = waiting
        self._capacity = capacity
        self._now = now
        self._coming = [(max(timed.earliest, now), turn) for turn, timed in enumerate(waiting)]
        heapq.heapify(self._coming)
        # Heaps by position in line: jobs that may begin as far as is known, and jobs held back by a
        # repository or host.
        self._ready: list[int] = []
        self._at_repository: dict[int, list[int]] = defaultdict(list)
        self._at_host: dict[str, list[int]] = defaultdict(list)
        self._ends: list[tuple[datetime, int, TimedJob]] = []
        self._repositories: set[int] = set()
        self._hosts: Counter[str] = Counter()
        self._taken = 0

    def take(self, timed: TimedJob) -> None:
        """Add a running job; one of unknown length never ends."""
        self._taken += 1
        self._repositories.add(timed.repository_id)
        self._hosts[timed.host] += 1
        if timed.seconds is not None:
            end = self._now + timedelta(seconds=timed.seconds)
            heapq.heappush(self._ends, (end, timed.job_id, timed))

    def follow(self) -> None:
        """Advance until no job arrives and none ends any more."""
        while self._coming or self._ends:
            self._now = min(line[0][0] for line in (self._coming, self._ends) if line)
            while self._ends and self._ends[0][0] <= self._now:
                self._leave(heapq.heappop(self._ends)[2])
            while self._coming and self._coming[0][0] <= self._now:
                heapq.heappush(self._ready, heapq.heappop(self._coming)[1])
            while self._ready and self._taken < self._capacity.total:
                self._begin(heapq.heappop(self._ready))

    def _leave(self, timed: TimedJob) -> None:
        self._taken -= 1
        self._repositories.discard(timed.repository_id)
        self._hosts[timed.host] -= 1
        self._let_on(self._at_repository[timed.repository_id])
        self._let_on(self._at_host[timed.host])

    def _begin(self, turn: int) -> None:
        """Start the job with that position, or hold it back while its repository or host is busy."""
        timed = self._waiting[turn]
        limit = self._capacity.per_host
        if limit is not None and self._hosts[timed.host] >= limit:
            heapq.heappush(self._at_host[timed.host], turn)
        elif timed.repository_id in self._repositories:
            heapq.heappush(self._at_repository[timed.repository_id], turn)
            # This job does not use the host's free place, so another job of the host may.
            self._let_on(self._at_host[timed.host])
        else:
            self.started[timed.job_id] = self._now
            self.take(timed)

    def _let_on(self, line: list[int]) -> None:
        if line:
            heapq.heappush(self._ready, heapq.heappop(line))


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """The progress of a running harvest."""

    pages: int
    records: int
    complete_list_size: int | None
    """As the repository reports it; None if it does not."""
    rate: float
    """Records per second since the run began or was resumed; 0 while it is paused or makes no progress."""
    seconds_left: float | None
    """None if size or rate are unknown, and while the harvest makes no progress."""
    errors: int
    """Records that were rejected."""
    last_progress: datetime
    """When the last page was committed (UTC)."""
    last_error: str | None
    """The reason for the current wait, or the last warning, in technical words."""
    last_failure: Mapping[str, Any] | None
    """The same in the format of `Failure.as_json`."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """A wait that the repository has requested."""

    text: str
    """The end of the wait and the repository's words, in technical terms."""
    failure: Failure
    until: datetime | None


def progress_of(harvest: Harvest, now: datetime, *, runs: bool = True) -> JobProgress:
    """Return the progress at that moment; unless it `runs`, at a rate of 0."""
    counts, size = harvest.counts, harvest.complete_list_size
    records = counts.get("records", 0)
    rate = _rate(harvest, records, now) if runs else 0.0
    return JobProgress(
        pages=counts.get("pages", 0),
        records=records,
        complete_list_size=size,
        rate=rate,
        seconds_left=_seconds_left(harvest, records, rate, now) if rate else None,
        errors=counts.get("invalid", 0),
        last_progress=harvest.updated,
        last_error=harvest.last_error,
        last_failure=harvest.last_failure,
    )


def _rate(harvest: Harvest, records: int, now: datetime) -> float:
    """Return the records per second; 0 if the process gives no sign of life, or its next page is overdue."""
    rate = harvest.records_per_second
    if rate is None:
        seconds = (now - harvest.run_started).total_seconds() if harvest.run_started is not None else 0
        rate = records / seconds if seconds > 0 else 0.0
    pages = harvest.counts.get("pages", 0)
    page_seconds = records / pages / rate if pages and rate > 0 else 0.0
    overdue = timedelta(seconds=max(_STALLED_SECONDS, _OVERDUE_PAGES * page_seconds))
    silent = harvest.last_sign is not None and now - harvest.last_sign > timedelta(seconds=_STALLED_SECONDS)
    return 0.0 if silent or now - harvest.updated > overdue else rate


def wait_of(harvest: Harvest | None) -> Wait | None:
    """Return the wait that the repository imposes on a harvest; None if there is none."""
    failure = Failure.from_json(harvest.last_failure) if harvest is not None else None
    if harvest is None or failure is None or failure.code is not FailureCode.WAITING:
        return None
    try:
        until = parse_datestamp(str(failure.facts.get("until"))).moment
    except ValueError:
        until = None
    text = (harvest.last_error or "").removeprefix("waiting ")
    return Wait(text=text, failure=failure, until=until)


def _seconds_left(harvest: Harvest, records: int, rate: float, now: datetime) -> float | None:
    if harvest.estimated_end is not None:
        return max((harvest.estimated_end - now).total_seconds(), 0)
    size = harvest.complete_list_size
    return max(size - records, 0) / rate if size is not None and rate > 0 else None


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The estimate for a job; None marks what cannot be estimated."""

    position: int | None = None
    """Its place among the jobs that could begin now; 1 for the next one, None for other jobs."""
    start: datetime | None = None
    """When it should begin (UTC), or when it began."""
    seconds: float | None = None
    """How long it should run, counted from now or from its start."""


def estimate(
    session: Session,
    rows: Sequence[tuple[Job, Harvest | None, str]],
    now: datetime,
    maintenance: Maintenance,
) -> dict[int, Estimate]:
    """Return an estimate for each job; these must be all jobs, with their harvests' rows and base URLs.

    The end of a running harvest is estimated from its own rate and the size that the repository reports, or
    else from the duration of the schedule's earlier runs, without which a job has no duration. Waiting jobs
    begin in their order as soon as a worker place, their repository and their host are free and the overall
    limit allows it; turns between owners are not simulated. Jobs have a position if they are due and their
    repository may be harvested now: the number of such jobs that should begin before, plus one; jobs without
    a known start count as if they began now, after those that do.
    """
    usual = _usual_seconds(session, {job.recurring_id for job, *_ in rows})
    left: dict[int, float | None] = {}
    found: dict[int, Estimate] = {}
    for job, harvest, _ in rows:
        seconds = usual.get(job.recurring_id or 0)
        left[job.job_id] = seconds
        if job.status not in (*_WAITING, *_OFF):
            left[job.job_id] = _seconds_left_of_job(job, harvest, usual, now)
            found[job.job_id] = Estimate(start=job.started, seconds=left[job.job_id])
        elif job.status in _OFF:
            found[job.job_id] = Estimate(seconds=seconds)
    return found | _in_line(session, rows, left, now, maintenance)


def _in_line(
    session: Session,
    rows: Sequence[tuple[Job, Harvest | None, str]],
    left: Mapping[int, float | None],
    now: datetime,
    maintenance: Maintenance,
) -> dict[int, Estimate]:
    """Return the estimates of the waiting jobs; `left` is how long each job takes or continues to run."""
    hosts = {job.job_id: host_of(base_url) for job, _, base_url in rows}
    earliest = {job.job_id: _earliest(job, maintenance) for job, *_ in rows}

    def timed(job: Job) -> TimedJob:
        return TimedJob(
            job_id=job.job_id,
            repository_id=job.repository_id,
            host=hosts[job.job_id],
            earliest=earliest[job.job_id],
            seconds=left[job.job_id],
        )

    running = [timed(job) for job, *_ in rows if job.status not in (*_WAITING, *_OFF)]
    waiting = sorted((job for job, *_ in rows if job.status in _WAITING), key=lambda job: _order(job, now))
    begin = starts([timed(job) for job in waiting], running, _capacity(session), now)
    ready = [job for job in waiting if job.status == JobStatus.QUEUED or earliest[job.job_id] <= now]
    # The sort is stable: jobs that begin at the same time keep their order.
    in_turn = sorted(ready, key=lambda job: (begin.get(job.job_id, now), job.job_id not in begin))
    positions = {job.job_id: position for position, job in enumerate(in_turn, 1)}
    return {
        job.job_id: Estimate(
            position=positions.get(job.job_id), start=begin.get(job.job_id), seconds=left[job.job_id]
        )
        for job in waiting
    }


def _usual_seconds(session: Session, schedules: Collection[int | None]) -> Mapping[int, float]:
    query = select(RecurringJob.id, RecurringJob.usual_seconds).where(
        RecurringJob.id.in_([number for number in schedules if number is not None]),
        RecurringJob.usual_seconds.is_not(None),
    )
    return {number: seconds for number, seconds in session.execute(query) if seconds is not None}


def _seconds_left_of_job(
    job: Job, harvest: Harvest | None, usual: Mapping[int, float], now: datetime
) -> float | None:
    progress = progress_of(harvest, now) if harvest is not None else None
    seconds = usual.get(job.recurring_id or 0)
    stalled = progress is not None and progress.records and not progress.rate
    if progress is not None and (progress.seconds_left is not None or stalled):
        return progress.seconds_left
    if seconds is None:
        return None
    elapsed = (now - job.started).total_seconds() if job.started is not None else 0
    return max(seconds - elapsed, 0)


def _capacity(session: Session) -> Capacity:
    """Return the workers' places, and the limits of the leading manager or of the last one that led."""
    limits = session.execute(select(Leader.per_host, Leader.overall)).one_or_none()
    per_host, overall = limits or (None, None)
    return Capacity(places=registry.places(session), per_host=per_host, overall=overall)


def _order(job: Job, now: datetime) -> tuple[bool, bool, int, datetime, int]:
    """Sort key: queued jobs, then due jobs, each by priority; then the jobs that are due later, by time."""
    later = job.status == JobStatus.SCHEDULED and job.harvest_start_time > now
    queued = job.status == JobStatus.QUEUED
    return (later, not queued, 0 if later else -job.priority, job.harvest_start_time, job.job_id)


def _earliest(job: Job, maintenance: Maintenance) -> datetime:
    """Return when the job is due, or when its repository may be asked again."""
    due = maintenance.end(job.repository_id, job.harvest_start_time) or job.harvest_start_time
    reason = WaitReason.from_json(job.waiting)
    if reason is not None and reason.code in {Code.NOT_BEFORE, Code.MAINTENANCE, Code.LOCKED}:
        try:
            return max(due, parse_datestamp(str(reason.facts.get("until"))).moment)
        except ValueError:
            return due
    return due
