"""A capture found by a look-up, and its fields by their CDX names."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Final
from uuid import UUID

import re2

from oai.errors import UsageError

_UNKNOWN: Final = "unk"
_REVISIT: Final = "warc/revisit"


@dataclass(frozen=True, kw_only=True)
class FoundCapture:
    """A capture found by a look-up."""

    id: int
    key: UUID
    url: str
    url_key: str
    archived: datetime
    mime_type: str
    http_status: int | None
    digest: str | None
    length: int | None
    """Bytes of the content without HTTP headers, if the file has been read."""
    offset: int
    record_type: str
    access: str
    deleted: bool
    path: str
    """Path of the archive file; only its name if just a CDX file has listed it."""


def _mime(one: FoundCapture) -> str:
    if one.record_type == "revisit":
        return _REVISIT
    return one.mime_type if "/" in one.mime_type else _UNKNOWN


FIELDS: Final[Mapping[str, Callable[[FoundCapture], str]]] = {
    "urlkey": lambda one: one.url_key,
    "timestamp": lambda one: one.archived.strftime("%Y%m%d%H%M%S"),
    "url": lambda one: one.url,
    "mime": _mime,
    "status": lambda one: str(one.http_status or "-"),
    "digest": lambda one: (one.digest or "-").removeprefix("sha1:"),
    "redirect": lambda _: "-",
    "robotflags": lambda _: "-",
    "length": lambda _: "-",
    "offset": lambda one: str(one.offset),
    "filename": lambda one: PurePath(one.path).name,
}
"""The fields of an eleven-field CDX line, in its order.

The length in such a line is that of the record in the file, which is not stored; readers take the record
that begins at the offset.
"""
_SAME_FIELDS: Final = {"original": "url", "mimetype": "mime", "statuscode": "status"}


def field_name(name: str) -> str:
    """Return the field for a name, which may be the name that another CDX server uses.

    Raises UsageError for an unknown name.
    """
    known = _SAME_FIELDS.get(name, name)
    if known not in FIELDS:
        raise UsageError(f"unknown field {name!r}; the fields are {', '.join(FIELDS)}")
    return known


_MOST_FILTERS: Final = 20
_LONGEST_NUMBER: Final = 18
_LONGEST_EXPRESSION: Final = 1000
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20

Test = Callable[[FoundCapture], bool]


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """Keeps the first of adjacent captures with the same value of a field."""

    field: str
    characters: int | None = None
    """How many of the field's first characters are compared; None for all."""

    def run(self, one: FoundCapture) -> str:
        """Return a short key that is equal for equal beginnings of the field."""
        value = FIELDS[self.field](one)[: self.characters]
        return hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def read_filters(texts: Sequence[str]) -> tuple[Test, ...]:
    """Parse filters, all of which must match: `[!]field:expression`, matched against the whole field.

    `=field:text` compares the exact text, and `~field:expression` matches the beginning of the field (as
    pywb does); `!` negates each of them. Raises UsageError for an invalid filter.
    """
    if len(texts) > _MOST_FILTERS:
        raise UsageError(f"{len(texts)} filters exceed the limit of {_MOST_FILTERS}")
    return tuple(map(_filter, texts))


def read_collapse(text: str | None) -> Collapse | None:
    """Parse `field` or `field:n`, for its first n characters; None if empty. Raises UsageError otherwise."""
    if not text:
        return None
    name, colon, number = text.partition(":")
    characters = read_number(number)
    if colon and characters is None:
        raise UsageError(f"collapse {text[:100]!r}: write a field, or a field, a colon and a number from 1")
    return Collapse(field=field_name(name), characters=characters)


def read_number(text: str) -> int | None:
    """Parse an integer of at least 1; None for anything else, and for one with too many digits."""
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        return None
    return int(text) or None


def _filter(text: str) -> Test:
    wanted = not text.startswith("!")
    rest = text.removeprefix("!")
    kind = rest[0] if rest[:1] in _KINDS else ""
    name, colon, expression = rest.removeprefix(kind).partition(":")
    if not colon:
        raise UsageError(f"filter {text!r} has no field; write it as status:200, or !mime:image/.*")
    read, matches = FIELDS[field_name(name)], _KINDS[kind](expression)
    return lambda one: matches(read(one)) is wanted


def _whole(expression: str) -> Callable[[str], bool]:
    pattern = _compiled(expression)
    return lambda text: pattern.fullmatch(text) is not None


def _beginning(expression: str) -> Callable[[str], bool]:
    pattern = _compiled(expression)
    return lambda text: pattern.match(text) is not None


def _letters(expression: str) -> Callable[[str], bool]:
    return lambda text: text == expression


_KINDS: Final = {"": _whole, "~": _beginning, "=": _letters}


def _compiled(expression: str) -> "re2._Regexp[str]":
    if len(expression) > _LONGEST_EXPRESSION:
        raise UsageError(
            f"an expression of {len(expression):,} characters exceeds the limit of {_LONGEST_EXPRESSION:,}"
        )
    try:
        return re2.compile(expression, _OPTIONS)
    except re2.error as error:
        told = error.args[0]
        reason = told.decode(errors="replace") if isinstance(told, bytes) else str(told)
        raise UsageError(f"{expression!r} is not an RE2 regular expression: {reason}") from None
