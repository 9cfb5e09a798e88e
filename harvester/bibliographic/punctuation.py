"""Punctuation that cataloguing rules (ISBD, AACR2) put between and after the parts of a record, taken off.

Sources: ISBD consolidated edition, A.3; MARC 21 Format for Bibliographic Data, "Punctuation" of each field.
"""

import re
from collections.abc import Iterable
from typing import Final

from harvester.bibliographic.text import fold, tidy
from oai.folding import normalised

_LEADING: Final = re.compile(r"^(?:[:;,=/+\u060c\u061b]\s+|\.\s*-\s+|\s)+")
# Each character is matched by one alternative only: otherwise the work doubles with each sign.
_TRAILING: Final = re.compile(r"(?:[:;,=/\u060c\u061b\s]|(?<=\s)\+|(?<=\s)[-\u2013\u2014]{1,2})+$")
_SIGNS: Final = ":;,=/+-\u2013\u2014\u060c\u061b"
_ROUND: Final = re.compile(r"^\((?P<inner>[^()]*)\)$")
_LAST_WORD: Final = re.compile(r"(?P<before>[\W\d_]{0,2})(?P<word>[^\W\d_]+)$")
_EXAMINED: Final = 40
"""How many characters at the end are considered: a longer word is no abbreviation, and work stays bounded."""
_STOPS: Final = 4
"""How many full stops may be removed, one after the other."""
_NUMERAL: Final = re.compile(r"(?:^|[\s(\[])(?:[IVXLCDM]+|\d{1,2})$")
_SHORT: Final = 4
"""The greatest length of an abbreviation that is recognized by its form."""
_SYLLABLE: Final = 2
"""The greatest length of an initial."""
_VOWELS: Final = re.compile("[aeiouylr]")
"""With l and r, which form syllables in Czech and Slovak (`vlk`, `krk`)."""
_UNITS: Final = frozenset({"cm", "mm", "km", "kg"})


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ABBREVIATIONS: Final = _words(
    # after names of persons
    "jr sr esq dr mr mrs ml st sv prof doc ing mgr mudr judr phdr rndr paeddr thdr csc drsc rev comp chr "
    "geo chas benj thos jas robt edw "
    # corporate bodies and publishers
    "inc ltd corp co cie bros assn assoc dept univ verl nakl nakladat spol vydav libr impr pub publ pubs pr "
    "akc wyd wydaw "
    # editions and extent
    "ed eds edn edit aufl ausg bearb erw verb hrsg hg vyd uprav upr rozs dopl preprac prepr oprav opr nezm "
    "prel illus ilustr obr roc cis vol vols ser suppl pts bd bde sest tlum "
    # general
    "etc al aj apod atd tzv tzn tj resp cent stol saec approx usw usf bzw ders incl vyobr "
    "изд др вып перераб доп сост ред стереотип испр"
)
"""Folded words whose final full stop is their own, in the languages of our catalogues."""
_STATES: Final = _words(
    "ala ariz ark cal calif colo conn del fla ga ill ind kan ky la mass md me mich minn miss mo mont neb "
    "nev okla ont or ore pa penn que tenn tex va vt wash wis wyo eng"
)
"""States and provinces after a comma: "Cambridge, Mass."."""


def clean(text: str, *, stop: bool = True) -> str:
    """Return the text without surrounding ISBD punctuation and, with `stop`, without the final full stop.

    The full stop of an initial, an abbreviation or an ellipsis is kept; so is that of an ordinal number which
    is followed by another sign. Letters are composed (NFC), so that a name has one spelling.

    >>> clean("O smyslu českých dějin /"), clean("Hus, Jan,"), clean("Hus, Jan.")
    ('O smyslu českých dějin', 'Hus, Jan', 'Hus, Jan')
    >>> clean("2. vyd. -"), clean("Novák, J."), clean("Karel IV. /"), clean("Echa ...")
    ('2. vyd.', 'Novák, J.', 'Karel IV.', 'Echa ...')
    """
    text = tidy(text)
    if not text.isascii():
        text = normalised("NFC", text)
    if text and not text[0].isalnum():
        text = _LEADING.sub("", text)
    bare = _unsigned(text)
    for _ in range(_STOPS if stop else 0):
        without = _unstopped(bare, followed=bare != text) if bare.endswith(".") else bare
        if without == bare:
            break
        bare = text = _unsigned(without)
    return bare


def _unsigned(text: str) -> str:
    if not text or text[-1] not in _SIGNS:
        return text
    # Searched only at the end, because the expression would be tried at each character.
    found = _TRAILING.search(text, max(len(text.rstrip(f"{_SIGNS} ")), len(text) - _EXAMINED))
    return text[: found.start()] if found else text


