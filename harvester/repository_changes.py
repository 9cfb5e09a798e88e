"""What a person decides about a repository, checked in one place for the command line, the pages and the API.

The folder of its files is not among it: the records' rows name files below that folder.
"""

from typing import Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from sqlalchemy.orm import Session

from harvester.models import Repository
from harvester.protocols import protocol_of
from harvester.repositories import check_base_url, get_repository, name_repository
from harvester.vocabulary import DeletionPolicy
from oai.errors import UsageError

_ONE_LINE: Final = r"^[^\x00-\x1f]*$"

RepositoryName = Annotated[str, Field(max_length=500, pattern=_ONE_LINE)]
BaseUrl = Annotated[str, Field(min_length=1, max_length=2000, pattern=_ONE_LINE)]
DeletionsShare = Annotated[float, Field(ge=0, le=100)]
"""Per cent of the records that one run may delete."""
UpdatesShare = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Per cent of the records that one run may change."""

_WANTED: Final = {
    "repository_name": "name of a repository; give one line of at most 500 characters",
    "base_url": "base URL; give one line of at most 2000 characters",
    "deletion_policy": "policy for deletions; give remove, mark or move",
    "brake_deletions": "percentage; give a number from 0 to 100, such as 20, or `default`",
    "brake_updates": "percentage; give a number such as 20, or `default`",
}


class _Decided(BaseModel):
    """The columns of `oai_repository` that a person decides on, those that are given."""

    model_config = ConfigDict(extra="forbid", str_strip_whitespace=True, use_enum_values=True)

    repository_name: RepositoryName | None = None
    base_url: BaseUrl = ""
    deletion_policy: DeletionPolicy = DeletionPolicy.REMOVE
    brake_deletions: DeletionsShare | None = None
    brake_updates: UpdatesShare | None = None

    @field_validator("repository_name")
    @classmethod
    def _blank_is_none(cls, value: str | None) -> str | None:
        return value or None


def change_repository(session: Session, repository_id: int, **columns: Any) -> Repository:  # noqa: ANN401 each column's own type
    """Change columns of a repository; None for the name or a brake takes it back. The caller commits.

    A name that is given stays when the repository is asked for its own; taken back, its own follows.
    A harvest that runs goes on as it began. Raises UsageError for an unknown repository, a value that cannot
    be, and an address of another protocol than the repository's; then nothing is changed.
    """
    decided = _checked(columns)
    repository = get_repository(session, repository_id)
    if "base_url" in decided:
        check_base_url(decided["base_url"], protocol_of(decided["base_url"], repository.protocol))
    if "repository_name" in decided:
        name_repository(repository, decided.pop("repository_name"))
    for name, value in decided.items():
        setattr(repository, name, value)
    session.flush()
    return repository


def _checked(columns: dict[str, Any]) -> dict[str, Any]:
    try:
        return _Decided.model_validate(columns).model_dump(exclude_unset=True)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        name = str(fault["loc"][0])
        if name not in _WANTED:
            kept = ", ".join(_WANTED)
            raise UsageError(f"{name} of a repository cannot be changed; only {kept} can") from None
        raise UsageError(f"{fault['input']!r} is not a valid {_WANTED[name]}") from None
