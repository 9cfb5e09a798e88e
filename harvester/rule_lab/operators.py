"""Conditions on a field in words: an operator and a value instead of an XPath and a regular expression."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from harvester.rule_lab.rows import FilterRow
from harvester.rules.filters import FilterMatch

_SPECIAL: Final = re.compile(r"([\\.^$*+?{}\[\]()|])")
_ESCAPED: Final = re.compile(r"\\([\\.^$*+?{}\[\]()|])")
_COUNTED: Final = re.compile(r"count\((?P<xpath>.+)\)", re.DOTALL)
_BEGINNING: Final = "substring(normalize-space(.), 1, 4)"
_HAS_YEAR: Final = f"translate({_BEGINNING}, '123456789', '000000000') = '0000' and {_BEGINNING}"
"""XPath: the value begins with four digits, which are compared. `12.3.2010` is not the year 12."""
_YEAR: Final = re.compile(
    rf"count\((?P<xpath>.+)\[{re.escape(_HAS_YEAR)} (?P<sign>>=|<=) (?P<year>[0-9]{{1,4}})\]\)", re.DOTALL
)
_FIRST_YEAR: Final = re.compile(
    r"number\(substring\((?P<xpath>.+), 1, 4\)\) (?P<sign>>=|<=) (?P<year>[0-9]{1,4})", re.DOTALL
)
_NODE: Final = r"translate\(\., '\w*', '\w*'\)"
_QUOTED: Final = r"""(?:'[^']*'|"[^"]*")"""
_EQUAL: Final = f"{_NODE} = {_QUOTED}"
_TEST: Final = re.compile(
    rf"count\((?P<xpath>.+)\[(?:(?P<function>contains|starts-with)\({_NODE}, (?P<text>{_QUOTED})\)"
    rf"|(?P<equal>{_EQUAL}(?: or {_EQUAL})*))\]\)",
    re.DOTALL,
)
_LITERAL: Final = re.compile(rf"\) = ({_QUOTED})")
_PRESENT: Final = "^[1-9]"
_ABSENT: Final = "^0$"
_TRUE: Final = "^true$"


class Operator(StrEnum):
    """What a condition says about its field."""

    EQUALS = "equals"
    PRESENT = "present"
    ABSENT = "absent"
    DIFFERS = "differs"
    SINCE = "since"
    UNTIL = "until"
    CONTAINS = "contains"
    LACKS = "lacks"
    BEGINS = "begins"
    ONE_OF = "one of"
    MATCHES = "matches"
    """The value is a regular expression."""
    FIRST_SINCE = "first since"
    """Read from rules of earlier versions only: their XPath ignores all values except the first."""
    FIRST_UNTIL = "first until"


WITHOUT_VALUE: Final = frozenset({Operator.PRESENT, Operator.ABSENT})
FIRST_ONLY: Final = frozenset({Operator.FIRST_SINCE, Operator.FIRST_UNTIL})
"""Operators of rules that earlier versions wrote; new conditions have others."""
YEARS: Final = frozenset({Operator.SINCE, Operator.UNTIL, *FIRST_ONLY})
"""Operators whose value is a year."""
_SINCE: Final = frozenset({Operator.SINCE, Operator.FIRST_SINCE})
_POSITIVE: Final = {Operator.DIFFERS: Operator.EQUALS, Operator.LACKS: Operator.CONTAINS}
"""What operators deny."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition on the values of a field: one of them meets it, or, if it denies something, none does.

    Only `matches` is as filters are: with `FilterMatch.ALL`, it holds if the expression matches every value.
    """

    xpath: str
    operator: Operator
    value: str = ""
    """What the operator needs; several values are separated by ` | `."""

    def row(self, match: FilterMatch) -> FilterRow:
        """Return the filter row with this meaning in a file whose filters match so.

        Raises ValueError if the value has both kinds of quotation marks where an XPath has to contain it.
        """
        xpath, regexp = self.xpath, self._regexp()
        if self.operator in WITHOUT_VALUE:
            xpath = f"count({xpath})"
        elif self.operator in FIRST_ONLY:
            xpath = f"number(substring({xpath}, 1, 4)) {self._bound()}"
        elif self.operator in YEARS:
            xpath = f"count({xpath}[{_HAS_YEAR} {self._bound()}])"
        elif self.operator in _POSITIVE:
            # Not an inverted expression, which would drop records without the field.
            xpath, regexp = f"count({xpath}[{self._test()}])", _ABSENT
        elif match is FilterMatch.ALL and self.operator is not Operator.MATCHES:
            # An expression would have to match every value.
            xpath, regexp = f"count({xpath}[{self._test()}])", _PRESENT
        return FilterRow(xpath=xpath, regexp=regexp, ignore_case=True)

    def _regexp(self) -> str:
        if self.operator in YEARS:
            return _TRUE if self.operator in FIRST_ONLY else _PRESENT
        parts = "|".join(_escaped(one) for one in self.value.split(" | "))
        return {
            Operator.PRESENT: _PRESENT,
            Operator.ABSENT: _ABSENT,
            Operator.ONE_OF: f"^({parts})$",
            Operator.CONTAINS: _escaped(self.value),
            Operator.BEGINS: f"^{_escaped(self.value)}",
            Operator.MATCHES: self.value,
        }.get(self.operator, f"^{_escaped(self.value)}$")

    def _bound(self) -> str:
        """Return what is required of a year, in XPath."""
        return f"{'>=' if self.operator in _SINCE else '<='} {self.value}"

    def _test(self) -> str:
        """Return the condition on one value, in XPath."""
        operator = _POSITIVE.get(self.operator, self.operator)
        values = self.value.split(" | ") if operator is Operator.ONE_OF else [self.value]
        if operator in {Operator.EQUALS, Operator.ONE_OF}:
            return " or ".join(f"{_lowered(one)} = {_literal(one)}" for one in values)
        function = "contains" if operator is Operator.CONTAINS else "starts-with"
        return f"{function}({_lowered(self.value)}, {_literal(self.value)})"


