"""Finds the records in an ARC or WARC file one by one, and reports bytes that belong to none.

warcio's own iterator ends silently at damaged gzip data, and stops at the first bad header; an archive
must know what it could not read. Record boundaries are therefore found here: a gzip member is a record, one
or more zstd frames are a record, and a plain record ends where its header says. After damage, reading
continues at the next position that begins like a record.
"""

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, Generic, Protocol, Self, TypeVar

from oai.failures import Failure, FailureCode
from provider.reading.content import (
    LINE_LIMIT,
    Content,
    DamageError,
    EndedEarlyError,
    GzipMember,
    PlainBytes,
)
from provider.reading.record_starts import RECORD_START, begins_as_record, next_packed, next_start
from provider.reading.zstd_frames import MAGIC, ZstdFile, ZstdRecord, is_zstd

_SCHEME = re.compile(rb"(?:https?|ftp|dns):", re.IGNORECASE)
_LONGEST_SCHEME = len(b"https:")

MOST_PROBLEMS = 1000
"""Problems of one file that are kept."""
_GZIP = b"\x1f\x8b\x08"
_MOST_IN_VAIN = 4
"""How many times the file's size is read in vain until no length is trusted before it is verified."""
_AFTER_WARC = b"\r\n\r\n"
_QUICK = _AFTER_WARC + b"WARC/"
_BREAKS = b"\r\n"

_SEVERAL = (
    "the gzip member has further records after its first one; they cannot be addressed and were "
    "not read: rewrite the file with `warcio recompress`"
)
_IN_SEVERAL = (
    "the record is in several gzip members; it cannot be addressed and was not read: rewrite the file with "
    "`warcio recompress`"
)
_SEVERAL_IN_FRAME = (
    "the zstd frame has further records after its first one; they cannot be addressed and were "
    "not read: compress the file again with a frame of its own for each record"
)

Item = TypeVar("Item")
Item_co = TypeVar("Item_co", covariant=True)


@dataclass(frozen=True, kw_only=True, slots=True)
class FramingProblem:
    """Bytes of a file that could not be read or indexed, from `offset` (in the file as stored)."""

    offset: int
    failure: Failure
    reason: str
    """The technical reason, in English."""

    @classmethod
    def of(cls, code: FailureCode, reason: str, *, offset: int = 0, **facts: Any) -> Self:  # noqa: ANN401 texts and integers
        """Return a problem with this code and these facts."""
        return cls(offset=offset, failure=Failure(code=code, facts=facts), reason=reason)


def limited_problems(problems: Sequence[FramingProblem], more: int) -> tuple[FramingProblem, ...]:
    """Return at most as many problems as a table can show, with the number of the others."""
    shown = tuple(problems[:MOST_PROBLEMS])
    more += len(problems) - len(shown)
    if not more:
        return shown
    reason = f"and {more:,} more problems in this file"
    code = FailureCode.ARCHIVE_MORE_PROBLEMS
    return (*shown, FramingProblem.of(code, reason, offset=shown[-1].offset, count=more))


class ItemBuilder(Protocol[Item_co]):
    """Makes an item from a record."""

    def take(self, content: Content, offset: int) -> tuple[Item_co, int]:
        """Return the item and the record's declared length; reads to its end, or raises DamageError.

        `offset` is the offset of the record in its file.
        """

    def rescue(self, content: Content, offset: int, damage: DamageError) -> tuple[Item_co, int]:
        """Return the same for a record with a wrong declared length; raises `damage` if it is not verified.

        A record's content is verified by its digest, or by the length in its HTTP header.
        """

    def measured(self, item: Any, packed_length: int) -> Item_co:  # noqa: ANN401 an item of its own
        """Return the item with the number of bytes from its record's beginning to the next one's."""


def read_records(file: BinaryIO, builder: ItemBuilder[Item]) -> Iterator[Item | FramingProblem]:
    """Yield the taker's item for each record in an open file, and a problem for each unreadable section.

    Only a few kilobytes are held at a time. Errors while reading the file itself (OSError) are passed on.
    """
    first = file.read(len(MAGIC))
    if not first:
        yield FramingProblem.of(FailureCode.ARCHIVE_NOT_ARCHIVE, "the file is empty")
        return
    walk: _Members[Item] | _Frames[Item] | _Plain[Item]
    if first.startswith(_GZIP):
        walk = _Members(file, builder)
    elif is_zstd(first):
        walk = _Frames(file, builder)
    else:
        walk = _Plain(file, builder)
    yield from walk.items()


