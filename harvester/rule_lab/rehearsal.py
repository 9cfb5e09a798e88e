"""What a replay of changed rules would do, as values."""

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What a replay would do with a record."""

    NEW = "new"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    LEFT_OUT_NOW = "left out now"
    """The filter chooses it no longer; what is stored of it stays: a replay removes nothing."""
    LEFT_OUT = "left out"
    """The filter does not choose it, and it is not stored."""
    DELETED = "deleted"
    SUPERSEDED = "superseded"
    """A later harvest has it otherwise; it stays so."""
    LIMIT = "limit met"
    """A rule met a limit, so nobody can tell."""


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A record that would fare so."""

    identifier: str
    why: str = ""
    diff: str = ""
    """Of one that would be updated: from what is stored to what would be."""


@dataclass(kw_only=True)
class Rehearsal:
    """What a replay would do."""

    run: int
    repository_id: int
    counts: Counter[str] = field(default_factory=Counter)
    """By the words of `Outcome`."""
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    """Answers, and parts of answers, that could not be read."""

    @property
    def changes(self) -> int:
        """How many records the replay would write."""
        return sum(self.counts[one.value] for one in (Outcome.NEW, Outcome.UPDATED, Outcome.DELETED))

    def as_json(self) -> dict[str, Any]:
        """The rehearsal for programs."""
        return {
            "run": self.run,
            "repository_id": self.repository_id,
            "counts": {one.value: self.counts[one.value] for one in Outcome},
            "samples": {word: [asdict(one) for one in found] for word, found in self.samples.items()},
            "faults": self.faults,
        }
