"""Text of records: folded for search and sorting, and freed of ISBD punctuation."""

import re
import unicodedata
from typing import Final

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
_INSIDE: Final = re.compile("['\u2019\u02bc\u02bb\u02b9\u00ad]")

_SORTED: Final = 200
"""The number of characters of a title used for sorting, because an index entry is limited in size."""


def fold(text: str) -> str:
    """Return the words of the text in lower case, without accents, marks and punctuation.

    >>> fold("Kníhy kacířů se mají číst /")
    'knihy kaciru se maji cist'
    """
    if text.isascii():
        return _NO_WORD.sub(" ", text.replace("'", "")).strip().lower()
    plain = _INSIDE.sub("", unicodedata.normalize("NFKD", text).casefold())
    plain = _MARKS.sub("", unicodedata.normalize("NFKD", plain)).translate(_LETTERS)
    return _NO_WORD.sub(" ", unicodedata.normalize("NFC", plain)).strip()


def sort_key(title: str) -> str:
    """Return the sort key of a title."""
    return fold(title)[:_SORTED]


_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_LEADING: Final = re.compile(r"^(?:[:;,=/+]\s+|\.\s*-\s+|\s)+")
_TRAILING: Final = re.compile(r"(?:\s*[:;,=/+]|\s+\.\s*-|\.\s+-|\s+-|\s)+$")
_SIGNS: Final = ":;,=/+-"
_TRAILED: Final = f"{_SIGNS}. "
"""All characters that `_TRAILING` may match in a tidied text."""
_STOP: Final = re.compile(r"(?<=[^\W\d_]{3})\.$|(?<=[\d\])])\.$")
_ROUND: Final = re.compile(r"^\((?P<inner>[^()]*)\)$")


def tidy(text: str) -> str:
    r"""Return the text with single blanks, and with blanks in place of control characters.

    >>> tidy("  Praha \x07 : ")
    'Praha :'
    """
    if not text.isprintable() and _CONTROL.search(text):
        text = _CONTROL.sub(" ", text)
    return " ".join(text.split())


def has_controls(text: str) -> bool:
    """Return whether the text contains control characters."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def clean(text: str, *, stop: bool = False) -> str:
    """Return the text without surrounding ISBD punctuation; with `stop`, also without a final full stop.

    A full stop after one or two letters is kept: it may belong to an initial or an abbreviation.

    >>> clean("O smyslu českých dějin /")
    'O smyslu českých dějin'
    >>> clean("2. vyd. -", stop=True)
    '2. vyd'
    """
    text = tidy(text)
    if text and not text[0].isalnum():
        text = _LEADING.sub("", text)
    if text and text[-1] in _SIGNS:
        # Searched from the end, because from the beginning the expression would be tried at each character.
        found = _TRAILING.search(text, len(text.rstrip(_TRAILED)))
        text = text[: found.start()] if found else text
    return _STOP.sub("", text) if stop and text.endswith(".") else text


def unbracketed(text: str) -> str:
    """Return the text without round brackets that enclose all of it, as around a series."""
    found = _ROUND.match(text)
    return found["inner"].strip() if found else text
