"""How much one client may ask at once and in a minute.

A client over its limit gets 503 with Retry-After, not 429: that is the answer by which OAI-PMH asks for
patience (OAI-PMH 2.0, section 3.1.2.2), and which every harvester knows.
"""

import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from provider.http.admission import TryLater, Why

_RETRY_AT_ONCE: Final = 5
_MINUTE: Final = 60.0
_MOST_REMEMBERED: Final = 20_000
"""Clients whose last minute is remembered; about 4 MB."""


class Limits:
    """Counts each client's requests; a limit of 0 is none."""

    def __init__(
        self, *, at_once: int, in_a_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._in_a_minute = in_a_minute
        self._clock = clock
        self._under_way: Counter[str] = Counter()
        self._allowances: OrderedDict[str, tuple[float, float]] = OrderedDict()

    @property
    def remembered(self) -> int:
        """Clients that something is kept about."""
        return len(self._allowances.keys() | self._under_way.keys())

    @contextmanager
    def request(self, client: str | None) -> Iterator[None]:
        """A request of this client is under way for the time of the block; None is not limited.

        Raises TryLater when that would be one too many.
        """
        if client is None:
            yield
            return
        self._check_at_once(client)
        self._check_minute(client)
        self._under_way[client] += 1
        try:
            yield
        finally:
            self._under_way[client] -= 1
            if not self._under_way[client]:
                del self._under_way[client]

    def _check_at_once(self, client: str) -> None:
        if self._at_once and self._under_way[client] >= self._at_once:
            reason = f"{self._at_once} requests from your address are in progress, which is the limit"
            raise TryLater(Why.CLIENT, reason, _RETRY_AT_ONCE)

    def _check_minute(self, client: str) -> None:
        """Take one from the client's allowance, which fills up again within a minute."""
        if not self._in_a_minute:
            return
        now, most = self._clock(), float(self._in_a_minute)
        left, then = self._allowances.pop(client, (most, now))
        left = min(most, left + (now - then) * most / _MINUTE)
        allowed = left >= 1
        self._allowances[client] = (left - allowed, now)
        while len(self._allowances) > _MOST_REMEMBERED:
            self._allowances.popitem(last=False)
        if not allowed:
            reason = f"your address sent more than {self._in_a_minute} requests in a minute"
            raise TryLater(Why.CLIENT, reason, math.ceil((1 - left) * _MINUTE / most))
