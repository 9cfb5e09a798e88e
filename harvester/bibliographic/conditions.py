"""Conditions on the original fields of a record: written on one line, checked, and applied to records.

::

    245$a contains slovník          655$a equals edice           not 245$h exists
    008/35-37 equals cze            650[_7]$2 equals czenas      65X$a matches ^jazyk
    subject contains čeština        language matches ^(cs|cze|ces)$

`equals` and `contains` ignore case, accents and punctuation, but not a sign that belongs to a word (`C++`).
`contains` also finds a part of a word. `matches` is a regular expression of google-re2, to which all these
count.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from harvester.bibliographic.record import RawField
from harvester.bibliographic.text import fold
from harvester.rules.rule_expressions import Expression, ExpressionError
from oai.errors import Phrase, UsageError

_LINE: Final = re.compile(
    r"(?P<not>not\s+)?(?P<field>[A-Za-z0-9]+)"
    r"(?:/(?P<first>\d{1,2})(?:-(?P<last>\d{1,2}))?)?"
    r"(?:\[(?P<indicators>[0-9a-z_#*]{2})\])?"
    r"(?:\$(?P<subfield>[!-~]))?"
    r"\s+(?P<operator>equals|contains|matches|exists)(?:\s+(?P<value>.*))?",
    re.DOTALL,
)
_MARC: Final = re.compile(r"LDR|[0-9X]{3}")
_SIGNS: Final = frozenset("#+*&@%")
_SIGNS_OF_WORDS: Final = re.compile(r"((?<=[\w\u0300-\u036f])[#+*&@%]++|(?<![#+*&@%])[#+*&@%]++(?=\w))")
"""Signs that belong to a word, as in `C#` and `R&D`; between blanks, they are punctuation of ISBD."""
Matching = Callable[[Expression, str], bool]
"""Returns whether an expression occurs in a value; may raise TooMuchError."""
_EXAMPLE: Final = Phrase("write it as `245$a contains slovník`, `008/35-37 equals cze` or `not 655 exists`")


class Operator(StrEnum):
    """How a value is compared."""

    EQUALS = "equals"
    CONTAINS = "contains"
    MATCHES = "matches"
    EXISTS = "exists"


class Match(StrEnum):
    """How conditions are combined."""

    ANY = "any"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A condition; `parse_condition` parses it from a line, `str` formats it."""

    field: str
    operator: Operator
    value: str = ""
    subfield: str = ""
    indicators: str = ""
    first_character: int | None = None
    last_character: int | None = None
    inverted: bool = False
    _expression: Expression | None = dataclasses.field(init=False, repr=False, compare=False, default=None)
    _folded: str = dataclasses.field(init=False, repr=False, compare=False, default="")
    _words: str = dataclasses.field(init=False, repr=False, compare=False, default="")
    """The folded value with the signs of its words."""

    def __post_init__(self) -> None:
        """Raise UsageError if the condition cannot hold for any record."""
        if self.operator is Operator.MATCHES:
            try:
                expression = Expression(pattern=self.value, ignore_case=False)
            except ExpressionError as error:
                raise UsageError(
                    "condition %(condition)s: %(error)s", condition=repr(str(self)), error=error
                ) from None
            object.__setattr__(self, "_expression", expression)
        elif self.operator is not Operator.EXISTS and not fold(self.value):
            raise UsageError(
                "condition %(condition)s: %(operator)s needs a value; %(example)s",
                condition=repr(str(self)), operator=self.operator, example=_EXAMPLE,
            )  # fmt: skip
        if self.first_character is not None and (self.last_character or 0) < self.first_character:
            raise UsageError(
                "condition %(condition)s: the last position is before the first", condition=repr(str(self))
            )
        folded = fold(self.value)
        object.__setattr__(self, "_folded", folded)
        object.__setattr__(self, "_words", _with_signs(self.value, folded))

    @property
    def place(self) -> str:
        """Field, positions, indicators and subfield, as conditions are written."""
        places = (
            "" if self.first_character is None else f"/{self.first_character:02}-{self.last_character:02}"
        )
        marks = f"[{self.indicators}]" if self.indicators else ""
        code = f"${self.subfield}" if self.subfield else ""
        return f"{self.field}{places}{marks}{code}"

    def __str__(self) -> str:
        """Return the condition as one line."""
        line = f"{'not ' if self.inverted else ''}{self.place} {self.operator}"
        return line if self.operator is Operator.EXISTS else f"{line} {self.value}"

    def accepts(self, fields: Iterable[RawField], matching: Matching = Expression.matches) -> bool:
        """Return whether a field of the record satisfies the condition; if inverted, whether none does."""
        return any(self._is_so(found, matching) for found in fields) is not self.inverted

    def _is_so(self, found: RawField, matching: Matching) -> bool:
        return self._named(found) and any(
            self._compared(self._cut(value), matching)
            for code, value in found.values
            if not self.subfield or code == self.subfield
        )

    def _named(self, found: RawField) -> bool:
        if len(found.name) != len(self.field) or not all(
            wanted in {"X", has} or wanted.lower() == has.lower()
            for wanted, has in zip(self.field, found.name, strict=True)
        ):
            return False
        return not self.indicators or all(
            wanted == "*" or has == (" " if wanted in "_#" else wanted)
            for wanted, has in zip(self.indicators, found.indicators.ljust(2), strict=True)
        )

    def _cut(self, value: str) -> str:
        if self.first_character is None:
            return value
        return value[self.first_character : (self.last_character or 0) + 1]

    def _compared(self, value: str, matching: Matching) -> bool:
        if self.operator is Operator.EXISTS:
            return bool(value.strip())
        if self._expression is not None:
            return matching(self._expression, value)
        folded = fold(value)
        if self.operator is Operator.EQUALS:
            return folded == self._folded and _with_signs(value, folded) == self._words
        found = self._folded in folded
        return found and (self._words == self._folded or self._words in _with_signs(value, folded))


