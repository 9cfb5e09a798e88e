"""Removals of repositories that take longer than a page may: they continue in tasks of the dashboard."""

import asyncio
import logging
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web

from harvester.locks import being_removed
from harvester.removal import Removal
from manager.schedules.of_repository import begin_removal_of_idle
from oai.executor import DatabaseExecutor

_log = logging.getLogger("web.removals")
PAGE_SECONDS: Final = 10.0
"""How long a page waits for removals to end."""


@dataclass(kw_only=True)
class Removals:
    """Removes repositories in tasks, one piece at a time, so that most of the database threads stay free."""

    database: DatabaseExecutor
    _tasks: dict[int, asyncio.Task[None]] = field(default_factory=dict)
    """By repository."""
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def remove(self, repository_id: int, *, seconds: float | None = None) -> bool:
        """Begin or resume a removal; return whether it ended in that time (None: wait for its end).

        Raises UsageError if there is no such repository, or while it is harvested.
        """
        await self.database.run(begin_removal_of_idle, repository_id)
        task = self._task(repository_id)
        await asyncio.wait({task}, timeout=seconds)
        if task.done():
            task.result()  # raises what the removal raised
        return task.done()

    async def resume(self) -> None:
        """Continue the removals that were interrupted, such as by a restart; do not wait for their end."""
        for repository_id in await self.database.run(being_removed):
            self._task(repository_id)

    async def close(self) -> None:
        """Stop after the present pieces; `resume` continues there."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _task(self, repository_id: int) -> asyncio.Task[None]:
        # There is no await between the check and the entry, so a repository has one task.
        task = self._tasks.get(repository_id)
        if task is None:
            task = self._tasks[repository_id] = asyncio.create_task(self._run(repository_id))
            # No one may be waiting for its exception, which is logged.
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
        return task

    async def _run(self, repository_id: int) -> None:
        removal = Removal(repository_id=repository_id)
        try:
            while not await self._piece(removal):
                pass
        except Exception:
            _log.exception("the removal of repository %d stopped; remove it again", repository_id)
            raise
        finally:
            del self._tasks[repository_id]

    async def _piece(self, removal: Removal) -> bool:
        async with self._turn:
            return await self.database.run(removal.remove_piece)


REMOVALS = web.AppKey("removals", Removals)
