"""The captures of a CDX look-up as text: lines and JSON in the forms of several CDX servers."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from provider.holdings.capture import FIELDS, Field, FoundCapture

Column = tuple[str, Field]
"""A field under the name by which the answer shows it."""
Write = Callable[[Sequence[FoundCapture], Sequence[Column], str | None], str]
"""Writes captures, and the key to continue after them if it was requested."""

NONE: Final = "-"
"""What a field without a value has in a text line."""
_IN_NO_JSON: Final = frozenset({"redirect", "robotflags", "length"})
_OF_THE_LINE: Final = frozenset({"urlkey", "timestamp"})
_SEPARATING: Final = re.compile(r"[\x00-\x20\x7f]")
_NUMBERS: Final = frozenset({"timestamp", "status", "statuscode", "length", "offset"})


@dataclass(frozen=True, kw_only=True)
class Output:
    """A form of answers."""

    content_type: str
    write: Write


def text_lines(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return a line for each capture, its fields separated by blanks.

    Blanks and control characters in a field, such as the name of a file, are percent-encoded.
    """
    lines = "".join(" ".join(_escaped(read(one)) for _, read in columns) + "\n" for one in found)
    return lines + _last_line(key)


def json_lines(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return an object for each capture; fields that never have a value are omitted."""
    lines = "".join(f"{_own_object(one, columns)}\n" for one in found)
    return lines + ("" if key is None else json.dumps({"resumeKey": key}) + "\n")


def cdxj_lines(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return CDXJ: key, time and an object on each line, which has the URL if no field is left for it."""
    own = [column for column in columns if column[0] not in _OF_THE_LINE]
    chosen = own or [("url", FIELDS["url"])]
    return "".join(f"{_begin(one)}{_own_object(one, chosen)}\n" for one in found) + _last_line(key)


def pywb_json(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return an object for each capture as pywb does: strings in ASCII, without missing values."""
    lines = "".join(f"{json.dumps(_present(one, columns))}\n" for one in found)
    return lines + ("" if key is None else json.dumps({"resumeKey": key}) + "\n")


def pywb_cdxj(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return CDXJ as pywb does."""
    own = [column for column in columns if column[0] not in _OF_THE_LINE]
    lines = (f"{_begin(one)}{json.dumps(_present(one, own))}\n" for one in found)
    return "".join(lines) + _last_line(key)


def outback_cdxj(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return CDXJ as outbackcdx does: strings, without blanks between them and without missing values."""
    own = [column for column in columns if column[0] not in _OF_THE_LINE]
    lines = (f"{_begin(one)}{_compact(_present(one, own))}\n" for one in found)
    return "".join(lines) + _last_line(key)


def outback_rows(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return an array of arrays, of which the first has the names; numbers are numbers, or null."""
    rows: list[list[Any]] = [[name for name, _ in columns]]
    rows += [[_value(name, read(one)) for name, read in columns] for one in found]
    return _compact([*rows, *_key_rows(key)])


def outback_objects(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return an array of objects without missing values."""
    rows = [{name: _value(name, value) for name, value in _present(one, columns).items()} for one in found]
    return _compact([*rows, *([] if key is None else [{"resumeKey": key}])])


def wayback_rows(found: Sequence[FoundCapture], columns: Sequence[Column], key: str | None) -> str:
    """Return an array of arrays of strings, of which the first has the names; empty without captures."""
    rows = [[read(one) for _, read in columns] for one in found]
    if rows:
        rows.insert(0, [name for name, _ in columns])
    lines = [json.dumps(row, ensure_ascii=False) for row in (*rows, *_key_rows(key))]
    return "[" + ",\n".join(lines) + "]\n"


def _escaped(value: str) -> str:
    return _SEPARATING.sub(lambda found: f"%{ord(found[0]):02X}", value)


def _begin(one: FoundCapture) -> str:
    return f"{one.url_key} {FIELDS['timestamp'](one)} "


def _last_line(key: str | None) -> str:
    """Return an empty line and the key, as the Wayback CDX server does."""
    return "" if key is None else f"\n{key}\n"


def _key_rows(key: str | None) -> list[list[Any]]:
    """Return an empty row and one with the key, as the Wayback CDX server does."""
    return [] if key is None else [[], [key]]


def _own_object(one: FoundCapture, columns: Sequence[Column]) -> str:
    fields = {name: read(one) for name, read in columns if name not in _IN_NO_JSON}
    return json.dumps(fields, ensure_ascii=False)


def _present(one: FoundCapture, columns: Sequence[Column]) -> dict[str, str]:
    return {name: value for name, read in columns if (value := read(one)) != NONE}


def _value(name: str, text: str) -> str | int | None:
    """Return the value of a JSON field as outbackcdx writes it."""
    if name not in _NUMBERS:
        return text
    return int(text) if text.isdigit() else None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
