"""Files below a folder, written whole and durable, or not at all; synchronous, for one caller at a time."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harvester.store.unfinished import Unfinished, unfinished_in

_THREADS = 8
OPEN_AT_ONCE = 250
"""Files open at a time: many systems allow a process a thousand."""
_WORTH_ONE_SYNC = 16
"""From so many files on, one sync of the file system is quicker than one of each file."""


class Disk:
    """Files below a base folder. Paths are relative to it, with `/`.

    Up to `open_at_once` files are open at a time; the more they are, the fewer syncs it takes.
    """

    def __init__(self, base: str, *, open_at_once: int = OPEN_AT_ONCE) -> None:
        self._base = base
        self._open_at_once = open_at_once
        self._unfinished: Unfinished | None = None
        self._folders: set[str] = set()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._sync_file_system = _sync_file_system_call()

    def close(self) -> None:
        """End the threads that sync."""
        self._pool.shutdown()
        if self._unfinished is not None:
            self._unfinished.close()

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths at which there is no file."""
        exists = os.path.exists
        return [path for path in paths if not exists(self._full(path))]

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write the files; when this returns, all have their names and survive a power cut.

        Each gets its name when its bytes are on the disk, so that a reader finds the old file or the new one.
        """
        for start in range(0, len(files), self._open_at_once):
            self._write_some(files[start : start + self._open_at_once])
        self._sync_folders({_folder(self._full(path)) for path, _ in files})

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove the files durably; one that is not there is as good as removed."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._full(path))  # noqa: PTH108 many at once; a Path costs three times as much
        self._sync_folders({_folder(self._full(path)) for path in paths})

    def replace(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str]) -> None:
        """Write the files, and then remove those that leave."""
        if files:
            self.write_all(files)
        if leaving:
            self.remove_all(leaving)

    def _write_some(self, files: Sequence[tuple[str, bytes]]) -> None:
        whole = [(self._full(path), data) for path, data in files]
        way = self._way(full for full, _ in whole)
        begun: list[int] = []
        try:
            for full, data in whole:
                begun.append(way.begin(full, data))
            self._sync(begun)
            for (full, _), descriptor in zip(whole, begun, strict=True):
                way.finish(full, descriptor)
        finally:
            for descriptor in begun:
                os.close(descriptor)

    def _way(self, paths: Iterable[str]) -> Unfinished:
        """How the files are written, whose folders are there then."""
        folders = {_folder(full) for full in paths}
        for folder in folders - self._folders:
            self._make(folder)
        if self._unfinished is None:
            self._unfinished = unfinished_in(folders.pop())
        return self._unfinished

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _make(self, folder: str) -> None:
        """Make the folder and those above it, and see that they stay."""
        missing = []
        step = Path(folder)
        while not step.exists():
            missing.append(step)
            step = step.parent
        Path(folder).mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync_folder(os.fspath(made.parent))
        self._folders.add(folder)

    def _sync_folders(self, folders: Collection[str]) -> None:
        if len(folders) < _WORTH_ONE_SYNC or self._sync_file_system is None:
            for _ in self._pool.map(_sync_folder, folders):
                pass
            return
        descriptor = os.open(self._base, os.O_RDONLY)
        try:
            self._sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def _sync(self, descriptors: Sequence[int]) -> None:
        """Bring to the disk what was written through the descriptors, and with many all else that waits."""
        if len(descriptors) >= _WORTH_ONE_SYNC and self._sync_file_system is not None:
            self._sync_file_system(descriptors[0])
            return
        for _ in self._pool.map(os.fsync, descriptors):
            pass


def _folder(full: str) -> str:
    return full.rpartition("/")[0]


def _sync_folder(folder: str) -> None:
    """Make new, changed and removed names in the folder durable, where the system can."""
    if os.name != "posix":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_file_system_call() -> Callable[[int], None] | None:
    """Linux's syncfs, which Python's os lacks; None elsewhere."""
    if sys.platform != "linux":
        return None
    syncfs = getattr(ctypes.CDLL(None, use_errno=True), "syncfs", None)
    if syncfs is None:
        return None

    def sync(descriptor: int) -> None:
        if syncfs(descriptor) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))

    return sync
