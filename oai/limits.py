"""Limits on what a remote server sends, and on how many requests a caller may send us in a minute."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from oai.failures import Failure, FailureCode

RATIO_COUNTS_FROM: Final = 64 * 1024**2
"""Bytes that a compressed answer may unpack to before its ratio is checked: short ones compress very well."""
_SETTINGS: Final = {
    FailureCode.ANSWER_BYTES: "max_answer_bytes",
    FailureCode.ANSWER_RATIO: "max_answer_ratio",
    FailureCode.PART_BYTES: "max_part_bytes",
    FailureCode.PART_ELEMENTS: "max_part_elements",
    FailureCode.PART_DEPTH: "max_part_depth",
    FailureCode.MEMORY: "max_memory",
}
_MINUTE: Final = 60.0
_MOST_CALLERS: Final = 20_000
"""Callers whose last minute is remembered; about 4 MB."""


@dataclass(frozen=True, kw_only=True)
class AnswerLimits:
    """Limits of one answer and of each part of it.

    A part is one record, or everything around the records. `section` is the settings section that the
    limits come from, for messages that name the setting to raise.
    """

    answer_bytes: int = 512 * 1024**2
    """Unpacked."""
    ratio: int = 200
    """Bytes unpacked for each byte sent, once an answer is larger than `RATIO_COUNTS_FROM`."""
    part_bytes: int = 64 * 1024**2
    part_elements: int = 1_000_000
    part_depth: int = 256
    """Nesting of elements, counted from the answer's root."""
    memory: int = 640 * 1024**2
    """Bytes that a process that parses answers may use in addition to its memory at start."""
    section: str = "harvester"

    def failure(self, code: FailureCode, limit: int, **facts: int) -> Failure:
        """Return the failure of an answer that exceeds a limit, with the setting that raises the limit."""
        setting = f"{self.section}.{_SETTINGS[code]}"
        return Failure(code=code, facts={"limit": limit, **facts, "setting": setting})


DEFAULT_LIMITS: Final = AnswerLimits()


@dataclass(kw_only=True)
class RateLimit:
    """How many requests each caller may send in a minute, counted in this process's memory."""

    per_minute: int
    """0: no limit."""
    clock: Callable[[], float] = time.monotonic
    callers: dict[str, tuple[float, float]] = field(default_factory=dict)
    """What each caller had left, and when; who has not asked for longest comes first."""

    def wait(self, caller: str) -> float:
        """Return the seconds until the caller may ask again; 0 if the caller may ask now, which counts."""
        if not self.per_minute:
            return 0.0
        now = self.clock()
        left, since = self.callers.pop(caller, (float(self.per_minute), now))
        left = min(left + (now - since) * self.per_minute / _MINUTE, float(self.per_minute))
        allowed = left >= 1
        self.callers[caller] = (left - allowed, now)
        if len(self.callers) > _MOST_CALLERS:
            del self.callers[next(iter(self.callers))]
        return 0.0 if allowed else (1 - left) * _MINUTE / self.per_minute
