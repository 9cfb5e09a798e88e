"""Handler of `zatva restore`."""

import asyncio
import contextlib
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from harvester.cli.harvest import overridden
from harvester.recognition import check_base_url
from harvester.restoring.addresses import read_scope
from harvester.restoring.outcome import RestoreOutcome, RestorePlan
from harvester.restoring.restore import Restore, plan, restore
from oai.cli import Invocation
from oai.console import Advance, Console
from oai.disk import open_floor
from oai.errors import ExitCode, InterruptedRunError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

_OWN: Final = "http://127.0.0.1:8080/oai"
"""Address of the provider run by `zatva serve` by default."""
_DIGITS: Final = len("YYYYMMDDhhmmss")


def restore_site(invocation: Invocation) -> ExitCode:
    """Run `zatva restore`."""
    arguments, console = invocation.arguments, invocation.console
    settings = overridden(invocation.settings, arguments)
    asked = Restore(
        scope=read_scope(arguments.what),
        folder=Path(os.path.abspath(arguments.folder)),  # noqa: PTH100 Path.absolute keeps `..`
        base_url=check_base_url(arguments.base_url or settings.provider.base_url or _OWN),
        form=arguments.form,
        settings=settings.harvester,
        floor=open_floor(settings, Path(arguments.folder)),
        at=None if arguments.at is None else read_moment(arguments.at),
        on_wait=console.waiting,
    )
    done = _run(console, asked, dry_run=arguments.dry_run)
    console.result(done.as_json(), done.in_words())
    return done.exit_code


def _run(console: Console, asked: Restore, *, dry_run: bool) -> RestoreOutcome | RestorePlan:
    work: Callable[[Restore], Coroutine[Any, Any, RestoreOutcome | RestorePlan]] = (
        plan if dry_run else restore
    )
    with contextlib.ExitStack() as stack:
        steps: dict[str, Advance] = {}

        def report(step: str, done: int, total: int | None, note: str) -> None:
            if step not in steps:
                stack.close()  # close what the previous step showed
                steps[step] = stack.enter_context(console.progress(step))
            steps[step](done, total=total, note=note)

        try:
            return asyncio.run(work(replace(asked, report=report)))
        except KeyboardInterrupt:
            raise InterruptedRunError(
                f"interrupted; fetched documents are kept in {asked.folder}; to continue, run the "
                "same command again"
            ) from None


def read_moment(text: str) -> datetime:
    """Return a moment given in ISO 8601 or as 14 digits, in UTC unless stated otherwise.

    A day without a time means its beginning. Raises UsageError.
    """
    written = text.strip()
    try:
        if written.isdigit() and written.isascii() and len(written) == _DIGITS:
            moment = datetime.strptime(written, "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        else:
            moment = datetime.fromisoformat(written)
    except ValueError:
        raise UsageError(
            f"--at {text!r} is not a valid time; write 2007-11-02, 2007-11-02T03:04:05Z or 20071102030405"
        ) from None
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
