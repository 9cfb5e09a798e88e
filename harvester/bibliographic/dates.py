"""Years from dates in natural language: "asi 1371-1415", "[19--]", "mezi 1410 a 1420", "15. století"."""

import re
from collections.abc import Callable
from datetime import date, timedelta
from typing import Final

from harvester.bibliographic.record import Years
from harvester.bibliographic.text import fold

_CENTURY_WORD: Final = r"(?:stoleti|storoci[ea]?|stol|stor|century|centuries|cent|jahrhunderts?|jh)"
_ABBREVIATED: Final = re.compile(r"(?<=[\divxIVX])\.\s?st\b")
"""The abbreviation of "století" ("15. st."), but neither "21st" nor "21 St. James Street"."""
_NTH: Final = " ?(?:th|st|nd|rd)? ?"
_CENTURY: Final = re.compile(rf"\b(\d{{1,2}}|[ivx]+){_NTH}{_CENTURY_WORD}\b")
_CENTURIES: Final = re.compile(
    rf"\b(\d{{1,2}}){_NTH}{_CENTURY_WORD}?(?: a | az | and | to | )(\d{{1,2}}){_NTH}{_CENTURY_WORD}\b"
)
_SHARE: Final = r"(pol|polovin\w+|polovic\w+|half|tretin\w+|ctvrtin\w+|stvrtin\w+|quarter|third)\b"
_PART: Final = re.compile(
    rf"\b(\d|first|second|(?:prv|druh|tret|posledn)(?:n?i|i?a|e|ej|u|y)) ?(?:st|nd)? {_SHARE}"
)
_YEARS_OF: Final = r" ?(?:t\w{1,3} |er )?(?:leta?|letech|rok(?:y|ov|och)|jahren?)\b"
"""The word behind the number of a decade: "70. léta", "70-te roky", "70er Jahre"."""
_DECADES: Final = re.compile(rf"(?<!ch )\b(?:(\d0) (?:az |a )?)?(\d0){_YEARS_OF}(?: des)? ?$")
"""One or two decades before their century; "prvních 50 let" are none."""
_EARLIER: Final = re.compile(rf"\b(\d{{1,2}}|[ivx]{{2,}}){_NTH}\b(?! ?{_SHARE}|{_YEARS_OF})")
"""A century before another one: "late 19th - early 20th century", "druhá pol. 18. - první pol. 19. stol."."""
_LATER: Final = re.compile(r" (?:az |a |and |to )?(?:\S+ ){1,3}$")
"""What stands between two centuries of a span: "az konec 20. let "."""
_MOST_CENTURIES: Final = 4
"""In a span; a smaller number before a century is then something else."""
_SHARES: Final = {"pol": 2, "hal": 2, "tre": 3, "thi": 3}
_NUMBERS: Final = {"fir": 1, "sec": 2, "prv": 1, "dru": 2, "tre": 3}
"""Numbers and shares by the first three letters, because Czech and Slovak words are inflected."""
_SPAN_WORDS: Final = (("pocatek", 0, 33), ("zacatek", 0, 33), ("zaciatok", 0, 33), ("early", 0, 33),
                      ("polovina", 25, 75), ("polovica", 25, 75), ("middle", 25, 75), ("mid", 25, 75),
                      ("konec", 67, 100), ("koniec", 67, 100), ("late", 67, 100))  # fmt: skip
