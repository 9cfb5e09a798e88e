"""Who asks for what, counted in memory until it is written down.

Nothing here waits for anything, and nothing grows without bound: a process tells so many clients and lists
apart in a day, and puts the rest together.
"""

import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from aiohttp import web

from oai.vocabulary import ErrorCode
from provider.protocol.exchange import ListPosition

BAD_VERB: Final = "bad verb"
"""Stands for whatever else was given as verb."""


@dataclass(frozen=True, kw_only=True)
class RequestOutcome:
    """What was asked for, and what came of it."""

    verb: str
    """The OAI-PMH verb, or BAD_VERB."""
    codes: tuple[ErrorCode, ...]
    """The protocol errors in the answer."""
    progress: ListPosition | None
    """How far through a list the answer is."""


OUTCOME: Final = web.RequestKey("outcome", RequestOutcome)
"""Where a route leaves it with the request."""


OTHERS: Final = "(others)"
"""Stands for the User-Agent of all clients beyond the number that is told apart."""

_NAMESPACE: Final = uuid.UUID("2f4f9e39-6f8c-4f07-9a3c-4b9b5d0f2a51")
_DAY: Final = 86_400.0
_LATELY: Final = 600.0
_LONGEST_TEXT: Final = 200


@dataclass(frozen=True, kw_only=True)
class ClientKey:
    """A harvester, as far as one can be told from another."""

    address: str
    """As it is kept: whole, a network, or empty."""
    user_agent: str
    sender: str
    """The header `From`: whom to write to."""

    @property
    def key(self) -> uuid.UUID:
        """The same for the same client in every process."""
        return uuid.uuid5(_NAMESPACE, repr((self.address, self.user_agent, self.sender)))


@dataclass(kw_only=True)
class ClientCount:
    """What a client did since it was last written down."""

    first: datetime
    last: datetime
    requests: int = 0
    sent: int = 0
    """Bytes."""
    refused: int = 0
    """Answers 503."""
    codes: Counter[str] = field(default_factory=Counter)
    """Protocol errors."""


@dataclass(frozen=True, kw_only=True)
class HarvestList:
    """A list that a client reads: one first request and all that go on from it."""

    client: ClientKey
    verb: str
    metadata_prefix: str
    set_spec: str
    from_: datetime | None
    until: datetime | None

    @property
    def key(self) -> uuid.UUID:
        """The same for the same list in every process."""
        bounds = (self.from_, self.until)
        facts = (str(self.client.key), self.verb, self.metadata_prefix, self.set_spec, *map(str, bounds))
        return uuid.uuid5(_NAMESPACE, repr(facts))


@dataclass(kw_only=True)
class ListCount:
    """How far a list got since it was last written down."""

    first: datetime
    last: datetime
    requests: int = 0
    passed: int = 0
    """Items up to the end of the furthest page."""
    size: int | None = None
    finished: datetime | None = None


@dataclass(kw_only=True)
class StatsBatch:
    """What is to be written down."""

    clients: dict[ClientKey, ClientCount] = field(default_factory=dict)
    lists: dict[HarvestList, ListCount] = field(default_factory=dict)


class Tally:
    """Counts requests of one process."""

    def __init__(self, *, clients: int, lists: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = _Known(clients, clock)
        self._lists = _Known(lists, clock)
        self._batch = StatsBatch()
        self._clock = clock
        self._open: OrderedDict[HarvestList, float] = OrderedDict()

    def count(
        self,
        client: ClientKey,
        moment: datetime,
        *,
        sent: int,
        refused: bool,
        outcome: RequestOutcome | None,
    ) -> None:
        """Count a request that ended at `moment` (UTC); `outcome` is None for what is no OAI-PMH."""
        if not self._clients.admits(client):
            client = ClientKey(address="", user_agent=OTHERS, sender="")
        counted = self._batch.clients.setdefault(client, ClientCount(first=moment, last=moment))
        counted.last = moment
        counted.requests += 1
        counted.sent += sent
        counted.refused += refused
        if outcome is None:
            return
        counted.codes.update(outcome.codes)
        if outcome.progress is not None and client.user_agent != OTHERS:
            self._count_list(client, moment, outcome.verb, outcome.progress)

    def lists_under_way(self) -> int:
        """Lists that a page of was answered lately, but not the last one."""
        before = self._clock() - _LATELY
        while self._open and next(iter(self._open.values())) < before:
            self._open.popitem(last=False)
        return len(self._open)

    def take(self) -> StatsBatch:
        """All that was counted since the last time."""
        batch, self._batch = self._batch, StatsBatch()
        return batch

    def put_back(self, batch: StatsBatch) -> None:
        """Count again what could not be written down."""
        newer, self._batch = self._batch, batch
        for client, count in newer.clients.items():
            older = self._batch.clients.setdefault(client, ClientCount(first=count.first, last=count.last))
            older.last = count.last
            older.requests += count.requests
            older.sent += count.sent
            older.refused += count.refused
            older.codes.update(count.codes)
        for list_, further in newer.lists.items():
            known = self._batch.lists.setdefault(list_, further)
            if known is not further:
                _go_on(known, further.last, further.passed, further.size)
                known.requests += further.requests
                known.finished = further.finished or known.finished

    def _count_list(self, client: ClientKey, moment: datetime, verb: str, progress: ListPosition) -> None:
        list_ = HarvestList(
            client=client,
            verb=verb,
            metadata_prefix=progress.metadata_prefix or "",
            set_spec=progress.set_spec or "",
            from_=progress.from_,
            until=progress.until,
        )
        if not self._lists.admits(list_):
            return
        self._open.pop(list_, None)
        if not progress.ended:
            self._open[list_] = self._clock()
        counted = self._batch.lists.setdefault(list_, ListCount(first=moment, last=moment))
        counted.requests += 1
        _go_on(counted, moment, progress.cursor + progress.count, progress.size)
        if progress.ended:
            counted.finished = moment


def _go_on(counted: ListCount, moment: datetime, passed: int, size: int | None) -> None:
    counted.last = moment
    counted.passed = max(counted.passed, passed)
    counted.size = size if size is not None else counted.size


def shortened(text: str) -> str:
    """A header for keeping: printable characters, and not too many of them."""
    return "".join(sign for sign in text[:_LONGEST_TEXT] if sign.isprintable())


class _Known:
    """The things that are told apart today, up to a number."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._begun = clock()
        self._known: set[Hashable] = set()

    def admits(self, thing: Hashable) -> bool:
        """Whether it is known, or may become so."""
        if self._clock() - self._begun > _DAY:
            self._known.clear()
            self._begun = self._clock()
        if len(self._known) < self._most:
            self._known.add(thing)
        return thing in self._known
