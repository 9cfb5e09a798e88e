"""Text of records: folded for search and sorting, and without ISBD punctuation."""

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


_CONTROL: Final = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff\ufffe\uffff]")
_LEADING: Final = re.compile(r"^(?:[:;,=/+]\s+|\.\s*-\s+|\s)+")
_TRAILING: Final = re.compile(r"(?:\s*[:;,=/+]|\s+\.\s*-|\.\s+-|\s+-|\s)+$")
_SIGNS: Final = ":;,=/+-"
_TRAILED: Final = f"{_SIGNS}. "
"""All that `_TRAILING` may find in a tidy text."""
_STOP: Final = re.compile(r"(?<=[^\W\d_]{3})\.$|(?<=[\d\])])\.$")
_ROUND: Final = re.compile(r"^\((?P<inner>[^()]*)\)$")


def tidy(text: str) -> str:
    r"""The text with single blanks, and blanks for characters that control a device.

    >>> tidy("  Praha \x07 : ")
    'Praha :'
    """
    if not text.isprintable() and _CONTROL.search(text):
        text = _CONTROL.sub(" ", text)
    return " ".join(text.split())


def has_controls(text: str) -> bool:
    """Whether characters that control a device stand in the text."""
    return not text.isprintable() and _CONTROL.search(text) is not None


def clean(text: str, *, stop: bool = False) -> str:
    """The text without ISBD's signs before and after it; with `stop` without a full stop that ends it, too.

    A full stop after one or two letters stays: it may be an initial or an abbreviation.

    >>> clean("O smyslu českých dějin /")
    'O smyslu českých dějin'
    >>> clean("2. vyd. -", stop=True)
    '2. vyd'
    """
    text = tidy(text)
    if text and not text[0].isalnum():
        text = _LEADING.sub("", text)
    if text and text[-1] in _SIGNS:
        # Looked for from the end: from the beginning, the expression is tried at each character.
        found = _TRAILING.search(text, len(text.rstrip(_TRAILED)))
        text = text[: found.start()] if found else text
    return _STOP.sub("", text) if stop and text.endswith(".") else text


def unbracketed(text: str) -> str:
    """The text without round brackets that enclose the whole of it, as around a series."""
    found = _ROUND.match(text)
    return found["inner"].strip() if found else text
