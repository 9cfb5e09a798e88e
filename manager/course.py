"""The course that waiting jobs should take: each begins as soon as nothing is in its way; no database here.

In its way may be its time, its repository, its host, the number of harvests in all, and the workers' places.
As in admission, a job that is held back keeps nothing from those behind it.
"""

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta


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
