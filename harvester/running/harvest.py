"""One harvest: pages come from the client, go through the rules into the store, and the end is judged."""

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from harvester.client.errors import ClientError, MalformedAnswerError, OaiError, TransportError
from harvester.client.repository_client import Client, Selection, open_client
from harvester.repositories import get_repository
from harvester.running.fetching import Fetched, fetched_pages
from harvester.running.locks import only_harvest
from harvester.running.outcome import Outcome
from harvester.running.parameters import HarvestRequest, in_granularity
from harvester.running.preparing import Level
from harvester.running.run import Run, Taken
from harvester.running.verdict import End
from harvester.store.files import FileStore
from oai.database import Database
from oai.errors import InterruptedRunError, StrictCheckError, ZatvaError
from oai.settings import Settings
from oai.vocabulary import ErrorCode

_MOST_RESTARTS = 3
_PAGES_AHEAD = 4
_RECORDS_TOGETHER = 1000
_LARGE_PAGE = 16 * 1024**2
"""Bytes; behind so large a page nothing is fetched ahead."""
_log = logging.getLogger(__name__)
_T = TypeVar("_T")

Progress = Callable[[Counter[str], int | None], None]
"""Is told the run's counts, and completeListSize where the server gives it, after each page."""


def _no_progress(_counts: Counter[str], _total: int | None) -> None:
    """Tell nobody."""


async def harvest(
    database: Database,
    settings: Settings,
    request: HarvestRequest,
    *,
    stop: asyncio.Event,
    on_progress: Progress = _no_progress,
) -> Outcome:
    """Run a harvest to its end, and write its history row; commits by itself, page by page.

    When `stop` is set it finishes the page at hand, and the run can be resumed. Whatever goes wrong ends up
    in the outcome. Raises UsageError where there is no such repository; a fault of our own is raised after it
    has been noted in the history.
    """
    with database.session() as session:
        get_repository(session, request.repository_id)
    run = Run(database=database, settings=settings, request=request)
    try:
        with only_harvest(database, request.repository_id):
            end = await _harvest(run, stop, on_progress)
            return run.conclude(end)
    except InterruptedRunError:
        return run.conclude(End.INTERRUPTED)
    except ZatvaError as error:
        return run.conclude(End.ERROR, error)
    except Exception as error:
        with contextlib.suppress(Exception):  # the first fault is the one to tell
            run.conclude(End.ERROR, error)
        raise


async def _harvest(run: Run, stop: asyncio.Event, on_progress: Progress) -> End:
    run.prepare()
    with ThreadPoolExecutor(1, thread_name_prefix="intake") as thread, FileStore(run.folder) as store:

        def waits(seconds: float, reason: str) -> None:
            _log.info("waiting %.1f s: %s", seconds, reason)
            thread.submit(run.note_wait, seconds, reason)

        async with open_client(run.base_url, run.settings.harvester, on_wait=waits) as client:
            run.traffic = client.traffic
            work = _Work(
                run=run, client=client, store=store, thread=thread, stop=stop, on_progress=on_progress
            )
            return await work.all()


