"""Results of a diagnosis: facts with codes, and the report that contains them; as values and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from oai.datestamps import format_datestamp, parse_datestamp


class Grade(StrEnum):
    """The meaning of a fact for a harvester."""

    GOOD = "good"
    ODD = "odd"
    """Violates the specification or good practice; a harvester can cope with it."""
    BAD = "bad"
    """May cause the loss of records."""
    UNKNOWN = "unknown"
    """Could not be determined."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One fact: its subject, what was found, and the values of its sentence's placeholders.

    `subject` and `found` together identify a sentence of `harvester.probing.report`.
    """

    subject: str
    found: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Return the key of its sentence."""
        return f"{self.subject}.{self.found}"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How the repository should be harvested."""

    metadata_prefix: str = "oai_dc"
    method: int = 0
    """0: ListRecords; 1: ListIdentifiers and GetRecord."""
    slice: str | None = None
    """month or day: a separate list for each, if resumption tokens are unreliable."""
    incremental: bool = True
    """Whether incremental harvesting is reliable."""
    validation: int = 2
    delay: float = 0
    """Seconds between two requests."""
    retries: int = 5
    why: Sequence[str] = ()
    """Keys of the facts because of which it differs from the default."""

    def as_json(self) -> dict[str, Any]:
        """Return the format of `oai_repository.profile`."""
        return {**asdict(self), "why": list(self.why)}

    @classmethod
    def from_json(cls, stored: object) -> Self | None:
        """Read the stored format; None if there is none, or if it is malformed."""
        if not isinstance(stored, dict):
            return None
        try:
            return cls(**stored)
        except TypeError:
            return None


@dataclass(frozen=True, kw_only=True)
class Report:
    """A diagnosis: its time, its cost, and its results."""

    base_url: str
    examined: datetime
    """UTC."""
    requests: int
    seconds: float
    repository_name: str = ""
    admin_emails: Sequence[str] = ()
    facts: Sequence[Fact]
    profile: Profile

    def as_json(self) -> dict[str, Any]:
        """Return the format of `oai_repository.examination` and of programs' output."""
        return {
            "base_url": self.base_url,
            "examined": format_datestamp(self.examined),
            "requests": self.requests,
            "seconds": round(self.seconds, 2),
            "repository_name": self.repository_name,
            "admin_emails": list(self.admin_emails),
            "facts": [
                {"subject": fact.subject, "found": fact.found, "values": dict(fact.values)}
                for fact in self.facts
            ],
            "profile": self.profile.as_json(),
        }

    @classmethod
    def from_json(cls, stored: object) -> Self | None:
        """Read the stored format; None if there is none, or if it is malformed."""
        if not isinstance(stored, dict):
            return None
        try:
            return cls(
                **{
                    **stored,
                    "examined": parse_datestamp(stored["examined"]).moment,
                    "facts": [Fact(**fact) for fact in stored["facts"]],
                    "profile": Profile(**stored["profile"]),
                }
            )
        except (KeyError, TypeError, ValueError):
            return None
