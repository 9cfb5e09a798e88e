"""Child processes: commands that the dashboard starts and runs to their end."""

import asyncio
from collections.abc import Sequence

from manager.worker.process import HarvestProcess, ProcessOutcome, environment_for
from oai.actions import AUDITED
from oai.settings import Settings

_NOT_STARTED = 127
"""Exit code of a command that could not be started, as in shells."""


async def carry_out(command: Sequence[str], settings: Settings) -> ProcessOutcome:
    """Run the command with the given settings to its end; on cancellation ask it to stop, and wait."""
    try:
        process = await HarvestProcess.start(command, {**environment_for(settings), AUDITED: "1"})
    except OSError as error:
        return ProcessOutcome(exit_code=_NOT_STARTED, said=f"{command[0]}: {error.strerror}")
    waiting = asyncio.create_task(process.wait())
    try:
        # Cancelling the request must not cancel the wait, or the child would be left without a parent that
        # reaps it.
        return await asyncio.shield(waiting)
    except asyncio.CancelledError:
        process.ask_to_stop()
        await waiting
        raise


def last_words(outcome: ProcessOutcome) -> str:
    """Return the last line of its output, or its exit code if there was no output."""
    lines = outcome.said.strip().splitlines()
    return lines[-1] if lines else f"the process ended with exit code {outcome.exit_code}"
