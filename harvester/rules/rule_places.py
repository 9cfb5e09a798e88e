"""Finds where in a rule file each element and each of its attributes stands, for the messages."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.parsers import expat

_LINE_END: Final = re.compile(r"\r\n|\r|\n")


@dataclass(frozen=True, kw_only=True)
class Place:
    """A line and a column, both from 1."""

    line: int
    column: int


@dataclass(frozen=True, kw_only=True)
class ElementPlace(Place):
    """Where an element begins, and its start tag as it is written."""

    tag: str

    def attribute(self, name: str) -> Place:
        """Give where the attribute's name stands in the tag; where the element begins if it has none."""
        for found in _attributes(self.tag):
            if found[1] == name:
                lines = _LINE_END.split(self.tag[: found.start(1)])
                column = len(lines[-1]) + (self.column if len(lines) == 1 else 1)
                return Place(line=self.line + len(lines) - 1, column=column)
        return self


def places(data: bytes) -> Sequence[ElementPlace]:
    """Give the place of each element of a well-formed file, in document order.

    None at all where the file is in an encoding that Python's own parser does not know.
    """
    found: list[tuple[int, int, int]] = []
    parser = expat.ParserCreate()

    def note(_name: str, _attributes: dict[str, str]) -> None:
        found.append((parser.CurrentLineNumber, parser.CurrentColumnNumber, parser.CurrentByteIndex))

    parser.StartElementHandler = note
    try:
        parser.Parse(data, True)  # noqa: FBT003 the parser takes no names
    except (expat.ExpatError, LookupError, ValueError):
        return ()
    return [
        ElementPlace(line=line, column=column + 1, tag=_tag(data, index)) for line, column, index in found
    ]


def _tag(data: bytes, index: int) -> str:
    """The start tag at a byte; empty in an encoding of more bytes to the letter."""
    found = _TAG.match(data, index)
    return found[0].decode("utf-8", errors="replace") if found else ""


_TAG: Final = re.compile(rb"<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")
_ATTRIBUTE: Final = re.compile(r"([^\s=/<>\"']+)\s*=\s*(?:\"[^\"]*\"|'[^']*')")


def _attributes(tag: str) -> Iterator[re.Match[str]]:
    return _ATTRIBUTE.finditer(tag)
