"""Files below a folder, written whole and durable, or not at all; synchronous, for one caller at a time."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

UNFINISHED = "~part"
"""Ends the names of files that are being written; no record's path has a `~` there."""
_THREADS = 8
_OPEN_AT_ONCE = 250
"""Files open at a time: many systems allow a process a thousand."""
_WORTH_ONE_SYNC = 16
"""From so many files on, one sync of the file system is quicker than one of each file."""


class Disk:
    """Files below a base folder. Paths are relative to it, with `/`."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._folders: set[str] = set()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._sync_file_system = _sync_file_system_call()

    def close(self) -> None:
        """End the threads that sync."""
        self._pool.shutdown()

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Those of the paths at which there is no file."""
        exists = os.path.exists
        return [path for path in paths if not exists(self._full(path))]

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write the files; when this returns, all have their names and survive a power cut.

        Each is written under a temporary name and renamed when its bytes are on the disk, so that a reader
        finds the old file or the new one.
        """
        if len(files) >= _WORTH_ONE_SYNC and self._sync_file_system is not None:
            for path, data in files:
                os.close(self._write(self._full(path) + UNFINISHED, data))
            self._sync_all()
            self._rename(files)
        else:
            for begin in range(0, len(files), _OPEN_AT_ONCE):
                self._write_some(files[begin : begin + _OPEN_AT_ONCE])
        self._sync_folders(path for path, _ in files)

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove the files durably; one that is not there is as good as removed."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._full(path))  # noqa: PTH108 many at once; a Path costs three times as much
        self._sync_folders(paths)

    def replace(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str]) -> None:
        """Write the files, and then remove those that leave."""
        if files:
            self.write_all(files)
        if leaving:
            self.remove_all(leaving)

    def _write_some(self, files: Sequence[tuple[str, bytes]]) -> None:
        unfinished: list[int] = []
        try:
            for path, data in files:
                unfinished.append(self._write(self._full(path) + UNFINISHED, data))
            for _ in self._pool.map(os.fsync, unfinished):
                pass
        finally:
            for descriptor in unfinished:
                os.close(descriptor)
        self._rename(files)

    def _rename(self, files: Sequence[tuple[str, bytes]]) -> None:
        for path, _ in files:
            full = self._full(path)
            os.replace(full + UNFINISHED, full)  # noqa: PTH105 as above

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _write(self, full: str, data: bytes) -> int:
        folder = full.rpartition("/")[0]
        if folder not in self._folders:
            self._make(folder)
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
        return descriptor

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

    def _sync_folders(self, paths: Iterable[str]) -> None:
        folders = {self._full(path).rpartition("/")[0] for path in paths}
        if len(folders) >= _WORTH_ONE_SYNC and self._sync_file_system is not None:
            self._sync_all()
            return
        for _ in self._pool.map(_sync_folder, folders):
            pass

    def _sync_all(self) -> None:
        """One sync of the whole file system, which the caller knows to be possible."""
        assert self._sync_file_system is not None  # noqa: S101 see above
        descriptor = os.open(self._base, os.O_RDONLY)
        try:
            self._sync_file_system(descriptor)
        finally:
            os.close(descriptor)


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
