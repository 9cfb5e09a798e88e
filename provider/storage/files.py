"""Opens archive files and looks at them, wherever they are."""

import contextlib
import io
import stat
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from provider.storage.clients import client_of, patiently
from provider.storage.objects import ReplacedError
from provider.storage.places import (
    ARCHIVE_SUFFIXES,
    WACZ_SUFFIX,
    Container,
    Member,
    ObjectUrl,
    Place,
    place_of,
    stored_name,
    stored_path,
)
from provider.storage.ranges import RangeReader
from provider.storage.zip_directory import (
    Directory,
    FileWindow,
    MemberError,
    Window,
    kept_directory,
    read_directory,
    read_member,
)

UNREAD: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Modification time of a file that has to be read (again): no real file has it."""

_BUFFER: Final = 1 << 20
_MOST_DEPTH: Final = 1
"""How many WACZ files a WACZ file may be in; the multi-WACZ files of wabac.js have one level, too."""
_PART: Final = 8 << 20
"""Bytes of an object that are requested at once where all of it is read."""
_RECORD: Final = 1 << 20
"""The same where one record is read; the first request is as long as the record, if that is known."""
_OBJECT_BUFFER: Final = 64 << 10
_SLACK: Final = 8 << 10
"""Records are read in pieces of this many bytes, the last of which reaches beyond the record."""


class Presence(Enum):
    """Whether an archive file is where it was."""

    HERE = "here"
    GONE = "gone"
    UNKNOWN = "unknown"
    """It may not be read, or its server does not answer."""


@dataclass(frozen=True, kw_only=True)
class ArchiveFile:
    """An archive file as found."""

    path: Place
    """Absolute."""
    size: int
    """Bytes."""
    modified: datetime
    """UTC, to the microsecond; of a file in a WACZ file, that of the latter."""
    tag: str | None = None
    """Of an object: changes whenever it is replaced."""
    checksum: int | None = None
    """CRC-32 of a file in a WACZ file."""

    @property
    def name(self) -> str:
        """The name by which the file is identified: the file name without `.gz` or `.zst`."""
        return stored_name(self.path.name)

    @patiently()
    def open(self) -> BinaryIO:
        """Open the file for reading all of it. Raises OSError."""
        if isinstance(self.path, Path):
            return self.path.open("rb", buffering=_BUFFER)
        if isinstance(self.path, Member):
            return _open_member(self.path, self.tag, step=_PART, buffer=_BUFFER, ahead=True)
        return _opened(self.path, self.size, self.tag, step=_PART, ahead=True)


def look_at(place: Place) -> ArchiveFile:
    """Return size, modification time and tag of a file.

    Raises OSError if it cannot be read or is not a regular file; see `provider.storage.objects`.
    """
    if isinstance(place, Member):
        container = look_at(place.container)
        _, window = _window(place, container.tag)
        return ArchiveFile(
            path=place,
            size=window.size,
            modified=container.modified,
            tag=container.tag,
            checksum=window.checksum,
        )
    if isinstance(place, ObjectUrl):
        found = client_of(place).facts(place)
        return ArchiveFile(path=place, size=found.size, modified=found.modified, tag=found.tag)
    facts = place.stat()
    if not stat.S_ISREG(facts.st_mode):
        raise OSError(f"{stored_path(place)} is not a regular file")
    return ArchiveFile(
        path=place,
        size=facts.st_size,
        modified=UNREAD + timedelta(microseconds=facts.st_mtime_ns // 1000),
    )


def presence(stored: str | None) -> Presence:
    """Return whether a file is at its last known place; one that was never seen is gone."""
    if stored is None:
        return Presence.GONE
    place = place_of(stored)
    try:
        if isinstance(place, Path):
            place.stat()
        elif isinstance(place, Member):
            look_at(place)
        else:
            client_of(place).facts(place)
    except (FileNotFoundError, NotADirectoryError):
        return Presence.GONE
    except OSError:
        return Presence.UNKNOWN
    return Presence.HERE


def open_record(stored: str, *, size: int, tag: str | None, packed_length: int | None) -> BinaryIO:
    """Open an archive file for reading one record of `packed_length` bytes, if that is known. Raises OSError.

    `size` and `tag` are those of its indexing. An object without a tag, which only a CDX file has listed,
    is read as it is now.
    """
    place = place_of(stored)
    if isinstance(place, Path):
        return place.open("rb")
    first = min((packed_length or _OBJECT_BUFFER) + _SLACK, _PART)
    if isinstance(place, Member):
        return _open_member(place, tag, step=_RECORD, first=first)
    if tag is None:
        now = client_of(place).facts(place)
        size, tag = now.size, now.tag
    return _opened(place, size, tag, step=_RECORD, first=first)


def _opened(
    place: ObjectUrl,
    size: int,
    tag: str | None,
    *,
    step: int,
    begin: int = 0,
    first: int | None = None,
    ahead: bool = False,
) -> BinaryIO:
    """Open `size` bytes of an object from `begin` on."""
    if tag is None:
        raise OSError(f"{place}: the index has no tag of this object; index it again")
    read: Callable[[int, int, str], bytes] = partial(client_of(place).read, place)
    reader = RangeReader(
        lambda start, end: read(begin + start, begin + end, tag), size, step=step, first=first, ahead=ahead
    )
    reader.version = (place, tag, begin)
    return cast("BinaryIO", io.BufferedReader(reader, _OBJECT_BUFFER))


def find_members(container: Container | Member) -> list[Member]:
    """Return the files of a WACZ file that would be archive files outside, readable or not.

    Those of a WACZ file in it are among them; it remains if it cannot be read, or has none. Raises OSError if
    it is not a WACZ file, or in too many others.
    """
    if isinstance(container, Member) and container.depth > _MOST_DEPTH:
        raise MemberError(f"{container.path!r} is not read: a WACZ file may be in one other WACZ file only")
    found: list[Member] = []
    # Members do not overlap and are stored as they are, so all of them are no larger than the outermost file.
    for name in _read_directory(container, look_at(container).tag).names():
        member, inner = Member(container, name), list[Member]()
        if name.lower().endswith(WACZ_SUFFIX):
            with contextlib.suppress(OSError):  # indexing it says what is wrong
                inner = find_members(member)
            found += inner or [member]
        elif name.lower().endswith(ARCHIVE_SUFFIXES):
            found.append(member)
    return found


def read_in_wacz(container: Container | Member, path: str, most: int) -> bytes | None:
    """Return a file of at most so many bytes in a WACZ file; None if there is none. Raises OSError."""
    with _for_directory(look_at(container)) as opened:
        return read_member(opened, path, most)


def _window(member: Member, tag: str | None) -> tuple[Hashable, Window]:
    """Return the version of a WACZ file, and where a member's bytes are in the outermost one.

    Raises OSError.
    """
    container, begin = member.container, 0
    version: Hashable = (container, tag)
    if isinstance(container, Path):
        now = look_at(container)
        version = (container, now.size, now.modified)
    elif isinstance(container, Member):
        outer, (begin, _, _) = _window(container, tag)
        version = (outer, begin)
    directory = kept_directory(version, partial(_read_directory, container, tag))
    try:
        found = directory.window(member.path, partial(_bytes, outermost(container), tag, begin))
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{container}: {error}") from None
    return version, found._replace(begin=begin + found.begin)


def outermost(place: Container | Member) -> Container:
    """Return the file that is in no other one."""
    return outermost(place.container) if isinstance(place, Member) else place


def _bytes(container: Container, tag: str | None, offset: int, begin: int, end: int) -> bytes:
    """Return the bytes between two places after an offset."""
    if isinstance(container, ObjectUrl):
        return client_of(container).read(container, offset + begin, offset + end, tag or "")
    with container.open("rb") as file:
        file.seek(offset + begin)
        return file.read(end - begin)


def _read_directory(container: Container | Member, tag: str | None) -> Directory:
    now = look_at(container)
    if now.tag != tag:
        raise ReplacedError(f"{container}: the object was replaced after it was indexed; index it again")
    with _for_directory(now) as file:
        return read_directory(file)


def _for_directory(container: ArchiveFile) -> BinaryIO:
    if isinstance(container.path, Member):
        return _open_member(container.path, container.tag, step=_RECORD)
    if isinstance(container.path, ObjectUrl):
        return _opened(container.path, container.size, container.tag, step=_RECORD)
    return container.path.open("rb")


def _open_member(
    member: Member,
    tag: str | None,
    *,
    step: int,
    first: int | None = None,
    buffer: int = _OBJECT_BUFFER,
    ahead: bool = False,
) -> BinaryIO:
    """Open a file in a WACZ file, which must have this tag if it is an object."""
    version, (begin, size, _) = _window(member, tag)
    container = outermost(member)
    if isinstance(container, ObjectUrl):
        return _opened(container, size, tag, begin=begin, step=step, first=first, ahead=ahead)
    plain = cast("BinaryIO", container.open("rb", buffering=0))
    return cast("BinaryIO", io.BufferedReader(FileWindow(plain, begin, size, (version, begin)), buffer))
