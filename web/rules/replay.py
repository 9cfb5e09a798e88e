"""Replay of a rule over a run's stored responses: preview the changes, then apply them."""

import asyncio
import json
import logging
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.rule_lab.models import Rule
from harvester.rule_lab.replay_preview import ReplayEffect
from harvester.rule_lab.versions import last_version
from manager.replays import RuleFiles, files_with, kept_runs
from manager.worker.process import ProcessOutcome, environment_for, run_to_end
from oai.actions import AUDITED
from oai.child import module_command
from oai.errors import ExitCode, TryLaterError, UsageError
from oai.settings import Settings
from web.auth.access import Right, asked_for, needs, visible_repositories, who_asks
from web.rules.pages import rule_of
from web.site.background import Background
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import LARGEST_BIGINT, as_number, number_in
from web.site.params import NUMBER
from web.site.render import render

_log = logging.getLogger("web.replays")
SECONDS: Final = 60.0
"""Maximum duration of a preview, in seconds."""
_COMMAND: Final = module_command("zatva", "rule", "replay")
_AT_ONCE: Final = 2
_NOTED: Final = frozenset({ExitCode.DONE, ExitCode.RECORDS_REFUSED})
_NO_RULE: Final = "none"
_REFRESH_SECONDS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Replay:
    """A run and the rule files with which to replay it."""

    run: int
    repository_id: int
    files: RuleFiles

    @property
    def command(self) -> Sequence[str]:
        """The command that previews the changes."""
        return (
            *_COMMAND,
            str(self.run),
            f"--filter={_named(self.files.filter_file)}",
            f"--normalise={_named(self.files.normalize_file)}",
        )


@dataclass(kw_only=True)
class Replays(Background):
    """Replays of this process: one at a time per repository, two previews and two applications in all.

    A replay that is cancelled is asked to stop; the changes that it stored are kept.
    Safe without locks: only the event loop changes the state, and `begin` has no await between its check and
    the new entry.
    """

    settings: Settings
    seconds: float = SECONDS
    _under_way: dict[int, int] = field(default_factory=dict)
    """By repository, the run being replayed."""
    _failed: dict[int, str] = field(default_factory=dict)
    _previewing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _replaying: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    def of(self, repository_id: int) -> int | None:
        """Return the run that is being replayed in the repository, or None."""
        return self._under_way.get(repository_id)

    def failure_of(self, repository_id: int) -> str:
        """Return the last output of the repository's last failed replay; empty if it succeeded."""
        return self._failed.get(repository_id, "")

    async def preview(self, replay: Replay) -> dict[str, Any]:
        """Preview the changes, as returned by `ReplayPreview.as_json`, without making any.

        Raises UsageError with the command's message if it fails, and TryLaterError if it takes too long.
        """
        async with self._previewing:
            try:
                async with asyncio.timeout(self.seconds):
                    exit_code, output, errors = await _previewed(replay, self.settings)
            except TimeoutError:
                raise TryLaterError(
                    _(
                        "The preview takes longer than %(seconds)s s. "
                        "The command line has no limit: %(command)s"
                    )
                    % {"seconds": round(self.seconds), "command": f"zatva rule replay {replay.run}"}
                ) from None
        if exit_code != ExitCode.DONE:
            raise UsageError(
                ProcessOutcome(exit_code=exit_code, stderr=errors).last_line.removeprefix("zatva: ")
            )
        preview: dict[str, Any] = json.loads(output)
        return preview

    def begin(self, replay: Replay) -> bool:
        """Start to apply the replay, unless one is in progress in the repository."""
        if replay.repository_id in self._under_way:
            return False
        self._under_way[replay.repository_id] = replay.run
        self._failed.pop(replay.repository_id, None)
        self._begin(self._run(replay))
        return True

    async def _run(self, replay: Replay) -> None:
        try:
            async with self._replaying:
                outcome = await run_to_end([*replay.command, "--apply"], self.settings)
            if outcome.exit_code not in _NOTED:
                self._failed[replay.repository_id] = outcome.last_line
                _log.error("the replay of run %d: %s", replay.run, outcome.last_line)
        finally:
            del self._under_way[replay.repository_id]


REPLAYS = web.AppKey("replays", Replays)


