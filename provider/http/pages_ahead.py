"""The next page of a list, made while the client reads the present one.

Harvesters ask for a list page by page. While one page is sent and read, the provider would have nothing to
do: it makes the page after it, if no other request waits, and keeps it for a few seconds under its token. Its
responseDate is a little earlier than if it had been made on request, which is always safe.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Final

from aiohttp import web

from provider.protocol.repository import OaiAnswer

_SECONDS: Final = 5.0
"""How long a page is kept. A client that has not requested it by then is slow, or has stopped."""
_MOST: Final = 32
"""Pages kept at a time; a page of 500 records has half a megabyte, or a fifteenth of it compressed."""

_Making = asyncio.Task[OaiAnswer]


class PagesAhead:
    """Pages being made or kept; used only in the event loop's thread."""

    def __init__(self, *, seconds: float = _SECONDS, most: int = _MOST) -> None:
        self._seconds = seconds
        self._most = most
        self._pages: dict[Hashable, _Making] = {}

    def begin(self, key: Hashable, make: Callable[[], Coroutine[None, None, OaiAnswer]]) -> None:
        """Make a page, unless it is being made already, or many are kept."""
        if key in self._pages or len(self._pages) >= self._most:
            return
        task = asyncio.create_task(make())
        # An error is of no interest here: the page is then made on request, and reports it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self._pages[key] = task
        asyncio.get_running_loop().call_later(self._seconds, self._forget, key, task)

    async def take(self, key: Hashable) -> OaiAnswer | None:
        """Return the page once it is made; None if it was not begun, or could not be made."""
        task = self._pages.pop(key, None)
        if task is None:
            return None
        # Unlike awaiting the task, this does not cancel it if the client disconnects.
        await asyncio.wait([task])
        return None if task.cancelled() or task.exception() is not None else task.result()

    async def close(self) -> None:
        """Give up what is being made."""
        tasks = [*self._pages.values()]
        self._pages.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _forget(self, key: Hashable, task: _Making) -> None:
        if self._pages.get(key) is task:
            del self._pages[key]


PAGES_AHEAD: Final = web.AppKey("pages_ahead", PagesAhead)
