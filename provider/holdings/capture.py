"""A capture found by a look-up, and its fields by their CDX names."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import Final
from uuid import UUID

import re2

from oai.datestamps import format_timestamp
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
    packed_length: int | None = None
    """Bytes of the record in the file, if they are known."""


Field = Callable[[FoundCapture], str]


def _mime(one: FoundCapture) -> str:
    if one.record_type == "revisit":
        return _REVISIT
    return one.mime_type if "/" in one.mime_type else _UNKNOWN


FIELDS: Final[Mapping[str, Field]] = {
    "urlkey": lambda one: one.url_key,
    "timestamp": lambda one: format_timestamp(one.archived),
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

The length in such a line is that of the record in the file, which is not known of every capture; readers
take the record that begins at the offset.
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


MOST_FILTERS: Final = 20
"""And collapses."""
_LONGEST_NUMBER: Final = 18
_LONGEST_EXPRESSION: Final = 1000
_LARGEST_PROGRAM: Final = 10_000
"""In instructions of RE2, whose time for a text grows with them; `.{500,}` has 4,000 of them."""
_OPTIONS: Final = re2.Options()
_OPTIONS.log_errors = False
_OPTIONS.max_mem = 1 << 20

Test = Callable[[FoundCapture], bool]
TextTest = Callable[[str], bool]


@dataclass(frozen=True, kw_only=True)
class Collapse:
    """Keeps the first of adjacent captures with the same value of a field."""

    field: str
    characters: int | None = None
    """How many of the field's first characters are compared; None for all."""
    beside: Field | None = None
    """A second field that must be equal, too."""

    def run(self, one: FoundCapture) -> str:
        """Return a short key that is equal for equal beginnings of the field."""
        value = FIELDS[self.field](one)[: self.characters]
        if self.beside is not None:
            value += f" {self.beside(one)}"
        return hashlib.blake2b(value.encode(errors="surrogatepass"), digest_size=8).hexdigest()


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


def matches_whole(expression: str) -> TextTest:
    """Return a test for texts that match an expression from beginning to end."""
    pattern = _compiled(expression)
    return lambda text: pattern.fullmatch(text) is not None


def matches_beginning(expression: str) -> TextTest:
    """Return a test for texts whose beginning matches an expression."""
    pattern = _compiled(expression)
    return lambda text: pattern.match(text) is not None


def equals(wanted: str) -> TextTest:
    """Return a test for exactly this text."""
    return lambda text: text == wanted


def contains(wanted: str) -> TextTest:
    """Return a test for texts that contain this one."""
    return lambda text: wanted in text


@dataclass(frozen=True, kw_only=True)
class FilterSyntax:
    """How filters are written: the same marks mean opposite things to different CDX servers."""

    marks: Mapping[str, Callable[[str], TextTest]]
    """The comparison for each mark before the field; that for no mark has the empty string."""
    negated_first: bool = True
    """Whether the exclamation mark precedes the mark (`!~status:4`) or follows it (`~!status:4`)."""
    fields: Mapping[str, Field]
    """Fields by all their names."""
    whole_line: Field | None = None
    """What a filter without a field is compared with; None if a field is required."""

    def read(self, texts: Sequence[str]) -> tuple[Test, ...]:
        """Parse filters, all of which must match. Raises UsageError for an invalid filter."""
        if len(texts) > MOST_FILTERS:
            raise UsageError(f"{len(texts)} filters exceed the limit of {MOST_FILTERS}")
        return tuple(self._filter(text) for text in texts if text or self.whole_line is None)

    def _filter(self, text: str) -> Test:
        wanted, mark, rest = self._marked(text)
        name, colon, expression = rest.partition(":")
        read = self._field(name) if colon else self.whole_line
        if read is None:
            raise UsageError(f"filter {text!r} has no field; write it as status:200, or !mime:image/.*")
        matches = self.marks[mark](expression if colon else rest)
        return lambda one: matches(read(one)) is wanted

    def _marked(self, text: str) -> tuple[bool, str, str]:
        """Return whether a match is wanted, the mark, and the rest."""
        rest = text.removeprefix("!") if self.negated_first else text
        mark = rest[:1] if rest[:1] in self.marks else ""
        rest = rest.removeprefix(mark)
        if self.negated_first:
            return not text.startswith("!"), mark, rest
        return not rest.startswith("!"), mark, rest.removeprefix("!")

    def _field(self, name: str) -> Field:
        if name not in self.fields:
            raise UsageError(f"unknown field {name!r}; the fields are {', '.join(FIELDS)}")
        return self.fields[name]


FILTERS: Final = FilterSyntax(
    marks={"": matches_whole, "~": matches_beginning, "=": equals},
    fields={**FIELDS, **{other: FIELDS[name] for other, name in _SAME_FIELDS.items()}},
)
"""`[!]field:expression`, matched against the whole field.

`=field:text` compares the exact text, and `~field:expression` matches the beginning of the field (as pywb
does); `!` negates each of them.
"""


def _compiled(expression: str) -> "re2._Regexp[str]":
    if len(expression) > _LONGEST_EXPRESSION:
        raise UsageError(
            f"an expression of {len(expression):,} characters exceeds the limit of {_LONGEST_EXPRESSION:,}"
        )
    try:
        pattern = re2.compile(expression, _OPTIONS)
    except re2.error as error:
        message = error.args[0]
        reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise UsageError(f"{expression!r} is not an RE2 regular expression: {reason}") from None
    if pattern.programsize > _LARGEST_PROGRAM:
        raise UsageError(
            f"{expression!r} is too complex for a filter: RE2 compiles it to {pattern.programsize:,} "
            f"instructions, more than {_LARGEST_PROGRAM:,}; use fewer repetitions and classes of characters"
        )
    return pattern
