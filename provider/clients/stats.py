"""Request statistics, counted in memory until they are written to the database.

Counting never blocks, and memory is bounded: a process distinguishes a limited number of clients and
lists per day, and counts the rest together.

Only the event loop's thread calls the tally, so it needs no lock.
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
"""Replaces any other value given as verb."""


@dataclass(frozen=True, kw_only=True)
class RequestOutcome:
    """A request's subject and its result."""

    verb: str
    """The OAI-PMH verb, or BAD_VERB."""
    codes: tuple[ErrorCode, ...]
    """The protocol errors in the answer."""
    progress: ListPosition | None
    """The position of the answer in its list."""


OUTCOME: Final = web.RequestKey("outcome", RequestOutcome)
"""Key under which a route stores the outcome in the request."""


OTHERS: Final = "(others)"
"""Replaces the User-Agent of all clients beyond the number that are distinguished."""

_NAMESPACE: Final = uuid.UUID("2f4f9e39-6f8c-4f07-9a3c-4b9b5d0f2a51")
_DAY: Final = 86_400.0
_LATELY: Final = 600.0
_LONGEST_TEXT: Final = 200


@dataclass(frozen=True, kw_only=True)
class ClientKey:
    """A harvester, as far as it can be distinguished from others."""

    address: str
    """As stored: whole, a network, or empty."""
    user_agent: str
    sender: str
    """The header `From`: an address for contact."""

    @property
    def key(self) -> uuid.UUID:
        """Identical for the same client in every process."""
        return uuid.uuid5(_NAMESPACE, repr((self.address, self.user_agent, self.sender)))


@dataclass(kw_only=True)
class ClientCount:
    """A client's requests since the last write to the database."""

    first: datetime
    last: datetime
    requests: int = 0
    sent: int = 0
    """Bytes."""
    refused: int = 0
    """503 responses."""
    codes: Counter[str] = field(default_factory=Counter)
    """Protocol errors."""


@dataclass(frozen=True, kw_only=True)
class HarvestList:
    """A list that a client reads: one first request and its continuations."""

    client: ClientKey
    verb: str
    metadata_prefix: str
    set_spec: str
    from_: datetime | None
    until: datetime | None

    @property
    def key(self) -> uuid.UUID:
        """Identical for the same list in every process."""
        bounds = (self.from_, self.until)
        facts = (str(self.client.key), self.verb, self.metadata_prefix, self.set_spec, *map(str, bounds))
        return uuid.uuid5(_NAMESPACE, repr(facts))


@dataclass(kw_only=True)
class ListCount:
    """Progress through a list since the last write to the database."""

    first: datetime
    last: datetime
    requests: int = 0
    passed: int = 0
    """Items up to the end of the furthest page."""
    size: int | None = None
    finished: datetime | None = None


@dataclass(kw_only=True)
class StatsBatch:
    """Counts to be written to the database."""

    clients: dict[ClientKey, ClientCount] = field(default_factory=dict)
    lists: dict[HarvestList, ListCount] = field(default_factory=dict)


class Tally:
    """Counts the requests of one process."""

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
        """Count a request that ended at `moment` (UTC); `outcome` is None if it was not OAI-PMH."""
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
        """Return the number of lists of which a page, but not the last one, was sent recently."""
        before = self._clock() - _LATELY
        while self._open and next(iter(self._open.values())) < before:
            self._open.popitem(last=False)
        return len(self._open)

    def take(self) -> StatsBatch:
        """Return everything counted since the last call."""
        batch, self._batch = self._batch, StatsBatch()
        return batch

    def put_back(self, batch: StatsBatch) -> None:
        """Merge a batch that could not be written back into the counts."""
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
    """Return a header shortened for storage: printable characters, limited in number."""
    return "".join(sign for sign in text[:_LONGEST_TEXT] if sign.isprintable())


class _Known:
    """Things distinguished today, up to a maximum number."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self._most = most
        self._clock = clock
        self._begun = clock()
        self._known: set[Hashable] = set()

    def admits(self, thing: Hashable) -> bool:
        """Return whether it is known, or can be added."""
        if self._clock() - self._begun > _DAY:
            self._known.clear()
            self._begun = self._clock()
        if len(self._known) < self._most:
            self._known.add(thing)
        return thing in self._known