def condition_of(row: FilterRow, match: FilterMatch) -> Condition | None:
    """Return the row as a condition; None if only an XPath and an expression can say it."""
    candidates = (_tested(row), _special(row), _on_values(row), _expression(row))
    # A row written by hand may look like a condition without being the one that would be written for it.
    return next((one for one in candidates if one is not None and _writes(one, row, match)), None)


def _writes(condition: Condition, row: FilterRow, match: FilterMatch) -> bool:
    try:
        return condition.row(match) == row
    except ValueError:
        return False


def _tested(row: FilterRow) -> Condition | None:
    """Return a condition whose value is in the XPath."""
    found = _TEST.fullmatch(row.xpath)
    if found is None:
        return None
    values = [one[1:-1] for one in _LITERAL.findall(found["equal"] or "")] or [found["text"][1:-1]]
    operator = Operator.ONE_OF if len(values) > 1 else Operator.EQUALS
    if found["function"]:
        operator = Operator.CONTAINS if found["function"] == "contains" else Operator.BEGINS
    if row.regexp == _ABSENT:
        denied = next((one for one, positive in _POSITIVE.items() if positive is operator), None)
        if denied is None:
            return None
        operator = denied
    return Condition(xpath=found["xpath"], operator=operator, value=" | ".join(values))


def _special(row: FilterRow) -> Condition | None:
    """Return a condition on the number of values, or on a year."""
    # Before the number of values, because such a condition counts, too.
    if (year := _YEAR.fullmatch(row.xpath)) and row.regexp == _PRESENT:
        operator = Operator.SINCE if year["sign"] == ">=" else Operator.UNTIL
        return Condition(xpath=year["xpath"], operator=operator, value=year["year"])
    if (counted := _COUNTED.fullmatch(row.xpath)) and row.regexp in {_PRESENT, _ABSENT}:
        operator = Operator.PRESENT if row.regexp == _PRESENT else Operator.ABSENT
        return Condition(xpath=counted["xpath"], operator=operator)
    if (year := _FIRST_YEAR.fullmatch(row.xpath)) and row.regexp == _TRUE:
        operator = Operator.FIRST_SINCE if year["sign"] == ">=" else Operator.FIRST_UNTIL
        return Condition(xpath=year["xpath"], operator=operator, value=year["year"])
    return None


def _on_values(row: FilterRow) -> Condition | None:
    """Return a condition whose value is in the regular expression."""
    begins, ends = row.regexp.startswith("^"), row.regexp.endswith("$")
    inner = row.regexp[begins : len(row.regexp) - ends]
    if begins and ends and inner.startswith("(") and inner.endswith(")"):
        parts = inner[1:-1].split("|")
        if all(map(_is_plain, parts)):
            value = " | ".join(map(_plain, parts))
            return Condition(xpath=row.xpath, operator=Operator.ONE_OF, value=value)
    if not inner or not _is_plain(inner) or begins < ends:
        return None
    operator = Operator.EQUALS if ends else Operator.BEGINS if begins else Operator.CONTAINS
    return Condition(xpath=row.xpath, operator=operator, value=_plain(inner))


def _expression(row: FilterRow) -> Condition | None:
    return Condition(xpath=row.xpath, operator=Operator.MATCHES, value=row.regexp) if row.regexp else None


def _lowered(text: str) -> str:
    """Return the value of a node in XPath, with those letters in lower case that the text has."""
    pairs = {
        (letter.upper(), letter)
        for letter in text.lower()
        if letter.isalpha() and len(letter.upper()) == 1 and letter.upper() != letter
    }
    upper, lower = ("".join(one[side] for one in sorted(pairs)) for side in (0, 1))
    return f"translate(., '{upper}', '{lower}')"


def _literal(text: str) -> str:
    text = text.lower()
    if "'" in text and '"' in text:
        raise ValueError(f"{text!r} has both kinds of quotation marks")
    return f'"{text}"' if "'" in text else f"'{text}'"


def _escaped(text: str) -> str:
    """Return a regular expression that matches this text."""
    return _SPECIAL.sub(r"\\\1", text)


def _plain(escaped: str) -> str:
    return _ESCAPED.sub(r"\1", escaped)


def _is_plain(regexp: str) -> bool:
    """Return whether the expression matches one text only."""
    return _escaped(_plain(regexp)) == regexp
