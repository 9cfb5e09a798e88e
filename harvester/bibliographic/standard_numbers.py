"""Finds and normalises ISBN, ISSN, ISMN and DOI.

Source: ISO 2108 (ISBN), ISO 3297 (ISSN), ISO 10957 (ISMN), the DOI Handbook.
"""

import re
from typing import Final

_ISBN: Final = re.compile(
    r"(?<!\d)(?:97[89][-\s\u2010-\u2015]?)?(?:\d[-\s\u2010-\u2015]?){9}[\dXx](?![\dXx])"
)
_ISSN: Final = re.compile(r"(?<![\d-])(\d{4})[-\s\u2010-\u2015]?(\d{3}[\dXx])(?![\d-])")
_ISMN: Final = re.compile(r"(?:979-?0|M)[-\s]?(?:\d[-\s]?){8}\d", re.IGNORECASE)
_DOI: Final = re.compile(r"\b10\.\d{4,9}/\S+")
_NO_DIGIT: Final = re.compile(r"[^\dXx]")


def find_isbn(text: str) -> tuple[str, bool] | None:
    """The first ISBN in the text as 13 digits and whether its check digit is right; None where there is none.

    One whose check digit is wrong comes as its own digits.

    >>> find_isbn("80-200-0129-8 (váz.)")
    ('9788020001290', True)
    """
    found = _ISBN.search(text)
    if found is None:
        return None
    digits = _NO_DIGIT.sub("", found[0]).upper()
    if len(digits) == 10:  # noqa: PLR2004 an ISBN of before 2007
        return (_thirteen("978" + digits[:9]), True) if _good_ten(digits) else (digits, False)
    good = "X" not in digits and digits == _thirteen(digits[:12])
    return digits, good


def find_issn(text: str) -> tuple[str, bool] | None:
    """The first ISSN in the text as `1234-567X`, and whether its check digit is right."""
    found = _ISSN.search(text)
    if found is None:
        return None
    digits = (found[1] + found[2]).upper()
    total = sum((8 - place) * int(digit) for place, digit in enumerate(digits[:7]))
    check = (11 - total % 11) % 11
    return f"{digits[:4]}-{digits[4:]}", digits[7] == ("X" if check == 10 else str(check))  # noqa: PLR2004


def find_ismn(text: str) -> tuple[str, bool] | None:
    """The first ISMN in the text as 13 digits (those with M begin with 9790), and whether it is right."""
    found = _ISMN.search(text)
    if found is None:
        return None
    digits = "9790" + re.sub(r"\D", "", found[0]).removeprefix("9790")
    return digits, digits == _thirteen(digits[:12])


def find_doi(text: str) -> str | None:
    """The first DOI in the text, in lower case and without `doi:` or an address before it."""
    found = _DOI.search(text)
    return found[0].rstrip(".,;)").lower() if found else None


def _good_ten(digits: str) -> bool:
    if "X" in digits[:9]:
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((10 - place) * value for place, value in enumerate(values)) % 11 == 0


def _thirteen(twelve: str) -> str:
    total = sum(int(digit) * (3 if place % 2 else 1) for place, digit in enumerate(twelve[:12]))
    return f"{twelve[:12]}{-total % 10}"
