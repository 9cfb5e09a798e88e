"""An answer's bytes: small answers in memory, large ones in an unnamed temporary file."""

import os
import tempfile
from collections.abc import Iterator
from io import FileIO
from typing import BinaryIO, Final

from oai.output_files import named

IN_MEMORY: Final = 8 * 1024**2
"""Maximum bytes of an answer that is kept in memory as a whole."""
_CHUNK: Final = 1024**2


class Spooled:
    """Bytes in a temporary file, which is removed with this object.

    One thread at a time appends; any thread may read. Slices are read from the file: `data[10:20]` is ten
    bytes. Reading is safe from several threads, because `os.pread` does not move the file's position.
    """

    def __init__(self, descriptor: int | None = None) -> None:
        """Create an empty file, or wrap an open descriptor, such as one passed by another process."""
        # An unnamed file leaves nothing behind when the process is killed.
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
        """Append bytes. Raises OSError, with the folder's name."""
        view = memoryview(data)
        with named(tempfile.gettempdir()):
            while view:
                written = self._file.write(view)
                self._size += written
                view = view[written:]

    def chunks(self) -> Iterator[bytes]:
        """Yield all bytes, one mebibyte at a time."""
        for begin in range(0, self._size, _CHUNK):
            yield self[begin : begin + _CHUNK]

    def fileno(self) -> int:
        """Return the file's descriptor, to be passed to another process."""
        return self._file.fileno()

    def __del__(self) -> None:
        """Close the file with the object: an answer is passed on, so no reader knows that it is the last."""
        self._file.close()


Body = bytes | Spooled


def chunks_of(body: Body) -> Iterator[bytes]:
    """Yield the bytes in pieces of manageable size."""
    if isinstance(body, Spooled):
        yield from body.chunks()
    else:
        yield body


class Gathering:
    """Collects bytes that arrive piece by piece.

    With `spool`, they go to a file once there are many of them; with `at_once` as well, from the first one
    on.
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
        """Return all bytes."""
        return b"".join(self._pieces) if self._file is None else self._file
