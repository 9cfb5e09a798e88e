"""Limits on what a remote server sends: bytes, compression ratio, elements and depth."""

from dataclasses import dataclass
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
