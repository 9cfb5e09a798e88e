"""The rule editor's form: rows or XML as submitted, and the rule file made from either."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import Field

from harvester.rule_lab.explanation import read_rules
from harvester.rule_lab.rows import (
    ElementRow,
    FilterRow,
    MappingRow,
    Namespace,
    RuleRows,
    row_faults,
    rows_of,
    xml_of,
)
from harvester.rules.filters import FilterMatch
from harvester.rules.rule_files import RuleFileError
from harvester.vocabulary import RuleKind
from web.site.forms import FormModel, empty_is_none
from web.site.i18n import _, error_text

ROWS: Final = "rows"
XML: Final = "xml"
BLANK_ROWS: Final = 3
BLANK_NAMESPACES: Final = 2
_MOST_ROWS: Final = 300
_NUMBERED: Final = re.compile(r"(prefix|uri|xpath|name|regexp|values)-(\d{1,3})")
TEXTS_OF_ROWS: Final = {
    RuleKind.FILTER: ("xpath", "regexp"),
    RuleKind.NORMALISE: ("xpath", "name", "regexp", "values"),
}
"""The columns of text in rows."""
_SOURCE: Final = "the file"


class RuleForm(FormModel):
    """Name and owner of a rule."""

    name: str = Field(min_length=1, max_length=200)
    description: str = Field("", max_length=2000)
    repository_id: int | None = Field(None, ge=1, le=999_999_999)

    _empty_is_none = empty_is_none("repository_id")


@dataclass(frozen=True, kw_only=True)
class Edited:
    """The submitted rule: the resulting file, or the errors by field name."""

    content: bytes = b""
    errors: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    """Line of the fault in the XML; 0 if unknown or without fault."""


def read_edited(values: Mapping[str, str], kind: RuleKind, before: bytes | None) -> Edited:
    """Return the rule file made from the form's values.

    If the rows are equivalent to the file `before`, that file is kept unchanged with its comments.
    """
    if values.get("view") == XML:
        return _from_xml(values.get("content", ""), kind)
    rows, places = _typed_rows(values, kind)
    errors = {
        (f"{one.field}-{places[one.field][one.row]}" if one.field else "rows"): error_text(one.why)
        for one in reversed(row_faults(rows))
    }
    if "rows" in errors and not places["xpath"]:
        errors["rows"] = (
            _("Add at least one condition.")
            if kind is RuleKind.FILTER
            else _("Add at least one new element.")
        )
    if errors:
        return Edited(errors=errors)
    if before is not None and _same_rows(before, rows):
        return Edited(content=before)
    return Edited(content=xml_of(rows))


def values_of(rows: RuleRows) -> dict[str, object]:
    """Return the form values of rows."""
    values: dict[str, object] = {"view": ROWS, "match": rows.match.value}
    for number, one in enumerate(rows.namespaces):
        values |= {f"prefix-{number}": one.prefix, f"uri-{number}": one.uri}
    for number, row in enumerate(rows.filters):
        values |= {f"xpath-{number}": row.xpath, f"regexp-{number}": row.regexp}
        values |= _ticks(number, ignore=row.ignore_case, invert=row.invert)
    number = 0
    for mapping in rows.mappings:
        for place, element in enumerate(mapping.elements):
            values |= {
                f"xpath-{number}": mapping.xpath if not place else "",
                f"name-{number}": element.name,
                f"regexp-{number}": element.regexp,
                f"values-{number}": "\n".join(element.values),
                **_ticks(number, ignore=element.ignore_case),
            }
            number += 1
    return values


def fits_rows(rows: RuleRows) -> bool:
    """Return whether the form can show the rows: a multi-line value would be read as several values."""
    return not any(
        "\n" in value or "\r" in value
        for mapping in rows.mappings
        for element in mapping.elements
        for value in element.values
    )


def numbers(values: Mapping[str, object], names: Sequence[str], *, blank: int) -> range:
    """Return the numbers of the rows to show: the non-empty ones and some blank ones."""
    used = [
        int(found[2])
        for name, value in values.items()
        if value and (found := _NUMBERED.fullmatch(name)) and found[1] in names
    ]
    return range(min(max(used, default=-1) + 1 + blank, _MOST_ROWS))


def _from_xml(text: str, kind: RuleKind) -> Edited:
    content = text.replace("\r\n", "\n").strip().encode() + b"\n"
    try:
        read_rules(content, kind, source=_SOURCE)
    except RuleFileError as error:
        return Edited(errors={"content": placed(error)}, line=error.line)
    return Edited(content=content)


def placed(error: RuleFileError) -> str:
    """Return the error in a rule file, with line and column."""
    if not error.line:
        return error_text(error.why)
    place = {"line": error.line, "column": error.column, "reason": error_text(error.why)}
    return _("Line %(line)s, column %(column)s: %(reason)s") % place


def _typed_rows(values: Mapping[str, str], kind: RuleKind) -> tuple[RuleRows, dict[str, list[int]]]:
    """Return the non-empty rows and, for each field, the numbers that its rows have in the form."""
    spaces = [
        number
        for number in numbers(values, ("prefix", "uri"), blank=0)
        if _text(values, "prefix", number) or _text(values, "uri", number)
    ]
    texts = TEXTS_OF_ROWS[kind]
    used = [
        number
        for number in numbers(values, texts, blank=0)
        if any(_text(values, name, number) for name in texts)
    ]
    namespaces = tuple(
        Namespace(prefix=_text(values, "prefix", number), uri=_text(values, "uri", number))
        for number in spaces
    )
    places = {"prefix": spaces, "uri": spaces, **dict.fromkeys(texts, used)}
    if kind is RuleKind.NORMALISE:
        mappings = tuple(_mappings(values, used))
        return RuleRows(kind=kind, namespaces=namespaces, mappings=mappings), places
    match = FilterMatch.ALL if values.get("match") == FilterMatch.ALL.value else FilterMatch.ANY
    filters = tuple(_filter(values, number) for number in used)
    return RuleRows(kind=kind, namespaces=namespaces, match=match, filters=filters), places


def _filter(values: Mapping[str, str], number: int) -> FilterRow:
    return FilterRow(
        xpath=_text(values, "xpath", number),
        regexp=values.get(f"regexp-{number}", ""),
        ignore_case=f"ignore-{number}" in values,
        invert=f"invert-{number}" in values,
    )


def _mappings(values: Mapping[str, str], used: Sequence[int]) -> list[MappingRow]:
    """Return the mappings; a row without a place belongs to the one above it."""
    found: list[MappingRow] = []
    for number in used:
        element = ElementRow(
            name=_text(values, "name", number),
            regexp=values.get(f"regexp-{number}", ""),
            values=tuple(
                line.strip() for line in values.get(f"values-{number}", "").splitlines() if line.strip()
            ),
            ignore_case=f"ignore-{number}" in values,
        )
        xpath = _text(values, "xpath", number)
        if xpath or not found:
            found.append(MappingRow(xpath=xpath, elements=(element,)))
        else:
            last = found.pop()
            found.append(MappingRow(xpath=last.xpath, elements=(*last.elements, element)))
    return found


def _text(values: Mapping[str, str], name: str, number: int) -> str:
    return values.get(f"{name}-{number}", "").strip()


def _ticks(number: int, **chosen: bool) -> dict[str, object]:
    return {f"{name}-{number}": "yes" for name, ticked in chosen.items() if ticked}


def _same_rows(before: bytes, rows: RuleRows) -> bool:
    try:
        return rows_of(before, rows.kind, source=_SOURCE) == rows
    except RuleFileError:
        return False
