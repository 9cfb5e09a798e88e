"""Where the files of a WACZ file are in it, so that they are read in place (ZIP: APPNOTE.TXT, section 4.3).

A ZIP file says everything about a member twice: in its directory, and in the header before the member's data.
Only the latter says where the data begins, because its extra field has another length. A member is read only
if both agree, it is stored without compression, and no other member reaches into it.
"""

import stat
import struct
import threading
import zipfile
import zlib
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Final, NamedTuple, cast

from oai.failures import FailureCode
from provider.storage.ranges import SizedReader

if TYPE_CHECKING:
    import io

MOST_DIRECTORY: Final = 4 << 20
"""Bytes of a ZIP directory: some 50,000 members."""
_MOST_KEPT: Final = 64
"""Directories that a process keeps."""

_HEADER: Final = struct.Struct("<4s5H3I2H")
_SIGNATURE: Final = b"PK\x03\x04"
_ENCRYPTED: Final = 0x2041  # also strong encryption, and a directory that is encrypted
_SIZES_FOLLOW: Final = 0x08
_UTF_8: Final = 0x800
_ZIP64: Final = 0xFFFF_FFFF
_BOUNDED: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
"""Methods of which `zipfile` decompresses only as many bytes as are read; of others, all at once."""
_FAULTS: Final = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, ValueError, struct.error)
"""What `zipfile` raises for files that are no good; RuntimeError also for encrypted ones."""


class MemberError(OSError):
    """A file in a WACZ file is not read; the message states why."""

    failure_code: ClassVar = FailureCode.ARCHIVE_MEMBER_REFUSED


class LargeMemberError(MemberError):
    """A small member of a WACZ file has more bytes than are read."""


class Window(NamedTuple):
    """The bytes of a member in its ZIP file, or in the file that has this one."""

    begin: int
    size: int
    checksum: int
    """CRC-32, as the directory has it."""


@dataclass(frozen=True, kw_only=True)
class _Entry:
    info: zipfile.ZipInfo
    limit: int
    """Where the next member or the directory begins."""
    is_single: bool
    """Whether no other member has this name."""


class Directory:
    """The members of a ZIP file, in the directory's order."""

    def __init__(self, entries: dict[str, _Entry]) -> None:
        self._entries = entries
        self._windows: dict[str, Window] = {}

    def names(self) -> Iterable[str]:
        """Return the paths of all members that are no folders."""
        return self._entries

    def window(self, path: str, read: Callable[[int, int], bytes]) -> Window:
        """Return where a member's data is; `read` returns the bytes from a place to before another.

        Raises FileNotFoundError if there is no such member, and MemberError if it is not read.
        """
        if path not in self._windows:
            if (entry := self._entries.get(path)) is None:
                raise FileNotFoundError(f"the WACZ file has no member {path!r}")
            if (reason := _reason_against(path) or _reason_in_directory(entry)) is not None:
                raise MemberError(f"{path!r} in the WACZ file is not read: {reason}")
            self._windows[path] = _window(entry, read)
        return self._windows[path]


class _Bounded:
    """A file for `zipfile` that refuses to read a whole large directory at once."""

    is_open = False
    """Whether the directory has been read: readers of members set their own bounds."""

    def __init__(self, file: BinaryIO) -> None:
        self.seek, self.tell, self.close, self._read = file.seek, file.tell, file.close, file.read

    def read(self, size: int = -1) -> bytes:
        if size > MOST_DIRECTORY and not self.is_open:
            raise zipfile.BadZipFile(f"its directory has {size:,} bytes, more than {MOST_DIRECTORY:,}")
        return self._read(size)

    def seekable(self) -> bool:
        return True


def _opened(file: BinaryIO) -> zipfile.ZipFile:
    bounded = _Bounded(file)
    opened = zipfile.ZipFile(cast("BinaryIO", bounded))
    bounded.is_open = True
    return opened


def read_directory(file: BinaryIO) -> Directory:
    """Read the directory of an open ZIP file. Raises OSError if it is none, or is damaged."""
    try:
        opened = _opened(file)
        infos = [one for one in opened.infolist() if not one.orig_filename.endswith("/")]
        end: int = opened.start_dir
    except _FAULTS as error:
        raise OSError(f"the file is not a readable ZIP file: {error}") from None
    begins = sorted({info.header_offset for info in opened.infolist()} | {end})
    following = dict(zip(begins, [*begins[1:], end], strict=True))
    names = Counter(info.orig_filename for info in infos)
    places = Counter(info.header_offset for info in infos)
    entries = {
        info.orig_filename: _Entry(
            info=info,
            limit=min(following[info.header_offset], end) if places[info.header_offset] == 1 else 0,
            is_single=names[info.orig_filename] == 1,
        )
        for info in infos
    }
    return Directory(entries)


