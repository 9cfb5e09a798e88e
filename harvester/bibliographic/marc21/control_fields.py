"""Leader and control fields: kind of material, control number, dates, country and language.

Source: MARC 21 Format for Bibliographic Data, "Leader", "001-006", "008".
"""

import re
from collections.abc import Callable
from typing import Final

from harvester.bibliographic.codes import (
    BETWEEN,
    find_doi,
    find_isbn,
    find_ismn,
    find_issn,
    language_code,
    split_codes,
)
from harvester.bibliographic.dates import masked_years
from harvester.bibliographic.marc21.code_lists import (
    COUNTRIES,
    FORMER_COUNTRIES,
    FORMER_LANGUAGES,
    LANGUAGES,
)
from harvester.bibliographic.marc21.draft import MarcDraft
from harvester.bibliographic.marc21.fields import OpenField
from harvester.bibliographic.punctuation import clean
from harvester.bibliographic.record import Identifier, RecordKind, Years
from harvester.bibliographic.text import tidy

_LEADER: Final = 24
_FIXED: Final = 40
_SHORTEST: Final = 38
_TYPES: Final = {
    "a": RecordKind.BOOK, "t": RecordKind.MANUSCRIPT, "c": RecordKind.SCORE, "d": RecordKind.SCORE,
    "e": RecordKind.MAP, "f": RecordKind.MAP,
    "g": RecordKind.FILM, "i": RecordKind.SOUND, "j": RecordKind.MUSIC, "k": RecordKind.PICTURE,
    "m": RecordKind.ELECTRONIC, "o": RecordKind.KIT,
    "p": RecordKind.COLLECTION, "r": RecordKind.OBJECT,
}  # fmt: skip
_LEVELS: Final = {
    "a": RecordKind.ARTICLE, "b": RecordKind.ARTICLE, "c": RecordKind.COLLECTION,
    "d": RecordKind.COLLECTION, "i": RecordKind.SERIAL,
    "s": RecordKind.SERIAL,
}  # fmt: skip
_SHORT_LEADER: Final = re.compile(r"^[\d\s|#-]*[acdnp]([acdefgijkmoprt])([abcdims])")
_COUNTRY: Final = re.compile(r"[a-z]{2,3}")
_BLANK: Final = " #|-^\\"
_SPANS: Final = frozenset("cdikmqu")
"""Types of date whose second date ends a span."""
_CONTINUING_TYPES: Final = frozenset("cu")
"""Types for a publication that still appears or may do; in other records the first date is meant.

Until 1990 type `c` was that of a date of publication with one of copyright.
"""
_CONTINUING: Final = frozenset("bis")
"""Levels of serials, integrating resources and their parts."""
_UNTYPED: Final = frozenset(_BLANK)
_NO_DATE: Final = "n"
_UNKNOWN_DIGITS: Final = frozenset("uUxX?-")
_BEGIN_OF_FIXED: Final = re.compile(
    r"^.{6}(?P<type>[a-z|#])(?P<first>[\d|uUxX?-]{4})(?P<second>[\d|uUxX?-]{4})?[ #]*"
    r"(?P<country>[a-z]{2,3})(?![a-z])"
)
_END_OF_FIXED: Final = re.compile(r"(?<![a-z])(?P<letters>[a-z]{3,4})[ |#-]{0,2}[a-z|#-]?$")
_COUNTRIES: Final = COUNTRIES | FORMER_COUNTRIES
_LANGUAGES: Final = LANGUAGES | FORMER_LANGUAGES
_ONE_YEAR: Final = frozenset("estpr")
_OPEN: Final = "9999"
_BC: Final = "b"


def read_leader(leader: str, draft: MarcDraft) -> None:
    """Set the kind of material (leader, positions 6 and 7)."""
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
    draft.continuing = not level or level in _CONTINUING
    draft.kind = _TYPES.get(type_, RecordKind.OTHER)
    if draft.kind is RecordKind.BOOK:
        draft.kind = _LEVELS.get(level, RecordKind.BOOK)


