"""When a job should begin and end, told from what runs and how long it took before; for all who show it."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from harvester.models import Harvest, Repository
from manager.jobs.reasons import Code, Reason
from manager.leader.admission import host_of
from manager.models import Job, JobStatus, Leader, RecurringJob
from manager.worker import registry
from oai.datestamps import parse_datestamp
from oai.failures import Failure, FailureCode


@dataclass(frozen=True, kw_only=True)
class Stay:
    """A job, and how long it takes."""

    job_id: int
    repository_id: int
    host: str
    earliest: datetime
    """When one that waits is due, or its repository may be asked again."""
    seconds: float | None
    """How long it runs, or has still to run; None where nothing tells."""


@dataclass(frozen=True, kw_only=True)
class Room:
    """How much may run at a time."""

    places: int
    """Of all workers together."""
    per_host: int | None = None
    """None: no limit."""
    overall: int | None = None

    @property
    def total(self) -> int:
        """How many may run in all."""
        return self.places if self.overall is None else min(self.places, self.overall)


def starts(
    waiting: Sequence[Stay], running: Iterable[Stay], room: Room, now: datetime
) -> dict[int, datetime]:
    """When each job that waits, in their order, should begin; those of which nothing tells are absent."""
    course = _Course(waiting, room, now)
    for stay in running:
        course.take(stay)
    course.follow()
    return course.started


class _Course:
    """Goes from one moment to the next at which a job comes or ends."""

    def __init__(self, waiting: Sequence[Stay], room: Room, now: datetime) -> None:
        self.started: dict[int, datetime] = {}
        self._waiting = waiting
        self._room = room
        self._now = now
        self._coming = [(max(stay.earliest, now), turn) for turn, stay in enumerate(waiting)]
        heapq.heapify(self._coming)
        # By their turns: those that may begin as far as is known, and those behind a repository or a host.
        self._ready: list[int] = []
        self._at_repository: dict[int, list[int]] = defaultdict(list)
        self._at_host: dict[str, list[int]] = defaultdict(list)
        self._ends: list[tuple[datetime, int, Stay]] = []
        self._repositories: set[int] = set()
        self._hosts: Counter[str] = Counter()
        self._taken = 0

    def take(self, stay: Stay) -> None:
        """Let a job run from now on; one of unknown length never ends."""
        self._taken += 1
        self._repositories.add(stay.repository_id)
        self._hosts[stay.host] += 1
        if stay.seconds is not None:
            end = self._now + timedelta(seconds=stay.seconds)
            heapq.heappush(self._ends, (end, stay.job_id, stay))

    def follow(self) -> None:
        """Go on until nothing comes and nothing ends any more."""
        while self._coming or self._ends:
            self._now = min(line[0][0] for line in (self._coming, self._ends) if line)
            while self._ends and self._ends[0][0] <= self._now:
                self._leave(heapq.heappop(self._ends)[2])
            while self._coming and self._coming[0][0] <= self._now:
                heapq.heappush(self._ready, heapq.heappop(self._coming)[1])
            while self._ready and self._taken < self._room.total:
                self._begin(heapq.heappop(self._ready))

    def _leave(self, stay: Stay) -> None:
        self._taken -= 1
        self._repositories.discard(stay.repository_id)
        self._hosts[stay.host] -= 1
        self._let_on(self._at_repository[stay.repository_id])
        self._let_on(self._at_host[stay.host])

    def _begin(self, turn: int) -> None:
        """Let the job of that turn begin, or wait where it is held back."""
        stay = self._waiting[turn]
        limit = self._room.per_host
        if limit is not None and self._hosts[stay.host] >= limit:
            heapq.heappush(self._at_host[stay.host], turn)
        elif stay.repository_id in self._repositories:
            heapq.heappush(self._at_repository[stay.repository_id], turn)
            # The host would take another one instead.
            self._let_on(self._at_host[stay.host])
        else:
            self.started[stay.job_id] = self._now
            self.take(stay)

    def _let_on(self, line: list[int]) -> None:
        if line:
            heapq.heappush(self._ready, heapq.heappop(line))


@dataclass(frozen=True, kw_only=True)
class JobProgress:
    """How far a running harvest is."""

    pages: int
    records: int
    complete_list_size: int | None
    """As the repository told it, where it did."""
    rate: float
    """Records a second since the run began, or went on."""
    seconds_left: float | None
    """Where size and rate are known."""
    errors: int
    """Records that were refused."""
    last_progress: datetime
    """When the last page was committed (UTC)."""
    last_error: str | None
    """What the harvest waits for, or warned of last, in technical words."""
    last_failure: Mapping[str, Any] | None
    """The same as `Failure.as_json` has it."""


@dataclass(frozen=True, kw_only=True)
class Wait:
    """That the repository has asked the harvester to wait."""

    text: str
    """Until when, and what it said, in technical words."""
    failure: Failure
    until: datetime | None


def progress_of(harvest: Harvest, now: datetime) -> JobProgress:
    """The progress at that moment."""
    counts, size = harvest.counts, harvest.complete_list_size
    records = counts.get("records", 0)
    rate = harvest.records_per_second
    if rate is None:
        seconds = (now - harvest.run_started).total_seconds() if harvest.run_started is not None else 0
        rate = records / seconds if seconds > 0 else 0.0
    return JobProgress(
        pages=counts.get("pages", 0),
        records=records,
        complete_list_size=size,
        rate=rate,
        seconds_left=_seconds_left(harvest, records, rate, now),
        errors=counts.get("invalid", 0),
        last_progress=harvest.updated,
        last_error=harvest.last_error,
        last_failure=harvest.last_failure,
    )


def wait_of(harvest: Harvest | None) -> Wait | None:
    """What the repository keeps a harvest waiting for, where it does."""
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
            left[job.job_id] = _seconds_left_of_job(job, harvest, usual, now)
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


def _seconds_left_of_job(
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
    return Room(places=registry.places(session), per_host=per_host, overall=overall)


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
