"""The form that plans a harvest, checked field by field."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Self
from zoneinfo import ZoneInfo

from pydantic import Field, ValidationInfo, field_validator, model_validator

from harvester.rules.filtering import load_filters
from harvester.rules.normalising import load_mappings
from manager.frequency import parse_frequency, parse_zone
from oai.errors import ZatvaError
from web.forms import FormModel

PREFIX: Final = r"^[A-Za-z0-9\-_.!~*'()]+$"
_SET: Final = r"^[A-Za-z0-9\-_.!~*'()]+(:[A-Za-z0-9\-_.!~*'()]+)*$"


class ScheduleForm(FormModel):
    """What the page for a new schedule asks for; empty texts mean what the field's hint says."""

    repository_id: int
    metadata_prefix: str = Field(pattern=PREFIX, max_length=200)
    set_spec: str | None = Field(None, pattern=_SET, max_length=1000)
    frequency: str = Field("", max_length=200)
    time_zone: str = "UTC"
    start_date: datetime | None = None
    method: int = Field(0, ge=0, le=1)
    validation: int = Field(2, ge=0, le=2)
    incremental: bool = False
    filter_file_path: str | None = None
    normalize_file_path: str | None = None

    @field_validator("set_spec", "start_date", "filter_file_path", "normalize_file_path", mode="before")
    @classmethod
    def _empty_is_none(cls, value: object) -> object:
        return None if isinstance(value, str) and not value.strip() else value

    @field_validator("frequency")
    @classmethod
    def _frequency_is_known(cls, value: str) -> str:
        if value:
            _as_value_error(parse_frequency, value)
        return value

    @field_validator("time_zone")
    @classmethod
    def _zone_is_known(cls, value: str) -> str:
        _as_value_error(parse_zone, value or "UTC")
        return value or "UTC"

    @field_validator("filter_file_path")
    @classmethod
    def _filters_are_good(cls, value: str | None, info: ValidationInfo) -> str | None:
        return _rule_file(value, info, load_filters)

    @field_validator("normalize_file_path")
    @classmethod
    def _mappings_are_good(cls, value: str | None, info: ValidationInfo) -> str | None:
        return _rule_file(value, info, load_mappings)

    @model_validator(mode="after")
    def _start_is_local(self) -> Self:
        """Give the start the schedule's zone: the field shows a clock on the wall."""
        if self.start_date is not None and self.start_date.tzinfo is None:
            local = self.start_date.replace(tzinfo=ZoneInfo(self.time_zone))
            return self.model_copy(update={"start_date": local})
        return self

    def columns(self) -> dict[str, Any]:
        """The columns for a schedule; a start that was left empty is left to the database's clock."""
        columns = self.model_dump()
        if columns["start_date"] is None:
            del columns["start_date"]
        return columns


def _rule_file(value: str | None, info: ValidationInfo, load: Callable[[Path], object]) -> str | None:
    """The file's absolute path, once its rules have been read; relative ones lie in the data folder."""
    if value is None:
        return None
    path = Path(info.context["data"]) / value if info.context else Path(value)
    _as_value_error(load, path)
    return str(path)


def _as_value_error(check: Callable[[Any], object], value: object) -> None:
    try:
        check(value)
    except ZatvaError as error:
        raise ValueError(str(error)) from None
