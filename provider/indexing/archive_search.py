"""Finds archive files below folders by their names, and what looks like one but cannot be indexed."""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from oai.errors import UsageError
from oai.failures import FailureCode
from provider.reading.cdx_files import CDX_SUFFIXES
from provider.reading.framing import FramingProblem

ARCHIVE_SUFFIXES: Final = (".arc", ".arc.gz", ".warc", ".warc.gz")
SUFFIXES: Final = (*ARCHIVE_SUFFIXES, *CDX_SUFFIXES)

_LIST_OR_ARCHIVE: Final = r"\.(?:w?arc|cdxj?)(?:\.gz)?"
_PACKED = re.compile(
    rf"{_LIST_OR_ARCHIVE}\.(bz2|xz|lzma|zstd?|lz4|lz|br|z|7z|zip|rar|tar)$|\.(wacz)$", re.IGNORECASE
)
# Heritrix and warcprox write to `.open`; the others are of programs that copy files.
_UNFINISHED = re.compile(rf"{_LIST_OR_ARCHIVE}\.(open|part|partial|tmp|incomplete|filepart)$", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class Found:
    """The files at the paths that a user gave; all absolute."""

    archives: list[Path]
    """Sorted."""
    refused: dict[Path, FramingProblem]
    """Files and folders below the given folders that cannot be indexed, with the reason."""


def search(paths: Iterable[Path]) -> Found:
    """Return the archive files: those below folders by name, and files given directly.

    Raises UsageError if a path does not exist.
    """
    archives: set[Path] = set()
    refused: dict[Path, FramingProblem] = {}
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        if path.is_dir():
            _look_below(path.absolute(), archives, refused)
        else:
            archives.add(path.absolute())
    return Found(archives=sorted(archives), refused=refused)


def _look_below(folder: Path, archives: set[Path], refused: dict[Path, FramingProblem]) -> None:
    def note(error: OSError) -> None:
        reason = f"the folder cannot be read: {error.strerror or error}"
        refused[Path(error.filename)] = FramingProblem.of(FailureCode.ARCHIVE_NOT_READABLE, reason)

    for parent, _, names in os.walk(folder, onerror=note):
        for file in (Path(parent, name) for name in names):
            if file.name.lower().endswith(SUFFIXES):
                archives.add(file)
            elif (problem := refusal(file)) is not None:
                refused[file] = problem


def find_archives(paths: Iterable[Path]) -> list[Path]:
    """Return only the archive files of `search`."""
    return search(paths).archives


def refusal(file: Path) -> FramingProblem | None:
    """Return why a file with this name cannot be indexed although it seems to be an archive file."""
    if found := _PACKED.search(file.name):
        kind = (found[1] or found[2]).lower()
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
