"""The record files of one repository: written whole and durable, or not at all."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

_UNFINISHED = "~part"
"""Ends the names of files that are being written; no record's path has a `~` there."""
_THREADS = 8
_OPEN_AT_ONCE = 250
"""Files open at a time: many systems allow a process a thousand."""
_WORTH_ONE_SYNC = 16
"""From so many files on, one sync of the file system is quicker than one of each file."""


class FileStore:
    """Files below a base directory. Paths are relative to it, with `/`."""

    def __init__(self, base: Path) -> None:
        self._base = os.fspath(base)
        self._folders: set[str] = set()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._sync_file_system = _sync_file_system_call()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown()

    def exists(self, path: str) -> bool:
        """Whether the file is there."""
        return os.path.exists(self._full(path))  # noqa: PTH110 many times a page; a Path costs three times as much

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Write the files; when this returns, all have their names and survive a power cut.

        Each is written under a temporary name and renamed when its bytes are on the disk, so that a reader
        finds the old file or the new one.
        """
        for begin in range(0, len(files), _OPEN_AT_ONCE):
            self._write_some(files[begin : begin + _OPEN_AT_ONCE])
        self._sync_folders(path for path, _ in files)

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove the files durably; one that is not there is as good as removed."""
        for path in paths:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._full(path))  # noqa: PTH108 as above
        self._sync_folders(paths)

    def _write_some(self, files: Sequence[tuple[str, bytes]]) -> None:
        unfinished: list[int] = []
        try:
            for path, data in files:
                unfinished.append(self._write(self._full(path) + _UNFINISHED, data))
            self._sync(unfinished)
        finally:
            for descriptor in unfinished:
                os.close(descriptor)
        for path, _ in files:
            full = self._full(path)
            os.replace(full + _UNFINISHED, full)  # noqa: PTH105 as above

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _write(self, full: str, data: bytes) -> int:
        folder = full.rpartition("/")[0]
        if folder not in self._folders:
            self._make(folder)
        descriptor = os.open(full, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(descriptor, rest) :]
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

    def _sync(self, descriptors: Sequence[int]) -> None:
        if len(descriptors) >= _WORTH_ONE_SYNC and self._sync_file_system is not None:
            self._sync_file_system(descriptors[0])
            return
        for _ in self._pool.map(os.fsync, descriptors):
            pass

    def _sync_folders(self, paths: Iterable[str]) -> None:
        folders = {self._full(path).rpartition("/")[0] for path in paths}
        for _ in self._pool.map(_sync_folder, folders):
            pass


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
