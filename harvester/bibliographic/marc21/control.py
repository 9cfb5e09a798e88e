"""Leader and control fields: what kind of thing it is, its number, dates, country and language.

Source: MARC 21 Format for Bibliographic Data, "Leader", "001-006", "008".
"""

import re
from typing import Final

from harvester.bibliographic.dates import masked_years
from harvester.bibliographic.languages import language_code
from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.punctuation import tidy
from harvester.bibliographic.record import Identifier, Kind, Years

_LEADER: Final = 24
_FIXED: Final = 40
_SHORTEST: Final = 38
_TYPES: Final = {
    "a": Kind.BOOK, "t": Kind.MANUSCRIPT, "c": Kind.SCORE, "d": Kind.SCORE, "e": Kind.MAP, "f": Kind.MAP,
    "g": Kind.FILM, "i": Kind.SOUND, "j": Kind.MUSIC, "k": Kind.PICTURE, "m": Kind.ELECTRONIC, "o": Kind.KIT,
    "p": Kind.COLLECTION, "r": Kind.OBJECT,
}  # fmt: skip
_LEVELS: Final = {
    "a": Kind.ARTICLE, "b": Kind.ARTICLE, "c": Kind.COLLECTION, "d": Kind.COLLECTION, "i": Kind.SERIAL,
    "s": Kind.SERIAL,
}  # fmt: skip
_SHORT_LEADER: Final = re.compile(r"^[\d\s|#-]*[acdnp]([acdefgijkmoprt])([abcdims])")
_COUNTRY: Final = re.compile(r"[a-z]{2,3}")
_BLANK: Final = " #|-^\\"
_SPANS: Final = frozenset("cdikmqu")
"""Types of date whose second date ends a span."""
_ONE_YEAR: Final = frozenset("estpr")
_OPEN: Final = "9999"


def read_leader(leader: str, draft: Draft) -> None:
    """Note what kind of thing it is (leader, positions 6 and 7)."""
    if not leader.strip():
        draft.broken("LDR", "", "no leader")
        return
    draft.keep("LDR", leader)
    if len(leader) != _LEADER:
        draft.broken("LDR", leader, f"the leader has {len(leader)} characters, not {_LEADER}")
        found = _SHORT_LEADER.match(leader)
        type_, level = (found[1], found[2]) if found else ("", "")
    else:
        type_, level = leader[6], leader[7]
    draft.kind = _TYPES.get(type_, Kind.OTHER)
    if draft.kind is Kind.BOOK:
        draft.kind = _LEVELS.get(level, Kind.BOOK)


def read_control(tag: str, data: str, draft: Draft) -> None:
    """Take a control field; all but the numbers are kept as they are, too."""
    text = tidy(data) if tag != "008" else data
    if tag == "001" and not draft.control_number:
        draft.control_number = text
        if text:
            draft.identifiers.append(Identifier(scheme="control_number", value=text, found=text))
    elif tag == "003" and not draft.control_source:
        draft.control_source = text
    else:
        draft.keep(tag, text)
        if tag == "008":
            _read_fixed(data, draft)


def _read_fixed(data: str, draft: Draft) -> None:
    if len(data) != _FIXED:
        draft.broken("008", data, f"field 008 has {len(data)} characters, not {_FIXED}")
        if len(data) < _SHORTEST:
            return
    years = _years(data[6], data[7:11], data[11:15])
    if years is None:
        draft.broken("008", data[6:15], "no year in type and dates of 008 (positions 6 to 14)")
    elif draft.years == Years():
        draft.years = years
    country, language = data[15:18].strip(_BLANK).lower(), data[35:38].strip(_BLANK).lower()
    if len(language) == 2 and language_code(country) and language_code(language + "x") is not None:  # noqa: PLR2004
        draft.broken("008", data, "country and language are interchanged")
        country, language = language, country
    if _COUNTRY.fullmatch(country):
        draft.country = draft.country or country
    if len(language) == 3:  # noqa: PLR2004
        draft.add_languages("008", [language])


def _years(type_: str, first: str, second: str) -> Years | None:
    """The span of years; no years where the record says that it knows none, None where it is not valid."""
    begin, end = _date(first), _date(second)
    if type_ in "bn|" or (begin is None and not first.strip(_BLANK + "u")):
        return Years()
    if begin is None:
        return None
    if type_ in _SPANS:
        open_end = type_ in "cmu" and (second in {_OPEN, "uuuu"} or not second.strip(_BLANK))
        last = None if open_end else (end.last if end else begin.last)
        return _in_order(begin.first, last)
    if type_ in _ONE_YEAR or type_.strip(_BLANK) == "":
        return begin
    return None


def _in_order(first: int | None, last: int | None) -> Years | None:
    return None if first is not None and last is not None and last < first else Years(first=first, last=last)


def _date(digits: str) -> Years | None:
    if digits == _OPEN or not digits[:1].isdigit() or not digits.isascii():
        return None
    return masked_years(digits)
