"""Bytes that could not be read, shown as numbered lines of text with the faulty one marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oai.errors import MalformedXmlError
from oai.xml import parse

_AROUND: Final = 60
_LONGEST: Final = 2000
_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F
_PICTURES: Final = 0x2400
"""Unicode's pictures of the control characters begin here."""


@dataclass(frozen=True, kw_only=True)
class RawLine:
    """A line: its number, its text, whether the fault is in it, and in which column (from 1; 0: unknown)."""

    number: int
    text: str
    faulty: bool = False
    column: int = 0


@dataclass(frozen=True, kw_only=True)
class RawView:
    """The lines around the fault; `total` is how many there are."""

    lines: Sequence[RawLine]
    total: int
    encoding_note: bool
    """Whether some bytes are no UTF-8, and stand as �."""
    parser: str = ""
    """What the parser says of the bytes alone."""


def view_of(raw: bytes, *, line: int = 0) -> RawView:
    """The bytes as text: control characters as pictures, and the line in which reading them fails.

    `line` is where the fault is that no parser notices; 0 if it is not known.
    """
    line, column, said = _fault(raw, line)
    text = raw.decode("utf-8", errors="replace")
    lines = [_visible(each)[:_LONGEST] for each in text.split("\n")]
    centre = line or 1
    first, last = max(centre - _AROUND, 1), min(centre + _AROUND, len(lines))
    shown = [
        RawLine(
            number=number,
            text=lines[number - 1],
            faulty=number == line,
            column=column if number == line else 0,
        )
        for number in range(first, last + 1)
    ]
    return RawView(lines=shown, total=len(lines), encoding_note="\ufffd" in text, parser=said)


def _fault(raw: bytes, line: int) -> tuple[int, int, str]:
    """Line, column and what is said of it: by the parser if it fails."""
    try:
        parse(raw, source="the bytes")
    except MalformedXmlError as error:
        if error.line:
            return error.line, error.column, str(error)
        return 0, 0, str(error)
    return line, 0, ""


def _visible(text: str) -> str:
    return "".join(map(_picture, text.rstrip("\r")))


def _picture(character: str) -> str:
    code = ord(character)
    if code == _DELETE:
        return "\N{SYMBOL FOR DELETE}"
    return chr(_PICTURES + code) if code < _FIRST_PRINTABLE and character != "\t" else character