_ONE_YEAR: Final = r"(?:(?:v )?(?:r|rok(?:u|om|em)?|roce) )?(\d{3,4})"
"""A year, also with its word: "před rokem 1945", "po r. 1989"."""
_BEFORE: Final = re.compile(rf"^(?:nejpozdeji|pred|before|do|ante|until|not after|ne po) {_ONE_YEAR}$")
_AFTER: Final = re.compile(rf"^(?:nejdrive|po|after|od|post|since|not before|ne pred) {_ONE_YEAR}$")
_EDTF: Final = r"(\d{4})(?:-\d\d){0,2}[?~%]?"
_UNTIL: Final = re.compile(rf"(?:\.\.|open|unknown)?/{_EDTF}")
_SINCE: Final = re.compile(rf"{_EDTF}/(?:\.\.|open|unknown)?")
"""Intervals of EDTF without a beginning or an end: "../1999", "1985-04-12/..", "1999/".

Blanks are not stripped: in "2005/  " a year of another calendar was the end.
"""
_NO_END: Final = re.compile(r"(?<!\d)(\d{4})\??\s*-\s*[\])>?]*\s*$")
_NO_END_BRACKETED: Final = re.compile(r"(.*[\])>])\s*-\s*")
"""A beginning that ends with a bracket: "[1998]-", "[mezi 1990 a 1995]-"."""
_MONTH: Final = (
    "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|maj|okt|led|uno|bre|dub|kve|cer|srp|zar|rij|lis|pro"
)
_SHORT_SPAN: Final = re.compile(
    r"(?<!\d)(?<!\d-\d\d/)(\d{4})\s*"
    rf"(?!-\s*[0-3]?\d(?:\. ?| )(?:[01]?\d\.|(?:{_MONTH})[^\W\d]*\.?) ?\d{{4}})"
    r"(?:[-/]\s*(\d{2})|-(\d))(?!\d|[-/]\d)",
    re.IGNORECASE,
)
"""Digits before a month and a year are a day: "30.11.2010-5.12.2010", "30 Nov 2010 - 15 Dec 2010"."""
_MASKED: Final = re.compile(r"(?:(?<!\w)|(?<=\b[cp]))(\d[\dux?-]{3})(?![\dux]|-(?!\d))", re.IGNORECASE)
_PARTLY_SUPPLIED: Final = re.compile(r"(?<![\d\]])(\d{0,3})\[([\d?-]{1,4})\](\d{0,3})(?![\w\[])")
"""A year of which the cataloguer supplied some digits: "199[5]", "196[8?]", "[20]05"."""
MASKING_STOPS: Final = re.compile(
    r"(?:(?<![\w.])|(?<=\b[cp]))(?:(1[4-9]\d|20\d)\.(?=[\])?/-]|\s*$)|(1\d|20)\.\.(?![.\w]))"
)
"""Full stops in place of unknown digits: "189.", "18.."."""
_NUMBERED: Final = re.compile(r"\bIS[BMS]N[\s:]*[\dXM-]+", re.IGNORECASE)
_ISO: Final = re.compile(
    r"(?<!\d)(\d{4})-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]|XX|uu))?(?=$|[T\s/;,\])?~%Z+])"
)
_COMPACT: Final = re.compile(
    r"(?<![^\s/\[(-])((?:1\d|2[01])\d\d)(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?=$|[T\s/;,\])-])"
)
"""Basic format of ISO 8601: "20051003"."""
_HIJRI_YEAR: Final = r"([1\u0661\u06f1][0-4\u0660-\u0664\u06f0-\u06f4]\d\d|\d{3})"
_HIJRI: Final = re.compile(
    rf"(?:(?<!\d){_HIJRI_YEAR}\s?[-/]\s?)?(?<!\d){_HIJRI_YEAR}\s?"
    r"(?:(?P<solar>(?:\u0647\u0640?[.\s]?)?\u0634(?!\w)|SH\b|S\.\s?H\.)"
    r"|\u0647\u0640?(?!\w)|AH\b|A\.\s?H\.|H(?!\w|\.\s?\w))"
    rf"|\b(?:AH|A\.\s?H\.)\s?{_HIJRI_YEAR}(?!\d)"
)
"""Years after the Hijra with their mark: lunar "1426 AH", "1426 H" and the letter heh, solar "1384 SH"."""
_FIRST_HIJRI: Final = date(622, 7, 19).toordinal()
"""The first day of the year 1 in the tabular lunar calendar: 16 July 622 of the Julian calendar."""
_DECADE: Final = re.compile(r"(?<!\d)(\d{3}0)['\u2019]?s\b")
_YEAR: Final = re.compile(r"(?<!\d)(\d{4})(?!\d)")
_THREE: Final = re.compile(r"(?<![\d-])([1-9]\d{2})(?:-([1-9]\d{2}))?(?![\d\[-]|\. ?\w)")
_OTHER_CALENDAR: Final = re.compile(r"(\d{4}) ?\[([^\[\]]*)\]\.?")
_AHEAD: Final = range(575, 626)
"""How far the Gregorian calendar is ahead of the two of the Hijra, and of the Bengali one."""
_BC: Final = re.compile(r"\b(?:pr n l|pred n l|b c|bc|bce|pred kr|pr kr|pred kristem|pred kristom)\b")
_DAY: Final = re.compile(rf"\b\d{{1,2}} (?:\d{{1,2}}|(?:{_MONTH})[a-z]*) (?=\d)")
"""A day and a month before a year: "13 march 44", "13 3 44"."""
_BOTH_ERAS: Final = re.compile(
    rf"(.*{_BC.pattern})(.*\b(?:n l|a d|ad|c e|ce|po kr|po kristu|po kristovi)\b.*)"
)
_SIGNED: Final = re.compile(
    r"[\[(]?(?=-0|.*/[-0])(-\d{4})(?:-\d\d){0,2}[?~%]?(?:/(?:\.\.|(-?\d{4})(?:-\d\d){0,2}[?~%]?)?)?[\])]?"
)
"""Years of EDTF of which one is before Christ: "-0044", "-0044/0014"; but "-1905" can mean "until 1905"."""
_CORRECTED: Final = re.compile(r"\[[^\[]*\b(?:i\. ?e\.|t\. ?j\.|tj\.)", re.IGNORECASE)
_DASH: Final = re.compile("[\u2010-\u2015\u2212]")
_ROMAN: Final = re.compile(
    r"\b(?=[MDCLXVI]{4,})(M{1,2}(?:CM|CD|D?C{0,4})(?:XC|XL|L?X{0,4})(?:IX|IV|V?I{0,4}))\b"
)
_ROMAN_VALUES: Final = {"I": 1, "V": 5, "X": 10, "L": 50, "C": 100, "D": 500, "M": 1000}
_LATEST: Final = 2200


