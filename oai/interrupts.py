"""Keeps Ctrl-C, which reaches the whole process group, from processes that must not handle it."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Block SIGINT in processes that the block starts; only the parent handles it, after the block."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
