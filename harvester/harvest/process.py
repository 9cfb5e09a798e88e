"""A harvest as a process: signals and the end of its parent stop it; its exit code is the outcome."""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial

from harvester.bibliographic.importer import STARTER, Progress, import_after_harvest
from harvester.client.exchange import Send
from harvester.harvest.harvest import harvest
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.source import as_it_is
from oai.child import collect_garbage_seldom, limit_memory, share_memory
from oai.cli import Invocation
from oai.database import Database

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def run_harvest(
    invocation: Invocation,
    database: Database,
    request: HarvestRequest,
    *,
    around: Callable[[Send], Send] = as_it_is,
) -> RunOutcome:
    """Run the harvest with progress on standard error; the first SIGINT or SIGTERM asks it to stop.

    `around` wraps the function that sends requests to the network.
    """
    with invocation.console.progress("harvest") as advance:

        def on_progress(counts: Counter[str], total: int | None) -> None:
            rejected = f"{counts['invalid']:,} rejected" if counts["invalid"] else ""
            advance(counts["records"], total=total, note=rejected)

        collect_garbage_seldom()
        share_memory()
        # This process also parses what the repository sends; the system enforces the limit.
        limit_memory(invocation.settings.harvester.max_memory)

        async def main() -> RunOutcome:
            stop = asyncio.Event()
            with _stopped_by_signals(stop, invocation):
                return await harvest(
                    database,
                    invocation.settings,
                    request,
                    stop=stop,
                    on_progress=on_progress,
                    around=around,
                )

        outcome = asyncio.run(main())
    import_changes(invocation, database, outcome.repository_id)
    return outcome


def import_changes(
    invocation: Invocation, database: Database, repository_id: int, *, started_by: str = STARTER
) -> None:
    """Import what changed, as `import_after_harvest` does, with progress on standard error."""
    import_after_harvest(
        database,
        invocation.settings,
        repository_id,
        partial(_importing, invocation),
        started_by=started_by,
    )


@contextlib.contextmanager
def _importing(invocation: Invocation) -> Iterator[Progress]:
    with invocation.console.progress("import") as advance:
        yield lambda counts, expected: advance(counts["seen"], total=expected)


@contextlib.contextmanager
def _stopped_by_signals(stop: asyncio.Event, invocation: Invocation) -> Iterator[None]:
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGTERM)

    def release() -> None:
        for number in _SIGNALS:
            loop.remove_signal_handler(number)
        # asyncio sets the system's default handler, which would kill this process.
        signal.signal(signal.SIGTERM, before)

    def ask() -> None:
        # The event loop calls this, not the signal handler itself, so it may set an asyncio event.
        stop.set()
        # If the parent has ended, the reader of our standard error has ended, too.
        with contextlib.suppress(OSError):
            invocation.console.note("finishing this page; to stop at once, interrupt again")
        release()

    for number in _SIGNALS:
        loop.add_signal_handler(number, ask)
    try:
        yield
    finally:
        release()
