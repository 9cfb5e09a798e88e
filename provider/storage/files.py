"""Opens archive files and looks at them, wherever they are."""

import io
import stat
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, cast

from provider.storage.clients import client_of
from provider.storage.places import ObjectUrl, Place, place_of, stored_name, stored_path
from provider.storage.ranges import RangeReader

UNREAD: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""Modification time of a file that has to be read (again): no real file has it."""

_BUFFER: Final = 1 << 20
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
    """UTC, to the microsecond."""
    tag: str | None = None
    """Of an object: changes whenever it is replaced."""

    @property
    def name(self) -> str:
        """The name by which the file is identified: the file name without `.gz` or `.zst`."""
        return stored_name(self.path.name)

    def open(self) -> BinaryIO:
        """Open the file for reading all of it. Raises OSError."""
        if isinstance(self.path, Path):
            return self.path.open("rb", buffering=_BUFFER)
        return _opened(self.path, self.size, self.tag, step=_PART, ahead=True)


def look_at(place: Place) -> ArchiveFile:
    """Return size, modification time and tag of a file.

    Raises OSError if it cannot be read or is not a regular file; see `provider.storage.objects`.
    """
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
    if tag is None:
        now = client_of(place).facts(place)
        size, tag = now.size, now.tag
    return _opened(
        place, size, tag, step=_RECORD, first=min((packed_length or _OBJECT_BUFFER) + _SLACK, _PART)
    )


def _opened(
    place: ObjectUrl, size: int, tag: str | None, *, step: int, first: int | None = None, ahead: bool = False
) -> BinaryIO:
    if tag is None:
        raise OSError(f"{place}: the index has no tag of this object; index it again")
    read = partial(client_of(place).read, place)
    reader = RangeReader(lambda begin, end: read(begin, end, tag), size, step=step, first=first, ahead=ahead)
    reader.version = (place, tag)
    return cast("BinaryIO", io.BufferedReader(reader, _OBJECT_BUFFER))
