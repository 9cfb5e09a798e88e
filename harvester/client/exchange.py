"""One HTTP exchange as values: what is sent, and what is received before it is interpreted."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from harvester.reading.errors import TransportError
from harvester.reading.spooled import Body, Spooled

Method = Literal["GET", "POST"]
AUTHORIZATION: Final = "Authorization"
"""The name of the header that goes to no other server, and into no stored answer."""


@dataclass(frozen=True, kw_only=True)
class HttpRequest:
    """A request: for POST, `body` is the form."""

    method: Method
    url: str
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    public_only: bool = False
    """Whether it may be sent only to servers on the public internet."""


@dataclass(frozen=True, kw_only=True)
class RawReply:
    """An answer as received: chunks are joined, but a compressed body is still compressed.

    `cut` says why the body may be incomplete, else it is None.
    """

    status: int
    reason: str = ""
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    spooled: Spooled | None = None
    """The body if it is large and therefore in a file; `body` is empty then."""
    cut: TransportError | None = None
    public: bool = True
    """Whether the server is on the public internet, as far as is known."""

    @property
    def content(self) -> Body:
        """The body, in memory or in a file."""
        return self.body if self.spooled is None else self.spooled

    def header(self, name: str) -> str:
        """Return the header's first value, or an empty text; its name is matched case-insensitively."""
        wanted = name.lower()
        return next((value for found, value in self.headers if found.lower() == wanted), "")


Send = Callable[[HttpRequest], Awaitable[RawReply]]
"""Makes one exchange, without following redirects. Raises only TransportError and AnswerTooLargeError."""
