"""A list as one stream of items: the tokens between its pages are hidden, the progress is not."""

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, Protocol, TypeVar

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
