"""A list as one stream of items: the tokens between its pages are hidden, the progress is not."""

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
    """How far a list has come, as its latest page tells.

    `received` counts the items of all pages so far, `faults` what could not be read of them. `cursor`,
    `complete_list_size` and `expiration_date` are the server's words about it (section 3.5), None where it
    says nothing. With `resumption_token` the list can be gone on with later; it is empty at the end.
    `first_response_date` is the date to begin the next incremental harvest from, as a datestamp in UTC; where
    it cannot be read as one, it is as it came.
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
    """A list that is fetched page by page while one goes over its items with `async for`, once.

    Who would rather have whole pages goes over `pages()` instead. Errors are raised where they come up, so
    what was had before stays had; `progress` then tells how to go on.
    """

    def __init__(self, pages: AsyncIterator[PageT], items: Callable[[PageT], Sequence[ItemT]]) -> None:
        self.progress = Progress()
        """How far the list has come."""
        self._take = items
        self._source = pages
        self._pages = self._noted()
        self._items = self._each()

    def pages(self) -> AsyncIterator[PageT]:
        """The pages that have not been begun yet."""
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
        # On the last page many servers leave it out.
        complete_list_size=progress.complete_list_size if size is None else size,
        expiration_date=token.expiration_date if token else None,
        resumption_token=token.value if token else "",
        response_date=page.response_date,
        first_response_date=progress.first_response_date or _bound(page.response_date),
    )


def _bound(response_date: str) -> str:
    """The date as a request may have it for `from`; as it came where it is none, or of no known zone."""
    try:
        return format_datestamp(read_moment(response_date))
    except ValueError:
        return response_date


class AskingAhead:
    """One list's answers: `fetch` sends a request, which may be the next page's before this page is read.

    To be closed where the list ends, or is left.
    """

    def __init__(self, fetch: Callable[[Arguments], Awaitable[HttpReply]]) -> None:
        self._fetch = fetch
        self._ahead: asyncio.Task[HttpReply] | None = None
        self._latest: Arguments = []
        self._closed = False

    @property
    def asked(self) -> bool:
        """Whether the next page is asked for, so that the one before it must not be asked for again.

        Some servers know a list's latest token alone.
        """
        return self._ahead is not None

    def ask(self, resumption_token: str) -> None:
        """Ask for the page with this token now, unless it was asked for last; `answer` gives what comes."""
        arguments = [("resumptionToken", resumption_token)]
        if self._ahead is None and not self._closed and arguments != self._latest:
            self._latest = arguments
            self._ahead = asyncio.ensure_future(self._fetch(arguments))

    async def answer(self, arguments: Arguments) -> HttpReply:
        """The answer to a request, which may be on its way. Raises as `fetch` does."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and arguments == self._latest:
            return await ahead
        await _let_go(ahead)
        self._latest = arguments
        return await self._fetch(arguments)

    async def aclose(self) -> None:
        """Let go of what was asked for and is not wanted."""
        self._closed = True
        await _let_go(self._ahead)


async def _let_go(ahead: asyncio.Task[HttpReply] | None) -> None:
    if ahead is not None:
        ahead.cancel()
        await asyncio.gather(ahead, return_exceptions=True)
