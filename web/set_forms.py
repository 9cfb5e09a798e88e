"""The filtering set editor's form: conditions as rows, and the set that they make."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field

from harvester.bibliographic.conditions import Conditions, Match, Operator, parse_condition
from harvester.bibliographic.filtering_sets import NamedSet
from oai.errors import UsageError
from web.forms import FormModel
from web.words import _

_PARTS: Final = ("field", "places", "indicators", "subfield", "operator", "value", "inverted")
_NUMBERED: Final = re.compile(r"(field|places|indicators|subfield|value)-(\d{1,2})")
_LAST_ROW: Final = 99
BLANK_ROWS: Final = 3


class SetForm(FormModel):
    """What a set is called."""

    name: str = Field(min_length=1, max_length=200)
    description: str = Field("", max_length=2000)
    match: Match = Match.ALL


class TrialForm(FormModel):
    """What stored records conditions are tried on."""

    repository: int = Field(ge=1, le=999_999_999)
    samples: int = Field(100, ge=1, le=1000)


@dataclass(frozen=True, kw_only=True)
class Typed:
    """What was typed: the conditions that it makes, or what is wrong, by the names of the fields."""

    rules: Conditions
    errors: Mapping[str, str] = field(default_factory=dict)


def read_conditions(values: Mapping[str, str]) -> Typed:
    """The conditions in the form's rows; rows in which nothing stands are passed over."""
    found, errors = [], {}
    for number in row_numbers(values, blank=0):
        try:
            found.append(parse_condition(_line(values, number)))
        except UsageError as error:
            errors[f"field-{number}"] = str(error)
    if not found and not errors:
        errors["conditions"] = _("Enter at least one condition.")
    match = Match(values["match"]) if values.get("match") in set(Match) else Match.ALL
    return Typed(rules=Conditions(match=match, conditions=found), errors=errors)


def values_of(found: NamedSet) -> dict[str, str]:
    """The form's values for a set."""
    values = {"name": found.name, "description": found.description, "match": found.rules.match.value}
    for number, one in enumerate(found.rules.conditions):
        places = f"{one.first_character}-{one.last_character}" if one.first_character is not None else ""
        given = (one.field, places, one.indicators, one.subfield, one.operator.value, one.value)
        row = dict(zip(_PARTS, (*given, "yes" if one.inverted else ""), strict=True))
        values |= {f"{name}-{number}": text for name, text in row.items() if text}
    return values


def row_numbers(values: Mapping[str, object], *, blank: int = BLANK_ROWS) -> list[int]:
    """The numbers of the rows in which something stands, and of so many empty ones behind them."""
    found = {_NUMBERED.fullmatch(name) for name, value in values.items() if str(value).strip()}
    used = sorted({int(one[2]) for one in found if one is not None})
    first = used[-1] + 1 if used else 0
    return [*used, *range(first, min(first + blank, _LAST_ROW + 1))]


def _line(values: Mapping[str, str], number: int) -> str:
    """A row as the line that `parse_condition` reads."""
    given = {name: values.get(f"{name}-{number}", "").strip() for name in _PARTS}
    operator = given["operator"] or Operator.CONTAINS.value
    place = given["field"]
    if given["places"]:
        place += f"/{given['places']}"
    if given["indicators"]:
        place += f"[{given['indicators']}]"
    if given["subfield"]:
        place += f"${given['subfield'].removeprefix('$')}"
    return f"{'not ' if given['inverted'] else ''}{place} {operator} {given['value']}".strip()
