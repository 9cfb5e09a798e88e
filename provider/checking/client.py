"""Sends requests to one provider: one at a time, with a pause between them and a maximum number."""

import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlencode

from oai.errors import RemoteError
from oai.guarded_http import retry_after
from oai.xml import tags_in
from provider.checking.replies import MOST_NODES, Reply, Trees
from provider.checking.transport import LARGEST_BODY, Received, Sent, Transport

Pairs = Sequence[tuple[str, str]]

_BUSY: Final = 503
_LONGEST_WAIT: Final = 60.0
_USUAL_WAIT: Final = 5.0
_TRIES: Final = 3
_MOST_KEPT: Final = 64 << 20
"""Bytes of all answers, compressed; several times what a provider with large pages sends."""
_ANY_HEADER: Final = 32
"""Makes zlib detect a gzip or zlib header."""


class AllowanceSpentError(RemoteError):
    """The maximum number of requests, or of bytes in their answers, was reached."""


class TooLargeError(RemoteError):
    """An answer has more bytes or elements than the check reads."""


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
    _trees: Trees = field(default_factory=Trees)
    _requests: int = 0

    def get(self, query: str | Pairs, *, fresh: bool = False, encoding: str = "identity") -> Reply:
        """Send a GET request; a query given as text is sent unchanged."""
        return self._ask(Sent(method="GET", url=self._address(query), encoding=encoding), fresh=fresh)

    def post(self, query: str | Pairs) -> Reply:
        """Send a POST request with the arguments as a form."""
        return self._ask(Sent(method="POST", url=self.url, form=_encoded(query).encode()))

    def head(self, query: str | Pairs) -> Reply:
        """Send a HEAD request; the answer is not added to `replies` because it has no body to check."""
        sent, received = self._send(Sent(method="HEAD", url=self._address(query)))
        return Reply(sent, received, zlib.compress(b""), 0, self._trees)

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
            reply = _reply(*self._send(sent), self._trees)
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
            if sum(len(reply.packed) for reply in self.replies) > _MOST_KEPT:
                raise AllowanceSpentError(
                    f"all answers together have more than {_MOST_KEPT:,} bytes, compressed; no more are read"
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


def _reply(sent: Sent, received: Received, trees: Trees) -> Reply:
    body, fault = _unpacked(received)
    nodes = tags_in(body) + body.count(b"=")
    if len(body) > LARGEST_BODY or nodes > MOST_NODES:
        raise TooLargeError(
            f"{sent}: the answer has more than {LARGEST_BODY:,} bytes or {MOST_NODES:,} elements and "
            "attributes, more than any page needs"
        )
    return Reply(sent, replace(received, body=b""), zlib.compress(body, 1), nodes, trees, fault)


def _unpacked(received: Received) -> tuple[bytes, str | None]:
    """Return the body, at most one byte longer than allowed, and why it could not be decompressed."""
    coding = received.headers.get("content-encoding", "identity").strip().lower()
    if coding in {"identity", ""}:
        return received.body, None
    if coding not in {"gzip", "x-gzip", "deflate"}:
        return b"", f"Content-Encoding {coding!r} was not requested"
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | _ANY_HEADER)
    mismatch = f"Content-Encoding is {coding!r}, but the body does not match"
    try:
        body = unpacking.decompress(received.body, LARGEST_BODY + 1)
    except zlib.error as error:
        return b"", f"{mismatch}: {error}"
    if unpacking.eof or len(body) > LARGEST_BODY:
        return body, None
    return b"", f"{mismatch}: it is incomplete"
