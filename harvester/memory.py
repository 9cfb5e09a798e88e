"""How a process that reads page after page keeps its memory."""

import ctypes
import gc
import sys

_NEW_OBJECTS = 50_000
"""Between two looks for garbage; Python's own 700 are a page of seventy records."""
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
