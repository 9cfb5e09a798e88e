"""Text without accents and case, for search and order: the same in the database and in Python.

PostgreSQL folds alone, without its extension `unaccent`, which a database's owner may not be allowed to add:
letters are decomposed (Unicode Standard Annex 15, NFKD) and lose their combining marks.
"""

import re
import unicodedata
from collections import defaultdict
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, and_, func, literal, literal_column

_MARKS: Final = "\u0300-\u036f"
_MARK: Final = re.compile(f"[{_MARKS}]")
_LONG_RUN: Final = re.compile(r"[\W\uff9e\uff9f]{31,}")
"""What may hold too many marks in a row: no mark is a letter, except those two of halfwidth Katakana."""
_MOST_MARKS: Final = 30
_JOINER: Final = "\u034f"
_SIFTED: Final = 20
"""Characters of the wanted words in the regular expression: its size is limited."""


def normalised(form: Literal["NFC", "NFKD"], text: str) -> str:
    """Return the text in a normalisation form of Unicode, in linear time.

    Normalising sorts the combining marks of a letter in quadratic time. So U+034F separates those after the
    30th, which no language needs (Unicode Standard Annex 15, section 13, Stream-Safe Text Format).
    """
    return unicodedata.normalize(form, _LONG_RUN.sub(_separated, text))  # noqa: TID251 the marks are limited


def _separated(found: re.Match[str]) -> str:
    parts: list[str] = []
    marks = 0
    for character in found[0]:
        decomposed = unicodedata.normalize("NFKD", character)  # noqa: TID251 of one character
        marks = marks + 1 if unicodedata.combining(decomposed[0]) else 0
        if marks > _MOST_MARKS:
            parts.append(_JOINER)
            marks = 1
        parts.append(character)
    return "".join(parts)


def folded(text: str) -> str:
    """Return the text in lower case without accents.

    >>> folded("Žluťoučký kůň")
    'zlutoucky kun'
    """
    return text.lower() if text.isascii() else _MARK.sub("", normalised("NFKD", text)).lower()


def _spellings() -> dict[str, str]:
    """Return the Latin, Greek and Cyrillic letters by what they are folded to."""
    found: dict[str, str] = defaultdict(str)
    for letter in map(chr, (*range(0xC0, 0x530), *range(0x1E00, 0x2000))):
        if letter.isalpha():
            found[folded(letter)] += letter
    return found


_SPELLINGS: Final = _spellings()


def folded_sql(expression: str) -> str:
    """Return SQL: the text of an expression in lower case without accents."""
    return f"lower(regexp_replace(normalize({expression}, NFKD), '[{_MARKS}]', '', 'g'))"


def folded_column(column: Any) -> ColumnElement[str]:  # noqa: ANN401 an SQL expression
    """Return an SQL expression: the text of a column in lower case without accents."""
    decomposed = func.normalize(column, literal_column("NFKD"))
    return func.lower(func.regexp_replace(decomposed, f"[{_MARKS}]", "", "g"))


def contains_folded(column: Any, words: str) -> ColumnElement[bool]:  # noqa: ANN401 an SQL expression
    """Return the SQL condition that a text contains the words, whatever their case and accents."""
    # Folding takes several times as long as the regular expression, which leaves few texts to be folded.
    sifted = column.op("~*")("".join(map(_pattern, words[:_SIFTED])))
    return and_(sifted, func.strpos(folded_column(column), folded_column(literal(words))) > 0)


def _pattern(character: str) -> str:
    """Return a regular expression of PostgreSQL for what is folded like a character."""
    plain = folded(character)
    if len(plain) == 1 and plain.isalnum():
        return f"[{plain}{_SPELLINGS.get(plain, '')}][{_MARKS}]*"
    return ".*" if plain else ""
