"""Fields of numbers and codes: 010, 015, 016, 020, 022, 024, 028, 035, 041."""

import re
from collections.abc import Callable
from typing import Final

from harvester.bibliographic.languages import split_codes
from harvester.bibliographic.marc21.draft import Draft
from harvester.bibliographic.marc21.reading import OpenField
from harvester.bibliographic.punctuation import clean, tidy
from harvester.bibliographic.record import Identifier
from harvester.bibliographic.standard_numbers import find_doi, find_isbn, find_ismn, find_issn

Find = Callable[[str], tuple[str, bool] | None]

_NUMBERS: Final = "az"
"""Subfields of valid and of cancelled numbers. What is said of a number that is not there stays as it is."""
_QUALIFIER: Final = re.compile(r"\(([^()]*)\)")
_STATES: Final = {"a": "valid", "l": "valid", "m": "cancelled", "y": "cancelled", "z": "cancelled"}
_OTHER_SCHEMES: Final = {"0": "isrc", "1": "upc", "2": "ismn", "3": "ean", "4": "sici", "8": "other"}
_SIMPLE: Final = {
    "010": "lccn",
    "015": "bibliography",
    "016": "agency",
    "028": "publisher_number",
    "035": "system",
}


def take_isbn(found: OpenField, draft: Draft) -> None:
    """Take field 020."""
    if not found.has(_NUMBERS):
        return
    qualifiers = [clean(value).strip("()") for value in found.take("q")]
    _take_checked(found, draft, "isbn", _NUMBERS, find_isbn, qualifiers)


def take_issn(found: OpenField, draft: Draft) -> None:
    """Take field 022; subfield l is the number that joins all editions."""
    _take_checked(found, draft, "issn-l", "l", find_issn, [])
    _take_checked(found, draft, "issn", "amyz", find_issn, [])


def take_other(found: OpenField, draft: Draft) -> None:
    """Take field 024."""
    if not found.has(_NUMBERS):
        return
    mark = found.indicators[0]
    scheme = found.first("2").lower() if mark == "7" else _OTHER_SCHEMES.get(mark, "other")
    qualifiers = [clean(value).strip("()") for value in found.take("q")]
    if scheme == "ismn":
        _take_checked(found, draft, "ismn", _NUMBERS, find_ismn, qualifiers)
        return
    for code, value in found.pairs(_NUMBERS):
        known = find_doi(value) if scheme in {"doi", "other"} else None
        _add(draft, "doi" if known else scheme or "other", known or value, value, _STATES[code], qualifiers)


def take_number(found: OpenField, draft: Draft) -> None:
    """Take a number that has no check digit."""
    if not found.has(_NUMBERS):
        return
    scheme = _SIMPLE[found.tag]
    source = found.first("2").lower() if found.tag in {"015", "016"} else ""
    qualifiers = [clean(value).strip("()") for value in found.take("q")]
    if found.tag == "028":
        qualifiers += [clean(value) for value in found.take("b")]
    for code, value in found.pairs(_NUMBERS):
        _add(draft, source or scheme, value, value, _STATES[code], qualifiers)


def take_languages(found: OpenField, draft: Draft) -> None:
    """Take field 041; codes of another list than MARC's are kept as they are."""
    if found.indicators[1] == "7":
        return
    for code, value in found.pairs("adh"):
        codes = split_codes(value)
        draft.add_languages("041", codes, original=code == "h")


def _take_checked(
    found: OpenField, draft: Draft, scheme: str, codes: str, find: Find, qualifiers: list[str]
) -> None:
    """Take numbers whose check digit tells whether they are right."""
    for code, value in found.pairs(codes):
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


def _add(draft: Draft, scheme: str, value: str, found: str, state: str, qualifiers: list[str]) -> None:
    draft.identifiers.append(
        Identifier(
            scheme=scheme,
            value=tidy(value),
            found=found,
            state=state,
            qualifier=", ".join(dict.fromkeys(word for word in qualifiers if word)),
        )
    )