async def _previewed(replay: Replay, settings: Settings) -> tuple[int, bytes, str]:
    """Return the command's exit code, standard output and standard error; kills it on cancellation."""
    process = await asyncio.create_subprocess_exec(
        *replay.command,
        "--json",
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **environment_for(settings), AUDITED: "1"},
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
        exit_code = await process.wait()
    return exit_code, output, errors.decode(errors="replace")


def _named(file: Path | None) -> str:
    return _NO_RULE if file is None else str(file)


@dataclass(frozen=True, kw_only=True)
class _Looked:
    """The submitted request and its result."""

    run: int | None = None
    preview: dict[str, Any] | None = None
    error: str = ""
    version: int = 0
    """The version of the rule that was previewed."""


async def show(request: web.Request) -> web.Response:
    """Show the runs that can be replayed and the replay in progress."""
    number = number_in(request, "run", largest=LARGEST_BIGINT)
    return await _page(request, await rule_of(request), _Looked(run=number))


@needs(Right.HARVEST)
async def replay(request: web.Request) -> web.Response:
    """Preview or apply a replay."""
    rule, posted = await rule_of(request), await request.post()
    number = as_number(str(posted.get("run", "")), largest=LARGEST_BIGINT)
    if number is None:
        return await _page(request, rule, _Looked(error=_("Choose a run.")))
    wanted = await wanted_replay(request, rule, number)
    replays = request.config_dict[REPLAYS]
    version = (await database_of(request).run(last_version, rule.rule_id)).number
    if posted.get("do") == "apply":
        if posted.get("version", str(version)) != str(version):
            changed = _("The rule was changed since the preview. Preview the changes again.")
            return await _page(request, rule, _Looked(run=number, error=changed))
        if not replays.begin(wanted):
            raise web.HTTPConflict(text=_("A replay for this repository is in progress. Wait until it ends."))
        raise web.HTTPSeeOther(f"/rules/{rule.rule_id}/replay?run={number}&done=replay-begun")
    try:
        looked = _Looked(run=number, preview=await replays.preview(wanted), version=version)
    except (UsageError, TryLaterError) as error:
        looked = _Looked(run=number, error=error_text(error))
    return await _page(request, rule, looked)


async def wanted_replay(request: web.Request, rule: Rule, number: int) -> Replay:
    """Return the replay of that run with the rule; respond 404 if the user cannot see such a run."""
    run = await asked_for(request, History, number)

    def read(session: Session, settings: Settings) -> Replay:
        files = files_with(session, settings, rule, session.get_one(History, number))
        return Replay(run=number, repository_id=run.repository_id, files=files)

    return await database_of(request).run(read, request.config_dict[SETTINGS])


async def _page(request: web.Request, rule: Rule, looked: _Looked) -> web.Response:
    replays = request.config_dict[REPLAYS]
    runs = await database_of(request).run(
        kept_runs, among=visible_repositories(who_asks(request)), repository_id=rule.repository_id
    )
    chosen = next((run for run in runs if run.history_id == looked.run), None)
    under_way = [run for run in runs if replays.of(run.repository_id) == run.history_id]
    return render(
        request,
        "rule_replay.html",
        status=422 if looked.error else 200,
        headers={"Refresh": str(_REFRESH_SECONDS)} if under_way and looked.preview is None else None,
        rule=rule,
        runs=runs,
        looked=looked,
        under_way=under_way,
        failure=replays.failure_of(chosen.repository_id) if chosen else "",
        outcomes=_outcomes(),
    )


def _outcomes() -> dict[str, str]:
    """Return the outcomes of a replayed record, with labels."""
    return {
        ReplayEffect.NEW.value: _("new: would be stored"),
        ReplayEffect.UPDATED.value: _("updated: a changed version would be stored"),
        ReplayEffect.UNCHANGED.value: _("unchanged"),
        ReplayEffect.LEFT_OUT_NOW.value: _("now filtered out; its stored version is kept"),
        ReplayEffect.LEFT_OUT.value: _("filtered out, not stored"),
        ReplayEffect.DELETED.value: _("deleted"),
        ReplayEffect.SUPERSEDED.value: _("superseded: a later harvest stored another version, which is kept"),
        ReplayEffect.LIMIT.value: _("a rule reached a limit; the result is unknown"),
    }


ROUTES: Final = (
    web.get(f"/rules/{NUMBER}/replay", show),
    web.post(f"/rules/{NUMBER}/replay", replay),
)