def find_years(text: str) -> Years:
    """Return the span of years that a date names; `Years` without years if it names none.

    >>> find_years("mezi 1410 a 1420")
    Years(first=1410, last=1420)
    >>> find_years("[19--]")
    Years(first=1900, last=1999)
    """
    if not any(sign.isdigit() for sign in text) and not any(sign in text for sign in "MDCLXVImdclxvi"):
        return Years()
    text = _written_out(_DASH.sub("-", text))
    plain = fold(_ABBREVIATED.sub(" stol", text) if "st" in text else text)
    for look in _LOOKS:
        found = look(text, plain)
        if found is not None and _sensible(found):
            return found
    return Years()


def _written_out(text: str) -> str:
    """Return the text with whole years: joined over brackets, and with hyphens for unknown digits."""
    if "[" in text:
        text = _PARTLY_SUPPLIED.sub(_joined, text)
    if "." in text:
        text = MASKING_STOPS.sub(lambda found: f"{found[1] or found[2]:-<4}", text)
    return _NUMBERED.sub(" ", text) if "IS" in text.upper() else text


def _joined(found: re.Match[str]) -> str:
    before, supplied, after = found.groups()
    year = before + supplied + after
    if len(year) == 5 and supplied.endswith("?"):  # noqa: PLR2004 "196[8?]"
        year = before + supplied[:-1] + after
    return year if before + after and re.fullmatch(r"(?=.{4}$)[12]\d*[?-]*", year) else found[0]


def masked_years(digits: str) -> Years | None:
    """Return the span for four characters with `u`, `-`, `?` or `x` for unknown digits, such as "19uu".

    There is no year 0: "0000" gives None.
    """
    shape = re.fullmatch(r"(\d{1,4})[ux?-]*", digits, re.IGNORECASE)
    if len(digits) != 4 or shape is None:  # noqa: PLR2004 a year
        return None
    first, last = (int(shape[1].ljust(4, digit)) for digit in "09")
    return Years(first=max(first, 1), last=last) if last else None


def _sensible(years: Years) -> bool:
    given = [year for year in (years.first, years.last) if year is not None]
    in_order = years.first is None or years.last is None or years.first <= years.last
    possible = all(year and -9999 <= year <= _LATEST for year in given)  # noqa: PLR2004
    return bool(given) and in_order and possible


