"""Failures as data: a code and its facts, from which sentences are made where people read them.

Rows keep the code and the facts, and programs compare those; a sentence is never read back by a program.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final


class FailureCode(StrEnum):
    """What failed. The values are stored in rows and stay."""

    ANSWER_BYTES = "answer_bytes"
    """An answer has more bytes than are accepted; facts: limit, setting."""
    ANSWER_RATIO = "answer_ratio"
    """A compressed answer unpacks to too many times its size; facts: limit, sent, unpacked, setting."""
    PART_BYTES = "part_bytes"
    """One record, or one part around the records, is too large; facts: limit, offset, setting."""
    PART_ELEMENTS = "part_elements"
    """One record, or one part around the records, has too many elements; facts: limit, offset, setting."""
    PART_DEPTH = "part_depth"
    """Elements are nested too deeply; facts: limit, offset, setting."""
    MEMORY = "memory"
    """A process that reads answers met its memory limit; facts: limit, setting."""
    EMPTY_PAGES = "empty_pages"
    """Too many pages in a row have no record; facts: pages, setting."""
    NO_NEW_RECORDS = "no_new_records"
    """Too many pages in a row repeat records of the same list; facts: pages, setting."""
    LIST_IN_CIRCLES = "list_in_circles"
    """A resumption token leads back to a page that the list has had already; facts: token."""
    RECOVERY_TIME = "recovery_time"
    """Working around faults took longer than a run may spend on it; facts: limit, setting."""
    WAITING_TIME = "waiting_time"
    """The repository asked to wait again and again and sent no page; facts: limit, setting."""


SENTENCES: Final[Mapping[FailureCode, str]] = MappingProxyType(
    {
        FailureCode.ANSWER_BYTES: (
            "the answer is larger than %(limit)s bytes; to accept it, raise %(setting)s"
        ),
        FailureCode.ANSWER_RATIO: (
            "the answer unpacks from %(sent)s to more than %(unpacked)s bytes, over %(limit)s times its"
            " size; to accept it, raise %(setting)s"
        ),
        FailureCode.PART_BYTES: (
            "a part of the answer that begins at byte %(offset)s is larger than %(limit)s bytes; to accept"
            " it, raise %(setting)s"
        ),
        FailureCode.PART_ELEMENTS: (
            "a part of the answer that begins at byte %(offset)s has more than %(limit)s elements; to"
            " accept it, raise %(setting)s"
        ),
        FailureCode.PART_DEPTH: (
            "elements are nested more than %(limit)s deep in a part of the answer that begins at byte"
            " %(offset)s; to accept it, raise %(setting)s"
        ),
        FailureCode.MEMORY: (
            "reading the answer takes more than %(limit)s bytes of memory; to allow it, raise %(setting)s"
        ),
        FailureCode.EMPTY_PAGES: (
            "%(pages)s pages in a row have no records, each with a resumption token; to go on longer, raise"
            " %(setting)s"
        ),
        FailureCode.NO_NEW_RECORDS: (
            "%(pages)s pages in a row have only records that the list has had already; to go on longer,"
            " raise %(setting)s"
        ),
        FailureCode.LIST_IN_CIRCLES: (
            "the list goes in circles: the resumption token %(token)s came a second time with the same"
            " records"
        ),
        FailureCode.RECOVERY_TIME: (
            "working around faults of the repository took more than %(limit)s seconds; to allow more, raise"
            " %(setting)s"
        ),
        FailureCode.WAITING_TIME: (
            "the repository asked to wait for more than %(limit)s seconds in a row without sending a page;"
            " to wait longer, raise %(setting)s"
        ),
    }
)


@dataclass(frozen=True, kw_only=True)
class Failure:
    """What failed, and the facts that its sentence needs; both are stored as they are."""

    code: FailureCode
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Texts and whole numbers, as JSON has them."""

    @property
    def is_limit(self) -> bool:
        """Whether a limit was met that a setting can raise."""
        return "setting" in self.facts

    def sentence(self, translate: Callable[[str], str] = str) -> str:
        """What happened and what to do, in English or as `translate` gives the English sentence."""
        return translate(SENTENCES[self.code]) % {name: _shown(value) for name, value in self.facts.items()}


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else repr(value) if value == "" else str(value)
