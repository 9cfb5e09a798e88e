"""What a reader types becomes a PostgreSQL full-text query.

A word finds every word that begins with it, whatever its accents and case. Czech and Slovak words change
their endings: of a word of five letters and more that ends with a vowel, the vowel need not be there, so
that `kniha` finds `knihy`, too. Words of one or two letters, and words in quotation marks, are found only
whole; a phrase in quotation marks in its order. `-word` leaves records out, `or` joins alternatives. Numbers
such as an ISBN are found in any spelling.
"""

import re
from typing import Final

from harvester.bibliographic.folding import fold
from harvester.bibliographic.standard_numbers import find_isbn, find_issn

_PIECE: Final = re.compile(r'(?P<not>(?<!\S)-)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s"]+))')
_NUMBER: Final = re.compile(r"[\dXx][\dXx\s\u2010-\u2015-]{6,16}[\dXx]")
_OR: Final = frozenset({"or", "nebo", "alebo"})
_WHOLE: Final = 2
"""Words of so many letters are found whole: too many words begin with them."""
_LONG: Final = 5
_VOWELS: Final = frozenset("aeiouy")
_MOST: Final = 40
"""Pieces of a query that count."""


def full_text(query: str) -> str:
    """The query for `to_tsquery('simple', …)`; empty where there is no word in it.

    >>> full_text('slovník "stará čeština" -latin')
    'slovnik:* & (stara <-> cestina) & !latin:*'
    """
    groups: list[list[str]] = [[]]
    for found in list(_PIECE.finditer(_with_numbers(query)))[:_MOST]:
        word = found["word"]
        if word is not None and word.lower() in _OR and not found["not"]:
            groups.append([])
            continue
        term = _phrase(found["phrase"] or "") if word is None else _word(word)
        if term:
            groups[-1].append(f"!{term}" if found["not"] else term)
    joined = [" & ".join(group) for group in groups if group]
    return joined[0] if len(joined) == 1 else " | ".join(f"({one})" for one in joined)


def _with_numbers(query: str) -> str:
    """The query with each ISBN and ISSN as the one word that records have it as."""
    return _NUMBER.sub(lambda found: _number(found[0]), query)


def _number(text: str) -> str:
    isbn = find_isbn(text)
    if isbn and isbn[1] and len(re.sub(r"[^\dXx]", "", text)) in {10, 13}:
        return isbn[0].lower()
    issn = find_issn(text)
    return (
        issn[0].replace("-", "").lower()
        if issn and issn[1] and len(text.strip()) <= len("1234-5678")
        else text
    )


def _word(text: str) -> str:
    """A word; several where signs stand inside, which are one phrase then."""
    words = fold(text).split()
    if not words:
        return ""
    return _joined([*words[:-1], _beginning(words[-1])])


def _beginning(word: str) -> str:
    """What words are to begin with, to be found."""
    if len(word) <= _WHOLE:
        return word
    stem = word[:-1] if len(word) >= _LONG and word[-1] in _VOWELS else word
    return f"{stem}:*"


def _phrase(text: str) -> str:
    return _joined(fold(text).split())


def _joined(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"({' <-> '.join(words)})" if words else ""
