"""The next page of a list, asked for while the records of the one before it are still being read."""

import asyncio
from collections.abc import Awaitable, Callable

from harvester.client.transport import Arguments, HttpReply


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
