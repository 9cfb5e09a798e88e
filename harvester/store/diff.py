"""Compares a repository's rows with its files, both in path order, in bounded memory."""

import heapq
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.orm import Session

_ROWS_AT_ONCE = 2000
_ROWS = text(
    """
    SELECT record_id, filename, digest, identifier FROM oai_record
    WHERE repository_id = :repository_id AND filename IS NOT NULL
    ORDER BY filename COLLATE "C"
    """
)
# Each name separately through the index, which PostgreSQL would not use for an OR.
_ROWS_NOW = text(
    """
    SELECT record_id, filename, digest, identifier FROM oai_record
    WHERE repository_id = :repository_id AND filename IS NOT NULL AND record_id = ANY(CAST(:ids AS bigint[]))
    UNION
    SELECT record.* FROM unnest(CAST(:names AS text[])) AS name
    CROSS JOIN LATERAL (
        SELECT record_id, filename, digest, identifier FROM oai_record
        WHERE repository_id = :repository_id AND filename IS NOT NULL
          AND md5(lower(filename)) = md5(lower(name))
        LIMIT 1
    ) AS record
    """
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRow:
    """What a row states about its record's file."""

    record_id: int
    filename: str
    digest: bytes | None
    identifier: str


Pair = tuple[FileRow | None, bytes | None]
"""A row and the path that it names; either may be missing."""


def file_rows(session: Session, repository_id: int) -> Iterator[FileRow]:
    """Yield the rows that name files, sorted in the database by the bytes of the names."""
    rows = session.execute(
        _ROWS, {"repository_id": repository_id}, execution_options={"yield_per": _ROWS_AT_ONCE}
    )
    return (FileRow(**row) for row in rows.mappings())


def rows_now(
    session: Session, repository_id: int, *, record_ids: Sequence[int], names: Sequence[str]
) -> list[FileRow]:
    """Return the present rows of these records, and of these files regardless of the case of their names."""
    # Names that are not UTF-8 cannot be in a row.
    writable = [name for name in names if name.isprintable()]
    rows = session.execute(
        _ROWS_NOW, {"repository_id": repository_id, "ids": list(record_ids), "names": writable}
    )
    return [FileRow(**row) for row in rows.mappings()]


def compare(rows: Iterable[FileRow], paths: Iterable[bytes]) -> Iterator[Pair]:
    """Yield rows and paths, both sorted, in matching pairs."""
    rows, paths = iter(rows), iter(paths)
    row, path = next(rows, None), next(paths, None)
    while row is not None or path is not None:
        name = os.fsencode(row.filename) if row is not None else None
        if name == path:
            yield row, path
            row, path = next(rows, None), next(paths, None)
        elif path is None or (name is not None and name < path):
            yield row, None
            row = next(rows, None)
        else:
            yield None, path
            path = next(paths, None)


def is_same_file(folder: Path, named: str, listed: bytes) -> bool:
    """Return whether a name in the folder leads to a listed file, from which it differs in case at most."""
    place, name = os.fsencode(folder), os.fsencode(named)
    one, other = os.path.join(place, name), os.path.join(place, listed)  # noqa: PTH118 names may not be UTF-8
    if named.lower() != os.fsdecode(listed).lower() or not (os.path.exists(one) and os.path.exists(other)):  # noqa: PTH110
        return False
    if os.path.samefile(one, other):  # noqa: PTH121
        return True
    # Drivers in user space, such as that of exFAT, give each spelling an inode number of its own.
    for wanted, entry in zip(name.split(b"/"), listed.split(b"/"), strict=True):
        if wanted != entry and wanted in os.listdir(place):  # noqa: PTH208
            return False
        place = os.path.join(place, entry)  # noqa: PTH118
    return True


def readable(path: bytes) -> str:
    """Return the path as readable text, whatever its bytes."""
    return path.decode(errors="backslashreplace")


_SORTED_AT_ONCE = 20_000
"""Maximum names of a folder in memory; of larger folders, sorted runs are in temporary files."""

Counted = Callable[[bytes, int], None]
"""Called with each folder (relative, empty for the base) and the number of record files directly in it."""


def _not_counted(_folder: bytes, _files: int) -> None:
    """Ignore the count."""


def walk(
    base: str,
    *,
    on_folder: Counted = _not_counted,
    skip: Collection[str] = (),
    in_memory: int = _SORTED_AT_ONCE,
) -> Iterator[bytes]:
    """Yield the paths of all files below `base`, relative to it, with `/`, sorted by their bytes.

    Links count as files and are not followed. `skip` has full paths of folders to leave out. A missing `base`
    has no files. At most `in_memory` names of a folder are in memory. Raises OSError if a folder cannot be
    read.
    """
    root = os.fsencode(base)
    if not os.path.isdir(root):  # noqa: PTH112 names are bytes here
        return
    left_out = {os.fsencode(folder) for folder in skip}
    open_: list[_Open] = []
    with _closing(open_):
        open_.append(_opened(root, b"", on_folder, in_memory))
        while open_:
            folder, names = open_[-1].folder, open_[-1].names
            name = next(names, None)
            if name is None:
                open_.pop().files.close()
            elif not name.endswith(b"/"):
                yield folder + name
            elif os.path.join(root, (folder + name)[:-1]) not in left_out:  # noqa: PTH118 as above
                open_.append(_opened(root, folder + name, on_folder, in_memory))


@dataclass(frozen=True, kw_only=True)
class _Open:
    """A folder being traversed: its path with a `/`, the remaining names, and their temporary files."""

    folder: bytes
    names: Iterator[bytes]
    files: ExitStack


@contextmanager
def _closing(folders: list[_Open]) -> Iterator[None]:
    try:
        yield
    finally:
        for folder in folders:
            folder.files.close()


def _opened(root: bytes, folder: bytes, on_folder: Counted, in_memory: int) -> _Open:
    """Return a folder with its names in the order of the paths below them: folders end with `/`."""
    stack = ExitStack()
    runs: list[Iterable[bytes]] = []
    files = 0
    with os.scandir(root + b"/" + folder) as found:
        names = (entry.name + b"/" if entry.is_dir(follow_symlinks=False) else entry.name for entry in found)
        while piece := sorted(islice(names, in_memory)):
            files += sum(name.endswith(b".xml") for name in piece)
            runs.append(piece if len(piece) < in_memory else _kept(piece, stack))
    on_folder(folder.rstrip(b"/"), files)
    return _Open(folder=folder, names=heapq.merge(*runs), files=stack)


def _kept(names: list[bytes], stack: ExitStack) -> Iterator[bytes]:
    """Write the names to a temporary file, and yield them from there."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 open for as long as the folder
    for name in names:
        file.write(len(name).to_bytes(2) + name)
    file.seek(0)
    return _read(file.read)


def _read(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while length := read(2):
        yield read(int.from_bytes(length))
