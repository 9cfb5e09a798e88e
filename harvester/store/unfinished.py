"""Files that are being written: nobody finds them at their paths before they are whole."""

import contextlib
import os
from pathlib import Path
from typing import Final, Protocol

ENDING = "~part"
"""Ends the names of files that are being written, where those need one; no record's path has a `~` there."""
_MODE: Final = 0o644


class Unfinished(Protocol):
    """How files are begun and finished. The caller syncs in between, and closes the descriptors."""

    def begin(self, full: str, data: bytes) -> int:
        """Write what will be the file at the path, whose folder exists; gives its open descriptor."""

    def finish(self, full: str, descriptor: int) -> None:
        """Let the file appear at the path, instead of the one that may be there."""

    def close(self) -> None:
        """Let go of what this holds."""


def unfinished_in(folder: str) -> Unfinished:
    """The quickest way that the folder's file system has."""
    if not hasattr(os, "O_TMPFILE"):
        return Named()
    probe = f"{folder}/{os.getpid()}{ENDING}"
    nameless = None
    try:
        nameless = Nameless()
        descriptor = nameless.begin(probe, b"")
        try:
            nameless.finish(probe, descriptor)
        finally:
            os.close(descriptor)
        os.unlink(probe)  # noqa: PTH108 as below
    except OSError:
        # Network file systems and old kernels refuse; what is wrong with the disk itself comes again.
        if nameless is not None:
            nameless.close()
        return Named()
    return nameless


class Named:
    """Files beside their paths, under a temporary name."""

    def begin(self, full: str, data: bytes) -> int:
        """As `Unfinished.begin`."""
        descriptor = os.open(full + ENDING, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _MODE)
        return _written(descriptor, data)

    def finish(self, full: str, descriptor: int) -> None:
        """As `Unfinished.finish`."""
        del descriptor
        os.replace(full + ENDING, full)  # noqa: PTH105 many at once; a Path costs three times as much

    def close(self) -> None:
        """There is nothing to let go of."""


class Nameless:
    """Files without any name (Linux's O_TMPFILE): a process that is killed leaves nothing of them.

    A name less to make and to remove takes a sixth of a file's time.
    """

    def __init__(self) -> None:
        self._descriptors = os.open("/proc/self/fd", os.O_RDONLY)

    def begin(self, full: str, data: bytes) -> int:
        """As `Unfinished.begin`."""
        return _written(os.open(full.rpartition("/")[0], os.O_WRONLY | os.O_TMPFILE, _MODE), data)

    def finish(self, full: str, descriptor: int) -> None:
        """As `Unfinished.finish`; a link cannot replace a file, so that takes a name after all."""
        try:
            self._link(descriptor, full)
        except FileExistsError:
            named = full + ENDING
            Path(named).unlink(missing_ok=True)
            self._link(descriptor, named)
            os.replace(named, full)  # noqa: PTH105 as above

    def close(self) -> None:
        """Let go of the list of descriptors."""
        os.close(self._descriptors)

    def _link(self, descriptor: int, full: str) -> None:
        # Python follows a symbolic link here only where it is told the folder of the source.
        os.link(str(descriptor), full, src_dir_fd=self._descriptors, follow_symlinks=True)


def _written(descriptor: int, data: bytes) -> int:
    try:
        written = os.write(descriptor, data)
        while written < len(data):
            written += os.write(descriptor, memoryview(data)[written:])
    except BaseException:
        with contextlib.suppress(OSError):
            os.close(descriptor)
        raise
    return descriptor
