"""Limits on what a foreign server sends: bytes, compression ratio, elements and depth."""

from dataclasses import dataclass
from typing import Final

from oai.failures import Failure, FailureCode

RATIO_COUNTS_FROM: Final = 64 * 1024**2
"""Bytes that a compressed answer may unpack to before its ratio matters: short answers pack very well."""
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
    """What one answer, and each part of it, may have at most.

    A part is one record, or what is around the records. `section` is the section of the settings that the
    limits come from, for messages that name the setting to raise.
    """

    answer_bytes: int = 512 * 1024**2
    """Unpacked."""
    ratio: int = 200
    """Bytes unpacked for each byte sent, once an answer is larger than `RATIO_COUNTS_FROM`."""
    part_bytes: int = 64 * 1024**2
    part_elements: int = 1_000_000
    part_depth: int = 256
    """Of nested elements, counted from the answer's root."""
    memory: int = 640 * 1024**2
    """Bytes that a process which reads answers may take beyond what it has at its start."""
    section: str = "harvester"

    def failure(self, code: FailureCode, limit: int, **facts: int) -> Failure:
        """The failure of an answer that is beyond a limit, with the setting that raises it."""
        setting = f"{self.section}.{_SETTINGS[code]}"
        return Failure(code=code, facts={"limit": limit, **facts, "setting": setting})


DEFAULT_LIMITS: Final = AnswerLimits()
