"""Imports that the dashboard starts: each in a process of its own, as `zatva import run` does it."""

import asyncio
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.bibliographic.imports import last_imports
from oai.errors import ExitCode
from oai.settings import Settings
from web.child_processes import carry_out, last_words
from web.threads import DatabaseThreads

_log = logging.getLogger(__name__)
_COMMAND: Final = (sys.executable, "-m", "zatva", "import", "run")
_AT_ONCE: Final = 2
_NOTED: Final = frozenset({ExitCode.DONE, ExitCode.RECORDS_REFUSED})


@dataclass(kw_only=True)
class ImportProcesses:
    """One import at a time for each repository, two in all; the others wait for their turn."""

    settings: Settings
    database: DatabaseThreads
    _asked: dict[int, int] = field(default_factory=dict)
    """Of repositories whose import waits or runs: the number of the import before it, 0 for none."""
    _failed: dict[int, tuple[int, str]] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _turn: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    @property
    def under_way(self) -> bool:
        """Whether any import waits or runs."""
        return bool(self._asked)

    def waits(self, repository_id: int, last_import: int) -> bool:
        """Whether an import was asked for that has not begun; `last_import` is the repository's last one."""
        return self._asked.get(repository_id, -1) >= last_import

    def failure_of(self, repository_id: int, last_import: int) -> str | None:
        """What the process said whose import could not even begin, until another one has."""
        before, said = self._failed.get(repository_id, (-1, ""))
        return said if before >= last_import else None

    async def begin(self, repository_ids: Sequence[int], *, by: str) -> list[int]:
        """Begin imports of the repositories that none was asked for yet, and give their numbers."""
        wanted = [one for one in dict.fromkeys(repository_ids) if one not in self._asked]
        last = await self.database.run(_last_numbers, wanted)
        begun = [one for one in wanted if one not in self._asked]
        for repository_id in begun:
            self._failed.pop(repository_id, None)
            self._asked[repository_id] = last[repository_id]
            task = asyncio.create_task(self._run(repository_id, by))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return begun

    async def close(self) -> None:
        """End those under way; what they have imported is kept, and the next import goes on from there."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, repository_id: int, by: str) -> None:
        try:
            async with self._turn:
                said = await self._process(repository_id, by)
            if said is not None:
                self._failed[repository_id] = (self._asked[repository_id], said)
                _log.error("the import of repository %d: %s", repository_id, said)
        finally:
            del self._asked[repository_id]

    async def _process(self, repository_id: int, by: str) -> str | None:
        """Run it to its end; gives what it said where it ended otherwise than well."""
        command = [*_COMMAND, f"--repository={repository_id}", f"--by={by}"]
        outcome = await carry_out(command, self.settings)
        return None if outcome.exit_code in _NOTED else last_words(outcome)


def _last_numbers(session: Session, repository_ids: Sequence[int]) -> dict[int, int]:
    found = last_imports(session, repository_ids)
    return {one: found[one].import_id if one in found else 0 for one in repository_ids}


IMPORTS = web.AppKey("imports", ImportProcesses)
