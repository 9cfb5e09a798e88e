"""Examinations of repositories under way in this process: begun by a page, followed by it, kept when done."""

import asyncio
import logging
from dataclasses import dataclass, field

from aiohttp import web

from harvester.doctor.examining import examine
from harvester.doctor.findings import Fact
from harvester.doctor.keeping import keep_report
from oai.errors import ZatvaError
from oai.settings import Settings
from web.forms import Problem
from web.patience import ask_apart
from web.problems import problem_of
from web.threads import DatabaseThreads

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Examination:
    """One under way, or one that came to nothing."""

    facts: list[Fact] = field(default_factory=list)
    problem: Problem | None = None


@dataclass(kw_only=True)
class Examinations:
    """One at a time for each repository."""

    settings: Settings
    database: DatabaseThreads
    _under_way: dict[int, Examination] = field(default_factory=dict)
    _failed: dict[int, Examination] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def of(self, repository_id: int) -> Examination | None:
        """The one under way, if there is one."""
        return self._under_way.get(repository_id)

    def failure_of(self, repository_id: int) -> Problem | None:
        """Why the last one came to nothing, if it did."""
        failed = self._failed.get(repository_id)
        return failed.problem if failed else None

    def begin(self, repository_id: int, base_url: str) -> None:
        """Begin one, unless one is under way."""
        if repository_id in self._under_way:
            return
        self._failed.pop(repository_id, None)
        self._under_way[repository_id] = Examination()
        task = asyncio.create_task(self._examine(repository_id, base_url))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End those under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _examine(self, repository_id: int, base_url: str) -> None:
        at_hand = self._under_way[repository_id]
        try:
            report = await ask_apart(
                examine, base_url, self.settings, notes={"on_fact": at_hand.facts.append}
            )
            await self.database.run(keep_report, repository_id, report)
        except ZatvaError as error:
            at_hand.problem = problem_of(error)
            self._failed[repository_id] = at_hand
        except Exception:
            _log.exception("the diagnostics of %s", base_url)
            raise
        finally:
            del self._under_way[repository_id]


EXAMINATIONS = web.AppKey("examinations", Examinations)
