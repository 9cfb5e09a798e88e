"""How often one caller may ask: so many requests a minute, saved up for a minute at most."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

_MINUTE: Final = 60.0
_MOST_CALLERS: Final = 10_000


@dataclass(kw_only=True)
class Limiter:
    """Counts by caller, in this process's memory."""

    per_minute: int
    """0: no limit."""
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, caller: str) -> float:
        """Seconds until the caller may ask again; 0 where it may now, and has."""
        if not self.per_minute:
            return 0.0
        now = self.clock()
        left, since = self._left.pop(caller, (float(self.per_minute), now))
        left = min(left + (now - since) * self.per_minute / _MINUTE, float(self.per_minute))
        allowed = left >= 1
        # Taken out and put in again, so that those who have not asked for longest come first.
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return 0.0 if allowed else (1 - left) * _MINUTE / self.per_minute


LIMITER: Final = web.AppKey("limiter", Limiter)
