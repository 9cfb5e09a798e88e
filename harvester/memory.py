"""How a process that reads page after page keeps its memory."""

import ctypes
import gc
import os
import resource
import sys
import threading
import time
from pathlib import Path

_NEW_OBJECTS = 50_000
"""Between two looks for garbage; Python's own 700 are a page of seventy records."""
_LOOK_SECONDS = 0.2
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's mallopt


def collect_seldom() -> None:
    """Look for circles of garbage seldom: pages make many objects and no circles, and each look costs."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


def share_memory() -> None:
    """Let the threads take memory from one arena: what one frees of a page, the next can use at once.

    Of its own accord glibc gives each thread an arena, and a harvest then has a tenth more at its peak.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has neither it nor arenas
        if mallopt is not None:
            mallopt(_ARENA_MAX, 1)


def limit_memory(most: int, *, mapped: int = 0) -> None:
    """Let this process take at most so many bytes more than it has now; beyond that it raises MemoryError.

    `mapped` bytes of a file may be mapped into memory besides; they are the file's. Systems other than Linux
    do not hold to such limits, so there the process looks after its own size, and ends.
    """
    if sys.platform == "linux":
        size, _, _, _, _, data, _ = map(int, Path("/proc/self/statm").read_text().split())
        # Address space has the file's pages, and room that threads reserve and never use; data have neither.
        _lower(resource.RLIMIT_AS, size * resource.getpagesize() + most + mapped)
        _lower(resource.RLIMIT_DATA, data * resource.getpagesize() + most)
    else:
        begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        threading.Thread(target=_watch_size, args=(begun + most,), daemon=True).start()


def _lower(limit: int, most: int) -> None:
    _, hard = resource.getrlimit(limit)
    resource.setrlimit(limit, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _watch_size(most: int) -> None:
    while resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < most:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
