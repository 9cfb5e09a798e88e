"""Recognises the beginning of a record in an ARC or WARC file, and finds the next one after damage."""

import re
from collections.abc import Callable
from typing import BinaryIO

from provider.reading.content import LINE_LIMIT, Content, ContentSource, DamageError

RECORD_START = re.compile(
    rb"WARC/[0-9]"  # a WARC record's first line, or an ARC record's: URL, IP address, date, type, length
    rb"|[A-Za-z][A-Za-z0-9+.-]*:[^\r\n]* (?:[^ \r\n]+ [0-9]{10,18}[A-Za-z]{0,9}|[0-9]{14} [^ \r\n]+)"
    # A parameter is tried only at the last semicolon, near the end of the line: there may be thousands.
    rb" (?:(?>[^ \r\n]*;)(?=[^\n]{0,400}+\n)[^\r\n]{0,200}|[^ \r\n]*) [0-9]+[ \r]*\n"
)
_VERSION_LINE = re.compile(rb"WARC/[0-9]\.[0-9]{1,2}\r?\n\Z")
_FIELD = re.compile(rb"(?:WARC|Content)-[A-Za-z-]+[ \t]*:", re.IGNORECASE)
_LONGEST_VERSION = len(b"WARC/1.10\r")
_SEARCH = 1 << 20
_BLANK_LINES = re.compile(rb"\s*\n")


def begins_as_record(source: ContentSource) -> bool:
    """Return whether a record begins here, possibly after blank lines."""
    try:
        content = Content(source)
        blank = _BLANK_LINES.match(content.front)
        _, line = next(content.lines_from(blank.end() if blank else 0), (0, b""))
    except DamageError:
        return False
    return RECORD_START.match(line) is not None


def next_packed(file: BinaryIO, offset: int, magic: bytes, begins: Callable[[int], bool]) -> int:
    """Return the next place with these bytes and a record; the file's end if there is none."""
    while True:
        file.seek(offset)
        block = file.read(_SEARCH)
        found = block.find(magic)
        while found >= 0:
            if begins(offset + found):
                return offset + found
            found = block.find(magic, found + 1)
        if len(block) < _SEARCH:
            return offset + len(block)
        # The magic number may straddle the block boundary.
        offset += len(block) - len(magic) + 1


def next_start(file: BinaryIO, offset: int) -> int:
    """Return the start of the next record after `offset`; the file's end if there is none.

    A WARC record may begin within a line, after a cut record or zeros.
    """
    place = file.seek(offset)
    whole, within = False, offset
    while line := file.readline(LINE_LIMIT):
        if whole and RECORD_START.match(line):
            return place
        if within > offset and _FIELD.match(line):
            return within
        whole = line.endswith(b"\n")
        found = _VERSION_LINE.search(line)
        within = place + found.start() if found else offset
        place += len(line)
        if not whole and len(line) == LINE_LIMIT:
            # The version may straddle the parts of a long line.
            place = file.seek(place - _LONGEST_VERSION)
    return place
