"""Work that continues after the request that began it, in tasks of the dashboard."""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Background:
    """Keeps the tasks until they end: the event loop holds only a weak reference to a task."""

    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel the running tasks and wait for their end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
