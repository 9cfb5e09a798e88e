"""A filter rule in words: fields found in stored records, operators, and values."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harvester.rule_lab.fields import FoundField
from harvester.rule_lab.operators import FIRST_ONLY, WITHOUT_VALUE, YEARS, Condition, Operator, condition_of
from harvester.rule_lab.rows import RuleRows
from harvester.rules.filters import FilterMatch
from web.rules.forms import numbers
from web.site.i18n import _

CONDITIONS: Final = "conditions"
"""The name of this view in the editor's form."""
_NUMBERED: Final = re.compile(r"(field|operator|value)-(\d{1,3})")
_YEAR: Final = re.compile(r"[0-9]{1,4}")


def operators() -> dict[str, str]:
    """Return what each operator says, with a place for its value."""
    return {
        Operator.EQUALS: _("is %(value)s"),
        Operator.DIFFERS: _("is not %(value)s"),
        Operator.PRESENT: _("is present"),
        Operator.ABSENT: _("is missing"),
        Operator.SINCE: _("is of %(value)s or later"),
        Operator.UNTIL: _("is of %(value)s or earlier"),
        Operator.CONTAINS: _("contains %(value)s"),
        Operator.LACKS: _("does not contain %(value)s"),
        Operator.BEGINS: _("begins with %(value)s"),
        Operator.ONE_OF: _("is one of: %(value)s"),
        Operator.MATCHES: _("matches the regular expression %(value)s"),
        Operator.FIRST_SINCE: _("has %(value)s or later in the first four characters of its first value"),
        Operator.FIRST_UNTIL: _("has %(value)s or earlier in the first four characters of its first value"),
    }


def choices(values: Mapping[str, object]) -> dict[str, str]:
    """Return the operators to choose from, in the order of need; the value stands beside them.

    The operators that only rules of earlier versions have are among them if the form has them.
    """
    order = (
        Operator.CONTAINS, Operator.EQUALS, Operator.BEGINS, Operator.ONE_OF, Operator.SINCE, Operator.UNTIL,
        Operator.PRESENT, Operator.ABSENT, Operator.LACKS, Operator.DIFFERS, Operator.MATCHES,
    )  # fmt: skip
    labels = operators()
    old = sorted(FIRST_ONLY & set(values.values()))
    return {one: (labels[one] % {"value": "…"}) for one in (*order, *old)}


@dataclass(frozen=True, kw_only=True)
class Fields:
    """Fields to choose from."""

    found: Sequence[FoundField] = ()
    options: Sequence[tuple[str, str]] = ()
    """XPath, and what it is called with examples."""
    spaces: Mapping[str, str] = field(default_factory=dict)
    """Namespaces of the XPaths, as values of the form."""

    def beside(self, values: Mapping[str, object]) -> "Fields":
        """Return these fields with those, and the namespaces, that the form has already."""
        spaces = {
            str(values[f"prefix-{number}"]): str(values.get(f"uri-{number}", ""))
            for number in numbers(values, ("prefix",), blank=0)
            if values.get(f"prefix-{number}")
        }
        options: dict[str, str] = {}
        for one in self.found:
            # A prefix that stands for another namespace in this rule cannot name a field of this one.
            if all(spaces.setdefault(space.prefix, space.uri) == space.uri for space in one.field.namespaces):
                options[one.field.xpath] = " – ".join((one.field.name, " · ".join(one.examples)))  # noqa: RUF001 en dash intended
        for number in used(values):
            xpath = str(values.get(f"field-{number}", ""))
            if xpath:
                options.setdefault(xpath, xpath)
        numbered = {f"prefix-{n}": prefix for n, prefix in enumerate(spaces)}
        numbered |= {f"uri-{n}": uri for n, uri in enumerate(spaces.values())}
        return Fields(found=self.found, options=list(options.items()), spaces=numbered)


def conditions_of(rows: RuleRows) -> dict[str, object] | None:
    """Return the form values of rows as conditions; None if only rows or XML can say it."""
    found = [condition_of(row, rows.match) for row in rows.filters]
    values: dict[str, object] = {"view": CONDITIONS, "match": rows.match.value}
    for number, one in enumerate(found):
        if one is None:
            return None
        values |= {
            f"field-{number}": one.xpath,
            f"operator-{number}": one.operator,
            f"value-{number}": one.value,
        }
    for number, space in enumerate(rows.namespaces):
        values |= {f"prefix-{number}": space.prefix, f"uri-{number}": space.uri}
    return values


@dataclass(frozen=True, kw_only=True)
class Read:
    """Conditions as submitted: the values of the editor's rows, or the errors by field name."""

    values: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)


def read_conditions(values: Mapping[str, str]) -> Read:
    """Return the values that the editor's rows would have."""
    row_values: dict[str, str] = {
        name: value for name, value in values.items() if not _NUMBERED.fullmatch(name) and name != "view"
    }
    xpaths = " ".join(str(values.get(f"field-{number}", "")) for number in used(values))
    for number in numbers(values, ("prefix",), blank=0):
        if f"{values.get(f'prefix-{number}')}:" not in xpaths:
            row_values |= {
                f"prefix-{number}": "",
                f"uri-{number}": "",
            }  # offered with a field that was not chosen
    errors: dict[str, str] = {}
    match = FilterMatch.ALL if values.get("match") == FilterMatch.ALL.value else FilterMatch.ANY
    for number in used(values):
        xpath = values.get(f"field-{number}", "").strip()
        word, value = values.get(f"operator-{number}", ""), values.get(f"value-{number}", "").strip()
        if not xpath and not value:
            continue
        name, fault = _fault(xpath, word, value)
        if fault:
            errors[f"{name}-{number}"] = fault
            continue
        condition = Condition(
            xpath=xpath, operator=Operator(word), value="" if word in WITHOUT_VALUE else value
        )
        try:
            row = condition.row(match)
        except ValueError:
            errors[f"value-{number}"] = _("Use only one kind of quotation marks.")
            continue
        row_values |= {
            f"xpath-{number}": row.xpath,
            f"regexp-{number}": row.regexp,
            f"ignore-{number}": "yes",
        }
    return Read(values=row_values, errors=errors)


def used(values: Mapping[str, object]) -> list[int]:
    """Return the numbers of the conditions that are not empty."""
    return sorted(
        {
            int(found[2])
            for name, value in values.items()
            if value and (found := _NUMBERED.fullmatch(name)) and found[1] != "operator"
        }
    )


def _fault(xpath: str, word: str, value: str) -> tuple[str, str]:
    """Return the part of a condition that is wrong, and what to do; an empty text if nothing is."""
    if not xpath:
        return "field", _("Choose a field.")
    if word not in set(Operator):
        return "operator", _("Choose one of the list.")
    if word in YEARS and not _YEAR.fullmatch(value):
        return "value", _("Enter a year, such as 1990.")
    if not value and word not in WITHOUT_VALUE:
        return "value", _("Enter a value.")
    return "", ""
