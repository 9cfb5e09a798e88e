"""The captures of a CDX look-up as text: lines and JSON in the forms of several CDX servers."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from provider.holdings.capture import FIELDS, Field, FoundCapture

Column = tuple[str, Field]
"""A field under the name by which the answer shows it."""
Write = Callable[[Sequence[FoundCapture], Sequence[Column], str | None], str]
"""Writes captures, and the key to continue after them if it was requested."""

NONE: Final = "-"
"""What a field without a value has in a text line."""
_NOT_IN_OUR_JSON: Final = frozenset({"redirect", "robotflags", "length"})
"""Fields that no capture has a value for."""
_BEFORE_THE_JSON: Final = frozenset({"urlkey", "timestamp"})
"""Fields that a CDXJ line has before its object."""
_SEPARATORS: Final = re.compile(r"[\x00-\x20\x7f]")
_NUMBERS: Final = frozenset({"timestamp", "status", "statuscode", "length", "offset"})


@dataclass(frozen=True, kw_only=True)
class Output:
    """A form of answers."""

    content_type: str
    write: Write


def text_lines(captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None) -> str:
    """Return a line for each capture, its fields separated by blanks.

    Blanks and control characters in a field, such as the name of a file, are percent-encoded.
    """
    lines = "".join(
        " ".join(_escaped(field_of(capture)) for _, field_of in columns) + "\n" for capture in captures
    )
    return lines + _last_line(resume_key)


def json_lines(captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None) -> str:
    """Return an object for each capture; fields that never have a value are omitted."""
    lines = "".join(f"{_own_object(capture, columns)}\n" for capture in captures)
    return lines + ("" if resume_key is None else json.dumps({"resumeKey": resume_key}) + "\n")


def cdxj_lines(captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None) -> str:
    """Return CDXJ: key, time and an object on each line; the object has the URL if nothing else is chosen."""
    own = [column for column in columns if column[0] not in _BEFORE_THE_JSON]
    chosen = own or [("url", FIELDS["url"])]
    lines = (f"{_begin(capture)}{_own_object(capture, chosen)}\n" for capture in captures)
    return "".join(lines) + _last_line(resume_key)


def pywb_json(captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None) -> str:
    """Return an object for each capture as pywb does: strings in ASCII, without missing values."""
    lines = "".join(f"{json.dumps(_present(capture, columns))}\n" for capture in captures)
    return lines + ("" if resume_key is None else json.dumps({"resumeKey": resume_key}) + "\n")


def pywb_cdxj(captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None) -> str:
    """Return CDXJ as pywb does."""
    return _cdxj(captures, columns, resume_key, json.dumps)


def outbackcdx_cdxj(
    captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None
) -> str:
    """Return CDXJ as outbackcdx does: strings, without blanks between them and without missing values."""
    return _cdxj(captures, columns, resume_key, _compact)


def outbackcdx_rows(
    captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None
) -> str:
    """Return an array of arrays, of which the first has the names; numbers are numbers, or null."""
    rows: list[list[Any]] = [[name for name, _ in columns]]
    rows += [[_value(name, field_of(capture)) for name, field_of in columns] for capture in captures]
    return _compact([*rows, *_key_rows(resume_key)])


def outbackcdx_objects(
    captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None
) -> str:
    """Return an array of objects without missing values."""
    rows = [
        {name: _value(name, value) for name, value in _present(capture, columns).items()}
        for capture in captures
    ]
    return _compact([*rows, *([] if resume_key is None else [{"resumeKey": resume_key}])])


def wayback_rows(captures: Sequence[FoundCapture], columns: Sequence[Column], resume_key: str | None) -> str:
    """Return an array of arrays of strings, of which the first has the names; empty without captures."""
    rows = [[field_of(capture) for _, field_of in columns] for capture in captures]
    if rows:
        rows.insert(0, [name for name, _ in columns])
    lines = [json.dumps(row, ensure_ascii=False) for row in (*rows, *_key_rows(resume_key))]
    return "[" + ",\n".join(lines) + "]\n"


def _cdxj(
    captures: Sequence[FoundCapture],
    columns: Sequence[Column],
    resume_key: str | None,
    as_json: Callable[[Mapping[str, str]], str],
) -> str:
    """Return key, time and an object without missing values for each capture."""
    own = [column for column in columns if column[0] not in _BEFORE_THE_JSON]
    lines = (f"{_begin(capture)}{as_json(_present(capture, own))}\n" for capture in captures)
    return "".join(lines) + _last_line(resume_key)


def _escaped(value: str) -> str:
    return _SEPARATORS.sub(lambda match: f"%{ord(match[0]):02X}", value)


def _begin(capture: FoundCapture) -> str:
    return f"{capture.url_key} {FIELDS['timestamp'](capture)} "


def _last_line(resume_key: str | None) -> str:
    """Return an empty line and the key, as the Wayback CDX server does."""
    return "" if resume_key is None else f"\n{resume_key}\n"


def _key_rows(resume_key: str | None) -> list[list[Any]]:
    """Return an empty row and one with the key, as the Wayback CDX server does."""
    return [] if resume_key is None else [[], [resume_key]]


def _own_object(capture: FoundCapture, columns: Sequence[Column]) -> str:
    """Return the object of our own forms: `-` for a missing value, without fields that never have one."""
    fields = {name: field_of(capture) for name, field_of in columns if name not in _NOT_IN_OUR_JSON}
    return json.dumps(fields, ensure_ascii=False)


def _present(capture: FoundCapture, columns: Sequence[Column]) -> dict[str, str]:
    """Return the fields that have a value."""
    return {name: value for name, field_of in columns if (value := field_of(capture)) != NONE}


def _value(name: str, text: str) -> str | int | None:
    """Return the value of a JSON field as outbackcdx writes it."""
    if name not in _NUMBERS:
        return text
    return int(text) if text.isdigit() else None


def _compact(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
