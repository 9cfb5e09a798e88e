"""Converts batches in as many processes as there are processors; they come in the order of their pages.

A process that is at it is deaf to Ctrl-C, which reaches the whole group: the import alone decides. It ends
with its import, however that ends.
"""

import multiprocessing
import os
import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import ClassVar, Final

from harvester.bibliographic.batches import Batch, Converting
from harvester.bibliographic.candidate import Candidate
from oai.errors import ZatvaError
from oai.interrupts import interrupts_held_back

_WORTH_IT: Final = 4000
"""Records from which on it takes less time to start processes than to do without."""
_AHEAD: Final = 1
"""Batches beyond one for each process that are under way or wait to be written: what bounds the memory."""


def processes_for(records: int) -> int:
    """How many processes are to convert so many records; one is this one."""
    if records < _WORTH_IT:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def convert_all(
    pages: Iterable[Sequence[Candidate]], converting: Converting, *, processes: int
) -> Generator[Batch, None, None]:
    """Convert pages of candidates; close it to end early.

    Raises ZatvaError where a process ended by force.
    """
    if processes == 1:
        yield from map(converting.batch, pages)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        processes, mp_context=context, initializer=_begin, initargs=(converting,)
    ) as pool:
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
) -> Iterator[Batch]:
    under_way: deque[Future[Batch]] = deque()
    for page in pages:
        with interrupts_held_back():
            under_way.append(pool.submit(_work, page))
        if len(under_way) >= most:
            yield under_way.popleft().result()
    while under_way:
        yield under_way.popleft().result()


class _Process:
    """What a process is given once, when it begins."""

    converting: ClassVar[Converting]


def _begin(converting: Converting) -> None:
    _Process.converting = converting
    threading.Thread(target=_end_with_parent, name="parent", daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _work(candidates: Sequence[Candidate]) -> Batch:
    return _Process.converting.batch(candidates)
