"""Limits the memory of a process that reads page after page."""

import ctypes
import gc
import os
import resource
import sys
import threading
import time
from pathlib import Path

_NEW_OBJECTS = 50_000
"""Objects created between two garbage collections; Python's default of 700 is a page of seventy records."""
_LOOK_SECONDS = 0.2
_ARENA_MAX = -8  # M_ARENA_MAX of glibc's mallopt


def collect_seldom() -> None:
    """Collect garbage rarely: pages create many objects and no cycles, and each collection takes time."""
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)


def share_memory() -> None:
    """Let all threads use one arena: memory freed by one thread is at once available to others.

    By default glibc gives each thread an arena, and a harvest's peak is then a tenth higher.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has neither mallopt nor arenas
        if mallopt is not None:
            mallopt(_ARENA_MAX, 1)


def limit_memory(most: int, *, mapped: int = 0) -> None:
    """Let this process take at most so many more bytes than it has now; beyond that it raises MemoryError.

    In addition, `mapped` bytes of a file may be mapped into memory, because they belong to the file. Systems
    other than Linux do not enforce such limits, so there the process watches its own size, and ends.
    """
    if sys.platform == "linux":
        size, _, _, _, _, data, _ = map(int, Path("/proc/self/statm").read_text().split())
        # Address space includes the file's pages, and space that threads reserve but do not use; data
        # include neither.
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
