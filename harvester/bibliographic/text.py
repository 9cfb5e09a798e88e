"""Text of records: folded for search and sorting, and freed of control characters."""

import re
from typing import Final

from oai.folding import normalised

# Combining marks of the Latin, Greek, Cyrillic, Hebrew and Arabic scripts.
_MARKS: Final = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f"
    "\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]"
)
_LETTERS: Final = str.maketrans(
    {
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "ø": "o",
        "æ": "ae",
        "œ": "oe",
        "þ": "th",
        "\u0131": "i",
        "ħ": "h",
        "ŧ": "t",
    }
)
_NO_WORD: Final = re.compile(r"[\W_]+")
# Characters between a word and its ending, or inside a name, do not separate words.
_INSIDE: Final = re.compile("['\u2019\u02b9-\u02bc\u02be\u02bf\u00ad]")

_SORTED: Final = 200
"""The number of characters of a title used for sorting, because an index entry is limited in size."""
_DIRECTION: Final = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Marks of writing direction, which systems add around punctuation; no letter depends on them."""
_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")


def fold(text: str) -> str:
    """Return the words of the text in lower case, without accents, marks and punctuation.

    >>> fold("Kníhy kacířů se mají číst /")
    'knihy kaciru se maji cist'
    """
    if text.isascii():
        return _NO_WORD.sub(" ", text.replace("'", "")).strip().lower()
    plain = _INSIDE.sub("", normalised("NFKD", text).casefold())
    plain = _MARKS.sub("", normalised("NFKD", plain))
    if not plain.isascii():  # seldom, in Latin script
        plain = normalised("NFC", plain.translate(_LETTERS))
    return _NO_WORD.sub(" ", plain).strip()


def sort_key(title: str) -> str:
    """Return the sort key of a title."""
    return fold(title)[:_SORTED]


def tidy(text: str) -> str:
    r"""Return the text with single blanks, blanks in place of control characters, and no marks of direction.

    >>> tidy("  Praha \x07 : ")
    'Praha :'
    """
    if not text.isprintable():
        text = _CONTROL.sub(" ", _DIRECTION.sub("", text))
    return " ".join(text.split())


def has_controls(text: str) -> bool:
    """Return whether the text contains control characters."""
    return not text.isprintable() and _CONTROL.search(text) is not None
