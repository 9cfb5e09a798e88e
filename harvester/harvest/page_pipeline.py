"""Moves a list's pages from the network to the store: fetched ahead, stored behind, with back-pressure."""

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
from harvester.harvest.run import Run
from harvester.harvest.verdict import End
from oai.errors import InterruptedRunError

_MOST_BYTES = 5 * 1024**2
"""Of records that wait or are being taken in; with more, nothing further is fetched."""
_GROUP_BYTES = 3 * 1024**2
_GROUP_RECORDS = 3000


@dataclass(kw_only=True)
class PagePrefetcher:
    """The pages in their order; the error that ends the list comes last."""

    _waiting: "asyncio.Queue[PreparedPage | Exception]" = field(default_factory=asyncio.Queue)
    _here: asyncio.Event = field(default_factory=asyncio.Event)
    _bytes: int = 0
    _room: asyncio.Event = field(default_factory=asyncio.Event)

    async def put(self, taken: PreparedPage) -> None:
        """Add a page; returns when there is room for one more."""
        self._add(taken)
        self._count(taken.weight)
        await self._room.wait()

    def fail(self, error: Exception) -> None:
        """Add the error that ends the list."""
        self._add(error)

    async def group(self) -> tuple[list[PreparedPage], Exception | None]:
        """The next page, or the next few that are here already, and the error where it follows on them."""
        item = await self._waiting.get()
        pages: list[PreparedPage] = []
        records = size = 0
        while isinstance(item, PreparedPage):
            pages.append(item)
            records += len(item.batch.records)
            size += item.weight
            if self._waiting.empty() or records >= _GROUP_RECORDS or size >= _GROUP_BYTES:
                return pages, None
            item = self._waiting.get_nowait()
        return pages, item

    async def soon(self, seconds: float) -> bool:
        """Whether something is here already, or comes within so many seconds."""
        if self._waiting.empty():
            self._here.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._here.wait(), seconds)
        return not self._waiting.empty()

    def done(self, pages: Sequence[PreparedPage]) -> None:
        """The group was taken in: there is room for others."""
        self._count(-sum(page.weight for page in pages))

    def _add(self, item: "PreparedPage | Exception") -> None:
        self._waiting.put_nowait(item)
        self._here.set()

    def _count(self, number: int) -> None:
        self._bytes += number
        if self._bytes > _MOST_BYTES:
            self._room.clear()
        else:
            self._room.set()


_T = TypeVar("_T")
_SOON_SECONDS = 0.1
"""Pages that follow within this time share a commit: it takes some milliseconds."""

Progress = Callable[[Counter[str], int | None], None]
"""Is told the run's counts, and completeListSize where the server gives it, after each page."""


@dataclass(frozen=True, kw_only=True)
class RunThread:
    """Does a run's steps: what touches database and files in one thread, what waits until it is stopped."""

    thread: ThreadPoolExecutor
    stop: asyncio.Event

    async def in_thread(self, work: Callable[[], None]) -> None:
        """Do work that touches database and files, after what is under way."""
        await asyncio.get_running_loop().run_in_executor(self.thread, work)

    async def or_stop(self, awaitable: Awaitable[_T]) -> _T:
        """The result, or InterruptedRunError as soon as the run is asked to stop."""
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
    """Takes one list after the other in."""

    run: Run
    steps: RunThread
    on_progress: Progress

    async def take_list(self, fetching: PageFetcher, selection: Selection) -> End:
        """Fetch ahead, and take in together the pages that came meanwhile.

        They share one sync, and one commit with those that are here by then. All is committed at the end.
        """
        ahead = PagePrefetcher()
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
            fetcher.cancel()
            await asyncio.gather(fetcher, return_exceptions=True)
            await self.steps.in_thread(self.run.commit)

    async def _fetch(self, fetching: PageFetcher, selection: Selection, ahead: PagePrefetcher) -> None:
        """Put the list's pages, or at last the error that ends it, with those that wait.

        The next page is asked for while one is prepared, unless that one is large.
        """
        behind = asyncio.ensure_future(asyncio.sleep(0))
        try:
            async for fetched in fetching.pages(selection, resumption_token=self.run.state.token):
                await behind
                behind = asyncio.ensure_future(self._prepare(fetched, ahead))
                if not fetched.light:
                    await behind
            await behind
        except asyncio.CancelledError:
            behind.cancel()
            raise
        except Exception as error:  # noqa: BLE001 it is raised where the pages are taken in, in its turn
            (earlier,) = await asyncio.gather(behind, return_exceptions=True)
            ahead.fail(earlier if isinstance(earlier, Exception) else error)

    async def _prepare(self, fetched: Fetched, ahead: PagePrefetcher) -> None:
        """Apply the rules to a page, and put it; returns when there is room for one more."""
        transformer = self.run.prepared.transformer
        await transformer.learn(fetched.entries)
        batch = await asyncio.to_thread(transformer.prepare, fetched.entries, url=fetched.page.url)
        await ahead.put(PreparedPage(fetched=fetched.bare(), batch=batch))


def _by_answers(pages: Sequence[PreparedPage]) -> Iterator[Sequence[PreparedPage]]:
    """The pages in groups: parts of a large answer are by themselves, for it is counted by itself."""
    begin = 0
    for place, taken in enumerate(pages):
        if place > begin and (taken.fetched.page.part == 1 or _ends_answer(pages[place - 1])):
            yield pages[begin:place]
            begin = place
    yield pages[begin:]


def _ends_answer(taken: PreparedPage) -> bool:
    page = taken.fetched.page
    return page.part > 0 and page.rest is None
