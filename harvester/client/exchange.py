"""One HTTP exchange as values: what is sent, and what comes back before anything is made of it."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from harvester.reading.errors import TransportError
from harvester.reading.spooled import Body, Spooled

Method = Literal["GET", "POST"]


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """A request: for POST, `body` is the form."""

    method: Method
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """An answer as it came: chunks are joined, but a compressed body is still compressed.

    `cut` says why the body may not be whole; it is None where nothing is known against it.
    """

    status: int
    reason: str = ""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    spooled: Spooled | None = None
    """The body where it is in a file, for it is large; `body` is empty then."""
    cut: TransportError | None = None

    @property
    def content(self) -> Body:
        """The body, wherever it is."""
        return self.body if self.spooled is None else self.spooled

    def header(self, name: str) -> str:
        """The header's first value, or nothing; its name is looked for in any case."""
        wanted = name.lower()
        return next((value for found, value in self.headers if found.lower() == wanted), "")


Send = Callable[[HttpRequest], Awaitable[RawReply]]
"""Makes one exchange, following nothing. Raises TransportError and AnswerTooLargeError, nothing else."""
