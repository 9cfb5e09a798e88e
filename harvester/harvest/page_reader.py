"""Parses a harvest's pages: in a thread or, if pages arrive fast, in a separate process."""

import asyncio
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from harvester.harvest.answer_splitter_process import SplittingProcess
from harvester.harvest.page_reader_process import Documents, PageOfDocuments, ReadingProcess, documents_of
from harvester.reading.answers import Page
from harvester.reading.replies import OnToken, Unread, with_rest
from harvester.reading.splitting import Splitting
from harvester.reading.spooled import Spooled
from oai.child import CompanionEndedError
from oai.vocabulary import Verb

_log = logging.getLogger("harvester.running.page_reading")


@dataclass(frozen=True, kw_only=True)
class ProcessPolicy:
    """When a process for parsing is started, and how."""

    records: int = 500
    share: float = 0.1
    """Share of the elapsed time; if parsing takes less, the harvest waits for something else anyway."""
    begin: Callable[[], ReadingProcess] = ReadingProcess


_POLICY: Final = ProcessPolicy()


class PageReader:
    """Parses pages, and starts a process for that once it takes a large share of the time.

    Pages from the process have documents instead of elements (`PageOfDocuments`), which suits a harvest
    without rules (`plain`). If the process fails, pages are parsed in this process again, and nothing is
    lost. Without `ahead`, a page's token is not reported before its records are read. A large answer is split
    by a process of its own. `clock` returns seconds.
    """

    def __init__(
        self,
        *,
        plain: bool = True,
        ahead: bool = True,
        process_policy: ProcessPolicy = _POLICY,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._plain = plain
        self._ahead = ahead
        self._process_policy = process_policy
        self._clock = clock
        self._begun = clock()
        self._busy = 0.0
        self._records = 0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="reading")
        self._process: Future[ReadingProcess] | None = None
        self._failed = False
        self._splitting: SplittingProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._splitting is not None:
            self._splitting.close()
        if self._process is not None:
            self._thread.submit(self._close, self._process)
        self._thread.shutdown()

    async def __call__(self, unread: Unread, on_token: OnToken) -> Page:
        """Read an answer; raise as `Unread.read` does.

        The process reports a page's token before its records.
        """
        if isinstance(unread.body, Spooled):
            return await self._in_parts(unread, on_token)
        if unread.verb is not Verb.LIST_RECORDS or not self._plain:
            return await asyncio.to_thread(unread.read)
        return await self._elsewhere(unread, on_token) or await self._here(unread)

    async def _in_parts(self, unread: Unread, on_token: OnToken) -> Page:
        """Return the first part of a large answer, linked to the next; each is read like a small answer."""
        loop = asyncio.get_running_loop()

        def begun() -> Splitting:
            # In the thread that lives as long as the process: Linux ends a child with the thread that
            # started it.
            if self._splitting is not None:
                self._splitting.close()  # the same answer may have been broken, and was requested again
            self._splitting = SplittingProcess(unread)
            return self._splitting.split()

        splitting = await loop.run_in_executor(self._thread, begun)
        if splitting.token and self._ahead:
            on_token(splitting.token)

        async def following() -> Page:
            part = await loop.run_in_executor(self._thread, next, splitting.parts)
            page = await self(unread.of(part), lambda _token: None)
            return with_rest(page, part, following)

        return await following()

    async def _here(self, unread: Unread) -> Page:
        asked = self._clock()
        page = await asyncio.to_thread(unread.read)
        now = self._clock()
        self._busy += now - asked
        self._records += len(page.records)
        busy = self._busy > self._process_policy.share * (now - self._begun)
        if (
            busy
            and self._records >= self._process_policy.records
            and page.next_token
            and self._process is None
        ):
            self._process = self._thread.submit(self._process_policy.begin)
        return page

    async def _elsewhere(self, unread: Unread, on_token: OnToken) -> Page | None:
        """Return the page as the process reads it; None if there is no process, or if reading raises."""
        if self._process is None or not self._process.done() or self._failed:
            return None
        loop = asyncio.get_running_loop()

        def pass_on(token: str) -> None:
            if self._ahead:
                # Called in the reading thread; the callback belongs to the event loop.
                loop.call_soon_threadsafe(on_token, token)

        page: Future[PageOfDocuments | None] = Future()
        # One thread talks to the process, so requests and their answers stay in order.
        self._thread.submit(self._ask, self._process, unread, pass_on, page)
        return await asyncio.wrap_future(page)

    def _ask(
        self,
        process: Future[ReadingProcess],
        unread: Unread,
        on_token: OnToken,
        asked: Future[PageOfDocuments | None],
    ) -> None:
        """Have the process read a page, and then receive its documents, which follow it."""
        if not asked.set_running_or_notify_cancel():
            return
        page = None
        try:
            page = process.result().read(unread, on_token)
        except (CompanionEndedError, OSError) as error:
            self._note_failure(error)
        except BaseException as error:
            asked.set_exception(error)
            raise
        asked.set_result(page)
        if page is not None:
            self._fill(process.result(), unread, page.documents.future)

    def _fill(self, process: ReadingProcess, unread: Unread, documents: Future[Documents]) -> None:
        try:
            documents.set_result(process.documents())
        except CompanionEndedError as error:
            self._note_failure(error)
            documents.set_result(documents_of(unread.read()))
        except BaseException as error:
            documents.set_exception(error)
            raise

    def _note_failure(self, error: Exception) -> None:
        # Set in the reading thread; if the event loop sees it late, one more request fails and is read here.
        self._failed = True
        _log.warning("the process that reads pages: %s; further pages are read without it", error)

    def _close(self, process: Future[ReadingProcess]) -> None:
        if process.exception() is None:
            process.result().close()
