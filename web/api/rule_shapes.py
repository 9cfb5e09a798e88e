"""What the API takes and tells of rules."""

from datetime import datetime
from typing import Any, Final

from pydantic import Field, ValidationInfo, field_validator

from harvester.plan import LONGEST_SELECTION
from harvester.rule_lab.kinds import RuleKind
from web.api.shapes import In, Out, Paged
from web.rule_trials import LIVE, STORED
from web.words import _

_LONGEST: Final = 1024**2


class RuleQuery(Paged):
    """Which rules."""

    kind: RuleKind | None = Field(None, description="Limit to this kind of rule.")


class RuleOut(Out):
    """A rule, with its last version."""

    rule_id: int
    kind: str = Field(description="filter or normalise.")
    name: str
    description: str
    repository_id: int | None = Field(
        description="Repository that the rule belongs to; null: shared by all users who see all repositories."
    )
    path: str = Field(description="Path of its file below the data folder, as used in schedules.")
    number: int = Field(description="Number of the last version.")
    saved: datetime
    saved_by: str | None
    digest: str = Field(description="SHA-256 of the file, also recorded by the runs that use it.")


class VersionOut(Out):
    """A version of a rule."""

    number: int
    saved: datetime
    saved_by: str | None = Field(description="Null: taken from the file.")
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
        None,
        ge=1,
        le=999_999_999,
        description="The version that was edited; the request is refused if a newer version exists.",
    )


class NewRule(_WithContent):
    """A rule that is to be; its kind is that of the content."""

    name: str = Field(min_length=1, max_length=200)
    content: str = Field(min_length=1, max_length=_LONGEST, description="XML in the UIUC format.")
    description: str = Field("", max_length=2000)
    note: str = Field("", max_length=500)
    repository_id: int | None = Field(
        None, ge=1, le=999_999_999, description="Null for callers who see all repositories: shared by them."
    )


class TrialBody(_WithContent):
    """What is tried on what."""

    content: str | None = Field(None, min_length=1, max_length=_LONGEST, description="Null: the saved rule.")
    repository_id: int = Field(ge=1, le=999_999_999)
    source: str = Field(
        STORED,
        pattern=f"^({STORED}|{LIVE})$",
        description="stored: stored records; live: the first page of the repository.",
    )
    metadata_prefix: str | None = Field(None, min_length=1, max_length=60)
    set_spec: str | None = Field(
        None, min_length=1, max_length=LONGEST_SELECTION, description="Set or query for the live page."
    )
    samples: int = Field(100, ge=1, le=1000)


class TrialOut(Out):
    """What the rule would do with the samples."""

    samples: int
    tried: int
    counts: dict[str, int] = Field(
        description="Number of records by result: accepted, refused, changed, unchanged, limit met."
    )
    rules: list[dict[str, Any]] = Field(description="Results of each filter or new element.")
    never_matched: list[int] = Field(description="Rows that matched none of the samples.")
    unreadable: list[str]
    ended: str = Field(description="Reason why the test ended early; empty if all samples were tested.")
    records: list[dict[str, Any]] = Field(
        description="Each sample with its result, the reasons, and the record before and after."
    )
