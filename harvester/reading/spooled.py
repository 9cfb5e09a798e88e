"""An answer's bytes: in memory while they are few, else in a temporary file without a name."""

import os
import tempfile
from collections.abc import Iterator
from io import FileIO
from typing import BinaryIO, Final

IN_MEMORY: Final = 8 * 1024**2
"""Bytes of the largest answer that is kept in memory as a whole."""
_CHUNK: Final = 1024**2


class Spooled:
    """Bytes in a temporary file, which goes with this object; they are appended to and read from any thread.

    Slices are read from the file: `data[10:20]` is ten bytes.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Bytes to come, or those of an open file, such as one that another process has handed over."""
        # A file without a name leaves nothing behind when the process is killed.
        self._file: BinaryIO | FileIO = (
            tempfile.TemporaryFile(prefix="zatva-answer-", buffering=0)  # noqa: SIM115 close() does
            if descriptor is None
            else FileIO(descriptor)
        )
        self._size = os.fstat(self._file.fileno()).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, wanted: slice) -> bytes:
        start, stop, _ = wanted.indices(self._size)
        pieces = []
        while start < stop and (piece := os.pread(self._file.fileno(), stop - start, start)):
            pieces.append(piece)
            start += len(piece)
        return b"".join(pieces)

    def append(self, data: bytes) -> None:
        """Add bytes at the end."""
        view = memoryview(data)
        while view:
            written = self._file.write(view)
            self._size += written
            view = view[written:]

    def chunks(self) -> Iterator[bytes]:
        """All the bytes, one mebibyte at a time."""
        for begin in range(0, self._size, _CHUNK):
            yield self[begin : begin + _CHUNK]

    def fileno(self) -> int:
        """The file's descriptor, to be handed to another process."""
        return self._file.fileno()

    def __del__(self) -> None:
        """Give the file's room back with the object: an answer is passed on, and no reader is the last."""
        self._file.close()


Body = bytes | Spooled


def chunks_of(body: Body) -> Iterator[bytes]:
    """The bytes in pieces that are small enough to be handled."""
    if isinstance(body, Spooled):
        yield from body.chunks()
    else:
        yield body


class Gathering:
    """Bytes that come piece by piece, as a whole at the end.

    With `spool`, they go to a file when they are many, and with `at_once` too, from the first one on.
    """

    def __init__(self, *, spool: bool, at_once: bool = False) -> None:
        self._spool = spool
        self._pieces: list[bytes] = []
        self._file = Spooled() if spool and at_once else None
        self.size = 0

    def add(self, piece: bytes) -> None:
        """Add a piece."""
        self.size += len(piece)
        if self._file is not None:
            self._file.append(piece)
            return
        self._pieces.append(piece)
        if self._spool and self.size > IN_MEMORY:
            self._file = Spooled()
            self._file.append(b"".join(self._pieces))
            self._pieces.clear()

    def whole(self) -> Body:
        """All that came."""
        return b"".join(self._pieces) if self._file is None else self._file
