"""Values in the cells of a CSV file of titles, and in JSON."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from typing import Any, Final

from oai.errors import Phrase
from provider.titles.entry_errors import SHOWN, EntryError

_SEPARATOR: Final = ";"
_WRONG_SEPARATOR: Final = re.compile(r"([;,])(?:[a-z][a-z0-9+.-]*://|$)", re.IGNORECASE)
"""URLs may contain both signs, but rarely at their end or before a second URL."""
NOT_UTF_8: Final = Phrase("not in UTF-8; save the file as UTF-8")
LISTS: Final = ("alternative_names", "languages", "classification", "keywords", "collections")
"""Fields with any number of texts."""
FORMULA: Final = re.compile("'*[=+@\uff1d\uff0b\uff0d\uff20-]")
"""The beginning of a cell that a spreadsheet would run; exports put an apostrophe before it."""
_NUMBER: Final = re.compile(r"(\d+)(\.\d+)?", re.ASCII)
_WITH_EXPONENT: Final = re.compile(r"(\d)(?:[.,](\d+))?E\+0*(\d+)", re.ASCII)
_SHORTENED: Final = 12
"""Numbers of so many digits are saved with an exponent."""
_EXACT: Final = 15
"""Digits that spreadsheet programs keep."""
_JSON: Final = re.compile(r'\[\s*["{]')


def of_json(content: bytes) -> Any:  # noqa: ANN401 any JSON
    """Return what JSON means. Raises ValueError if it cannot be read."""
    if b"\0" in content:  # as in UTF-16
        raise EntryError(NOT_UTF_8)
    try:
        return json.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        raise EntryError(NOT_UTF_8) from None
    except json.JSONDecodeError as error:
        raise EntryError(
            "not JSON: %(error)s at character %(place)s", error=error.msg, place=f"{error.pos + 1:,}"
        ) from None
    except RecursionError:
        raise EntryError("lists or objects are nested too deeply") from None
    except ValueError:
        raise EntryError("a number has too many digits") from None


def values_of_row(columns: Sequence[str], row: Sequence[str]) -> dict[str, Any]:
    """Return the fields of an entry that a row gives. Raises EntryError if a cell cannot be read."""
    if len(row) > len(columns):
        raise EntryError("more values than columns")
    if len(row) < len(columns):
        raise EntryError("fewer values than columns, as at the end of a file that was cut off")
    if not is_unicode("".join(row)):
        raise EntryError(NOT_UTF_8)
    cells = zip(columns, map(_without_apostrophe, row), strict=True)
    given: dict[str, Any] = {name: value for name, value in cells if value}
    seeds = _several(given.pop("seeds", ""), partial(urls_in, "seeds"))
    if "collection" in given:
        return {**given, "seeds": seeds}
    seeds = [{"url": seed} if isinstance(seed, str) else seed for seed in seeds]
    carve_outs = _several(given.pop("carve_outs", ""), partial(urls_in, "carve_outs"))
    seeds += [{"url": url, "kind": "carve-out"} for url in carve_outs]
    for name in LISTS:
        if name in given:
            given[name] = _several(given[name], values_in)
    if "subjects" in given:
        given["subjects"] = _several(given["subjects"], subjects_in)
    return {**given, "seeds": seeds}


def _without_apostrophe(cell: str) -> str:
    return cell[1:] if cell.startswith("'") and FORMULA.match(cell) else cell


def _several(cell: str, split: Callable[[str], list[Any]]) -> list[Any]:
    """Return the values in a cell, which may be a JSON list. Raises ValueError if that cannot be read."""
    return list(of_json(cell.encode())) if _JSON.match(cell) else split(cell)


def saved_as_numbers(texts: Iterable[str]) -> dict[str, str]:
    """Return the texts that a spreadsheet program reads as numbers, by what it may save in place of each.

    It leaves out zeros, writes many digits with an exponent, and keeps the first 15. Look up what
    `with_plain_exponent` returns.
    """
    saved: dict[str, str] = {}
    for text in texts:
        found = _NUMBER.fullmatch(text)
        if found is None:
            continue
        digits, decimals = found[1].lstrip("0") or "0", (found[2] or "").rstrip("0").rstrip(".")
        forms = [digits + decimals]
        if len(digits) >= _SHORTENED and not decimals:
            forms += [f"{Decimal(digits):.{places}E}" for places in range(_EXACT)]
            forms.append(digits[:_EXACT] + "0" * len(digits[_EXACT:]))
        for form in forms:
            if form != text:
                saved.setdefault(form, text)
    return saved


def with_plain_exponent(text: str) -> str:
    """Return a number such as `1,2E+018` as `1.2E+18`; any other text as it is."""
    found = _WITH_EXPONENT.fullmatch(text)
    if found is None:
        return text
    return f"{found[1]}.{found[2]}E+{found[3]}" if found[2] else f"{found[1]}E+{found[3]}"


def is_utf_8(content: bytes) -> bool:
    """Return whether bytes are text in UTF-8; UTF-16 has NUL characters."""
    return b"\0" not in content and is_unicode(content.decode(errors="surrogateescape"))


def is_unicode(text: str) -> bool:
    """Return whether a text has no surrogates, as bytes become that are not in UTF-8."""
    return text.encode(errors="replace").decode() == text


def urls_in(column: str, text: str) -> list[str]:
    """Return the URLs that blanks separate. Raises EntryError if another sign seems to separate some.

    To read that sign as a separator would change the rare URL that has it; a JSON list can give such a URL.
    """
    urls = text.split()
    for url in urls:
        if found := _WRONG_SEPARATOR.search(url):
            raise EntryError(
                "%(column)s: separate URLs by blanks, not by %(sign)s: %(url)s",
                column=column,
                sign=repr(found[1]),
                url=repr(url[:SHOWN]),
            )
    return urls


def values_in(text: str) -> list[str]:
    """Return the values that semicolons separate."""
    return [value for value in map(str.strip, text.split(_SEPARATOR)) if value]


def subjects_in(text: str) -> list[dict[str, str]]:
    """Return the subjects that semicolons separate, each a name or `number: name`."""
    parts = [(value, *value.partition(":")) for value in values_in(text)]
    return [
        {"number": number.strip(), "name": name.strip()}
        if colon and number.strip().isdecimal()
        else {"name": value}
        for value, number, colon, name in parts
    ]
