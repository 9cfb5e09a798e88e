"""Finds archive files by their names below folders, prefixes of object stores and in lists behind HTTP."""

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final, NoReturn

from oai.errors import RemoteError, UsageError
from oai.failures import FailureCode
from provider.reading.cdx_files import CDX_SUFFIXES
from provider.reading.framing import FramingProblem
from provider.storage.clients import client_of, patiently
from provider.storage.files import find_members
from provider.storage.places import (
    ARCHIVE_SUFFIXES,
    WACZ_SUFFIX,
    Container,
    ObjectUrl,
    Place,
    absolute,
    stored_path,
)

SUFFIXES: Final = (*ARCHIVE_SUFFIXES, WACZ_SUFFIX, *CDX_SUFFIXES)

_NO_ARCHIVE: Final = FramingProblem.of(
    FailureCode.ARCHIVE_NOT_ARCHIVE,
    "not indexed: the list names it, but it is not an archive file by its name",
)
_LIST_OR_ARCHIVE: Final = r"\.(?:w?arc|cdxj?)(?:\.gz)?"
_PACKED = re.compile(rf"{_LIST_OR_ARCHIVE}\.(bz2|xz|lzma|zstd?|lz4|lz|br|z|7z|zip|rar|tar)$", re.IGNORECASE)
# Heritrix and warcprox write to `.open`; the others are of programs that copy files.
_UNFINISHED = re.compile(rf"{_LIST_OR_ARCHIVE}\.(open|part|partial|tmp|incomplete|filepart)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The files at the places that a user gave; all absolute."""

    archives: list[Place]
    """Sorted by path or URL; for a WACZ file, those in it."""
    refused: dict[Place, FramingProblem]
    """Files and folders below the given ones that cannot be indexed, with the reason."""


@patiently()
def search(places: Iterable[Container]) -> Found:
    """Return the archive files: those below folders and prefixes by name, and files given directly.

    Raises UsageError if a path does not exist, and RemoteError if a store or server cannot be asked.
    """
    archives: set[Container] = set()
    refused: dict[Place, FramingProblem] = {}
    for place in map(absolute, places):
        if isinstance(place, ObjectUrl):
            _look_behind(place, archives, refused)
        elif not place.exists():
            raise UsageError(f"{place}: no such file or folder")
        elif place.is_dir():
            _look_below(place, archives, refused)
        else:
            archives.add(place)
    return Found(archives=sorted(with_members(archives), key=stored_path), refused=refused)


def with_members(files: Iterable[Container]) -> Iterator[Place]:
    """Yield the files, and instead of a WACZ file the archive files in it.

    One that cannot be read, or has none, remains: indexing it says what is wrong.
    """
    for file in files:
        members: Sequence[Place] = ()
        if is_wacz(file):
            with contextlib.suppress(OSError):
                members = find_members(file)
        yield from members or (file,)


def is_wacz(file: Place) -> bool:
    """Return whether this is a WACZ file by its name; it may be in another one."""
    return file.name.lower().endswith(WACZ_SUFFIX)


def _look_behind(place: ObjectUrl, archives: set[Container], refused: dict[Place, FramingProblem]) -> None:
    """Add the objects at a URL: one whose name is that of an archive file, or what it contains or lists."""
    if place.name.lower().endswith(SUFFIXES) and not place.url.endswith("/"):
        archives.add(place)
        return
    try:
        names = list(client_of(place).names(place))
    except OSError as error:
        raise RemoteError(str(error)) from None
    for name in names:
        _sort(name, archives, refused)
        if not place.is_s3 and name not in archives:
            refused.setdefault(name, _NO_ARCHIVE)
    if all(refused.get(name) is _NO_ARCHIVE for name in names) and not place.is_s3:
        raise UsageError(f"{place}: this list names no archive files")
    if not names:
        raise UsageError(f"{place}: there are no objects with this prefix")


def _sort(file: Container, archives: set[Container], refused: dict[Place, FramingProblem]) -> None:
    if file.name.lower().endswith(SUFFIXES):
        archives.add(file)
    elif (problem := refusal(file)) is not None:
        refused[file] = problem


def _look_below(folder: Path, archives: set[Container], refused: dict[Place, FramingProblem]) -> None:
    def note(error: OSError) -> None:
        reason = f"the folder cannot be read: {error.strerror or error}"
        refused[Path(error.filename)] = FramingProblem.of(FailureCode.ARCHIVE_NOT_READABLE, reason)

    for parent, _, names in os.walk(folder, onerror=note):
        for name in names:
            _sort(Path(parent, name), archives, refused)


class WaczError(OSError):
    """A WACZ file has no files to be indexed; the message states why."""

    failure_code: ClassVar = FailureCode.ARCHIVE_NOT_ARCHIVE


def refuse_wacz(file: Place) -> NoReturn:
    """Raise WaczError or another OSError: why a WACZ file is to be indexed, and not the files in it."""
    if not find_members(file):
        raise WaczError("the WACZ file has no WARC files")
    raise OSError("the WACZ file could not be read when it was found; index it again")


def find_archives(places: Iterable[Container]) -> list[Place]:
    """Return only the archive files of `search`."""
    return search(places).archives


def refusal(file: Place) -> FramingProblem | None:
    """Return why a file with this name cannot be indexed although it seems to be an archive file."""
    if file.name.lower().endswith(SUFFIXES):
        return None
    if found := _PACKED.search(file.name):
        kind = found[1].lower()
        return FramingProblem.of(
            FailureCode.ARCHIVE_PACKED,
            f"not indexed: files packed as .{kind} are not read; unpack it, then index the result",
            format=kind,
        )
    if found := _UNFINISHED.search(file.name):
        return FramingProblem.of(
            FailureCode.ARCHIVE_UNFINISHED,
            f"not indexed: .{found[1]} says that the file is still being written; when it is complete, "
            "rename it without this suffix",
        )
    return None