def begins_as_archive(file: BinaryIO) -> bool:
    """Return whether an open file begins like an ARC or WARC file, plain or compressed; rewinds it."""
    first = file.read(len(MAGIC))
    begins = is_zstd(first) and _begins_with_frame(file)
    if not begins:
        begins = begins_as_record(GzipMember(file, 0) if first.startswith(_GZIP) else PlainBytes(file, 0))
    file.seek(0)
    return begins


def _begins_with_frame(file: BinaryIO) -> bool:
    packed = ZstdFile(file)
    try:
        return begins_as_record(ZstdRecord(packed, packed.after_skippable(0)))
    except DamageError:
        return False


class _Plain(Generic[Item]):
    """Uncompressed records, one after the other."""

    def __init__(self, file: BinaryIO, builder: ItemBuilder[Item]) -> None:
        self._file = file
        self._taker = builder
        self._rescued_in_vain = 0

    def items(self) -> Iterator[Item | FramingProblem]:
        size = self._file.seek(0, 2)
        in_vain = 0
        offset = 0
        while offset < size:
            # Otherwise many records that declare too much would be read to the file's end, each of them.
            verify = partial(self._verify, offset) if in_vain > _MOST_IN_VAIN * size else None
            content = Content(PlainBytes(self._file, offset), size - offset, verify)
            try:
                item, end = self._taker.take(content, offset)
                following = self._end(content, offset, end)
            except DamageError as damage:
                reached = self._file.tell()
                found, following = self._despite(damage, offset, size)
                in_vain += max(reached - following - LINE_LIMIT, 0)
                yield from found
            else:
                yield self._taker.measured(item, following - offset)
            offset = following

    def _end(self, content: Content, offset: int, end: int, *, stray: bool = False) -> int:
        """Return where the next record begins. Raises DamageError if none begins after a record's end."""
        following = offset + _following(content, end, stray=stray)[0]
        if following == offset + end and not stray:
            self._refuse_within_url(following)
        return following

    def _verify(self, offset: int, end: int, *, stray: bool = False) -> None:
        """Raise DamageError if no record begins after the declared end of one that is read only then."""
        place = self._file.tell()
        try:
            self._end(Content(PlainBytes(self._file, offset + end)), offset + end, 0, stray=stray)
        except DamageError:
            # There may be any number of empty lines.
            self._rescued_in_vain += max(self._file.tell() - offset - end - LINE_LIMIT, 0)
            raise
        finally:
            self._file.seek(place)

    def _refuse_within_url(self, end: int) -> None:
        """Raise DamageError if a record ends within the URL of an ARC record: `ttp://…` looks like one."""
        begin = max(end - _LONGEST_SCHEME, 0)
        self._file.seek(begin)
        found = _SCHEME.search(self._file.read(2 * _LONGEST_SCHEME))
        if found and found.start() < end - begin < found.end():
            raise DamageError("the declared length is wrong: the record ends within the URL of the next one")

    def _despite(
        self, damage: DamageError, offset: int, size: int
    ) -> tuple[list[Item | FramingProblem], int]:
        """Return what can be recovered of a damaged record, the problem, and where to continue."""
        verify = partial(self._verify, offset, stray=True)
        content = Content(PlainBytes(self._file, offset), size - offset, verify)
        try:
            if self._rescued_in_vain > _MOST_IN_VAIN * size:
                raise damage
            item, end = self._taker.rescue(content, offset, damage)
            following = self._end(content, offset, end, stray=True)
        except DamageError:
            reached = self._file.tell()
            following = next_start(self._file, offset)
            self._rescued_in_vain += max(reached - following - LINE_LIMIT, 0)
            return [_skipped(self._file, offset, damage, following)], following
        return [self._taker.measured(item, following - offset), _kept(offset, damage)], following


