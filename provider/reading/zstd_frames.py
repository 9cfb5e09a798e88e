"""Reads records of a zstd-compressed WARC file frame by frame, with the dictionary of the file.

A record is one or more frames, and no frame has bytes of two records (IIPC, "Zstandard Compression for WARC
Files" 1.0). A dictionary may be in the file's first frame, which is a skippable one; other skippable frames
are passed over. Windows and dictionaries may have up to 8 MiB, which is what that specification requires.
"""

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, BinaryIO, ClassVar, Final, NamedTuple

from oai.compression import ZSTD
from oai.failures import FailureCode
from provider.reading.content import DamageError, EndedEarlyError

WINDOW_LIMIT: Final = 8 << 20
"""Bytes: of the window that a frame needs, and of a dictionary, packed and unpacked."""

MAGIC: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of a frame (RFC 8878, section 3.1.1)."""
_DICTIONARY_FRAME: Final = b"\x5d\x2a\x4d\x18"
_SKIPPABLE: Final = b"\x2a\x4d\x18"
"""Follows a byte from 0x50 to 0x5f (RFC 8878, section 3.1.2)."""
_DICTIONARY: Final = b"\x37\xa4\x30\xec"
_MAGIC_LENGTH: Final = 4
_SKIPPABLE_HEADER: Final = 8
_LONGEST_HEADER: Final = 18
_WINDOW_LOG: Final = 23
_PACKED: Final = 8192
_PIECE: Final = 65_536
_RLE, _RESERVED = 1, 3
_CHECKSUM: Final = 4
_MOST_BLANK: Final = 1 << 16
MOST_CHECKED: Final = 1 << 30
"""Bytes that are decompressed only to verify a frame; a bomb is not worth more."""
MOST_DICTIONARIES: Final = 64 << 20
"""Bytes of the dictionaries that a process keeps."""


class FrameRefusedError(DamageError):
    """A frame is intact, as far as is known, but cannot be read; the message states why."""

    code: ClassVar = FailureCode.ARCHIVE_FRAME_REFUSED


class Dictionary(NamedTuple):
    """The dictionary of a file, or why it has none."""

    number: int = 0
    """Its identifier."""
    content: Any = None
    """For the library; None: there is none."""
    size: int = 0
    """Bytes."""
    fault: DamageError | None = None
    """Why the file's dictionary cannot be used."""


class FrameHeader(NamedTuple):
    """What a frame's header says (RFC 8878, section 3.1.1.1)."""

    length: int
    """Bytes of the header, the magic number included."""
    window: int
    """Bytes."""
    dictionary: int
    """Identifier of the dictionary; 0: not stated."""
    has_checksum: bool


class ZstdFile:
    """An open file of zstd frames, and its dictionary."""

    def __init__(self, file: BinaryIO) -> None:
        """Read the dictionary, if there is one. Raises OSError if it cannot be read, or zstd is missing."""
        if ZSTD is None:
            raise OSError(
                "zstd files need a library that is not installed; install it with  pip install 'zatva[zstd]'"
            )
        self.file = file
        self.size = file.seek(0, os.SEEK_END)
        self.dictionary = _kept_dictionary(file, self.size)

    def is_frame(self, offset: int) -> bool:
        """Return whether a frame with content begins here."""
        return self._at(offset, _MAGIC_LENGTH) == MAGIC

    def after_skippable(self, offset: int) -> int:
        """Return the place after the skippable frames that begin here. Raises EndedEarlyError."""
        while is_skippable(head := self._at(offset, _SKIPPABLE_HEADER)):
            offset += _SKIPPABLE_HEADER + int.from_bytes(head[_MAGIC_LENGTH:], "little")
            if len(head) < _SKIPPABLE_HEADER or offset > self.size:
                raise EndedEarlyError("a skippable zstd frame is truncated at the end of the file")
        return offset

    def frame_end(self, offset: int) -> int:
        """Return where a frame ends, without decompressing it. Raises DamageError."""
        header = frame_header(self._at(offset, _LONGEST_HEADER))
        place, is_last = offset + header.length, False
        while not is_last:
            block = int.from_bytes(self._at(place, 3), "little")
            is_last, kind = bool(block & 1), block >> 1 & 3
            if kind == _RESERVED:
                raise DamageError("the zstd data is damaged (a block of a reserved type)")
            place += 3 + (1 if kind == _RLE else block >> 3)
            if place > self.size:
                raise _truncated()
        return place + _CHECKSUM * header.has_checksum

    def _at(self, offset: int, length: int) -> bytes:
        self.file.seek(offset)
        return self.file.read(length)


