"""Fetches many documents, a few at a time, and keeps them in batches."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from harvester.restoring.captures import Capture
from harvester.restoring.documents import Document
from harvester.restoring.missing import Missing

_MOST_DOCUMENTS: Final = 64
_MOST_BYTES: Final = 8 * 1024**2

Fetch = Callable[[Capture], Awaitable[Document | Missing]]
Keep = Callable[[Sequence[Document]], None]
"""Keeps documents; blocking, and durable when it returns."""


class Batches:
    """Gathers documents until it is worth keeping them."""

    def __init__(self, keep: Keep) -> None:
        self._keep = keep
        self._held: list[Document] = []
        self._size = 0
        self._lock = asyncio.Lock()

    async def add(self, document: Document) -> None:
        """Take a document; whoever fills a batch waits until it is kept, and others with it."""
        async with self._lock:
            self._held.append(document)
            self._size += len(document.body)
            if len(self._held) >= _MOST_DOCUMENTS or self._size >= _MOST_BYTES:
                await self._flush()

    async def flush(self) -> None:
        """Keep what is left."""
        async with self._lock:
            await self._flush()

    async def _flush(self) -> None:
        held, self._held, self._size = self._held, [], 0
        if held:
            # Not to be left half-way: a batch that is kept is noted, too.
            await asyncio.shield(asyncio.to_thread(self._keep, held))


async def fetch_all(
    captures: Sequence[Capture],
    fetch: Fetch,
    keep: Keep,
    *,
    workers: int,
    on_done: Callable[[int, int], None],
) -> list[Missing]:
    """Fetch all documents, so many at a time; gives those that are missing.

    `on_done` is told how many are done and how many are missing. What came before an error or an interruption
    is kept. Raises what `fetch` and `keep` raise.
    """
    queue = _Queue(waiting=iter(captures), fetch=fetch, batches=Batches(keep), on_done=on_done)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(queue.work())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
    finally:
        await queue.batches.flush()
    return queue.absent


@dataclass(kw_only=True)
class _Queue:
    """What several workers take captures from."""

    waiting: Iterator[Capture]
    fetch: Fetch
    batches: Batches
    on_done: Callable[[int, int], None]
    done: int = 0
    absent: list[Missing] = field(default_factory=list)

    async def work(self) -> None:
        for capture in self.waiting:
            found = await self.fetch(capture)
            if isinstance(found, Missing):
                self.absent.append(found)
            else:
                await self.batches.add(found)
            self.done += 1
            self.on_done(self.done, len(self.absent))