class _Members(Generic[Item]):
    """One gzip member per record."""

    def __init__(self, file: BinaryIO, builder: ItemBuilder[Item]) -> None:
        self._file = file
        self._taker = builder
        self._size = file.seek(0, 2)
        self._in_vain = 0

    def items(self) -> Iterator[Item | FramingProblem]:
        offset = 0
        while offset < self._size:
            member = GzipMember(self._file, offset)
            try:
                content = Content(member)
                item, end = self._taker.take(content, offset)
                _, goes_on = _following(content, end)
                following = member.end()
            except DamageError as damage:
                found, following = self._despite(damage, offset)
                yield from found
            else:
                yield self._taker.measured(item, following - offset)
                if goes_on:
                    end = self._continued(following)
                    yield _joined(_SEVERAL, offset, end - following)
                    following = end
            offset = following

    def _despite(self, damage: DamageError, offset: int) -> tuple[list[Item | FramingProblem], int]:
        """Return what can be recovered of a damaged record, the problem, and where to continue."""
        try:
            following = GzipMember(self._file, offset).end()
        except DamageError:
            # Without a valid checksum, none of the member's content can be trusted.
            following = self._next_record(offset, self._file.tell())
            return [_skipped(self._file, offset, damage, following)], following
        content = Content(GzipMember(self._file, offset))
        try:
            item, end = self._taker.rescue(content, offset, damage)
            _following(content, end, stray=True)
        except DamageError:
            end = self._continued(following) if isinstance(damage, EndedEarlyError) else following
            if end > following:
                return [_joined(_IN_SEVERAL, offset, end - offset)], end
            return [_skipped(self._file, offset, damage, following)], following
        return [self._taker.measured(item, following - offset), _kept(offset, damage)], following

    def _next_record(self, offset: int, reached: int) -> int:
        """Return where to continue after a damaged member that was read up to `reached`.

        What it consists of may be further damaged members, of which many would be read to the file's end.
        """
        is_trusted = self._in_vain <= _MOST_IN_VAIN * self._size
        begin = offset + 1 if is_trusted else max(offset + 1, reached - LINE_LIMIT)
        following = next_packed(self._file, begin, _GZIP, self._begins)
        self._in_vain += max(reached - following - LINE_LIMIT, 0)
        return following

    def _continued(self, place: int) -> int:
        """Return the end of the intact members from `place` on that have more of a record; none: `place`."""
        end = place
        with contextlib.suppress(DamageError):
            while not RECORD_START.match(front := Content(GzipMember(self._file, place)).front.lstrip()):
                place = GzipMember(self._file, place).end()
                # Writers end files with empty members, which continue nothing.
                end = place if front else end
        return end

    def _begins(self, place: int) -> bool:
        return begins_as_record(GzipMember(self._file, place))