class ZstdRecord:
    """The content of the frames from `offset` on: a source of `provider.reading.content.Content`.

    The reader decides how far it reads. `within_frame` and `across_frames` say whether the next frame is read
    when one ends, because only the record's declared length shows whether it belongs to the record.
    """

    def __init__(
        self,
        packed: ZstdFile,
        offset: int,
        *,
        across: bool = True,
        ends_before: Callable[[int], bool] | None = None,
    ) -> None:
        """`ends_before` says of the place of a following frame whether another record begins there."""
        self._packed = packed
        self._place = offset
        self._across = across
        self._ends_before = ends_before
        self._inflate: Any = None
        self._damage: DamageError | None = None
        self._left: int | None = None

    def across_frames(self) -> None:
        """Continue with the next frame when one ends."""
        self._across = True

    def within_frame(self) -> None:
        """End with the current frame, in which only blank lines are expected."""
        self._across, self._left = False, _MOST_BLANK

    def read(self, most: int) -> bytes:
        """Return up to `most` further bytes; raises DamageError, also on later calls, if data is damaged."""
        if self._damage is not None:
            raise self._damage
        try:
            content = self._read(most)
        except DamageError as damage:
            self._damage = damage
            raise
        if self._left is not None:
            self._left -= len(content)
            if self._left < 0:
                self._damage = DamageError("a zstd frame continues far beyond the end of its record")
                raise self._damage
        return content

    def skip(self, length: int) -> int:
        """Return 0: compressed data has to be decompressed."""
        del length
        return 0

    def at_end(self) -> bool:
        """Return whether the frame has been decompressed to its end, and no other one is read."""
        return not self._across and self._inflate is not None and self._inflate.eof

    def end(self) -> int:
        """Read to the end and return its offset in the file. Raises DamageError, also for a bomb."""
        self._left = MOST_CHECKED
        while self.read(_PIECE):
            pass
        return self._place

    def _read(self, most: int) -> bytes:
        while True:
            if self._inflate is None or self._inflate.eof:
                if self._inflate is not None and not (self._across and self._continues()):
                    return b""
                self._begin()
            if content := self._decompress(most):
                return content

    def _begin(self) -> None:
        """Make the decompressor for the frame at the current place."""
        self._packed.file.seek(self._place)
        header = frame_header(self._packed.file.read(_LONGEST_HEADER))
        dictionary = self._packed.dictionary
        if header.window > WINDOW_LIMIT:
            raise FrameRefusedError(
                f"a zstd frame needs a window of {header.window:,} bytes, more than {WINDOW_LIMIT:,}"
            )
        if header.dictionary and header.dictionary != dictionary.number:
            raise FrameRefusedError(_wrong_dictionary(header.dictionary, dictionary))
        options = {ZSTD.DecompressionParameter.window_log_max: _WINDOW_LOG}
        self._inflate = ZSTD.ZstdDecompressor(zstd_dict=dictionary.content, options=options)

    def _decompress(self, most: int) -> bytes:
        """Return up to `most` bytes of the current frame; none at its end, which `_place` then is."""
        inflate = self._inflate
        while not inflate.eof:
            data = b""
            if inflate.needs_input:
                self._packed.file.seek(self._place)
                data = self._packed.file.read(_PACKED)
                if not data:
                    raise _truncated()
                self._place += len(data)
            try:
                content: bytes = inflate.decompress(data, most)
            except ZSTD.ZstdError as error:
                raise DamageError(f"the zstd data is damaged ({error})") from None
            if inflate.eof:
                self._place -= len(inflate.unused_data)
            if content:
                return content
        return b""

    def _continues(self) -> bool:
        """Go to the next frame; return whether there is one, which may belong to the record."""
        place = self._packed.after_skippable(self._place)
        if not self._packed.is_frame(place):
            return False
        if self._ends_before is not None and self._ends_before(place):
            return False
        self._place = place
        return True


def is_skippable(first: bytes) -> bool:
    """Return whether these bytes begin a skippable frame."""
    return first[1:_MAGIC_LENGTH] == _SKIPPABLE and first[0] & 0xF0 == 0x50  # noqa: PLR2004 of the magic numbers


def is_zstd(first: bytes) -> bool:
    """Return whether a file with these first bytes consists of zstd frames."""
    return first.startswith(MAGIC) or is_skippable(first)


