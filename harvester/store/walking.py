"""The names of a store's files in the order of their bytes, however many there are."""

import heapq
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice

_SORTED_AT_ONCE = 20_000
"""Names of one folder; of more, sorted runs wait in temporary files."""

Counted = Callable[[bytes, int], None]
"""Is told each folder (relative, empty for the base) with the number of record files directly in it."""


def _not_counted(_folder: bytes, _files: int) -> None:
    """Count nothing."""


def walk(
    base: str,
    *,
    on_folder: Counted = _not_counted,
    skip: Collection[str] = (),
    in_memory: int = _SORTED_AT_ONCE,
) -> Iterator[bytes]:
    """The paths of all files below `base`, relative to it, with `/`, in the order of their bytes.

    Links are files: they are not followed. `skip` has full paths of folders that are left out. A `base` that
    is not there has no files. At most `in_memory` names of a folder are. Raises OSError where a folder cannot
    be read.
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
    """A folder that is gone through: its path with a `/`, the names left, and their temporary files."""

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
    """A folder with its names in the order in which the paths below them come: a folder's end with `/`."""
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
    """The names again, out of a temporary file."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 open for as long as the folder
    for name in names:
        file.write(len(name).to_bytes(2) + name)
    file.seek(0)
    return _read(file.read)


def _read(read: Callable[[int], bytes]) -> Iterator[bytes]:
    while length := read(2):
        yield read(int.from_bytes(length))
