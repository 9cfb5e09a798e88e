"""Conversion of the batches of an import by several processes.

A process imports this module when it starts, and with it neither the database nor the client: that would take
three times as long.
"""

import os
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ClassVar, Final

from harvester.bibliographic.batches import Converting, ImportBatch
from harvester.bibliographic.converters import Candidate
from oai.child import end_with_pool, interrupts_held_back, spawning
from oai.errors import ZatvaError

_WORTH_IT: Final = 4000
"""The number of records above which starting processes saves time."""
_AHEAD: Final = 1
"""Batches under way or waiting to be written, beyond one for each process: this bounds the memory."""


def processes_for(records: int) -> int:
    """Return how many processes should convert this many records; 1 means this process only."""
    if records < _WORTH_IT:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def convert_all(
    pages: Iterable[Sequence[Candidate]], converting: Converting, *, processes: int
) -> Generator[ImportBatch, None, None]:
    """Convert pages of candidates; close the generator to end early.

    Raises ZatvaError if a process was killed.
    """
    if processes == 1:
        yield from map(converting.batch, pages)
        return
    with (
        spawning() as context,
        ProcessPoolExecutor(
            processes, mp_context=context, initializer=_begin, initargs=(converting,)
        ) as pool,
    ):
        try:
            yield from _in_order(pool, pages, most=processes + _AHEAD)
        except BrokenProcessPool:
            raise ZatvaError(
                "a process that was converting records was killed; to continue, run the import again"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)


def _in_order(
    pool: ProcessPoolExecutor, pages: Iterable[Sequence[Candidate]], *, most: int
) -> Iterator[ImportBatch]:
    # Only this thread uses the deque; results are taken in the order of the pages, so that the writer can
    # resume after the last key.
    under_way: deque[Future[ImportBatch]] = deque()
    for page in pages:
        with interrupts_held_back():
            under_way.append(pool.submit(_work, page))
        if len(under_way) >= most:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


class _Process:
    """What a worker process receives once, when it starts."""

    converting: ClassVar[Converting]


def _begin(converting: Converting) -> None:
    _Process.converting = converting
    end_with_pool()


def _work(candidates: Sequence[Candidate]) -> ImportBatch:
    return _Process.converting.batch(candidates)
