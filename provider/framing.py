"""Finds the records in an ARC or WARC file one by one, and says which bytes belong to none.

warcio's own iterator ends quietly where gzip data is damaged, and stops at the first bad header; an archive
must know what it could not read. So the borders of records are found here: a gzip member is a record, a plain
record ends where its header says. After damage, reading goes on at the next place that begins as a record.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, TypeVar, cast

from oai.errors import ZatvaError

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

LINE_LIMIT = 65_536
"""Longest header line, in bytes."""

RECORD_START = re.compile(
    rb"WARC/[0-9]"  # a WARC record's first line, or an ARC record's: URL, IP address, date, type, length
    rb"|[A-Za-z][A-Za-z0-9+.-]*:[^\r\n]* [^ \r\n]+ [0-9]{14} [^ \r\n]* [0-9]+[ \r]*\n"
)

_GZIP = b"\x1f\x8b\x08"
_READ = 8192
_SEARCH = 1 << 20

Item = TypeVar("Item")
Take = Callable[[BinaryIO, int], Item]
"""Reads the record that begins at the stream's place, to its last byte; is told its offset in the file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """Bytes of a file that could not be read or taken, from `offset` (of the file as it lies there)."""

    offset: int
    reason: str


class DamageError(ZatvaError):
    """A record is damaged; the message says how."""


def read_records(file: BinaryIO, take: "Take[Item]") -> "Iterator[Item | Problem]":
    """What `take` makes of each record in an open file, in order, and a problem for each stretch it cannot.

    Only a few kilobytes are held at a time. Errors of reading the file itself (OSError) are passed on.
    """
    first = file.read(len(_GZIP))
    file.seek(0)
    if not first:
        yield Problem(offset=0, reason="the file is empty")
    elif first == _GZIP:
        yield from _read_members(file, take)
    else:
        yield from _read_plain(file, take)


def begins_as_archive(file: BinaryIO) -> bool:
    """Whether an open file's first bytes are those of an ARC or WARC file, plain or gzipped; rewinds it."""
    file.seek(0)
    first = file.read(len(_GZIP))
    file.seek(0)
    return _begins_as_record(_Member(file).stream() if first == _GZIP else file)


def skip(stream: BinaryIO, length: int) -> None:
    """Go past `length` bytes of content; raises DamageError where the stream ends before."""
    if length and stream.seekable():
        stream.seek(length - 1, io.SEEK_CUR)
        length = 1
    for _ in read_blocks(stream, length):
        pass


def read_blocks(stream: BinaryIO, length: int) -> Iterator[bytes]:
    """The next `length` bytes in blocks; raises DamageError where the stream ends before."""
    left = length
    while left:
        block = stream.read(min(left, LINE_LIMIT))
        if not block:
            raise DamageError("the record breaks off: its header announces more bytes than there are")
        left -= len(block)
        yield block


def _read_plain(file: BinaryIO, take: "Take[Item]") -> "Iterator[Item | Problem]":
    size = file.seek(0, io.SEEK_END)
    offset = 0
    while offset < size:
        file.seek(offset)
        try:
            item = take(file, offset)
            next_line = _after_content(file)
            following = file.tell() - len(next_line)
        except DamageError as damage:
            file.seek(offset)
            following = _next_start(file)
            yield Problem(offset=offset, reason=_with_unread(damage, following - offset))
        else:
            yield item
        offset = following


def _read_members(file: BinaryIO, take: "Take[Item]") -> "Iterator[Item | Problem]":
    offset = 0
    size = file.seek(0, io.SEEK_END)
    while offset < size:
        file.seek(offset)
        member = _Member(file)
        stream = member.stream()
        try:
            item, problem = _take_member(stream, take, offset)
            following = member.end()
        except DamageError as damage:
            following = _member_after(file, member, offset)
            yield Problem(offset=offset, reason=_with_unread(damage, following - offset))
        else:
            yield item
            if problem is not None:
                yield problem
        offset = following


def _take_member(stream: BinaryIO, take: "Take[Item]", offset: int) -> tuple[Item, Problem | None]:
    """The member's record, and a problem where the member holds more than that one."""
    item = take(stream, offset)
    if not _after_content(stream):
        return item, None
    reason = (
        "the gzip member goes on after its first record; the others have no place of their own and were not"
        " read: write the file anew with `warcio recompress`"
    )
    return item, Problem(offset=offset, reason=reason)


class _Member(io.RawIOBase):
    """The content of the gzip member that begins at the file's place; zlib checks its length and checksum."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        self._damage: DamageError | None = None

    def stream(self) -> BinaryIO:
        """The content, with lines."""
        return cast("BinaryIO", io.BufferedReader(self, _READ))

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        content = self._inflated(len(view))
        view[: len(content)] = content
        return len(content)

    def end(self) -> int:
        """Read on to the member's end and give its offset in the file."""
        while self._inflated(LINE_LIMIT):
            pass
        return self._file.tell() - len(self._inflate.unused_data)

    def _inflated(self, most: int) -> bytes:
        """Up to `most` bytes more; none at the member's end."""
        if self._damage is not None:
            raise self._damage
        while not self._inflate.eof:
            packed = self._inflate.unconsumed_tail or self._file.read(_READ)
            try:
                content = self._inflate.decompress(packed, most)
            except zlib.error as error:
                raise self._damaged(f"the gzip data is damaged ({error})") from None
            if content:
                return content
            if not packed and not self._inflate.eof:
                raise self._damaged("the gzip member breaks off at the end of the file")
        return b""

    def _damaged(self, reason: str) -> DamageError:
        self._damage = DamageError(reason)
        return self._damage


def _member_after(file: BinaryIO, member: _Member, offset: int) -> int:
    """Where to go on after the member at `offset` was refused."""
    try:
        return member.end()
    except DamageError:
        return _next_member(file, offset + 1)


def _next_member(file: BinaryIO, offset: int) -> int:
    """The next gzip member from `offset` on that holds a record; the file's end where there is none."""
    while True:
        file.seek(offset)
        block = file.read(_SEARCH)
        found = block.find(_GZIP)
        if found >= 0:
            file.seek(offset + found)
            if _begins_as_record(_Member(file).stream()):
                return offset + found
            offset += found + 1
        elif len(block) < _SEARCH:
            return offset + len(block)
        else:
            # The mark may lie across the border.
            offset += len(block) - len(_GZIP) + 1


def _begins_as_record(stream: BinaryIO) -> bool:
    try:
        line = stream.readline(LINE_LIMIT)
        while line and not line.strip():
            line = stream.readline(LINE_LIMIT)
    except DamageError:
        return False
    return RECORD_START.match(line) is not None


def _after_content(stream: BinaryIO) -> bytes:
    """The first line after a record's content that is not blank; none at the end.

    Raises DamageError where the content plainly goes on, as it does when Content-Length is wrong.
    """
    line = stream.readline(LINE_LIMIT)
    if line.strip(b"\r\n") and not RECORD_START.match(line):
        raise DamageError(f"the announced length is wrong: {line[:40]!r} follows where the record should end")
    while line and not line.strip(b"\r\n"):
        line = stream.readline(LINE_LIMIT)
    return line


def _next_start(file: BinaryIO) -> int:
    """Where the next record begins after the line at the file's place; the file's end where there is none."""
    place = file.tell()
    whole = False
    while line := file.readline(LINE_LIMIT):
        if whole and RECORD_START.match(line):
            return place
        whole = line.endswith(b"\n")
        place += len(line)
    return place


def _with_unread(damage: DamageError, unread: int) -> str:
    return f"{damage} ({unread:,} bytes not read)"
