"""Unreadable bytes as numbered lines of text, with the faulty line marked."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from oai.errors import MalformedXmlError
from oai.xml import parse

_AROUND: Final = 60
_LONGEST: Final = 2000
_LONGEST_QUOTATION: Final = 300
_FIRST_PRINTABLE: Final = 0x20
_DELETE: Final = 0x7F
_PICTURES: Final = 0x2400
"""First code point of Unicode's Control Pictures."""


@dataclass(frozen=True, kw_only=True)
class RawLine:
    """A line: number, text, whether it contains the fault, and the fault's column (from 1; 0: unknown)."""

    number: int
    text: str
    faulty: bool = False
    column: int = 0


@dataclass(frozen=True, kw_only=True)
class RawView:
    """The lines around the fault; `total` is the number of all lines."""

    lines: Sequence[RawLine]
    total: int
    encoding_note: bool
    """Whether some bytes are not valid UTF-8 and are shown as �."""
    parser: str = ""
    """The XML parser's message about these bytes."""
    quotation: str = ""
    """The part of the faulty line around the fault, short enough for a letter."""

    def reason(self, stored: str) -> str:
        """Return the stored reason or, if that is of the same fault, the message about these bytes.

        The harvest may have parsed them within others, so that its lines and columns do not fit here.
        """
        said = self.parser.partition(",")[0]
        return self.parser if said and said in stored else stored


def view_of(raw: bytes, *, line: int = 0) -> RawView:
    """Return the bytes as text, control characters as pictures, and the line where parsing fails.

    `line` is the line of a fault that a parser does not detect; 0 if unknown.
    """
    line, column, message = _fault(raw, line)
    text = raw.decode("utf-8", errors="replace")
    lines = [_visible(each) for each in text.split("\n")]
    faulty = lines[line - 1] if 0 < line <= len(lines) else ""
    centre = line or 1
    first, last = max(centre - _AROUND, 1), min(centre + _AROUND, len(lines))
    shown = [
        RawLine(
            number=number,
            text=_around(lines[number - 1], column if number == line else 0, _LONGEST),
            faulty=number == line,
            column=column if number == line else 0,
        )
        for number in range(first, last + 1)
    ]
    return RawView(
        lines=shown,
        total=len(lines),
        encoding_note="\ufffd" in text,
        parser=message,
        quotation=_around(faulty, column, _LONGEST_QUOTATION),
    )


def _fault(raw: bytes, line: int) -> tuple[int, int, str]:
    """Return line, column and message of the parser's error, or else the given line."""
    if not raw:
        return line, 0, ""
    try:
        parse(raw, source="the bytes")
    except MalformedXmlError as error:
        if error.line:
            return error.line, error.column, error.reason
        return 0, 0, error.reason
    return line, 0, ""


def _around(text: str, column: int, most: int) -> str:
    """Return at most `most` characters around a column (from 1; 0: the start), with ellipses."""
    begin = max(min(column - 1 - most // 2, len(text) - most), 0)
    end = begin + most
    return f"{'…' if begin else ''}{text[begin:end].strip()}{'…' if end < len(text) else ''}"


def _visible(text: str) -> str:
    return "".join(map(_visible_character, text.rstrip("\r")))


def _visible_character(character: str) -> str:
    code = ord(character)
    if code == _DELETE:
        return "\N{SYMBOL FOR DELETE}"
    return chr(_PICTURES + code) if code < _FIRST_PRINTABLE and character != "\t" else character
