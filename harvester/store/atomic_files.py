"""Files below a folder, each written completely and durably or not at all; synchronous, for one caller."""

import contextlib
import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Final, Protocol

ENDING = "~part"
"""Suffix of files that are being written, if they need a name; no record's path has a `~` there."""
_MODE: Final = 0o644
_THREADS = 8
OPEN_AT_ONCE = 250
"""Maximum number of files open at a time: many systems allow a process a thousand."""
_WORTH_ONE_SYNC = 16
"""Number of files from which one sync of the file system is faster than one per file."""


class Unfinished(Protocol):
    """How files are started and finished. The caller syncs in between, and closes the descriptors."""

    def begin(self, full: str, data: bytes) -> int:
        """Write the data of the future file at the path, whose folder exists; return its open descriptor."""

    def finish(self, full: str, descriptor: int) -> None:
        """Let the file appear at the path, replacing an existing one."""

    def close(self) -> None:
        """Release the resources of this object."""


def unfinished_in(folder: str) -> Unfinished:
    """Return the fastest method that the folder's file system supports."""
    if not hasattr(os, "O_TMPFILE"):
        return Named()
    probe = f"{folder}/{os.getpid()}{ENDING}"
    unnamed = None
    try:
        unnamed = UnnamedFiles()
        descriptor = unnamed.begin(probe, b"")
        try:
            unnamed.finish(probe, descriptor)
        finally:
            os.close(descriptor)
        os.unlink(probe)  # noqa: PTH108 as below
    except OSError:
        # Network file systems and old kernels refuse; an error of the disk itself occurs again later.
        if unnamed is not None:
            unnamed.close()
        return Named()
    return unnamed


