"""Rate limit for each caller: requests per minute, with a burst of at most one minute's quota."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

_MINUTE: Final = 60.0
_MOST_CALLERS: Final = 10_000


@dataclass(kw_only=True)
class Limiter:
    """Token buckets by caller, in this process's memory."""

    per_minute: int
    """Requests per minute; 0 disables the limit."""
    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)

    def wait(self, caller: str) -> float:
        """Count a request and return 0, or return the seconds to wait if the limit is reached."""
        if not self.per_minute:
            return 0.0
        now = self.clock()
        left, since = self._left.pop(caller, (float(self.per_minute), now))
        left = min(left + (now - since) * self.per_minute / _MINUTE, float(self.per_minute))
        allowed = left >= 1
        # Safe without a lock: called only on the event loop, without `await`. Removing and reinserting the
        # caller keeps the dict in order of last use, so that the eviction below drops the caller idle
        # longest.
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > _MOST_CALLERS:
            del self._left[next(iter(self._left))]
        return 0.0 if allowed else (1 - left) * _MINUTE / self.per_minute


LIMITER: Final = web.AppKey("limiter", Limiter)
