"""Moves a list's pages from the network to the store: prefetching, background storing, back-pressure."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from harvester.client.repository_client import Selection
from harvester.harvest.fetch import Fetched, PageFetcher, PreparedPage
from harvester.harvest.run import Run, Tuning
from harvester.harvest.verdict import End
from oai.errors import InterruptedRunError

_MOST_BYTES = 5 * 1024**2
"""Bytes of records that wait or are being stored, above which no further page is fetched."""
_GROUP_BYTES = 3 * 1024**2


@dataclass(kw_only=True)
class PagePrefetcher:
    """A queue of pages in list order; the error that ends the list comes last.

    The fetching and the storing task share it. Both run on one event loop and change it only between awaits,
    so it needs no lock.
    """

    group_records: int = Tuning.group_records
    _waiting: "asyncio.Queue[PreparedPage | Exception]" = field(default_factory=asyncio.Queue)
    _here: asyncio.Event = field(default_factory=asyncio.Event)
    _bytes: int = 0
    _has_space: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, taken: PreparedPage) -> None:
        """Add a page; return when there is room for one more."""
        self._add(taken)
        self._count(taken.weight)
        await self._has_space.wait()

    def fail(self, error: Exception) -> None:
        """Add the error that ends the list."""
        self._add(error)

    async def group(self) -> tuple[list[PreparedPage], Exception | None]:
        """Return the next page with those already waiting after it, and the error if it follows them."""
        item = await self._waiting.get()
        pages: list[PreparedPage] = []
        records = size = 0
        while isinstance(item, PreparedPage):
            pages.append(item)
            records += len(item.batch.records)
            size += item.weight
            if self._waiting.empty() or records >= self.group_records or size >= _GROUP_BYTES:
                return pages, None
            item = self._waiting.get_nowait()
        return pages, item

    async def soon(self, seconds: float) -> bool:
        """Return whether a page is waiting, or arrives within so many seconds."""
        if self._waiting.empty():
            self._here.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._here.wait(), seconds)
        return not self._waiting.empty()

    def done(self, pages: Sequence[PreparedPage]) -> None:
        """Release the room of a group that has been stored."""
        self._count(-sum(page.weight for page in pages))

    def _add(self, item: "PreparedPage | Exception") -> None:
        self._waiting.put_nowait(item)
        self._here.set()

    def _count(self, number: int) -> None:
        self._bytes += number
        if self._bytes > _MOST_BYTES:
            self._has_space.clear()
        else:
            self._has_space.set()


_T = TypeVar("_T")
_SOON_SECONDS = 0.1
"""Seconds within which a following page shares a commit, which takes some milliseconds."""

Progress = Callable[[Counter[str], int | None], None]
"""Called after each page with the run's counts, and completeListSize if the server states it."""


@dataclass(frozen=True, kw_only=True)
class RunThread:
    """Executes a run's steps: database and file work in one thread, waits until the run is stopped."""

    thread: ThreadPoolExecutor
    stop: asyncio.Event

    async def in_thread(self, work: Callable[[], _T]) -> _T:
        """Return what `work` returns, which uses the database and files, after the work already submitted."""
        # The executor has one thread: work never overlaps, and is done in the order in which it was
        # submitted.
        return await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def or_stop(self, awaitable: Awaitable[_T]) -> _T:
        """Return the result; raise InterruptedRunError as soon as the run is asked to stop."""
        task = asyncio.ensure_future(awaitable)
        stopping = asyncio.ensure_future(self.stop.wait())
        try:
            await asyncio.wait({task, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if self.stop.is_set():
                raise InterruptedRunError("interrupted; to continue, run the same command again")
            return task.result()
        finally:
            task.cancel()
            stopping.cancel()
            await asyncio.gather(task, stopping, return_exceptions=True)


@dataclass(frozen=True, kw_only=True)
class PagePipeline:
    """Fetches and stores one list after the other."""

    run: Run
    steps: RunThread
    on_progress: Progress

    async def take_list(self, fetching: PageFetcher, selection: Selection) -> End:
        """Fetch pages ahead, and store together those that arrived meanwhile.

        They share one sync, and one commit with further pages that have arrived by then. At the end
        everything is committed.
        """
        ahead = PagePrefetcher(group_records=self.run.prepared.requested.tuning.group_records)
        fetcher = asyncio.create_task(self._fetch(fetching, selection, ahead))
        try:
            while True:
                pages, error = await self.steps.or_stop(ahead.group())
                if pages:
                    for together in _by_answers(pages):
                        await self.steps.in_thread(partial(self.run.take, together))
                    self.on_progress(self.run.state.counts, self.run.state.complete_list_size)
                    ahead.done(pages)
                if error is not None:
                    raise error
                end = pages[-1].end
                if end is not None:
                    return end
                if not await ahead.soon(_SOON_SECONDS):
                    await self.steps.in_thread(self.run.commit)
        finally:
            # The commit runs in the same thread, hence after any storing that is still in progress.
            fetcher.cancel()
            await asyncio.gather(fetcher, return_exceptions=True)
            await self.steps.in_thread(self.run.commit)

    async def _fetch(self, fetching: PageFetcher, selection: Selection, ahead: PagePrefetcher) -> None:
        """Queue the list's pages and, if it fails, the error that ends it.

        The next page is requested while one is being prepared, unless that page is large.
        """
        behind = asyncio.ensure_future(asyncio.sleep(0))
        try:
            # One page is prepared at a time, so pages enter the queue in the order of the list.
            async for fetched in fetching.pages(selection, resumption_token=self.run.state.token):
                await behind
                behind = asyncio.ensure_future(self._prepare(fetched, ahead))
                if not fetched.is_raw:
                    await behind
            await behind
        except asyncio.CancelledError:
            behind.cancel()
            raise
        except Exception as error:  # noqa: BLE001 raised where the pages are stored, in its turn
            (earlier,) = await asyncio.gather(behind, return_exceptions=True)
            ahead.fail(earlier if isinstance(earlier, Exception) else error)

    async def _prepare(self, fetched: Fetched, ahead: PagePrefetcher) -> None:
        """Apply the rules to a page, and queue it; return when there is room for one more."""
        transformer = self.run.prepared.transformer
        batch = await transformer.prepare_page(fetched.entries, url=fetched.page.url)
        await ahead.put(PreparedPage(fetched=fetched.bare(), batch=batch))


def _by_answers(pages: Sequence[PreparedPage]) -> Iterator[Sequence[PreparedPage]]:
    """Group the pages; the parts of a large answer form their own groups, which are counted separately."""
    begin = 0
    for place, taken in enumerate(pages):
        if place > begin and (taken.fetched.page.part == 1 or _ends_answer(pages[place - 1])):
            yield pages[begin:place]
            begin = place
    yield pages[begin:]


def _ends_answer(taken: PreparedPage) -> bool:
    page = taken.fetched.page
    return page.part > 0 and page.rest is None