def read_member(file: BinaryIO, path: str, most: int) -> bytes | None:
    """Return a small member, which may be compressed; None if there is none.

    Raises OSError if it has more than `most` bytes, or cannot be read.
    """
    try:
        opened = _opened(file)
        if path not in opened.namelist():
            return None
        if (method := opened.getinfo(path).compress_type) not in _BOUNDED:
            raise zipfile.BadZipFile(f"it is compressed by another method than deflate ({method})")
        with opened.open(path) as member:
            content = member.read(most + 1)
    except _FAULTS as error:
        raise MemberError(f"{path!r} in the WACZ file cannot be read: {error}") from None
    if len(content) > most:
        raise LargeMemberError(f"{path!r} in the WACZ file has more than {most:,} bytes")
    return content


def _reason_against(path: str) -> str | None:
    """Return why a member with this path is not read: it is not where a WACZ file has WARC files."""
    parts = path.split("/")
    if "\\" in path or not path.isprintable() or path.startswith("/") or {"", ".", ".."} & set(parts):
        return "its path is absolute, has parts such as .. or characters that no path has"
    if ".wacz#" in path.lower():
        return "its path has .wacz#, which names a file in a WACZ file"
    if path.lower().endswith(".wacz"):
        return None
    if parts[0] != "archive":
        return "WARC files of a WACZ file are in its folder archive"
    return None


def _reason_in_directory(entry: _Entry) -> str | None:
    info = entry.info
    if not entry.is_single:
        return "another member has the same path"
    if info.flag_bits & _ENCRYPTED:
        return "it is encrypted"
    if info.compress_type != zipfile.ZIP_STORED:
        return (
            f"it is compressed by ZIP as well (method {info.compress_type}); WACZ requires WARC files to be "
            "stored as they are"
        )
    if info.compress_size != info.file_size:
        return f"its sizes disagree: {info.compress_size:,} bytes stored, {info.file_size:,} bytes in all"
    if stat.S_ISLNK(info.external_attr >> 16):
        return "it is a symbolic link"
    return None


def _window(entry: _Entry, read: Callable[[int, int], bytes]) -> Window:
    """Return where the data is by the header before it. Raises MemberError if that is another member's."""
    info, begin = entry.info, entry.info.header_offset
    if not 0 <= begin <= entry.limit - _HEADER.size:
        raise MemberError(f"{info.orig_filename!r} in the WACZ file is not read: it overlaps another member")
    head: tuple[Any, ...] = _HEADER.unpack(read(begin, begin + _HEADER.size))
    signature, _, flags, method, _, _, _, packed, size, name_length, extra_length = head
    data = begin + _HEADER.size + name_length + extra_length
    reason = None
    if signature != _SIGNATURE:
        reason = "there is no header before its data"
    elif flags & _ENCRYPTED or method != zipfile.ZIP_STORED:
        reason = "the header before its data says that it is encrypted or compressed"
    elif data + info.file_size > entry.limit:
        reason = "it overlaps another member or the directory; the sizes in the directory are wrong"
    elif not flags & _SIZES_FOLLOW and {packed, size} - {info.file_size, _ZIP64}:
        reason = f"the header before its data has another size ({size:,} bytes) than the directory"
    else:
        stored = read(begin + _HEADER.size, begin + _HEADER.size + name_length)
        if stored.decode("utf-8" if flags & _UTF_8 else "cp437", "replace") != info.orig_filename:
            reason = "the header before its data names another file"
    if reason is not None:
        raise MemberError(f"{info.orig_filename!r} in the WACZ file is not read: {reason}")
    return Window(data, info.file_size, info.CRC)


_kept: OrderedDict[Hashable, Directory] = OrderedDict()
_kept_lock: Final = threading.Lock()


def kept_directory(version: Hashable, read: Callable[[], Directory]) -> Directory:
    """Return the directory of a version of a file; `read` reads it unless it is among the last used ones."""
    with _kept_lock:
        if version in _kept:
            _kept.move_to_end(version)
            return _kept[version]
    found = read()
    with _kept_lock:
        _kept[version] = found
        while len(_kept) > _MOST_KEPT:
            _kept.popitem(last=False)
    return found


class FileWindow(SizedReader):
    """A part of a file on this machine as a file; closes that file with itself."""

    def __init__(self, file: BinaryIO, begin: int, size: int, version: Hashable) -> None:
        super().__init__(size)
        self.version = version
        """Differs between files, and between a file's versions."""
        self._file = file
        self._begin = begin

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 the protocol's type exists for type checkers only
        """Read up to the end of the part. Raises OSError."""
        view = memoryview(buffer).cast("B")[: max(0, self._size - self._at)]
        self._file.seek(self._begin + self._at)
        length: int = cast("io.RawIOBase", self._file).readinto(view) or 0
        self._at += length
        return length

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()
