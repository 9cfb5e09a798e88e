"""A capture that a look-up found, and its fields as CDX lines name them."""

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
    """A capture."""

    id: int
    key: UUID
    url: str
    url_key: str
    archived: datetime
    mime_type: str
    http_status: int | None
    digest: str | None
    length: int | None
    """Bytes of the content, HTTP headers left out, where the file has been read."""
    offset: int
    record_type: str
    access: str
    deleted: bool
    path: str
    """Of the archive file; its name alone while only a CDX file has told of it."""


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

The length in such a line is that of the record as it lies in the file, which is not kept here; readers take
the record that begins at the offset.
"""
_SAME_FIELDS: Final = {"original": "url", "mimetype": "mime", "statuscode": "status"}


def field_name(name: str) -> str:
    """The field that is meant by this name, by which other CDX servers may know it.

    Raises UsageError where there is none.
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
    """Of neighbours whose field is the same, the first is taken."""

    field: str
    characters: int | None = None
    """How many of the field's first characters count; None for all."""

    def run(self, one: FoundCapture) -> str:
        """What neighbours are compared by: short, and the same for the same beginning of the field."""
        value = FIELDS[self.field](one)[: self.characters]
        return hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def read_filters(texts: Sequence[str]) -> tuple[Test, ...]:
    """Filters, all of which must hold: `[!]field:expression`, matched with the whole field.

    `=field:text` compares to the letter, `~field:expression` matches at the field's beginning (as pywb does);
    `!` turns each of them round. Raises UsageError for what cannot be read.
    """
    if len(texts) > _MOST_FILTERS:
        raise UsageError(f"{len(texts)} filters exceed the limit of {_MOST_FILTERS}")
    return tuple(map(_filter, texts))


def read_collapse(text: str | None) -> Collapse | None:
    """`field` or `field:n`, by its first n characters; None for none. Raises UsageError for anything else."""
    if not text:
        return None
    name, colon, number = text.partition(":")
    characters = read_number(number)
    if colon and characters is None:
        raise UsageError(f"collapse {text[:100]!r}: write a field, or a field, a colon and a number from 1")
    return Collapse(field=field_name(name), characters=characters)


def read_number(text: str) -> int | None:
    """A number from 1 on; None for anything else, and for one with more digits than anybody can need."""
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
