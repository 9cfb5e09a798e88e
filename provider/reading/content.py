"""The bytes of a record: its front is kept while the headers are read, and the rest is streamed.

A gzip member and a section of a plain file are read in the same way. Most records are small: the first
read contains them completely, and no further read is necessary.
"""

import io
import re
import zlib
from collections.abc import Callable, Iterator
from typing import BinaryIO, ClassVar, Protocol

from oai.compression import INFLATE_ERRORS, inflater
from oai.errors import ZatvaError
from oai.failures import FailureCode

LINE_LIMIT = 65_536
"""Maximum length of a header line, in bytes."""

_FIRST = 8192
_PIECE = 65_536
_TRUNCATED = "the record is truncated: its header declares more bytes than there are"
_MOST_WITHOUT_CONTENT = _FIRST
"""Packed bytes, as of a file's name in a header, or of empty blocks: each byte may seem to begin a member."""
_GZIP_WINDOW = 16 + zlib.MAX_WBITS
_EMPTY_LINES = re.compile(rb"[\r\n]*\n")


class DamageError(ZatvaError):
    """A record is damaged; the message states how."""

    code: ClassVar = FailureCode.ARCHIVE_RECORD_BROKEN


class EndedEarlyError(DamageError):
    """A record ends before the length that its header declares."""

    code: ClassVar = FailureCode.ARCHIVE_RECORD_TRUNCATED


class ContentSource(Protocol):
    """The source of a record's bytes."""

    def read(self, most: int) -> bytes:
        """Return up to `most` further bytes, at least one; empty at the end."""

    def skip(self, length: int) -> int:
        """Skip up to `length` bytes if that is faster than reading; return how many, or 0."""

    def at_end(self) -> bool:
        """Return whether the end is known to be reached."""


class Content:
    """The bytes from a record's first byte on. They may continue after the record, as in a plain file."""

    __slots__ = ("_passed", "_size", "_source", "_verify_end", "front")

    def __init__(
        self,
        source: ContentSource,
        size: int | None = None,
        verify_end: Callable[[int], None] | None = None,
    ) -> None:
        """Read the first bytes; `size` is how many the source has, if that is known.

        `verify_end` raises DamageError for the end of a record before all of it is read, if it is wrong.
        """
        self._source = source
        self._size = size
        self._verify_end = verify_end
        self.front = source.read(_PIECE)
        """The bytes kept so far, from the record's first byte on."""
        self._passed = len(self.front)

    def ends_with(self, blanks: bytes, place: int) -> bool:
        """Return whether exactly `blanks` remain after a position, if that is known without reading on."""
        return self.front[place:] == blanks and self._passed == len(self.front) and self._source.at_end()

    def extend(self, size: int) -> bytes:
        """Keep at least `size` bytes, as far as they exist; only before `pass_to`."""
        if len(self.front) < size:
            pieces = [self.front, *self._pieces(size)]
            self.front = b"".join(pieces)
        return self.front

    def grow(self) -> bytes:
        """Keep what the source returns next, which is nothing at its end; only before `pass_to`."""
        piece = self._source.read(_PIECE)
        self._passed += len(piece)
        self.front += piece
        return self.front

    def pass_to(self, end: int, see: Callable[[bytes], object] | None = None, begin: int = 0) -> None:
        """Advance to the byte `end`, and pass the bytes between `begin` and it to `see`.

        `begin` must be within the front. Raises EndedEarlyError if there are fewer bytes.
        """
        # Before anything is read: a file of records that declare too much would be read for each of them.
        if self._size is not None and end > self._size:
            raise EndedEarlyError(_TRUNCATED)
        if self._verify_end is not None and end > self._passed:
            self._verify_end(end)
        if see is not None:
            see(self.front[begin:end])
        elif self._passed < end:
            self._passed += self._source.skip(end - self._passed - 1)
        for piece in self._pieces(end):
            if see is not None:
                see(piece)
        if self._passed < end:
            raise EndedEarlyError(_TRUNCATED)

    def lines_from(self, place: int) -> Iterator[tuple[int, bytes]]:
        """Yield the lines after a position that `pass_to` has reached, each with its offset.

        Empty lines are yielded many at a time: there may be any number of them after a record.
        """
        held, at = (self.front, place) if place < len(self.front) else (b"", 0)
        while True:
            empty = _EMPTY_LINES.match(held, at)
            end = empty.end() if empty else held.find(b"\n", at) + 1
            if not end and len(held) - at < LINE_LIMIT and (more := self._source.read(_PIECE)):
                held, at = held[at:] + more, 0
                continue
            line = held[at : end or at + LINE_LIMIT]
            if not line:
                return
            yield place, line
            place += len(line)
            at += len(line)

    def _pieces(self, end: int) -> Iterator[bytes]:
        while self._passed < end:
            piece = self._source.read(min(end - self._passed, _PIECE))
            if not piece:
                return
            self._passed += len(piece)
            yield piece