def frame_header(packed: bytes) -> FrameHeader:
    """Return what a frame's header says, from its first 18 bytes. Raises DamageError if it is none."""
    if not packed.startswith(MAGIC):
        raise DamageError("no zstd frame begins here") if packed else _truncated()
    try:
        flags = packed[_MAGIC_LENGTH]
        single = bool(flags & 0x20)
        place = _MAGIC_LENGTH + 1 + (not single)
        window = 0
        if not single:
            exponent, mantissa = divmod(packed[place - 1], 8)
            window = (1 << (10 + exponent)) + (1 << (7 + exponent)) * mantissa
    except IndexError:
        raise _truncated() from None
    of_dictionary = (0, 1, 2, 4)[flags & 3]
    of_size = (int(single), 2, 4, 8)[flags >> 6]
    dictionary = int.from_bytes(packed[place : place + of_dictionary], "little")
    place += of_dictionary
    if len(packed) < place + of_size:
        raise _truncated()
    if single:  # the window is the content
        window = int.from_bytes(packed[place : place + of_size], "little") + 256 * (of_size == 2)  # noqa: PLR2004 RFC 8878
    return FrameHeader(place + of_size, window, dictionary, bool(flags & 4))


def _truncated() -> EndedEarlyError:
    return EndedEarlyError("a zstd frame is truncated at the end of the file")


def _wrong_dictionary(wanted: int, dictionary: Dictionary) -> str:
    text = f"a zstd frame needs the dictionary {wanted}, but the file"
    if dictionary.fault is not None:
        return f"{text}'s dictionary cannot be used: {dictionary.fault}"
    if dictionary.content is None:
        return f"{text} does not begin with a dictionary"
    return f"{text} has {dictionary.number}; files with different dictionaries cannot be concatenated"


kept_dictionaries: OrderedDict[Hashable, Dictionary] = OrderedDict()
_dictionaries_lock: Final = threading.Lock()


def _kept_dictionary(file: BinaryIO, size: int) -> Dictionary:
    """Return the dictionary of a file, which is kept while it is among the last used ones."""
    key = _version_of(file, size)
    with _dictionaries_lock:
        if key in kept_dictionaries:
            kept_dictionaries.move_to_end(key)
            return kept_dictionaries[key]
    dictionary = _read_dictionary(file)
    with _dictionaries_lock:
        # A file without one costs something, too: its key.
        kept_dictionaries[key] = dictionary
        while sum(one.size + _PACKED for one in kept_dictionaries.values()) > MOST_DICTIONARIES:
            kept_dictionaries.popitem(last=False)
    return dictionary


def _version_of(file: BinaryIO, size: int) -> Hashable:
    """Return what differs between files, and between a file's versions."""
    raw = getattr(file, "raw", file)
    if (version := getattr(raw, "version", None)) is not None:
        return (version, size)
    facts = os.fstat(file.fileno())
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


def _read_dictionary(file: BinaryIO) -> Dictionary:
    file.seek(0)
    head = file.read(_SKIPPABLE_HEADER)
    if not head.startswith(_DICTIONARY_FRAME):
        return Dictionary()
    length = int.from_bytes(head[_MAGIC_LENGTH:], "little")
    try:
        if length > WINDOW_LIMIT:
            raise FrameRefusedError(f"the dictionary has {length:,} bytes, more than {WINDOW_LIMIT:,}")
        stored = file.read(length)
        if len(stored) < length:
            raise _truncated()
        return _dictionary_of(_unpacked(stored) if stored.startswith(MAGIC) else stored)
    except DamageError as fault:
        return Dictionary(fault=fault)


def _dictionary_of(content: bytes) -> Dictionary:
    if not content.startswith(_DICTIONARY):
        raise DamageError("the first frame has no zstd dictionary")
    try:
        made = ZSTD.ZstdDict(content)
        ZSTD.ZstdDecompressor(zstd_dict=made)  # its tables are read only here
    except (ZSTD.ZstdError, ValueError) as error:
        raise DamageError(f"the dictionary is damaged ({error})") from None
    return Dictionary(made.dict_id, made, len(content))


def _unpacked(stored: bytes) -> bytes:
    window = frame_header(stored[:_LONGEST_HEADER]).window
    if window > WINDOW_LIMIT:
        raise FrameRefusedError(f"the dictionary needs {window:,} bytes, more than {WINDOW_LIMIT:,}")
    inflate = ZSTD.ZstdDecompressor()
    try:
        content: bytes = inflate.decompress(stored, WINDOW_LIMIT + 1)
    except ZSTD.ZstdError as error:
        raise DamageError(f"the dictionary is damaged ({error})") from None
    if len(content) > WINDOW_LIMIT:
        raise FrameRefusedError(f"the dictionary has more than {WINDOW_LIMIT:,} bytes")
    if not inflate.eof:
        raise DamageError("the dictionary is damaged (its frame is not complete)")
    return content
