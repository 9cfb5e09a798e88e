"""Folds text for search and for sorting: no case, no accents, words with single blanks between."""

import re
import unicodedata
from typing import Final

# Combining marks of Latin, Greek, Cyrillic, Hebrew and Arabic writing.
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
# What stands between a word and its ending, or inside a name, does not part it.
_INSIDE: Final = re.compile("['\u2019\u02bc\u02bb\u02b9\u00ad]")

_SORTED: Final = 200
"""Characters of a title that it is sorted by: an index entry has an end."""


def fold(text: str) -> str:
    """The words of the text in lower case, without accents, marks and punctuation.

    >>> fold("Kníhy kacířů se mají číst /")
    'knihy kaciru se maji cist'
    """
    if text.isascii():
        return _NO_WORD.sub(" ", text.replace("'", "")).strip().lower()
    plain = _INSIDE.sub("", unicodedata.normalize("NFKD", text).casefold())
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", plain)).translate(_LETTERS)
    return _NO_WORD.sub(" ", unicodedata.normalize("NFC", plain)).strip()


def sort_key(title: str) -> str:
    """What a title is sorted by."""
    return fold(title)[:_SORTED]
