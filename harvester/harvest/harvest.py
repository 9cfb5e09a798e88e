"""One harvest: fetches pages, applies the rules, stores the records, and judges the end."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from sqlalchemy.exc import SQLAlchemyError

from harvester.client.exchange import Send
from harvester.harvest import checkpoint
from harvester.harvest.approval import HeldRunError
from harvester.harvest.checkpoint import only_harvest
from harvester.harvest.list_harvest import ListHarvester, introduce
from harvester.harvest.page_pipeline import PagePipeline, Progress, RunThread
from harvester.harvest.page_reader import PageReader
from harvester.harvest.request import HarvestRequest
from harvester.harvest.result import RunOutcome
from harvester.harvest.run import PreparedRun, Requested, Run, Tuning
from harvester.harvest.source import as_it_is
from harvester.harvest.verdict import End
from harvester.reading.errors import AnswerTooLargeError, RepositoryBusyError
from harvester.repositories import get_repository
from harvester.store.files import FileStore
from oai.database import Database
from oai.disk import DiskFullError
from oai.errors import InterruptedRunError, ZatvaError, failure_of
from oai.failures import FailureCode
from oai.settings import Settings

_log = logging.getLogger("harvester.running.harvest")
_TUNING: Final = Tuning()


def _no_progress(_counts: object, _total: int | None) -> None:
    """Ignore the progress."""


async def harvest(
    database: Database,
    settings: Settings,
    request: HarvestRequest,
    *,
    stop: asyncio.Event,
    on_progress: Progress = _no_progress,
    around: Callable[[Send], Send] = as_it_is,
    tuning: Tuning = _TUNING,
) -> RunOutcome:
    """Run a harvest to its end, and write its history row; commits by itself, about page by page.

    `around` wraps the function that sends requests to the network. When `stop` is set, the harvest finishes
    the current page, and the run can be resumed. Failures are reported in the outcome. Raises UsageError if
    there is no such repository; an internal error is raised after it has been recorded in the history.
    """
    with database.session() as session:
        guarded = get_repository(session, request.repository_id).guarded
    settings = settings.guarded if guarded else settings
    requested = Requested(database=database, settings=settings, request=request, around=around, tuning=tuning)
    attempt = _Attempt(phase=requested)
    try:
        with only_harvest(database, request.repository_id):
            return await _concluded(attempt, stop, on_progress)
    except RepositoryBusyError as error:
        return attempt.phase.conclude(End.ERROR, error)


@dataclass(kw_only=True)
class _Attempt:
    """A run in the phase that it has reached; that phase concludes it."""

    phase: Requested | PreparedRun | Run


async def _concluded(attempt: _Attempt, stop: asyncio.Event, on_progress: Progress) -> RunOutcome:
    """Run the harvest, and conclude it while the lock on the repository is held."""
    try:
        end = await _harvest(attempt, stop, on_progress)
        return attempt.phase.conclude(end)
    except InterruptedRunError:
        return attempt.phase.conclude(End.INTERRUPTED)
    except HeldRunError as error:
        return attempt.phase.conclude(End.HELD, error)
    except DiskFullError as error:
        return attempt.phase.conclude(End.NO_ROOM, error)
    except ZatvaError as error:
        return attempt.phase.conclude(End.LIMIT if failure_of(error).is_limit else End.ERROR, error)
    except MemoryError:
        return attempt.phase.conclude(End.LIMIT, _out_of_memory(attempt.phase))
    except Exception as error:
        with contextlib.suppress(Exception):  # the first error is the one to report
            attempt.phase.conclude(End.ERROR, error)
        raise


async def _harvest(attempt: _Attempt, stop: asyncio.Event, on_progress: Progress) -> End:
    if not isinstance(attempt.phase, Requested):
        raise TypeError("a run is harvested once")
    attempt.phase = prepared = attempt.phase.prepare()
    with (
        ThreadPoolExecutor(1, thread_name_prefix="intake") as thread,
        FileStore(prepared.folder) as store,
        PageReader(
            plain=prepared.transformer.plain,
            ahead=prepared.request.max_records is None,
            process_policy=prepared.requested.tuning.process_policy,
        ) as reading,
    ):
        steps = RunThread(thread=thread, stop=stop)

        def waits(seconds: float, reason: str) -> None:
            _log.info("waiting %.1f s: %s", seconds, reason)
            prepared.budget.note_wait(seconds)
            if isinstance(attempt.phase, Run):
                failure = getattr(reason, "failure", None)
                # One thread does all storing, so this runs after the page at hand and cannot interleave
                # with it.
                thread.submit(attempt.phase.checkpointer.note_wait, seconds, reason, failure)

        async with prepared.source.client(prepared.base_url, on_wait=waits, read_page=reading) as client:
            prepared.state.traffic = traffic = client.traffic
            prepared.budget.resent = lambda: traffic.resent
            await introduce(prepared, client, steps)
            attempt.phase = run = prepared.begin(store)
            pipeline = PagePipeline(run=run, steps=steps, on_progress=on_progress)
            async with _heartbeats(run):
                return await ListHarvester(run=run, client=client, pipeline=pipeline).harvest_lists()


@contextlib.asynccontextmanager
async def _heartbeats(run: Run) -> AsyncIterator[None]:
    """Record during the block, again and again, that this process is alive; its start was recorded before."""
    task = asyncio.create_task(_write_heartbeats(run))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _write_heartbeats(run: Run) -> None:
    harvest_id = run.checkpointer.point.harvest_id
    while True:
        await asyncio.sleep(run.prepared.requested.tuning.sign_seconds)
        try:
            await asyncio.to_thread(checkpoint.give_sign, run.checkpointer.database, harvest_id)
        except SQLAlchemyError as error:
            # The run itself notices when the database is not available, and reports it.
            _log.debug("no sign of life recorded: %s", error)


def _out_of_memory(phase: Requested | PreparedRun | Run) -> AnswerTooLargeError:
    """Return the error of a run whose process ran out of memory."""
    prepared = phase.prepared if isinstance(phase, Run) else phase
    base_url = prepared.base_url if isinstance(prepared, PreparedRun) else ""
    limits = prepared.settings.harvester.limits
    return AnswerTooLargeError(base_url, limits.failure(FailureCode.MEMORY, limits.memory))
