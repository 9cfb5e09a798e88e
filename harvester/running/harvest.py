"""One harvest: pages come from the client, go through the rules into the store, and the end is judged."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from harvester.client.exchange import Send
from harvester.reading.errors import AnswerTooLargeError, RepositoryBusyError
from harvester.repositories import get_repository
from harvester.running.course import Course
from harvester.running.holds import HeldRunError
from harvester.running.locks import only_harvest
from harvester.running.outcome import Outcome
from harvester.running.page_reading import PageReading
from harvester.running.parameters import HarvestRequest
from harvester.running.pump import Progress, Pump
from harvester.running.run import Run
from harvester.running.sourcing import as_it_is
from harvester.running.verdict import End
from harvester.store.files import FileStore
from oai.database import Database
from oai.errors import InterruptedRunError, ZatvaError, failure_of
from oai.failures import FailureCode
from oai.settings import Settings

_log = logging.getLogger(__name__)


def _no_progress(_counts: object, _total: int | None) -> None:
    """Tell nobody."""


async def harvest(
    database: Database,
    settings: Settings,
    request: HarvestRequest,
    *,
    stop: asyncio.Event,
    on_progress: Progress = _no_progress,
    around: Callable[[Send], Send] = as_it_is,
) -> Outcome:
    """Run a harvest to its end, and write its history row; commits by itself, about page by page.

    `around` is put between the run and the network. When `stop` is set it finishes the page at hand, and the
    run can be resumed. Whatever goes wrong ends up in the outcome. Raises UsageError where there is no such
    repository; a fault of our own is raised after it has been noted in the history.
    """
    with database.session() as session:
        guarded = get_repository(session, request.repository_id).guarded
    settings = settings.guarded if guarded else settings
    run = Run(database=database, settings=settings, request=request, around=around)
    try:
        with only_harvest(database, request.repository_id):
            return await _concluded(run, stop, on_progress)
    except RepositoryBusyError as error:
        return run.conclude(End.ERROR, error)


async def _concluded(run: Run, stop: asyncio.Event, on_progress: Progress) -> Outcome:
    """Run the harvest, and conclude it while the repository is still ours alone."""
    try:
        return run.conclude(await _harvest(run, stop, on_progress))
    except InterruptedRunError:
        return run.conclude(End.INTERRUPTED)
    except HeldRunError as error:
        return run.conclude(End.HELD, error)
    except ZatvaError as error:
        return run.conclude(End.LIMIT if failure_of(error).is_limit else End.ERROR, error)
    except MemoryError:
        limits = run.settings.harvester.limits
        failure = limits.failure(FailureCode.MEMORY, limits.memory)
        return run.conclude(End.LIMIT, AnswerTooLargeError(run.base_url, failure))
    except Exception as error:
        with contextlib.suppress(Exception):  # the first fault is the one to tell
            run.conclude(End.ERROR, error)
        raise


async def _harvest(run: Run, stop: asyncio.Event, on_progress: Progress) -> End:
    run.prepare()
    with (
        ThreadPoolExecutor(1, thread_name_prefix="intake") as thread,
        FileStore(run.folder) as store,
        PageReading(plain=run.preparer.plain, ahead=run.request.max_records is None) as reading,
    ):

        def waits(seconds: float, reason: str) -> None:
            _log.info("waiting %.1f s: %s", seconds, reason)
            run.allowance.note_wait(seconds)
            thread.submit(run.note_wait, seconds, reason, getattr(reason, "failure", None))

        async with run.source.client(run.base_url, on_wait=waits, read_page=reading) as client:
            run.traffic = client.traffic
            pump = Pump(run=run, thread=thread, stop=stop, on_progress=on_progress)
            work = Course(run=run, client=client, store=store, pump=pump)
            return await work.all()