class _Frames(Generic[Item]):
    """One or more zstd frames per record."""

    def __init__(self, file: BinaryIO, builder: ItemBuilder[Item]) -> None:
        self._file = file
        self._taker = builder
        self._packed = ZstdFile(file)
        self._ends_before: Callable[[int], bool] | None = None
        self._in_vain = 0

    def items(self) -> Iterator[Item | FramingProblem]:
        fault = self._packed.dictionary.fault
        if fault is not None:
            yield FramingProblem.of(fault.code, str(fault))
        offset = 0
        while offset < self._packed.size:
            try:
                offset = self._packed.after_skippable(offset)
                taken = self._take(offset) if offset < self._packed.size else ([], offset)
            except DamageError as damage:
                reached = self._file.tell()
                taken = self._despite(damage, offset)
                self._in_vain += max(reached - taken[1], 0)
                if self._in_vain > _MOST_IN_VAIN * self._packed.size:
                    self._ends_before = self._refuse_record
            yield from taken[0]
            offset = taken[1]

    def _take(self, offset: int) -> tuple[list[Item | FramingProblem], int]:
        """Return the record that begins with a frame, a problem if it has another one, and where they end."""
        record = ZstdRecord(self._packed, offset, across=False, ends_before=self._ends_before)
        content = Content(record)
        # An empty frame, or one with the line breaks after a record, belongs to no record.
        if not content.front.strip(_BREAKS) and not record.read(1):
            return [], record.end()
        record.across_frames()
        item, end = self._taker.take(content, offset)
        record.within_frame()
        _, goes_on = _following(content, end)
        following = record.end()
        found: list[Item | FramingProblem] = [self._taker.measured(item, following - offset)]
        if goes_on:
            code = FailureCode.ARCHIVE_RECORDS_JOINED
            found.append(FramingProblem.of(code, _SEVERAL_IN_FRAME, offset=offset))
        return found, following

    def _despite(self, damage: DamageError, offset: int) -> tuple[list[Item | FramingProblem], int]:
        """Return what can be recovered of a damaged record, the problem, and where to continue.

        Its declared length cannot be relied on, so it ends before the next frame that begins like a record.
        """
        try:
            following = self._bounded(offset).end()
        except DamageError:
            following = self._next_record(offset, self._file.tell())
            return [_skipped(self._file, offset, damage, following)], following
        content = Content(self._bounded(offset))
        try:
            item, end = self._taker.rescue(content, offset, damage)
            _following(content, end, stray=True)
        except DamageError:
            return [_skipped(self._file, offset, damage, following)], following
        return [self._taker.measured(item, following - offset), _kept(offset, damage)], following

    def _bounded(self, offset: int) -> ZstdRecord:
        return ZstdRecord(self._packed, offset, ends_before=self._begins)

    def _next_record(self, offset: int, reached: int) -> int:
        """Return the next frame with a record after the one at `offset`; the file's end if there is none.

        Frames are followed by their lengths as long as these are intact: the content of a frame may be a
        zstd file itself. `reached` is where the data are damaged; what is before may be many damaged frames,
        one within the other.
        """
        place = offset
        with contextlib.suppress(DamageError):
            while (place := self._packed.after_skippable(self._packed.frame_end(place))) < self._packed.size:
                if self._begins(place):
                    return place
            return self._packed.size
        begin = max(place, offset + 1)
        if self._ends_before is not None:
            begin = max(begin, reached - LINE_LIMIT)
        return next_packed(self._file, begin, MAGIC, self._begins)

    def _refuse_record(self, place: int) -> bool:
        """Return False; raises DamageError if a record begins with the frame."""
        if self._begins(place):
            raise DamageError("the declared length is wrong: another record begins before its end")
        return False

    def _begins(self, place: int) -> bool:
        frame = ZstdRecord(self._packed, place)
        frame.within_frame()
        return begins_as_record(frame)


def _following(content: Content, end: int, *, stray: bool = False) -> tuple[int, bool]:
    """Return the position of the first non-blank line after a record's content, and whether there is one.

    Raises DamageError if the content clearly continues, as it does when Content-Length is wrong. With
    `stray`, one line of other bytes is allowed if a record or the end of the file follows immediately.
    """
    if content.front.startswith(_QUICK, end):
        return end + len(_AFTER_WARC), True
    if content.ends_with(_AFTER_WARC, end):
        return end + len(_AFTER_WARC), False
    place = end
    for number, (begin, line) in enumerate(content.lines_from(end)):
        place = begin + len(line)
        if not line.strip(_BREAKS):
            continue
        if RECORD_START.match(line):
            return begin, True
        if stray and number == 0:
            continue
        if number == 0 or stray:
            raise DamageError(
                f"the declared length is wrong: {line[:40]!r} follows where the record should end"
            )
        return begin, True
    return place, False


def _skipped(file: BinaryIO, offset: int, damage: DamageError, following: int) -> FramingProblem:
    lost = following - offset
    # Nothing in the whole file begins as a record: advice about a damaged part would mislead.
    is_all = damage.code is FailureCode.ARCHIVE_RECORD_BROKEN and lost == file.seek(0, 2)
    code = FailureCode.ARCHIVE_NOT_ARCHIVE if is_all else damage.code
    return FramingProblem.of(code, f"{damage} ({lost:,} bytes not read)", offset=offset, bytes=lost)


def _joined(reason: str, offset: int, passed: int) -> FramingProblem:
    if passed:
        reason += f" ({passed:,} bytes of members in which no record begins not read)"
    return FramingProblem.of(FailureCode.ARCHIVE_RECORDS_JOINED, reason, offset=offset)


def _kept(offset: int, damage: DamageError) -> FramingProblem:
    proof = "its content is complete according to its digest or HTTP header, and was indexed"
    return FramingProblem.of(FailureCode.ARCHIVE_RECORD_LENGTH, f"{damage}; {proof}", offset=offset)
