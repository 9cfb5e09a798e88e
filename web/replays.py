"""Replays of changed rules from pages: what one would change is told first, then it is done.

Each is `zatva rule replay` in a process of its own: telling is ended when it takes too long, doing is not.
"""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from manager.processes import Outcome, environment_for
from manager.replays import RuleFiles
from oai.actions import AUDITED
from oai.errors import ExitCode, TryLaterError, UsageError
from oai.settings import Settings
from web.child_processes import carry_out, last_words
from web.words import _

_log = logging.getLogger(__name__)
SECONDS: Final = 60.0
"""Longest time that a person waits to be told what a replay would change."""
_COMMAND: Final = (sys.executable, "-m", "zatva", "rule", "replay")
_AT_ONCE: Final = 2
_NOTED: Final = frozenset({ExitCode.DONE, ExitCode.RECORDS_REFUSED})
_NO_RULE: Final = "none"


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A run, and the rule files that it is to be replayed with."""

    run: int
    repository_id: int
    files: RuleFiles

    @property
    def command(self) -> Sequence[str]:
        """The command that tells what it would change."""
        return (
            *_COMMAND,
            str(self.run),
            f"--filter={_named(self.files.filter_file)}",
            f"--normalise={_named(self.files.normalize_file)}",
        )


@dataclass(kw_only=True)
class Replays:
    """Those of this process: one at a time for each repository, two of a kind in all."""

    settings: Settings
    seconds: float = SECONDS
    _under_way: dict[int, int] = field(default_factory=dict)
    """By repository, the run that is replayed."""
    _failed: dict[int, str] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _rehearsing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _replaying: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def of(self, repository_id: int) -> int | None:
        """The run that is being replayed in the repository; None where none is."""
        return self._under_way.get(repository_id)

    def failure_of(self, repository_id: int) -> str:
        """What the last one said that did not end well; empty where it did."""
        return self._failed.get(repository_id, "")

    async def rehearse(self, replay: Replay) -> dict[str, Any]:
        """What it would change, as `Rehearsal.as_json` gives it; nothing is changed.

        Raises UsageError with what hinders it, and TryLaterError where it takes too long to tell.
        """
        async with self._rehearsing:
            try:
                async with asyncio.timeout(self.seconds):
                    exit_code, told, said = await _told(replay, self.settings)
            except TimeoutError:
                raise TryLaterError(
                    _(
                        "The preview takes longer than %(seconds)s s. "
                        "The command line has no limit: %(command)s"
                    )
                    % {"seconds": round(self.seconds), "command": f"zatva rule replay {replay.run}"}
                ) from None
        if exit_code != ExitCode.DONE:
            raise UsageError(last_words(Outcome(exit_code=exit_code, said=said)).removeprefix("zatva: "))
        rehearsal: dict[str, Any] = json.loads(told)
        return rehearsal

    def begin(self, replay: Replay) -> bool:
        """Begin to do it, unless one of the repository is under way."""
        if replay.repository_id in self._under_way:
            return False
        self._under_way[replay.repository_id] = replay.run
        self._failed.pop(replay.repository_id, None)
        task = asyncio.create_task(self._run(replay))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return True

    async def close(self) -> None:
        """Ask those under way to stop; what they have taken in is kept."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, replay: Replay) -> None:
        try:
            async with self._replaying:
                outcome = await carry_out([*replay.command, "--apply"], self.settings)
            if outcome.exit_code not in _NOTED:
                self._failed[replay.repository_id] = last_words(outcome)
                _log.error("the replay of run %d: %s", replay.run, last_words(outcome))
        finally:
            del self._under_way[replay.repository_id]


REPLAYS = web.AppKey("replays", Replays)


async def _told(replay: Replay, settings: Settings) -> tuple[int, bytes, str]:
    """Exit code, standard output and standard error of the command; it is ended where this is cancelled."""
    process = await asyncio.create_subprocess_exec(
        *replay.command,
        "--json",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment_for(settings), AUDITED: "1"},
    )
    try:
        told, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
        exit_code = await process.wait()
    return exit_code, told, said.decode(errors="replace")


def _named(file: Path | None) -> str:
    return _NO_RULE if file is None else str(file)
