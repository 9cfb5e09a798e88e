"""Base pydantic models of bodies, queries and responses."""

from datetime import UTC, datetime
from typing import Annotated, Any, Generic, Self, TypeVar

from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, field_validator

from web.site.forms import FormModel, read_time

_Item = TypeVar("_Item")

LARGEST_PAGE = 200


class Out(BaseModel):
    """The base of answers; made from a row or a service's value by its attributes.

    A class that also inherits from a service's dataclass has the dataclass's fields; it repeats those that it
    describes.
    """

    model_config = ConfigDict(from_attributes=True, frozen=True)

    @classmethod
    def from_row(cls, row: object, **own: Any) -> Self:  # noqa: ANN401 of any of its fields
        """Make it from the attributes of a row or of a service's value, except for the fields given here."""
        return cls(**{name: getattr(row, name) for name in cls.model_fields if name not in own}, **own)


class In(FormModel):
    """The base of bodies and queries: a name that is not known is a fault, so that nothing is passed over."""

    model_config = ConfigDict(extra="forbid")


def unchanged() -> Any:  # noqa: ANN401 the default of any field
    """Return the default of a field that, if it is left out, changes nothing; OpenAPI shows no default."""
    return None


def _read_flag(value: object) -> object:
    if value in ("true", "false"):
        return value == "true"
    if isinstance(value, str):
        raise ValueError("use true or false")  # noqa: TRY004 pydantic reads it
    return value


Flag = Annotated[bool, BeforeValidator(_read_flag)]
"""A boolean query parameter."""


def _moment(value: object) -> object:
    # pydantic also accepts numbers as seconds since 1970; the OpenAPI document promises RFC 3339 only.
    # A text is read here: after this function, the strict validation of bodies takes only a `datetime`.
    if not isinstance(value, str):
        return value
    if (read := read_time(value)) is None:
        raise ValueError("use the form 2026-01-31T14:30:00Z")
    return read


Moment = Annotated[AwareDatetime, BeforeValidator(_moment)]
"""A point in time with its time zone."""


class NoQuery(In):
    """No query parameters."""


class Paged(In):
    """Paging of a list."""

    limit: int = Field(50, ge=1, le=LARGEST_PAGE, description="Maximum number of items.")
    cursor: str | None = Field(
        None,
        min_length=1,
        max_length=2000,
        description="Value from `next` of an answer; continues the list from there.",
    )

    @field_validator("*")
    @classmethod
    def _is_convertible(cls, value: object) -> object:
        # Times of queries are compared, not shown: 9999-12-31T23:59:59Z is a usual way to write "no end".
        if isinstance(value, datetime):
            try:
                return value.astimezone(UTC)
            except OverflowError:
                raise ValueError("use a time in the years 1 to 9999 of UTC") from None
        return value


class Page(Out, Generic[_Item]):
    """A page of a list."""

    items: list[_Item]
    next: str | None = Field(description="URL of the next page; null on the last page.")


class Done(Out):
    """The number of changed objects."""

    changed: int
