"""The third level of validation: coded values are defined, check digits right, and dates agree.

Source: MARC 21 Format for Bibliographic Data, "Leader", "005" to "008", "020" to "024", "040" to "044",
"260", "264".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harvester.bibliographic.codes import find_isbn, find_ismn, find_issn
from harvester.bibliographic.dates import find_years
from harvester.bibliographic.marc21.code_lists import (
    COUNTRIES,
    FORMER_COUNTRIES,
    FORMER_LANGUAGES,
    LANGUAGES,
)
from harvester.bibliographic.marc21.control_fields import coded_years
from harvester.bibliographic.marc21.structure import LEADER, Finding, Level, WrittenField, WrittenRecord
from harvester.bibliographic.record import Years

_LENGTH_OF_LEADER: Final = 24
_LENGTH_OF_008: Final = 40
_LENGTH_OF_006: Final = 18
_LEADER: Final[Mapping[int, str]] = {
    5: "acdnp", 6: "acdefgijkmoprt", 7: "abcdims", 8: " a", 9: " a", 17: " 1234578uz",
    18: " acinu", 19: " abc",
}  # fmt: skip
"""Defined characters by position, as in the tables below."""
_LENGTHS_OF_007: Final[Mapping[str, tuple[int, ...]]] = {
    "a": (8,), "c": (6, 14), "d": (6,), "f": (10,), "g": (9,), "h": (13,), "k": (6,), "m": (8, 23),
    "o": (2,), "q": (2,), "r": (11,), "s": (14,), "t": (2,), "v": (9,), "z": (2,),
}  # fmt: skip
"""By category of material. The positions from 6 of category c and from 9 of category m are optional."""
_DAY: Final = r"(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])"
_005: Final = re.compile(rf"\d{{4}}{_DAY}(?:[01]\d|2[0-3])[0-5]\d[0-5]\d\.\d", re.ASCII)
_ENTERED: Final = re.compile(rf"\d\d{_DAY}", re.ASCII)
_DATE: Final = re.compile(r"\d{1,4}u*|u{4}|\|{4}| {4}", re.ASCII)
_SECOND_DATE: Final[Mapping[str, re.Pattern[str]]] = {
    **dict.fromkeys("bs", re.compile(r" {4}|\|{4}")),
    "n": re.compile(r"uuuu| {4}|\|{4}"),
    "e": re.compile(r"(?:0[1-9]|1[0-2])(?:  |uu|0[1-9]|[12]\d|3[01])|uuuu| {4}|\|{4}"),
    **dict.fromkeys("cu", re.compile(r"9999|uuuu|\|{4}")),
}
"""Where the second date has a form of its own."""
_DATE_TYPES: Final = "bcdeikmnpqrstu|"
_FIXED_CODES: Final[Mapping[int, str]] = {6: _DATE_TYPES, 38: " dorsx|", 39: " cdu|"}
_AREA: Final = re.compile(r"[a-z][a-z0-9-]{6}")
_NOT_CODED: Final = frozenset({"", "|||"})
_LINKED_DATES: Final = "cdikmqrstupe"
"""Types of date whose dates are also in 260 or 264."""


def _spread(pairs: Mapping[str, str]) -> dict[int, str]:
    """Return the characters by position from `18-21` or `22`."""
    spread = {}
    for positions, characters in pairs.items():
        first, _, last = positions.partition("-")
        spread.update(dict.fromkeys(range(int(first), int(last or first) + 1), characters))
    return spread


_AUDIENCE: Final = " abcdefgj|"
_FORM: Final = " abcdfoqrs|"
_GOVERNMENT: Final = " acfilmosuz|"
_YES_NO: Final = "01|"
_UNDEFINED: Final = " |"
_CONTENTS: Final = " abcdefgiklmnopqrstuvwyz56|"
_MATERIALS: Final[Mapping[str, Mapping[int, str]]] = {
    "books": _spread({
        "18-21": " abcdefghijklmop|", "22": _AUDIENCE, "23": _FORM, "24-27": _CONTENTS + "j2",
        "28": _GOVERNMENT, "29-31": _YES_NO, "32": _UNDEFINED, "33": "01defhijmpsu|", "34": " abcd|",
    }),
    "computer files": _spread({
        "18-21": _UNDEFINED, "22": _AUDIENCE, "23": " oq|", "24-25": _UNDEFINED, "26": "abcdefghijmuz|",
        "27": _UNDEFINED, "28": _GOVERNMENT, "29-34": _UNDEFINED,
    }),
    "maps": _spread({
        "18-21": " abcdefgijkmz|", "24": _UNDEFINED, "25": "abcdefguz|", "26-27": _UNDEFINED,
        "28": _GOVERNMENT, "29": _FORM, "30": _UNDEFINED, "31": _YES_NO, "32": _UNDEFINED,
        "33-34": " ejklnoprz|",
    }),
    "music": _spread({
        "20": "abcdeghijklmnpuz|", "21": " defnu|", "22": _AUDIENCE, "23": _FORM,
        "24-29": " abcdefghikrsz|", "30-31": " abcdefghijklmnoprstz|", "32": _UNDEFINED,
        "33": " abcnu|", "34": _UNDEFINED,
    }),
    "continuing resources": _spread({
        "18": " abcdefghijkmqstuwz|", "19": "nrux|", "20": _UNDEFINED, "21": " dghjlmnprstw|",
        "22": " abcdefoqs|", "23": _FORM, "24-27": _CONTENTS + "h", "28": _GOVERNMENT, "29": _YES_NO,
        "30-32": _UNDEFINED, "33": " abcdefghijkluz|", "34": "012|",
    }),
    "visual materials": _spread({
        "18-20": "0123456789n-|", "21": _UNDEFINED, "22": _AUDIENCE, "23-27": _UNDEFINED,
        "28": _GOVERNMENT, "29": _FORM, "30-32": _UNDEFINED, "33": "abcdfgiklmnopqrstvwz|",
        "34": "aclnuz|",
    }),
    "mixed materials": _spread({"18-22": _UNDEFINED, "23": _FORM, "24-34": _UNDEFINED}),
}  # fmt: skip
"""Positions 18 to 34 of field 008 by kind of material; those with codes of two characters are not checked."""
_MATERIAL_OF: Final[Mapping[str, str]] = {
    **dict.fromkeys("at", "books"), "m": "computer files", **dict.fromkeys("ef", "maps"),
    **dict.fromkeys("cdij", "music"), "s": "continuing resources",
    **dict.fromkeys("gkor", "visual materials"), "p": "mixed materials",
}  # fmt: skip
"""By the form of material in field 006; in a leader, the level decides whether type a is continuing."""
_CONTINUING_LEVELS: Final = "bis"


@dataclass(kw_only=True, slots=True)
class _Check:
    """The findings of one record so far."""

    record: WrittenRecord
    findings: list[Finding] = field(default_factory=list)

    def add(self, one: WrittenField, code: str, place: str, found: str, expected: str) -> None:
        self.findings.append(
            one.finding(Level.CODED_VALUES, code, place=place, found=found, expected=expected)
        )

    def codes(self, one: WrittenField, data: str, defined: Mapping[int, str], *, shift: int = 0) -> None:
        """Compare single characters with those that are defined for their positions."""
        for position, characters in defined.items():
            place = position - shift
            if place < len(data) and data[place] not in characters:
                shown = " ".join(sorted(characters.replace(" ", "#")))
                self.add(one, "undefined_code", f"/{place:02}", data[place], f"one of {shown}")


def check_coded_values(record: WrittenRecord) -> list[Finding]:
    """Return the findings of the third level.

    Fields of a wrong length are reported once; their positions are not looked at.
    """
    check = _Check(record=record)
    _check_leader(check)
    for one in record.fields:
        checks = _CHECKS.get(one.tag)
        if checks is not None:
            checks(check, one)
    _compare_first(check, "041", "/35-37", "languages_differ")
    _compare_first(check, "044", "/15-17", "countries_differ")
    _compare_dates(check)
    return check.findings


def _check_leader(check: _Check) -> None:
    leader = check.record.leader
    if len(leader) == _LENGTH_OF_LEADER:  # otherwise it is a finding of the first level
        check.codes(WrittenField(tag=LEADER, data=leader), leader, _LEADER)


def _check_005(check: _Check, one: WrittenField) -> None:
    if not _005.fullmatch(one.data or ""):
        expected = "16 characters: year, month, day, hour, minute, second and tenth, as 20240131235959.0"
        check.add(one, "time_form", "", one.data or "", expected)


def _check_006(check: _Check, one: WrittenField) -> None:
    data = one.data or ""
    if len(data) != _LENGTH_OF_006:
        check.add(one, "field_length", "", data, f"{_LENGTH_OF_006} characters; this field has {len(data)}")
        return
    material = _MATERIAL_OF.get(data[0])
    if material is None:
        check.add(one, "undefined_code", "/00", data[0], f"one of {' '.join(sorted(_MATERIAL_OF))}")
        return
    check.codes(one, data, _MATERIALS[material], shift=17)


def _check_007(check: _Check, one: WrittenField) -> None:
    data = one.data or ""
    lengths = _LENGTHS_OF_007.get(data[:1])
    if lengths is None:
        check.add(one, "undefined_code", "/00", data[:1], f"one of {' '.join(sorted(_LENGTHS_OF_007))}")
    elif len(data) not in lengths:
        allowed = " or ".join(map(str, lengths))
        expected = f"{allowed} characters for category {data[0]}; this field has {len(data)}"
        check.add(one, "field_length", "", data, expected)


def _check_008(check: _Check, one: WrittenField) -> None:
    data = one.data or ""
    if len(data) != _LENGTH_OF_008:
        check.add(one, "field_length", "", data, f"{_LENGTH_OF_008} characters; this field has {len(data)}")
        return
    if not _ENTERED.fullmatch(data[:6]):
        check.add(one, "date_form", "/00-05", data[:6], "year, month and day of entry, as 240131")
    check.codes(one, data, _FIXED_CODES)
    check.codes(one, data, _material(check.record.leader))
    _check_dates(check, one, data)
    _check_country(check, one, "/15-17", data[15:18].rstrip())
    _check_language(check, one, "/35-37", data[35:38].rstrip())


def _material(leader: str) -> Mapping[int, str]:
    if len(leader) != _LENGTH_OF_LEADER:
        return {}
    if leader[6] == "a" and leader[7] in _CONTINUING_LEVELS:
        return _MATERIALS["continuing resources"]
    # In a leader, s is no type of record.
    material = _MATERIAL_OF.get(leader[6]) if leader[6] != "s" else None
    return _MATERIALS[material] if material else {}


def _check_dates(check: _Check, one: WrittenField, data: str) -> None:
    type_, first, second = data[6], data[7:11], data[11:15]
    if type_ not in _DATE_TYPES or type_ == "|":
        return
    if not _DATE.fullmatch(first):
        expected = "four digits, with u for unknown ones; blanks or fill characters"
        check.add(one, "date_form", "/07-10", first, expected)
        return
    form = _SECOND_DATE.get(type_, _DATE)
    if not form.fullmatch(second):
        expected = f"a second date as type of date {type_} has it"
        check.add(one, "date_form", "/11-14", second, expected)
    elif type_ in "cdikmqu" and first.isdigit() and second.isdigit() and second < first:
        check.add(one, "dates_reversed", "/07-14", data[7:15], "a second date that is not before the first")


def _check_country(check: _Check, one: WrittenField, place: str, code: str) -> None:
    if code in _NOT_CODED or code in COUNTRIES:
        return
    if code in FORMER_COUNTRIES:
        check.add(one, "former_country", place, code, "a present code of MARC's list of countries")
    else:
        check.add(one, "undefined_country", place, code, "a code of MARC's list of countries, as xr or nyu")


def _check_language(check: _Check, one: WrittenField, place: str, code: str) -> None:
    if code in _NOT_CODED or code in LANGUAGES:
        return
    if code in FORMER_LANGUAGES:
        check.add(one, "former_language", place, code, "a present code of MARC's list of languages")
    else:
        check.add(one, "undefined_language", place, code, "a code of MARC's list of languages, as cze or eng")


def _check_041(check: _Check, one: WrittenField) -> None:
    if one.indicators[1] == "7":  # codes of another list, which subfield 2 names
        return
    for code, value in one.subfields:
        if code in "abdefghijkmnpqrt":
            language = value.strip()
            if len(language) > 3 and len(language) % 3 == 0 and language.isalpha():  # noqa: PLR2004
                expected = "each code in a subfield of its own"
                check.add(one, "several_codes", f"${code}", value, expected)
            else:
                _check_language(check, one, f"${code}", language)


def _check_043(check: _Check, one: WrittenField) -> None:
    for value in one.values("a"):
        if not _AREA.fullmatch(value):
            expected = "a code of seven characters, filled with hyphens, as e-xr---"
            check.add(one, "area_form", "$a", value, expected)


def _check_044(check: _Check, one: WrittenField) -> None:
    for value in one.values("a"):
        _check_country(check, one, "$a", value.strip())


def _check_040(check: _Check, one: WrittenField) -> None:
    for value in one.values("b"):
        _check_language(check, one, "$b", value.strip())


def _check_020(check: _Check, one: WrittenField) -> None:
    _check_number(check, one, "ISBN", find_isbn)


def _check_022(check: _Check, one: WrittenField) -> None:
    _check_number(check, one, "ISSN", find_issn, codes="al")


def _check_024(check: _Check, one: WrittenField) -> None:
    if one.indicators[0] == "2":
        _check_number(check, one, "ISMN", find_ismn)
    elif one.indicators[0] == "3":
        for value in one.values("a"):
            digits = value.replace(" ", "").replace("-", "")
            if not (digits.isascii() and digits.isdigit() and len(digits) in {8, 13} and _good_ean(digits)):
                check.add(one, "check_digit", "$a", value, "an EAN with the right check digit")


def _good_ean(digits: str) -> bool:
    weighted = (int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(reversed(digits)))
    return sum(weighted) % 10 == 0


def _check_number(
    check: _Check,
    one: WrittenField,
    name: str,
    find: Callable[[str], tuple[str, bool] | None],
    *,
    codes: str = "a",
) -> None:
    for code, value in one.subfields:
        if code in codes and value.strip():
            found = find(value)
            if found is None:
                check.add(one, "number_form", f"${code}", value, f"an {name}")
            elif not found[1]:
                check.add(one, "check_digit", f"${code}", value, f"an {name} with the right check digit")


_CHECKS: Final[Mapping[str, Callable[[_Check, WrittenField], None]]] = {
    "005": _check_005, "006": _check_006, "007": _check_007, "008": _check_008, "020": _check_020,
    "022": _check_022, "024": _check_024, "040": _check_040, "041": _check_041, "043": _check_043,
    "044": _check_044,
}  # fmt: skip


def _fixed(record: WrittenRecord) -> str:
    """Return field 008, or an empty text if it is missing or has a wrong length."""
    data = record.control("008") or ""
    return data if len(data) == _LENGTH_OF_008 else ""


def _compare_first(check: _Check, tag: str, place: str, code: str) -> None:
    """Report a first code in subfield a that is not the one in field 008."""
    first, last = map(int, place.removeprefix("/").split("-"))
    fixed = _fixed(check.record)[first : last + 1].rstrip()
    for one in check.record.named(tag)[:1]:
        given = [value.strip() for value in one.values("a")]
        if one.indicators[1] == "7" or not given or fixed in _NOT_CODED:
            continue
        if len(given[0]) <= 3 and given[0] != fixed:  # noqa: PLR2004 characters of a code
            check.add(one, code, "$a", given[0], f"the code in field 008{place}, {fixed}")


def _compare_dates(check: _Check) -> None:
    """Report a date of publication that has no year in common with the dates of field 008."""
    fixed = _fixed(check.record)
    if not fixed or fixed[6] not in _LINKED_DATES:
        return
    coded = coded_years(fixed[6], fixed[7:11], fixed[11:15])
    dated = [
        (one, value, find_years(value))
        for one in check.record.named("260", "264")
        for value in one.values("c")
    ]
    known = [(one, value, years) for one, value, years in dated if years != Years()]
    if coded is None or coded == Years() or not known:
        return
    if not any(_overlap(years, coded) for _one, _value, years in known):
        one, value, _years = known[0]
        check.add(one, "dates_differ", "$c", value, f"a year of the dates in field 008/06-14, {fixed[6:15]}")


def _overlap(one: Years, other: Years) -> bool:
    ends_before = one.last is not None and other.first is not None and one.last < other.first
    begins_after = one.first is not None and other.last is not None and one.first > other.last
    return not (ends_before or begins_after)
