"""A list as one stream of items, which hides the tokens between its pages but shows the progress."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

from harvester.client.transport import Arguments, HttpReply
from harvester.reading.answers import Page, ResumptionToken
from oai.datestamps import format_datestamp, read_moment


class AnyPage(Protocol):
    """What all pages have."""

    @property
    def url(self) -> str: ...  # noqa: D102 see reading/answers.py

    @property
    def response_date(self) -> str: ...  # noqa: D102

    @property
    def token(self) -> ResumptionToken | None: ...  # noqa: D102


PageT = TypeVar("PageT", bound=AnyPage)
ItemT = TypeVar("ItemT")


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a list has progressed, according to its latest page.

    `received` counts the items of all pages so far, `faults` their unreadable parts. `cursor`,
    `complete_list_size` and `expiration_date` are the server's statements (section 3.5), None if it makes
    none. With `resumption_token` the list can be resumed later, after this page; it is empty at the end.
    `first_response_date` is the date from which to begin the next incremental harvest, as a datestamp in UTC;
    if it cannot be read as one, it is returned as received.
    """

    pages: int = 0
    received: int = 0
    faults: int = 0
    cursor: int | None = None
    complete_list_size: int | None = None
    expiration_date: str | None = None
    resumption_token: str = ""
    response_date: str = ""
    first_response_date: str = ""


class Listing(AsyncIterator[ItemT], Generic[PageT, ItemT]):
    """A list that is fetched page by page while its items are iterated over with `async for`, once.

    To get whole pages, iterate over `pages()` instead. Errors are raised when they occur, so earlier items
    have been delivered; `progress` then shows how to resume.
    """

    def __init__(self, pages: AsyncIterator[PageT], items: Callable[[PageT], Sequence[ItemT]]) -> None:
        self.progress = Progress()
        """How far the list has progressed."""
        self._take = items
        self._source = pages
        self._pages = self._noted()
        self._items = self._each()

    def pages(self) -> AsyncIterator[PageT]:
        """Yield the pages that have not been started yet."""
        return self._pages

    def __aiter__(self) -> "Listing[PageT, ItemT]":
        return self

    async def __anext__(self) -> ItemT:
        return await anext(self._items)

    async def _noted(self) -> AsyncIterator[PageT]:
        async for page in self._source:
            self.progress = _advanced(self.progress, page, len(self._take(page)))
            yield page

    async def _each(self) -> AsyncIterator[ItemT]:
        async for page in self._pages:
            for item in self._take(page):
                yield item


def _advanced(progress: Progress, page: AnyPage, items: int) -> Progress:
    token = page.token
    size = token.complete_list_size if token else None
    return replace(
        progress,
        pages=progress.pages + 1,
        received=progress.received + items,
        faults=progress.faults + (len(page.faults) if isinstance(page, Page) else 0),
        cursor=token.cursor if token else None,
        # Many servers omit it on the last page.
        complete_list_size=progress.complete_list_size if size is None else size,
        expiration_date=token.expiration_date if token else None,
        resumption_token=token.value if token else "",
        response_date=page.response_date,
        first_response_date=progress.first_response_date or _bound(page.response_date),
    )


def _bound(response_date: str) -> str:
    """Return the date in the form of a `from` argument; unchanged if it is no date or has no known zone."""
    try:
        return format_datestamp(read_moment(response_date))
    except ValueError:
        return response_date


class PrefetchedAnswers:
    """The answers of one list; the request for the next page may be sent before this page is read.

    `fetch` sends a request. Close the object when the list ends or is abandoned. It is used on one event
    loop, and its fields change only between awaits, so it needs no lock.
    """

    def __init__(self, fetch: Callable[[Arguments], Awaitable[HttpReply]]) -> None:
        self._fetch = fetch
        self._ahead: asyncio.Task[HttpReply] | None = None
        self._latest: Arguments = []
        self._closed = False

    @property
    def asked(self) -> bool:
        """Whether the next page has been requested, so that the previous one must not be requested again.

        Some servers accept only the latest token of a list.
        """
        return self._ahead is not None

    def ask(self, resumption_token: str) -> None:
        """Request the page with this token now, unless it was requested last; `answer` returns the reply."""
        arguments = [("resumptionToken", resumption_token)]
        if self._ahead is None and not self._closed and arguments != self._latest:
            self._latest = arguments
            self._ahead = asyncio.ensure_future(self._fetch(arguments))

    async def answer(self, arguments: Arguments) -> HttpReply:
        """Return the answer to a request, which may already have been sent. Raises as `fetch` does."""
        ahead, self._ahead = self._ahead, None
        # Taken out of the field before the first await, so that no other call waits for the same task.
        if ahead is not None and arguments == self._latest:
            return await ahead
        await _let_go(ahead)
        self._latest = arguments
        return await self._fetch(arguments)

    async def aclose(self) -> None:
        """Cancel the request that is no longer wanted."""
        self._closed = True
        await _let_go(self._ahead)


async def _let_go(ahead: asyncio.Task[HttpReply] | None) -> None:
    if ahead is not None:
        ahead.cancel()
        await asyncio.gather(ahead, return_exceptions=True)
