"""Ctrl-C, which reaches the whole group of processes, in those that are none of its business."""

import contextlib
import signal
from collections.abc import Iterator


@contextlib.contextmanager
def interrupts_held_back() -> Iterator[None]:
    """Start the block's processes deaf to Ctrl-C: the parent alone decides, once the block is over."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
