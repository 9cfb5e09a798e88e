"""Hooks after each harvest: run a command from the settings, or post to a web address.

Each hook receives the run with its counts and its verdict, and the run's change list: the new, updated and
deleted records.
"""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.models import History
from harvester.store.models import RecordChange
from manager.notices import webhooks
from manager.notices.outbox import Claimed, NotSentError, RefusedError
from manager.worker.process import environment_for, last_message
from oai.executor import DatabaseExecutor
from oai.outgoing import HookSettings
from oai.settings import Settings

FOLDER: Final = "hooks"
"""The folder inside the data folder that holds change lists while a command runs."""

_IN_ONE_POST: Final = 1000
_AT_ONCE: Final = 5000
_LAST_WORDS: Final = 500
_LAST_BYTES: Final = 100_000
_PIPE_BYTES: Final = 1024**2
"""The most that Linux lets a pipe hold."""
_COLUMNS: Final = (
    RecordChange.change_id,
    RecordChange.changed,
    RecordChange.repository_id,
    RecordChange.identifier,
    RecordChange.metadata_prefix,
    RecordChange.change,
    RecordChange.filename,
    RecordChange.datestamp,
)


@dataclass(frozen=True, kw_only=True)
class ChangeList:
    """The first entries of a run's change list."""

    lines: tuple[Mapping[str, Any], ...]
    complete: bool


def named(hooks: Iterable[HookSettings], name: str) -> HookSettings | None:
    """Return the hook with that name; None if the settings have no such hook."""
    return next((hook for hook in hooks if hook.name == name), None)


async def run(claimed: Claimed, settings: Settings, transactions: DatabaseExecutor) -> None:
    """Run the hook that the notice addresses, for the run that it reports; raises NotSentError."""
    hook = named(settings.manager.hooks, claimed.target)
    if hook is None:
        raise RefusedError(f"hook {claimed.target!r} is no longer in the settings")
    facts = {**claimed.facts, "hook": hook.name, "notice": claimed.notice_id, "try": claimed.tries}
    if hook.url is not None:
        changes = await transactions.run(first_changes, claimed.facts["history_id"])
        await webhooks.post(
            hook.url,
            {**facts, "changes": changes.lines, "changes_complete": changes.complete},
            settings.webhooks.model_copy(update={"timeout": hook.timeout, "private_networks": True}),
            number=claimed.number,
        )
        return
    folder = settings.data / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f"run-{claimed.facts['history_id']}-", dir=folder) as place:
        path = Path(place) / "changes.jsonl"
        await transactions.run(write_changes, claimed.facts["history_id"], path)
        await _run_command(hook, {**facts, "changes_file": str(path)}, environment_for(settings))


def write_changes(session: Session, history_id: int, path: Path) -> None:
    """Write a run's changes to a file, in the format of `zatva job changes --run --json`."""
    with path.open("w", encoding="utf-8") as file:
        for line in _changes(session, history_id):
            file.write(json.dumps(line, default=_plain, ensure_ascii=False) + "\n")


def first_changes(session: Session, history_id: int) -> ChangeList:
    """Return the first thousand changes of a run, with their times as text."""
    lines = [
        {name: _plain(value) if isinstance(value, datetime) else value for name, value in line.items()}
        for line in _changes(session, history_id, most=_IN_ONE_POST + 1)
    ]
    return ChangeList(lines=tuple(lines[:_IN_ONE_POST]), complete=len(lines) <= _IN_ONE_POST)


def _changes(session: Session, history_id: int, *, most: int | None = None) -> Iterator[Mapping[str, Any]]:
    """Yield a run's changes. The run has ended, so all of its lines are committed and none can follow."""
    run = session.get(History, history_id)
    if run is None or run.harvest_id is None or run.run_started is None:
        return
    query = (
        select(*_COLUMNS)
        .where(RecordChange.harvest_id == run.harvest_id, RecordChange.run_started == run.run_started)
        .order_by(RecordChange.transaction_id, RecordChange.change_id)
        .limit(most)
        .execution_options(yield_per=_AT_ONCE)
    )
    for row in session.execute(query).mappings():
        yield dict(row)


async def _run_command(hook: HookSettings, facts: Mapping[str, Any], environment: Mapping[str, str]) -> None:
    with _end_of_pipe() as (errors, last):
        try:
            process = await asyncio.create_subprocess_exec(
                *hook.command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=errors,
                env={**os.environ, **environment, **_variables(facts)},
                start_new_session=True,
            )
        except OSError as error:
            raise NotSentError(f"hook {hook.name!r}: cannot start {hook.command[0]!r}: {error}") from None
        try:
            async with asyncio.timeout(hook.timeout):
                await process.communicate(json.dumps(facts, default=_plain, ensure_ascii=False).encode())
        except TimeoutError:
            raise NotSentError(
                f"hook {hook.name!r}: took longer than {hook.timeout:g} seconds and was ended"
            ) from None
        finally:
            # Also kill the child processes that the command left in its process group.
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        message = last_message(last.decode("utf-8", errors="replace"))[:_LAST_WORDS]
        words = f"; its last message was: {message}" if message else ""
        raise NotSentError(f"hook {hook.name!r}: ended with exit code {process.returncode}{words}")


@contextlib.contextmanager
def _end_of_pipe() -> Iterator[tuple[int, bytearray]]:
    """Yield a pipe to write to, and the end of what is written, complete when the block ends.

    The pipe is not one of asyncio's, which waits for every process that has it, also those left behind by a
    command.
    """
    loop, last = asyncio.get_running_loop(), bytearray()
    output, pipe = os.pipe()

    def keep() -> None:
        with contextlib.suppress(BlockingIOError):
            last.extend(os.read(output, _PIPE_BYTES))
            del last[:-_LAST_BYTES]

    os.set_blocking(output, False)
    loop.add_reader(output, keep)
    try:
        yield pipe, last
    finally:
        os.close(pipe)
        keep()
        loop.remove_reader(output)
        os.close(output)


def _variables(facts: Mapping[str, Any]) -> dict[str, str]:
    names = {
        "ZATVA_HOOK_RUN": "history_id",
        "ZATVA_HOOK_REPOSITORY": "repository_id",
        "ZATVA_HOOK_SCHEDULE": "recurring_id",
        "ZATVA_HOOK_JOB": "job_id",
        "ZATVA_HOOK_STATUS": "status",
        "ZATVA_HOOK_VERDICT": "verdict",
        "ZATVA_HOOK_FORMAT": "metadata_prefix",
        "ZATVA_HOOK_SET": "set_spec",
        "ZATVA_HOOK_CHANGES": "changes_file",
        "ZATVA_HOOK_TRY": "try",
    }
    return {
        variable: "" if facts[name] is None else str(facts[name]).replace("\0", "")
        for variable, name in names.items()
    }


def _plain(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)