class PlainBytes:
    """The bytes of a plain file from `offset` on."""

    __slots__ = ("_file", "_first")

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self._file = file
        self._first = True
        file.seek(offset)

    def read(self, most: int) -> bytes:
        """Return up to `most` further bytes; the first read is short, because most records are small."""
        if self._first:
            self._first = False
            most = min(most, _FIRST)
        return self._file.read(most)

    def at_end(self) -> bool:
        """Return False: the end is not known before the next read."""
        return False

    def skip(self, length: int) -> int:
        """Skip a long section without reading it."""
        if length <= _PIECE:
            return 0
        self._file.seek(length, io.SEEK_CUR)
        return length


class GzipMember:
    """The content of the gzip member at `offset` of a file; its length and checksum are checked."""

    __slots__ = ("_begin", "_damage", "_exact", "_file", "_given", "_inflate", "_place")

    def __init__(self, file: BinaryIO, offset: int) -> None:
        self._file = file
        self._inflate = inflater(_GZIP_WINDOW)
        self._exact = False
        self._damage: DamageError | None = None
        self._begin = self._place = file.seek(offset)
        self._given = 0

    def read(self, most: int) -> bytes:
        """Return up to `most` further bytes; raises DamageError, also on later calls, if data is damaged."""
        if self._damage is not None:
            raise self._damage
        try:
            content = self._read(most)
        except DamageError:
            if self._exact:
                raise
            content = self._read_exactly(most)
        self._given += len(content)
        return content

    def _read_exactly(self, most: int) -> bytes:
        """Continue with zlib after the bytes returned so far, because a faster library has found damage.

        Faster libraries find the same members damaged, but some of them at another place, or truncated where
        zlib sees wrong bytes.
        """
        self._exact, self._damage = True, None
        self._inflate = zlib.decompressobj(_GZIP_WINDOW)
        self._place = self._file.seek(self._begin)
        left = self._given
        while left and (passed := self._read(min(left, _PIECE))):
            left -= len(passed)
        return self._read(most)

    def _read(self, most: int) -> bytes:
        inflate = self._inflate
        begin = self._place
        while not inflate.eof:
            packed = inflate.unconsumed_tail
            if not packed:
                if self._place - begin >= _MOST_WITHOUT_CONTENT:
                    reason = f"no content in {_MOST_WITHOUT_CONTENT:,} bytes"
                    self._damage = DamageError(f"the gzip data is damaged ({reason})")
                    raise self._damage
                packed = self._file.read(_FIRST)
                self._place += len(packed)
            try:
                content = inflate.decompress(packed, most)
            except INFLATE_ERRORS as error:
                self._damage = DamageError(f"the gzip data is damaged ({error})")
                raise self._damage from None
            if content:
                return content
            if not packed and not inflate.eof:
                self._damage = EndedEarlyError("the gzip member is truncated at the end of the file")
                raise self._damage
        return b""

    def skip(self, length: int) -> int:
        """Return 0: compressed data has to be decompressed."""
        del length
        return 0

    def at_end(self) -> bool:
        """Return whether the member has been decompressed to its end."""
        return self._inflate.eof

    def end(self) -> int:
        """Read to the member's end and return its offset in the file."""
        while not self._inflate.eof and self.read(_PIECE):
            pass
        return self._place - len(self._inflate.unused_data)