class Named:
    """Files under a temporary name next to their paths."""

    def begin(self, full: str, data: bytes) -> int:
        """Start a file as `Unfinished.begin` says."""
        descriptor = os.open(full + ENDING, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        return _written(descriptor, data, full)

    def finish(self, full: str, descriptor: int) -> None:
        """Finish a file as `Unfinished.finish` says."""
        del descriptor
        os.replace(full + ENDING, full)  # noqa: PTH105 many at once; a Path costs three times as much

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class UnnamedFiles:
    """Unnamed files (Linux's O_TMPFILE): a process that is killed leaves nothing of them.

    Not creating and removing a name saves a sixth of the time of a file.
    """

    def __init__(self) -> None:
        self._descriptors = os.open("/proc/self/fd", os.O_RDONLY)

    def begin(self, full: str, data: bytes) -> int:
        """Start a file as `Unfinished.begin` says."""
        return _written(os.open(_folder(full), os.O_WRONLY | os.O_TMPFILE, _MODE), data, full)

    def finish(self, full: str, descriptor: int) -> None:
        """Finish a file; a link cannot replace a file, so replacing needs a temporary name after all."""
        try:
            self._link(descriptor, full)
        except FileExistsError:
            named = full + ENDING
            Path(named).unlink(missing_ok=True)
            self._link(descriptor, named)
            os.replace(named, full)  # noqa: PTH105 as above

    def close(self) -> None:
        """Close the directory of descriptors."""
        os.close(self._descriptors)

    def _link(self, descriptor: int, full: str) -> None:
        # Python follows a symbolic link here only if it is given the folder of the source.
        os.link(str(descriptor), full, src_dir_fd=self._descriptors, follow_symlinks=True)


def _written(descriptor: int, data: bytes, full: str) -> int:
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        if isinstance(error, OSError):
            error.filename = full  # the system names no file of a descriptor
        raise
    return descriptor


class Disk:
    """Files below a base folder. Paths are relative to it, with `/`.

    Up to `open_at_once` files are open at a time: one half is being written while the other half is synced.
    The more there are, the fewer syncs are needed.
    """

    def __init__(self, base: str, *, open_at_once: int = OPEN_AT_ONCE, sync_file_system: bool = True) -> None:
        self._base = base
        self._at_once = max(open_at_once // 2, 1)
        self._unfinished: Unfinished | None = None
        self._folders: set[str] = set()
        self._begun: _Begun | None = None
        self._unsynced: set[str] = set()
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="sync")
        self._sync_file_system = _sync_file_system_call() if sync_file_system else None

    def close(self) -> None:
        """End the syncing threads; files that have not settled may be lost."""
        if self._begun is not None:
            self._begun.close()
        self._pool.shutdown()
        if self._unfinished is not None:
            self._unfinished.close()

    def missing(self, paths: Sequence[str]) -> list[str]:
        """Return the paths at which there is no file."""
        self._finish()
        return [path for path in paths if not os.access(self._full(path), os.F_OK)]

    def begin(self, files: Sequence[tuple[str, bytes]], leaving: Sequence[str] = ()) -> None:
        """Start writing the files, and then removing those in `leaving`; `settle` completes it.

        Each file gets its name once its bytes are on disk, so that a reader finds either the old file or the
        new one. The disk works on the files of one call while the next call writes its own.
        """
        with self._named_errors():
            for start in range(0, len(files), self._at_once):
                self._begin_some(files[start : start + self._at_once])
        if leaving:
            self.settle()
            self.remove_all(leaving)

    def settle(self) -> None:
        """Complete what was started: when this returns, it survives a power failure."""
        with self._named_errors():
            self._finish()
            self._sync_folders()

    def write_all(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Start writing the files, and settle."""
        self.begin(files)
        self.settle()

    def remove_all(self, paths: Sequence[str]) -> None:
        """Remove the files durably; a missing file counts as removed."""
        for path in paths:
            full = self._full(path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(full)  # noqa: PTH108 many at once; a Path costs three times as much
            self._unsynced.add(_folder(full))
        self._sync_folders()

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Name the base folder in errors of syncs, for which the system names no file."""
        try:
            yield
        except OSError as error:
            error.filename = error.filename or self._base
            raise

    def _begin_some(self, files: Sequence[tuple[str, bytes]]) -> None:
        whole = [(self._full(path), data) for path, data in files]
        if self._begun is not None and self._begun.has_any(full for full, _ in whole):
            self._finish()
        with contextlib.ExitStack() as undone:
            begun = _Begun(self._unfinished_in(full for full, _ in whole))
            undone.callback(begun.close)
            for full, data in whole:
                begun.add(full, data)
            # One sync at a time; the new one starts before the earlier files get their names.
            if self._begun is not None:
                self._begun.wait()
            self._sync(begun)
            self._finish()
            undone.pop_all()
        self._begun = begun

    def _finish(self) -> None:
        """Give the started files their names."""
        begun, self._begun = self._begun, None
        if begun is not None:
            with contextlib.closing(begun):
                # Names only after the sync: a name must never refer to bytes that are not on disk.
                begun.wait()
                self._unsynced |= begun.finish()

    def _unfinished_in(self, paths: Iterable[str]) -> Unfinished:
        """Return how the files are written, after creating their folders."""
        folders = {_folder(full) for full in paths}
        for folder in folders - self._folders:
            self._make(folder)
        if self._unfinished is None:
            self._unfinished = unfinished_in(folders.pop())
        return self._unfinished

    def _full(self, path: str) -> str:
        return f"{self._base}/{path}"

    def _make(self, folder: str) -> None:
        """Create the folder and its parents, and make them durable."""
        missing = []
        step = Path(folder)
        while not step.exists():
            missing.append(step)
            step = step.parent
        Path(folder).mkdir(parents=True, exist_ok=True)
        for made in missing:
            sync_folder(made.parent)
        self._folders.add(folder)

    def _sync_folders(self) -> None:
        folders, self._unsynced = self._unsynced, set()
        if len(folders) < _WORTH_ONE_SYNC or self._sync_file_system is None:
            for _ in self._pool.map(sync_folder, folders):
                pass
            return
        descriptor = os.open(self._base, os.O_RDONLY)
        try:
            self._sync_file_system(descriptor)
        finally:
            os.close(descriptor)

    def _sync(self, begun: "_Begun") -> None:
        """Start syncing the files; if there are many, sync the whole file system."""
        descriptors = begun.descriptors()
        if len(descriptors) >= _WORTH_ONE_SYNC and self._sync_file_system is not None:
            begun.syncing = self._pool.submit(self._sync_file_system, descriptors[0])
            return
        for _ in self._pool.map(os.fsync, descriptors):
            pass


class _Begun:
    """Files that were written and have no names yet."""

    def __init__(self, unfinished: Unfinished) -> None:
        self._unfinished = unfinished
        self._files: list[tuple[str, int]] = []
        self.syncing: Future[None] | None = None
        """The sync of the files, if one is running in a thread."""

    def add(self, full: str, data: bytes) -> None:
        """Write one file."""
        self._files.append((full, self._unfinished.begin(full, data)))

    def has_any(self, paths: Iterable[str]) -> bool:
        """Return whether one of the paths is among the files."""
        return not {full for full, _ in self._files}.isdisjoint(paths)

    def descriptors(self) -> list[int]:
        """Return the descriptors of the open files."""
        return [descriptor for _, descriptor in self._files]

    def wait(self) -> None:
        """Wait until the files are on disk; raise the error if that failed."""
        if self.syncing is not None:
            self.syncing.result()

    def finish(self) -> set[str]:
        """Give the files their names; return their folders."""
        for full, descriptor in self._files:
            self._unfinished.finish(full, descriptor)
        return {_folder(full) for full, _ in self._files}

    def close(self) -> None:
        """Close the files; those without a name are gone."""
        if self.syncing is not None:
            wait([self.syncing])
        for descriptor in self.descriptors():
            os.close(descriptor)


def _folder(full: str) -> str:
    return full.rpartition("/")[0]


def sync_folder(folder: str | Path) -> None:
    """Make new, changed and removed names in the folder durable, if the system supports it."""
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
    """Return Linux's syncfs, which Python's os lacks; None on other systems."""
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
