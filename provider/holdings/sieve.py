"""Which captures of a look-up are wanted: by the text of their fields, and the first of a run of equals.

Expressions are those of RE2, which takes linear time whatever a stranger writes.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import re2

from oai.errors import UsageError
from provider.holdings.found import FIELDS, Found, field_name

_MOST_FILTERS: Final = 20
_LONGEST_NUMBER: Final = 18
_LONGEST_EXPRESSION: Final = 1000
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20

Test = Callable[[Found], bool]


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """Of neighbours whose field is the same, the first is taken."""

    field: str
    characters: int | None = None
    """How many of the field's first characters count; None for all."""

    def run(self, one: Found) -> str:
        """What neighbours are compared by: short, and the same for the same beginning of the field."""
        value = FIELDS[self.field](one)[: self.characters]
        return hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def read_filters(texts: Sequence[str]) -> tuple[Test, ...]:
    """Filters, all of which must hold: `[!]field:expression`, matched with the whole field.

    `=field:text` compares to the letter, `~field:expression` matches at the field's beginning (as pywb does);
    `!` turns each of them round. Raises UsageError for what cannot be read.
    """
    if len(texts) > _MOST_FILTERS:
        raise UsageError(f"{len(texts)} filters exceed the limit of {_MOST_FILTERS}")
    return tuple(map(_filter, texts))


def read_collapse(text: str | None) -> Collapse | None:
    """`field` or `field:n`, by its first n characters; None for none. Raises UsageError for anything else."""
    if not text:
        return None
    name, colon, number = text.partition(":")
    characters = read_number(number)
    if colon and characters is None:
        raise UsageError(f"collapse {text[:100]!r}: write a field, or a field, a colon and a number from 1")
    return Collapse(field=field_name(name), characters=characters)


def read_number(text: str) -> int | None:
    """A number from 1 on; None for anything else, and for one with more digits than anybody can need."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        return None
    return int(text) or None


def _filter(text: str) -> Test:
    wanted = not text.startswith("!")
    rest = text.removeprefix("!")
    kind = rest[0] if rest[:1] in _KINDS else ""
    name, colon, expression = rest.removeprefix(kind).partition(":")
    if not colon:
        raise UsageError(f"filter {text!r} has no field; write it as status:200, or !mime:image/.*")
    read, matches = FIELDS[field_name(name)], _KINDS[kind](expression)
    return lambda one: matches(read(one)) is wanted


def _whole(expression: str) -> Callable[[str], bool]:
    pattern = _compiled(expression)
    return lambda text: pattern.fullmatch(text) is not None


def _beginning(expression: str) -> Callable[[str], bool]:
    pattern = _compiled(expression)
    return lambda text: pattern.match(text) is not None


def _letters(expression: str) -> Callable[[str], bool]:
    return lambda text: text == expression


_KINDS: Final = {"": _whole, "~": _beginning, "=": _letters}


def _compiled(expression: str) -> "re2._Regexp[str]":
    if len(expression) > _LONGEST_EXPRESSION:
        raise UsageError(
            f"an expression of {len(expression):,} characters exceeds the limit of {_LONGEST_EXPRESSION:,}"
        )
    try:
        return re2.compile(expression, _OPTIONS)
    except re2.error as error:
        told = error.args[0]
        reason = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        raise UsageError(f"{expression!r} is not an RE2 regular expression: {reason}") from None
