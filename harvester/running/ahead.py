"""Pages that were fetched and wait to be taken in: as many as may be in memory, handed on in groups."""

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from harvester.running.taken import Taken

_MOST_BYTES = 5 * 1024**2
"""Of records that wait or are being taken in; with more, nothing further is fetched."""
_GROUP_BYTES = 3 * 1024**2
_GROUP_RECORDS = 3000


@dataclass(kw_only=True)
class Ahead:
    """The pages in their order; the error that ends the list comes last."""

    _waiting: "asyncio.Queue[Taken | Exception]" = field(default_factory=asyncio.Queue)
    _here: asyncio.Event = field(default_factory=asyncio.Event)
    _bytes: int = 0
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, taken: Taken) -> None:
        """Add a page; returns when there is room for one more."""
        self._add(taken)
        self._count(taken.weight)
        await self._room.wait()

    def fail(self, error: Exception) -> None:
        """Add the error that ends the list."""
        self._add(error)

    async def group(self) -> tuple[list[Taken], Exception | None]:
        """The next page, or the next few that are here already, and the error where it follows on them."""
        item = await self._waiting.get()
        pages: list[Taken] = []
        records = size = 0
        while isinstance(item, Taken):
            pages.append(item)
            records += len(item.batch.records)
            size += item.weight
            if self._waiting.empty() or records >= _GROUP_RECORDS or size >= _GROUP_BYTES:
                return pages, None
            item = self._waiting.get_nowait()
        return pages, item

    async def soon(self, seconds: float) -> bool:
        """Whether something is here already, or comes within so many seconds."""
        if self._waiting.empty():
            self._here.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._here.wait(), seconds)
        return not self._waiting.empty()

    def done(self, pages: Sequence[Taken]) -> None:
        """The group was taken in: there is room for others."""
        self._count(-sum(page.weight for page in pages))

    def _add(self, item: "Taken | Exception") -> None:
        self._waiting.put_nowait(item)
        self._here.set()

    def _count(self, number: int) -> None:
        self._bytes += number
        if self._bytes > _MOST_BYTES:
            self._room.clear()
        else:
            self._room.set()
