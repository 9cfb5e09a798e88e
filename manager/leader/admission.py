"""Which due jobs may begin: limits, priorities and turns between owners, computed without the database."""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from urllib.parse import urlsplit

from manager.jobs.reasons import Code, WaitReason
from oai.datestamps import format_datestamp

_TURNS: Final = 100_000


@dataclass(frozen=True, kw_only=True)
class AdmissionJob:
    """A job that is due, or that was already handed out."""

    job_id: int
    repository_id: int
    host: str
    """The host of the repository's base URL; empty if the URL has none."""
    owner: str | None = None
    priority: int = 0
    due: datetime
    not_before: datetime | None = None
    """The time before which the repository asked not to be contacted; None if that time has passed."""
    maintained: datetime | None = None
    """The end of the maintenance window in which the repository is now."""
    lock: WaitReason | None = None
    """The lock that keeps harvests off the repository."""

    @property
    def wait(self) -> WaitReason | None:
        """Why the repository itself cannot be harvested now."""
        for code, until in ((Code.NOT_BEFORE, self.not_before), (Code.MAINTENANCE, self.maintained)):
            if until is not None:
                return WaitReason(code=code, facts={"until": format_datestamp(until)})
        return self.lock


@dataclass(frozen=True, kw_only=True)
class AdmissionLimits:
    """How many jobs may be under way."""

    per_host: int
    overall: int | None
    """None: no limit."""
    lookahead: int
    """How many jobs may wait in the queue ahead of the workers."""


@dataclass(frozen=True, kw_only=True)
class Admitted:
    """A job to be put into the queue."""

    job: AdmissionJob
    rank: int
    """The priority in the queue: the highest is taken first."""


@dataclass(kw_only=True)
class _Tally:
    """The jobs under way, including those just admitted."""

    limits: AdmissionLimits
    waiting: list[int]
    """The ranks of the jobs in the queue."""
    repositories: dict[int, int] = field(default_factory=dict)
    hosts: Counter[str] = field(default_factory=Counter)
    owners: Counter[str | None] = field(default_factory=Counter)
    total: int = 0

    def take(self, job: AdmissionJob) -> None:
        self.repositories.setdefault(job.repository_id, job.job_id)
        self.hosts[job.host] += 1
        self.owners[job.owner] += 1
        self.total += 1

    def objection(self, job: AdmissionJob, rank: int) -> WaitReason | None:
        limits = self.limits
        if job.repository_id in self.repositories:
            return WaitReason(code=Code.REPOSITORY, facts={"job": self.repositories[job.repository_id]})
        if job.wait is not None:
            return job.wait
        if self.hosts[job.host] >= limits.per_host:
            return WaitReason(code=Code.HOST, facts={"host": job.host, "limit": limits.per_host})
        if limits.overall is not None and self.total >= limits.overall:
            return WaitReason(code=Code.OVERALL, facts={"limit": limits.overall})
        # Waiting jobs of a lower rank do not keep an urgent job out of the queue.
        if sum(other >= rank for other in self.waiting) >= limits.lookahead:
            return WaitReason(code=Code.WORKER)
        return None


def admit(
    due: Iterable[AdmissionJob],
    under_way: Iterable[AdmissionJob],
    waiting: Sequence[int],
    limits: AdmissionLimits,
) -> tuple[list[Admitted], dict[int, WaitReason]]:
    """Return the jobs that may begin, in their order, and for each of the others the reason why it may not.

    A higher priority comes first; among equals the owner with the fewest jobs under way; among one owner's
    jobs the one that has been due longest. `waiting` holds the ranks of the jobs that wait in the queue;
    these jobs are also among `under_way`.
    """
    tally = _Tally(limits=limits, waiting=list(waiting))
    for job in under_way:
        tally.take(job)
    admitted: list[Admitted] = []
    held_back: dict[int, WaitReason] = {}
    for job in _in_turn(due, tally.owners):
        rank = job.priority * _TURNS - min(tally.owners[job.owner], _TURNS - 1)
        objection = tally.objection(job, rank)
        if objection is not None:
            held_back[job.job_id] = objection
            continue
        admitted.append(Admitted(job=job, rank=rank))
        tally.waiting.append(rank)
        tally.take(job)
    return admitted, held_back


def host_of(base_url: str) -> str:
    """Return the host name of a base URL in lower case; empty if the URL has none."""
    try:
        return (urlsplit(base_url).hostname or "").lower()
    except ValueError:
        return ""


def _in_turn(due: Iterable[AdmissionJob], owners: Counter[str | None]) -> Iterable[AdmissionJob]:
    """Yield the jobs in order; `owners` counts each owner's jobs under way and is read again for each job."""
    lines: dict[tuple[int, str | None], list[AdmissionJob]] = defaultdict(list)
    for job in sorted(due, key=lambda job: (job.due, job.job_id), reverse=True):
        lines[job.priority, job.owner].append(job)

    def place(priority: int, owner: str | None) -> tuple[int, int, datetime, int, str | None]:
        first = lines[priority, owner][-1]
        return (-priority, owners[owner], first.due, first.job_id, owner)

    heap = [place(*line) for line in lines]
    heapq.heapify(heap)
    while heap:
        minus_priority, load, *_, owner = heapq.heappop(heap)
        line = (-minus_priority, owner)
        if owners[owner] != load:
            heapq.heappush(heap, place(*line))
            continue
        yield lines[line].pop()
        if lines[line]:
            heapq.heappush(heap, place(*line))
