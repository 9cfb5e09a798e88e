"""Sends requests to one provider: one at a time, with a pause between them and a maximum number."""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode

from oai.errors import RemoteError
from oai.guarded_http import retry_after
from provider.checking.replies import Reply
from provider.checking.transport import LARGEST_BODY, Received, Sent, Transport

Pairs = Sequence[tuple[str, str]]

_BUSY: Final = 503
_LONGEST_WAIT: Final = 60.0
_USUAL_WAIT: Final = 5.0
_TRIES: Final = 3
_ANY_HEADER: Final = 32
"""Makes zlib detect a gzip or zlib header."""


class AllowanceSpentError(RemoteError):
    """The maximum number of requests was reached."""


@dataclass(kw_only=True)
class CheckClient:
    """A provider's address, and the requests made to it so far.

    The same GET or POST request is sent only once, unless the caller requests a fresh answer.
    """

    url: str
    transport: Transport
    pause: float = 0.0
    """Seconds between two requests."""
    max_requests: int = 300
    sleep: Callable[[float], None] = time.sleep
    replies: list[Reply] = field(default_factory=list)
    """Every answer, in the order of arrival."""
    _known: dict[Sent, Reply] = field(default_factory=dict)
    _requests: int = 0

    def get(self, query: str | Pairs, *, fresh: bool = False, encoding: str = "identity") -> Reply:
        """Send a GET request; a query given as text is sent unchanged."""
        return self._ask(Sent(method="GET", url=self._address(query), encoding=encoding), fresh=fresh)

    def post(self, query: str | Pairs) -> Reply:
        """Send a POST request with the arguments as a form."""
        return self._ask(Sent(method="POST", url=self.url, form=_encoded(query).encode()))

    def head(self, query: str | Pairs) -> Reply:
        """Send a HEAD request; the answer is not added to `replies` because it has no body to check."""
        return _reply(*self._send(Sent(method="HEAD", url=self._address(query))))

    @property
    def requests(self) -> int:
        """Number of requests made."""
        return self._requests

    def _address(self, query: str | Pairs) -> str:
        encoded = _encoded(query)
        if not encoded:
            return self.url
        return f"{self.url}{'&' if '?' in self.url else '?'}{encoded}"

    def _ask(self, sent: Sent, *, fresh: bool = False) -> Reply:
        if fresh or sent not in self._known:
            reply = _reply(*self._send(sent))
            self.replies.append(reply)
            self._known[sent] = reply
        return self._known[sent]

    def _send(self, sent: Sent) -> tuple[Sent, Received]:
        """Send a request, and repeat it a few times if the provider asks to retry later."""
        for attempt in range(_TRIES):
            if self._requests >= self.max_requests:
                raise AllowanceSpentError(
                    f"the limit of {self.max_requests} requests was reached (--max-requests)"
                )
            if self._requests:
                self.sleep(self.pause)
            self._requests += 1
            received = self.transport(sent)
            if received.status != _BUSY or attempt == _TRIES - 1:
                break
            asked = retry_after(received.headers.get("retry-after"), time.time())
            self.sleep(min(_USUAL_WAIT if asked is None else asked, _LONGEST_WAIT))
        return sent, received


def _encoded(query: str | Pairs) -> str:
    return query if isinstance(query, str) else urlencode(query)


def _reply(sent: Sent, received: Received) -> Reply:
    coding = received.headers.get("content-encoding", "identity").strip().lower()
    if sent.method == "HEAD" or coding in {"identity", ""}:
        return Reply(sent, received, received.body)
    if coding not in {"gzip", "x-gzip", "deflate"}:
        return Reply(sent, received, b"", f"Content-Encoding {coding!r} was not requested")
    try:
        return Reply(sent, received, _unpacked(received.body))
    except (EOFError, zlib.error) as error:
        return Reply(
            sent, received, b"", f"Content-Encoding is {coding!r}, but the body does not match: {error}"
        )


def _unpacked(body: bytes) -> bytes:
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | _ANY_HEADER)
    unpacked = unpacking.decompress(body, LARGEST_BODY)
    if not unpacking.eof:
        raise EOFError(f"it is longer than {LARGEST_BODY:,} bytes")
    return unpacked
