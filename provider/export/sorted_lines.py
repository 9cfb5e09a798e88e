"""Lines sorted on disk: any number of them, in bounded memory (external merge sort)."""

import heapq
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

RUN_BYTES: Final = 8 * 1024**2
"""Memory that lines may take before they are sorted and written to disk."""
MERGE_BYTES: Final = 16 * 1024**2
"""Memory for all reading buffers together, as long as each has the least size."""
_LEAST_BUFFER: Final = 4096
_MOST_BUFFER: Final = 256 * 1024
_OVERHEAD: Final = 48
"""Bytes that Python needs for a line besides its text."""


class _Run(NamedTuple):
    begin: int
    end: int


class SortedLines:
    """Collects lines and yields them in byte order, each once; a context manager that owns a temporary file.

    A line contains no line break. Nothing may be added after reading has begun.
    """

    def __init__(self, folder: Path | None = None, *, run_bytes: int = RUN_BYTES) -> None:
        """Keep the temporary file in that folder; None means the system's folder for such files."""
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 closed by __exit__
        self._run_bytes = run_bytes
        self._held: list[bytes] = []
        self._held_bytes = 0
        self._runs: list[_Run] = []
        self.added = 0
        """Number of lines, repeated ones included."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, line: bytes) -> None:
        """Add a line, without its line break. Raises OSError if the disk is full."""
        self._held.append(line)
        self._held_bytes += len(line) + _OVERHEAD
        self.added += 1
        if self._held_bytes >= self._run_bytes:
            self._store()

    def __iter__(self) -> Iterator[bytes]:
        self._store()
        self._file.flush()
        buffer = max(_LEAST_BUFFER, min(_MOST_BUFFER, MERGE_BYTES // max(1, len(self._runs))))
        last: bytes | None = None
        for line in heapq.merge(*(self._lines(run, buffer) for run in self._runs)):
            if line != last:
                yield line
            last = line

    def _store(self) -> None:
        """Write the held lines, sorted, behind those that are already in the file."""
        if not self._held:
            return
        self._held.sort()
        begin = self._file.tell()
        self._file.writelines(line + b"\n" for line in self._held)
        self._runs.append(_Run(begin, self._file.tell()))
        self._held, self._held_bytes = [], 0

    def _lines(self, run: _Run, buffer: int) -> Iterator[bytes]:
        """Yield the lines of a run; all runs are read by turns from one descriptor."""
        place, rest = run.begin, b""
        while place < run.end:
            block = os.pread(self._file.fileno(), min(buffer, run.end - place), place)
            place += len(block)
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
