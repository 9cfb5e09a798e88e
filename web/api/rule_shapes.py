"""What the API takes and tells of rules."""

from datetime import datetime
from typing import Any, Final

from pydantic import Field, ValidationInfo, field_validator

from harvester.rule_lab.kinds import RuleKind
from web.api.shapes import In, Out, Paged
from web.planning import LONGEST_SELECTION
from web.rule_trials import LIVE, STORED
from web.words import _

_LONGEST: Final = 1024**2


class RuleQuery(Paged):
    """Which rules."""

    kind: RuleKind | None = Field(None, description="Of this kind only.")


class RuleOut(Out):
    """A rule, with its last version."""

    rule_id: int
    kind: str = Field(description="filter or normalise.")
    name: str
    description: str
    repository_id: int | None = Field(description="Whose it is; null: of those who see all repositories.")
    path: str = Field(description="Its file below the data folder, as schedules name it.")
    number: int = Field(description="Of the last version.")
    saved: datetime
    saved_by: str | None
    digest: str = Field(description="SHA-256 of the file; runs tell the same of the rules that they read.")


class VersionOut(Out):
    """A version of a rule."""

    number: int
    saved: datetime
    saved_by: str | None = Field(description="Null: it was found in the file.")
    note: str
    digest: str
    content: str


class Versions(Out):
    """The versions, the newest first; 200 at most."""

    items: list[VersionOut]


class _WithContent(In):
    """The base of bodies with a rule file, which has lines; what else XML forbids is told with its place."""

    @field_validator("*", mode="before")
    @classmethod
    def _is_plain_text(cls, value: object, info: ValidationInfo) -> object:  # type: ignore[override]
        text = value if isinstance(value, str) else ""
        if info.field_name != "content" and any(character < " " for character in text):
            raise ValueError(_("Remove control characters."))
        return value


class NewVersion(_WithContent):
    """The whole rule file as it is to be."""

    content: str = Field(min_length=1, max_length=_LONGEST, description="XML in the UIUC format.")
    note: str = Field("", max_length=500)
    based_on: int | None = Field(
        None, ge=1, le=999_999_999, description="Refused where a newer version than this one was saved."
    )


class NewRule(_WithContent):
    """A rule that is to be; its kind is that of the content."""

    name: str = Field(min_length=1, max_length=200)
    content: str = Field(min_length=1, max_length=_LONGEST, description="XML in the UIUC format.")
    description: str = Field("", max_length=2000)
    note: str = Field("", max_length=500)
    repository_id: int | None = Field(
        None, ge=1, le=999_999_999, description="Null, for those who see everything: everybody's."
    )


class TrialBody(_WithContent):
    """What is tried on what."""

    content: str | None = Field(
        None, min_length=1, max_length=_LONGEST, description="Null: the rule as it is."
    )
    repository_id: int = Field(ge=1, le=999_999_999)
    source: str = Field(
        STORED, pattern=f"^({STORED}|{LIVE})$", description="stored records, or live: the first page."
    )
    metadata_prefix: str | None = Field(None, min_length=1, max_length=60)
    set_spec: str | None = Field(
        None, min_length=1, max_length=LONGEST_SELECTION, description="Of a live page: the set or query."
    )
    samples: int = Field(100, ge=1, le=1000)


class TrialOut(Out):
    """What the rule would do with the samples."""

    samples: int
    tried: int
    counts: dict[str, int] = Field(description="By accepted, refused, changed, unchanged, limit met.")
    rules: list[dict[str, Any]] = Field(description="For each filter or new element, what it did.")
    never_matched: list[int] = Field(description="Those that never matched any sample.")
    unreadable: list[str]
    ended: str = Field(description="Why not all were tried; empty where they were.")
    records: list[dict[str, Any]] = Field(description="Each sample: its fate, the reasons, before, after.")
