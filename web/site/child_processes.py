"""Commands that the dashboard starts, each in a process of its own, and carries to their ends."""

import asyncio
from collections.abc import Sequence

from manager.worker.process import HarvestProcess, ProcessOutcome, environment_for
from oai.actions import AUDITED
from oai.settings import Settings

_NOT_STARTED = 127
"""The exit code of what could not be started, as shells give it."""


async def carry_out(command: Sequence[str], settings: Settings) -> ProcessOutcome:
    """Run the command with our settings to its end; where this is cancelled, ask it to stop and wait."""
    try:
        process = await HarvestProcess.start(command, {**environment_for(settings), AUDITED: "1"})
    except OSError as error:
        return ProcessOutcome(exit_code=_NOT_STARTED, said=f"{command[0]}: {error.strerror}")
    waiting = asyncio.create_task(process.wait())
    try:
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        process.ask_to_stop()
        await waiting
        raise


def last_words(outcome: ProcessOutcome) -> str:
    """The last line that it said, or how it ended where it said nothing."""
    lines = outcome.said.strip().splitlines()
    return lines[-1] if lines else f"the process ended with exit code {outcome.exit_code}"