def _with_signs(text: str, folded: str) -> str:
    """Return the folded text with the signs that belong to its words."""
    if _SIGNS.isdisjoint(text):
        return folded
    parts = _SIGNS_OF_WORDS.split(text)  # every second one is a sign, or several
    return "".join(f"{part} " if place % 2 else fold(part) for place, part in enumerate(parts)).strip()


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """A combination of conditions."""

    match: Match
    conditions: Sequence[Condition]

    def accepts(self, fields: Sequence[RawField], matching: Matching = Expression.matches) -> bool:
        """Return whether the record is accepted; without conditions, every record is."""
        return self.joined(condition.accepts(fields, matching) for condition in self.conditions)

    def joined(self, held: Iterable[bool]) -> bool:
        """Return whether a record is accepted for which the conditions hold or not, in their order."""
        if not self.conditions:
            return True
        return all(held) if self.match is Match.ALL else any(held)


def parse_condition(line: str) -> Condition:
    """Parse a condition. Raises UsageError, which says what to write instead."""
    found = _LINE.fullmatch(line.strip())
    if found is None:
        raise UsageError("%(line)s is not a condition; %(example)s", line=repr(line), example=_EXAMPLE)
    given = found.groupdict()
    if given["operator"] == Operator.EXISTS and given["value"]:
        raise UsageError("condition %(condition)s: `exists` does not take a value", condition=repr(line))
    first = None if given["first"] is None else int(given["first"])
    condition = Condition(
        field=given["field"],
        operator=Operator(given["operator"]),
        value=(given["value"] or "").strip(),
        subfield=given["subfield"] or "",
        indicators=(given["indicators"] or "").replace("#", "_"),
        first_character=first,
        last_character=first if given["last"] is None else int(given["last"]),
        inverted=given["not"] is not None,
    )
    marc = condition.field.upper()
    return replace(condition, field=marc) if _MARC.fullmatch(marc) else condition