def _century(_text: str, plain: str) -> Years | None:
    both = _CENTURIES.search(plain)
    if both:
        return Years(first=_beginning(int(both[1]), plain), last=_beginning(int(both[2]), plain) + 99)
    found = _CENTURY.search(plain)
    if found is None:
        return None
    number, before = _number(found[1]), plain[: found.start()]
    if not 0 < number < 23:  # noqa: PLR2004 centuries with years up to _LATEST
        return None
    earlier = _EARLIER.search(before)
    if earlier and number - _MOST_CENTURIES < _number(earlier[1]) < number:
        begin = _in_century(before[: earlier.start()], _number(earlier[1]), plain)
        return Years(first=begin.first, last=_in_century(before[earlier.end() :], number, plain).last)
    begin, end = _in_century(before, number, plain), _later_part(plain, found.end(), number)
    later = end and (end.last or 0) > (begin.last or 0)
    return Years(first=begin.first, last=end.last) if end and later else begin


def _later_part(plain: str, start: int, number: int) -> Years | None:
    """Return the part of a later century that ends a span: "80. léta 19. století - 20. léta 20. století"."""
    found = _CENTURY.search(plain, start)
    if found is None or not 0 <= _number(found[1]) - number < _MOST_CENTURIES:
        return None
    between = plain[start : found.start()]
    return _part_of(between, _beginning(_number(found[1]), plain)) if _LATER.match(between) else None


def _number(text: str) -> int:
    return int(text) if text.isdigit() else _roman(text.upper())


def _in_century(before: str, number: int, plain: str) -> Years:
    begin = _beginning(number, plain)
    return _part_of(before, begin) or Years(first=begin, last=begin + 99)


def _beginning(century: int, plain: str) -> int:
    """Return the first year of a century, which is before Christ if the date says so."""
    return -century * 100 if _BC.search(plain) else century * 100 - 99


