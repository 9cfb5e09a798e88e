"""Takes off the punctuation that ISBD puts between the parts of a description, and mends blanks."""

import re
from typing import Final

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
