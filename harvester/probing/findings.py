"""What an examination finds: facts by a code, and the report that holds them; as values and as JSON."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Self

from oai.datestamps import format_datestamp, parse_datestamp


class Grade(StrEnum):
    """What a fact means to whoever harvests."""

    GOOD = "good"
    ODD = "odd"
    """Against the specification or good manners; a harvester can live with it."""
    BAD = "bad"
    """Records may be lost by it."""
    UNKNOWN = "unknown"
    """It could not be found out."""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """One fact: what was looked at, what was found of it, and the values that its sentence has places for.

    `subject` and `found` together name a sentence of `harvester.probing.report`.
    """

    subject: str
    found: str
    values: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The name of its sentence."""
        return f"{self.subject}.{self.found}"


@dataclass(frozen=True, kw_only=True)
class Profile:
    """How the repository is best harvested."""

    metadata_prefix: str = "oai_dc"
    method: int = 0
    """0 ListRecords, 1 ListIdentifiers and GetRecord."""
    slice: str | None = None
    """month or day: a list for each, where tokens cannot be relied on."""
    incremental: bool = True
    """Whether asking for changes only can be relied on."""
    validation: int = 2
    delay: float = 0
    """Seconds between two requests."""
    retries: int = 5
    why: Sequence[str] = ()
    """Names of the facts that it differs from the usual for."""

    def as_json(self) -> dict[str, Any]:
        """As `oai_repository.profile` keeps it."""
        return {**asdict(self), "why": list(self.why)}

    @classmethod
    def from_json(cls, stored: object) -> Self | None:
        """Read it back; None where there is none, or what is there was not written by us."""
        if not isinstance(stored, dict):
            return None
        try:
            return cls(**stored)
        except TypeError:
            return None


@dataclass(frozen=True, kw_only=True)
class Report:
    """An examination: when it was, what it cost, what it found."""

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
        """As `oai_repository.examination` keeps it, and as programs read it."""
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
        """Read it back; None where there is none, or what is there was not written by us."""
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