@dataclass(frozen=True, kw_only=True)
class _Work:
    """The asynchronous part of a run: the next page is fetched while a thread takes the last one in."""

    run: Run
    client: Client
    store: FileStore
    thread: ThreadPoolExecutor
    stop: asyncio.Event
    on_progress: Progress

    async def all(self) -> End:
        """Identify the repository, then take its list in, from the start or from where it was cut off."""
        await self._identify()
        self.run.begin(self.store)
        for restarts in range(_MOST_RESTARTS + 1):
            try:
                return await self._list()
            except OaiError as error:
                if error.code != ErrorCode.BAD_RESUMPTION_TOKEN or restarts == _MOST_RESTARTS:
                    raise
                if not self.run.token:
                    raise
                await self._in_thread(partial(self.run.restart, str(error)))
            except MalformedAnswerError as error:
                if self.run.request.validation is Level.LOOSE:
                    raise
                raise StrictCheckError(str(error)) from error
        raise AssertionError("unreachable: the last pass returns or raises")

    async def _identify(self) -> None:
        try:
            identity = await self._or_stop(self.client.identify())
        except TransportError:
            raise
        except ClientError as error:
            if self.run.request.validation is not Level.LOOSE:
                raise
            self.run.warn(f"Identify: {error}")
        else:
            await self._in_thread(partial(self.run.note_identity, identity))

    async def _list(self) -> End:
        run, request = self.run, self.run.request
        selection = Selection(
            metadata_prefix=request.metadata_prefix,
            set_spec=request.set_spec or None,
            from_=run.from_,
            until=in_granularity(request.harvest_to, run.granularity, last=True),
        )
        try:
            return await self._pages(selection)
        except OaiError as error:
            if error.code != ErrorCode.NO_RECORDS_MATCH or run.token or run.counts["pages"]:
                raise
            run.response_date = error.response_date
            return End.NO_RECORDS_MATCH

    async def _pages(self, selection: Selection) -> End:
        """Fetch ahead, and take in together the pages that came meanwhile: one sync, one commit for all."""
        waiting: asyncio.Queue[Taken | Exception] = asyncio.Queue(_PAGES_AHEAD)
        fetching = asyncio.create_task(self._fetch(selection, waiting))
        try:
            while True:
                group = await self._or_stop(_group(waiting))
                pages = [item for item in group if isinstance(item, Taken)]
                if pages:
                    await self._in_thread(partial(self.run.take, pages))
                    self.on_progress(self.run.counts, self.run.complete_list_size)
                for item in group:
                    waiting.task_done()
                    if isinstance(item, Exception):
                        raise item
                end = _end(pages[-1].fetched)
                if end is not None:
                    return end
        finally:
            fetching.cancel()
            await asyncio.gather(fetching, return_exceptions=True)

    async def _fetch(self, selection: Selection, waiting: "asyncio.Queue[Taken | Exception]") -> None:
        """Put the list's pages, or at last the error that ends it, on the queue."""
        run = self.run
        pages = fetched_pages(
            self.client, run.request, selection, resumption_token=run.token, already=run.counts["records"]
        )
        try:
            async for fetched in pages:
                batch = await asyncio.to_thread(run.preparer.prepare, fetched.entries)
                await waiting.put(Taken(fetched=fetched, batch=batch))
                if fetched.page.size > _LARGE_PAGE:
                    await waiting.join()
        except Exception as error:  # noqa: BLE001 it is raised where the pages are taken in, in its turn
            await waiting.put(error)

    async def _in_thread(self, work: Callable[[], None]) -> None:
        await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def _or_stop(self, awaitable: Awaitable[_T]) -> _T:
        """The result, or InterruptedRunError as soon as the run is asked to stop."""
        task = asyncio.ensure_future(awaitable)
        stopping = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if self.stop.is_set():
                raise InterruptedRunError("interrupted; run the same command again to go on from there")
            return task.result()
        finally:
            task.cancel()
            stopping.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)


async def _group(waiting: "asyncio.Queue[Taken | Exception]") -> list[Taken | Exception]:
    """The next page, and those behind it that are here already."""
    group = [await waiting.get()]
    records = 0
    while not waiting.empty():
        last = group[-1]
        records += len(last.batch.records) if isinstance(last, Taken) else _RECORDS_TOGETHER
        if records >= _RECORDS_TOGETHER:
            break
        group.append(waiting.get_nowait())
    return group


def _end(fetched: Fetched) -> End | None:
    """How the list ended with this page, or None where it goes on."""
    page = fetched.page
    if fetched.sample_full:
        return End.SAMPLE
    if page.cut_off:
        return End.BROKEN_OFF
    if page.token is None:
        return End.NO_TOKEN
    return None if page.next_token else End.EMPTY_TOKEN