def read_control(tag: str, data: str, draft: MarcDraft) -> None:
    """Read a control field; all except the control numbers are also kept as notes."""
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


def _read_fixed(data: str, draft: MarcDraft) -> None:
    if len(data) != _FIXED:
        draft.broken("008", data, f"field 008 has {len(data)} characters, not {_FIXED}")
        data = _expanded(data)
        if len(data) < _SHORTEST:
            return
    if draft.years == draft.likely_years == Years():
        _read_years(data, draft)
    country, language = data[15:18].strip(_BLANK).lower(), data[35:38].strip(_BLANK).lower()
    if len(language) == 2 and language_code(country) and language_code(language + "x") is not None:  # noqa: PLR2004
        draft.broken("008", data, "country and language are interchanged")
        country, language = language, country
    if _COUNTRY.fullmatch(country):
        draft.country = draft.country or country
    if len(language) == 3:  # noqa: PLR2004
        draft.add_languages("008", [language])


def _expanded(data: str) -> str:
    """Return a field of another length with dates, country and language in their positions, if found."""
    begin = _BEGIN_OF_FIXED.match(data)
    in_place = data[35:38].lower() in _LANGUAGES and data[15:18].strip(_BLANK).lower() in _COUNTRIES
    if begin is None or in_place:
        return data
    end = _END_OF_FIXED.search(data, begin.end())
    language = end["letters"] if end else ""
    # Of four letters the first may be position 34, or the last position 38 or 39: "deng" has two codes.
    if len(language) == 4:  # noqa: PLR2004
        codes = _LANGUAGES & {language[:3], language[1:]}
        language = min(codes) if len(codes) == 1 else ""
    fixed = f"{begin['type']}{begin['first']}{begin['second'] or '':4}{begin['country']:3}"
    return f"{data[:6]}{fixed:29}{language:5}"


def _read_years(data: str, draft: MarcDraft) -> None:
    type_, first = data[6], _date(data[7:11])
    if type_ in _UNTYPED or type_ == _NO_DATE:
        draft.likely_years = first or Years()
        return
    if type_ in _CONTINUING_TYPES and not draft.continuing:
        type_ = "s"
    years = coded_years(type_, data[7:11], data[11:15])
    if years is None:
        draft.broken("008", data[6:15], "no year in type and dates of 008 (positions 6 to 14)")
        draft.likely_years = first or Years()
        return
    draft.years = years
    draft.vague = years.first is None or not _UNKNOWN_DIGITS.isdisjoint(data[7:11])


def coded_years(type_: str, first: str, second: str) -> Years | None:
    """Return the span of the dates in field 008; empty if none is known, None if they are invalid."""
    begin, end = _date(first), _date(second)
    if type_ == _BC:
        return Years()
    if begin is None:
        known = end.last if end and type_ in _SPANS else None
        return None if first.strip(_BLANK + "u") else Years(last=known)
    if type_ in _SPANS:
        blank = not second.strip(_BLANK)
        open_end = type_ in ("cmu" if blank else "cdikmu") and (blank or second in {_OPEN, "uuuu"})
        last = None if open_end else (end.last if end else begin.last)
        return _in_order(begin.first, last)
    return begin if type_ in _ONE_YEAR else None


def _in_order(first: int | None, last: int | None) -> Years | None:
    return None if first is not None and last is not None and last < first else Years(first=first, last=last)


def _date(digits: str) -> Years | None:
    if digits == _OPEN or not digits[:1].isdigit() or not digits.isascii():
        return None
    return masked_years(digits)


Find = Callable[[str], tuple[str, bool] | None]

_NUMBERS: Final = "az"
"""Subfields of valid and cancelled numbers. Qualifiers of a missing number are kept unchanged."""
_QUALIFIER: Final = re.compile(r"\(([^()]*)\)")
_MOST_QUALIFIERS: Final = 10
_STATES: Final = {"a": "valid", "l": "valid", "m": "cancelled", "y": "cancelled", "z": "cancelled"}
_OTHER_SCHEMES: Final = {"0": "isrc", "1": "upc", "2": "ismn", "3": "ean", "4": "sici", "8": "other"}
_SIMPLE: Final = {
    "010": "lccn",
    "015": "bibliography",
    "016": "agency",
    "028": "publisher_number",
    "035": "system",
}