def _unstopped(text: str, *, followed: bool) -> str:
    """Return the text without its final full stop, unless the stop belongs to the last word."""
    bare = text[:-1]
    if bare.endswith("."):
        count = len(text) - len(text.rstrip("."))
        return text if count == len("...") else text[: len("...") - count] if count > len("...") else bare
    if bare.endswith(" .") or (followed and _NUMERAL.search(bare[-_EXAMINED:])):
        return text
    found = _LAST_WORD.search(bare, max(0, len(bare) - _EXAMINED))
    return text if found and _abbreviated(bare, found["before"], found["word"]) else bare.rstrip()


def _abbreviated(text: str, before: str, word: str) -> bool:
    folded = fold(word)
    short = len(word) <= _SHORT
    if before[-1:].isdigit() or folded in _UNITS or word.lower() == word.upper():
        return False  # 6th, 23 cm, and letters without cases, which are words
    if len(word) == 1 or folded in _ABBREVIATIONS or (short and word == text and word.islower()):
        return True
    if (before.endswith(".") and short) or (before == ". " and word.istitle() and len(word) <= _SYLLABLE):
        return True  # s.r.o., Ju. Ch.
    if folded in _STATES and before == ", " and not word.isupper():
        return True
    return short and folded.isascii() and not _VOWELS.search(folded) and word[1:].islower()


def sentences(parts: Iterable[str]) -> str:
    """Return the parts with a full stop between them, which a part that ends with one has already.

    >>> sentences(["U.S.", "Congress", "Senate"])
    'U.S. Congress. Senate'
    """
    texts: list[str] = []
    for part in filter(None, parts):
        texts += (separator(texts[-1]), part) if texts else (part,)
    return "".join(texts)


def uniform_title(values: Iterable[str]) -> str:
    """Return the cleaned parts of a uniform title; commas and semicolons between them stay.

    >>> uniform_title(["Serenády,", "dechové nástroje,", "op. 44."]), uniform_title(["Bible", "N.Z."])
    ('Serenády, dechové nástroje, op. 44', 'Bible. N.Z.')
    """
    title = before = ""
    for value in values:
        part = clean(value)
        if part:
            title = f"{title}{separator(title, before)}{part}"
            before = value
    return title


def separator(text: str, written: str = "") -> str:
    """Return what stands between the text and the sentence after it; nothing after an empty text.

    It is the comma or semicolon with which the text ends as it is written.
    """
    if text and written.endswith((",", ";")):
        return f"{written[-1]} "
    return "" if not text else " " if text.endswith(".") else ". "


def unbracketed(text: str) -> str:
    """Return the text without round brackets that enclose all of it, as around a series."""
    found = _ROUND.match(text)
    return found["inner"].strip() if found else text


def unclosed(text: str) -> str:
    """Return the text without a bracket whose other half is in another subfield: "(Praha" and "1998)".

    >>> unclosed("(Praha"), unclosed("sv. 3 (2001))")
    ('Praha', 'sv. 3 (2001)')
    """
    for first, second in ("()", "[]"):
        if text.count(first) != text.count(second):
            single = _single(text, first, second)
            begin, end = 0, len(text)
            while begin in single:
                begin += 1
            while end - 1 in single and end > begin:
                end -= 1
            text = clean(text[begin:end])
    return text


def _single(text: str, first: str, second: str) -> set[int]:
    """Return the places of the brackets that have no other half."""
    opened: list[int] = []
    single: set[int] = set()
    for place, sign in enumerate(text):
        if sign == first:
            opened.append(place)
        elif sign == second and opened:
            opened.pop()
        elif sign == second:
            single.add(place)
    return single.union(opened)


_NON_SORTING: Final = re.compile(
    "[\x88\x98](?P<control>[^\x89\x9c]{0,40})[\x89\x9c]|<<(?P<angle>[^<>]{1,40})>>|\u00ac(?P<sign>[^\u00ac]{1,40})\u00ac"
)
_MARKS: Final = re.compile("[\x88\x89\x98\x9c]")


def unmarked(text: str) -> str:
    r"""Return the text without the marks around words that are ignored in sorting.

    They are U+0098 and U+009C (ISO 6630; U+0088 and U+0089 in records converted from MARC-8), `<<Der>>`
    (Alma, Aleph) and `¬Der¬` (MAB).

    >>> unmarked("<<Der>> Prozess"), unmarked("\x98L'\x9chistoire"), unmarked("<1998->")
    ('Der Prozess', "L'histoire", '<1998->')
    """
    return _MARKS.sub("", _NON_SORTING.sub(_inner, text))


def _inner(found: re.Match[str]) -> str:
    return str(found[found.lastgroup or 0])


def without_article(text: str) -> str | None:
    """Return the text after the marked words at its beginning; None if it begins with none or ends with them.

    >>> without_article("<<Der>> Prozess")
    'Prozess'
    """
    text = text.lstrip()
    found = _NON_SORTING.match(text)
    return unmarked(text[found.end() :]).strip() or None if found else None
