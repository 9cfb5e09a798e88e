"""An object as a file that can be read from any place: ranges are requested as they are needed."""

import io
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_KEPT: Final = 2
"""Ranges in memory: a record is read again from its beginning, which may be in the last but one."""

Fetch = Callable[[int, int], bytes]
"""Returns the bytes from a place to before another; all of them, or raises OSError."""


class _Range(NamedTuple):
    begin: int
    content: bytes

    @property
    def end(self) -> int:
        return self.begin + len(self.content)


class SizedReader(io.RawIOBase):
    """A readable file of known size; subclasses read from `_at`, which seeking only moves."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def tell(self) -> int:
        """Return the current place."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a place; nothing is read."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, base + offset)
        return self._at


class RangeReader(SizedReader):
    """A readable file over ranges of `step` bytes; with `ahead`, the next one is fetched meanwhile.

    The first range has `first` bytes. Memory: three ranges.
    """

    def __init__(self, fetch: Fetch, size: int, *, step: int, first: int | None = None, ahead: bool) -> None:
        super().__init__(size)
        self.version: Hashable = None
        """Differs between objects, and between an object's versions."""
        self._fetch = fetch
        self._step = step
        self._next_step = first or step
        self._held: list[_Range] = []
        self._thread = ThreadPoolExecutor(1, "range") if ahead else None
        self._coming: tuple[int, Future[bytes]] | None = None

    def readinto(self, buffer: "WriteableBuffer", /) -> int:
        """Read up to the end of a range. Raises OSError if it cannot be fetched."""
        if self._at >= self._size:
            return 0
        held = next((one for one in self._held if one.begin <= self._at < one.end), None) or self._load()
        view = memoryview(buffer).cast("B")
        begin = self._at - held.begin
        piece = held.content[begin : begin + len(view)]
        view[: len(piece)] = piece
        self._at += len(piece)
        return len(piece)

    def close(self) -> None:
        """Give up what is still being fetched."""
        if self._thread is not None:
            self._thread.shutdown(wait=False, cancel_futures=True)
        self._held.clear()
        super().close()

    def _load(self) -> _Range:
        begin = self._at
        if self._coming is not None and self._coming[0] == begin:
            content = self._coming[1].result()
        else:
            content = self._fetch(begin, min(begin + self._next_step, self._size))
        self._next_step = self._step
        held = _Range(begin, content)
        self._held = [*self._held[1 - _KEPT :], held]
        self._coming = None
        if self._thread is not None and held.end < self._size:
            end = min(held.end + self._step, self._size)
            self._coming = (held.end, self._thread.submit(self._fetch, held.end, end))
        return held