def _part_of(before: str, begin: int) -> Years | None:
    """Return the decades, the half, third or quarter of the century that the preceding words name."""
    decades = _DECADES.search(before)
    if decades and begin > 0:
        first, last = int(decades[1] or decades[2]), int(decades[2])
        return Years(first=begin - 1 + first, last=begin + 8 + last)
    part = _PART.search(before)
    if part:
        share = _SHARES.get(part[2][:3], 4)
        number = int(part[1]) if part[1].isdigit() else _NUMBERS.get(part[1][:3], share)
        if 1 <= number <= share:
            return Years(first=begin + 100 * (number - 1) // share, last=begin + 100 * number // share - 1)
    for word, first, last in _SPAN_WORDS:
        if word in before.split():
            return Years(first=begin + first, last=begin + last - 1)
    return None


def _one_sided(text: str, plain: str) -> Years | None:
    found = _BEFORE.match(plain) or _UNTIL.fullmatch(text)
    if found:
        return Years(last=int(found[1]))
    found = _AFTER.match(plain) or _SINCE.fullmatch(text)
    return Years(first=int(found[1])) if found else None


def _before_christ(_text: str, plain: str) -> Years | None:
    if not _BC.search(plain):
        return None
    years = [-int(found) for found in re.findall(r"\b\d{1,4}\b", _DAY.sub("", plain[:60]))]
    return Years(first=min(years), last=max(years)) if years else None


def _hijri(text: str, _plain: str) -> Years | None:
    """Parse years after the Hijra; a Gregorian date beside them is preferred: "1426 AH [2005]"."""
    found = list(_HIJRI.finditer(text))
    if not found:
        return None
    beside = find_years(_HIJRI.sub("  ", text))  # two blanks join nothing to another such year
    if beside != Years():
        return beside
    years = [int(year) for one in found for year in one.group(1, 2, 4) if year]
    first, last = min(years), max(years)
    if found[0]["solar"]:
        return Years(first=first + 621, last=last + 622)
    return Years(first=_lunar_year(first).year, last=(_lunar_year(last + 1) - timedelta(days=1)).year)


def _lunar_year(year: int) -> date:
    """Return the first day of a year of the tabular Islamic calendar."""
    return date.fromordinal(_FIRST_HIJRI + 354 * (year - 1) + (11 * year + 3) // 30)


def _both_eras(text: str, plain: str) -> Years | None:
    """Parse a span from before Christ to after Christ: "44 BC - 14 AD"."""
    eras = _BOTH_ERAS.fullmatch(plain[:200])
    if eras is None:
        return None
    begin = _century(text, eras[1]) or _before_christ(text, eras[1])
    years = [int(found) for found in re.findall(r"\b\d{1,4}\b", eras[2])]
    end = _century(text, eras[2]) or Years(last=max(years, default=None))
    return Years(first=begin.first, last=end.last) if begin and end.last else None


def _signed(text: str, _plain: str) -> Years | None:
    """Parse a span of EDTF; -0044 is 44 BC as in XML Schema 1.0 and in records, not 45 BC as in ISO 8601."""
    found = _SIGNED.fullmatch(text.strip())
    if found is None:
        return None
    years = [int(year) or -1 for year in found.groups() if year]
    return Years(first=min(years), last=None if "/" in text and not found[2] else max(years))


def _iso(text: str, _plain: str) -> Years | None:
    years = [int(found) for found in _ISO.findall(text) + _COMPACT.findall(text)]
    return Years(first=min(years), last=max(years)) if years else None


def _open(text: str, _plain: str) -> Years | None:
    found = _NO_END.search(text)
    if found:
        return Years(first=int(found[1]))
    begin = _NO_END_BRACKETED.fullmatch(text)
    return Years(first=find_years(begin[1]).first) if begin else None


def _short(text: str, _plain: str) -> Years | None:
    """Parse a span with a short second year: "1998/99", "1998-9", "1999/00".

    A month is none, as in "2005-10" or "2005/10/03".
    """
    found = _SHORT_SPAN.search(text)
    if found is None:
        return None
    first, ending = int(found[1]), found[2] or found[3]
    last = int(found[1][: -len(ending)] + ending)
    if ending == "00" and first % 100 == 99:  # noqa: PLR2004 the last year of a century
        last = first + 1
    return Years(first=first, last=last) if first < last else None


def _other_calendar(text: str, _plain: str) -> Years | None:
    """Parse a year of another calendar before the Gregorian one in brackets: "1355 [1976]"."""
    found = _OTHER_CALENDAR.fullmatch(text.strip())
    beside = find_years(found[2]) if found else Years()
    return beside if found and beside.first and beside.first - int(found[1]) in _AHEAD else None


def _plain_years(text: str, _plain: str) -> Years | None:
    years = [year for year in map(int, _YEAR.findall(text)) if year]
    masks = [
        mask
        for mask in map(masked_years, _MASKED.findall(text))
        if mask is not None and (mask.first or 0) <= _LATEST
    ]
    years = [year for year in years if year <= _LATEST] or years
    firsts = [*years, *(mask.first for mask in masks if mask.first is not None)]
    lasts = [*years, *(int(decade) + 9 for decade in _DECADE.findall(text))]
    lasts += [mask.last for mask in masks if mask.last is not None]
    if not firsts:
        return None
    if text.count("[") == 1 and len(years) > 1 and _CORRECTED.search(text):
        return Years(first=years[-1], last=years[-1])
    return Years(first=min(firsts), last=max(lasts))


def _short_years(text: str, _plain: str) -> Years | None:
    years = [int(year) for found in _THREE.findall(text) for year in found if year]
    return Years(first=min(years), last=max(years)) if years else None


def _in_roman(text: str, _plain: str) -> Years | None:
    found = _ROMAN.search(text.replace(".", "").upper())
    if found is None:
        return None
    year = _roman(found[1])
    return Years(first=year, last=year)


def _roman(letters: str) -> int:
    values = [_ROMAN_VALUES[letter] for letter in letters]
    following = [*values[1:], 0]
    return sum(-value if value < after else value for value, after in zip(values, following, strict=True))


# In this order: the first one that finds a plausible span is used.
_LOOKS: Final[tuple[Callable[[str, str], Years | None], ...]] = (
    _hijri,
    _both_eras,
    _signed,
    _century,
    _before_christ,
    _one_sided,
    _other_calendar,
    _iso,
    _open,
    _short,
    _plain_years,
    _short_years,
    _in_roman,
)