def take_isbn(found: OpenField, draft: MarcDraft) -> None:
    """Read field 020."""
    if not found.has(_NUMBERS):
        return
    qualifiers = _qualifiers(found)
    _take_checked(found, draft, "isbn", _NUMBERS, find_isbn, qualifiers)


def take_issn(found: OpenField, draft: MarcDraft) -> None:
    """Read field 022; subfield l is the linking ISSN of all editions."""
    _take_checked(found, draft, "issn-l", "l", find_issn, [])
    _take_checked(found, draft, "issn", "amyz", find_issn, [])


def take_other(found: OpenField, draft: MarcDraft) -> None:
    """Read field 024."""
    if not found.has(_NUMBERS):
        return
    mark = found.indicators[0]
    scheme = found.first("2").lower() if mark == "7" else _OTHER_SCHEMES.get(mark, "other")
    qualifiers = _qualifiers(found)
    if scheme == "ismn":
        _take_checked(found, draft, "ismn", _NUMBERS, find_ismn, qualifiers)
        return
    for code, value in found.pairs(_NUMBERS):
        known = find_doi(value) if scheme in {"doi", "other"} else None
        _add(draft, "doi" if known else scheme or "other", known or value, value, _STATES[code], qualifiers)


def take_number(found: OpenField, draft: MarcDraft) -> None:
    """Read a number without a check digit."""
    if not found.has(_NUMBERS):
        return
    scheme = _SIMPLE[found.tag]
    source = found.first("2").lower() if found.tag in {"015", "016"} else ""
    qualifiers = _qualifiers(found)
    if found.tag == "028":
        qualifiers += [clean(value) for value in found.take("b")[:_MOST_QUALIFIERS]]
    for code, value in found.pairs(_NUMBERS):
        _add(draft, source or scheme, value, value, _STATES[code], qualifiers)


def take_languages(found: OpenField, draft: MarcDraft) -> None:
    """Read field 041; codes from another list than MARC's are kept unchanged."""
    if found.indicators[1] == "7":
        return
    for code, value in found.pairs("adh"):
        codes = split_codes(value)
        draft.add_languages("041", codes, original=code == "h")


def _qualifiers(found: OpenField) -> list[str]:
    """Return the first qualifiers of a field; each of its numbers gets them."""
    return [clean(value).strip("()") for value in found.take("q")[:_MOST_QUALIFIERS]]


def _take_checked(
    found: OpenField, draft: MarcDraft, scheme: str, codes: str, find: Find, qualifiers: list[str]
) -> None:
    """Read numbers that have a check digit, and verify it."""
    for code, value in [(code, one) for code, given in found.pairs(codes) for one in _listed(given, find)]:
        known = find(value)
        state = _STATES[code]
        beside = [*_QUALIFIER.findall(value), *qualifiers]
        if known is None:
            draft.broken(found.written, value, f"this is not a valid {scheme.upper()}")
            _add(draft, scheme, clean(value), value, "invalid", beside)
            continue
        if not known[1] and state == "valid":
            state = "invalid"
            draft.broken(found.written, value, f"the check digit of this {scheme.upper()} is wrong")
        _add(draft, scheme, known[0], value, state, beside)


def _listed(text: str, find: Find) -> list[str]:
    """Return the numbers of a list; another text is not divided."""
    parts = [part.strip() for part in BETWEEN.split(text)]
    return parts if all(map(find, parts)) else [text]


def _add(draft: MarcDraft, scheme: str, value: str, found: str, state: str, qualifiers: list[str]) -> None:
    draft.identifiers.append(
        Identifier(
            scheme=scheme,
            value=tidy(value),
            found=found,
            state=state,
            qualifier=", ".join(dict.fromkeys(word for word in qualifiers if word)),
        )
    )
