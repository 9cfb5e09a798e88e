"""Output files that exist under their names only once they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

UNFINISHED: Final = "~part"
"""Suffix of a file that is still being written."""


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Let an error name the path if it names none, as that of a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or os.fspath(path)
        raise


class _NamedFile(FileIO):
    """A file whose errors name it, unlike those of whatever else is read or written meanwhile."""

    def write(self, data: "ReadableBuffer", /) -> int:
        with named(os.fspath(self.name)):
            return super().write(data)


@contextmanager
def complete_file(name: Path) -> Iterator[BinaryIO]:
    """Provide a file that gets its name once the block is complete; after an error, nothing is left of it.

    An existing file of that name is replaced. Raises OSError.
    """
    unfinished = name.with_name(name.name + UNFINISHED)
    try:
        with BufferedWriter(_NamedFile(unfinished, "w")) as file:
            yield file
            file.flush()
            with named(unfinished):
                os.fsync(file.fileno())
        # Synced before it gets its name, which then never refers to an incomplete file.
        unfinished.replace(name)
    finally:
        unfinished.unlink(missing_ok=True)
