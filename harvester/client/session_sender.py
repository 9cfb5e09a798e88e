"""Sends one HTTP request over aiohttp sessions and reads its answer, within limits of size and time."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from harvester.client.exchange import HttpRequest, RawReply
from harvester.client.peers import Sessions, is_from_public, was_corrected
from harvester.reading.errors import (
    PRIVATE_SETTINGS,
    AnswerTooLargeError,
    ClientError,
    TransportError,
    TransportKind,
)
from harvester.reading.spooled import Body, Gathering
from oai.failures import FailureCode
from oai.limits import AnswerLimits
from oai.reach import NO_TLS, UnreachableZoneError, ZoneOf, tls_fault, zone_of

_CHUNK = 256 * 1024
_MAX_ERROR_BODY = 64 * 1024
"""Bytes that are read of a page of HTTP's errors; some servers send OAI-PMH answers with such a status."""
_ROOT = b"OAI-PMH"
_HEAD_BYTES = 4096
_FIRST_FAILURE = 400
_LONGEST_LINE = 64 * 1024
"""Maximum bytes of a header line: redirects contain tokens, and tokens may be long."""


@dataclass(frozen=True, kw_only=True)
class SessionSender:
    """Sends requests over aiohttp sessions, which it does not close.

    If an answer breaks the rules of HTTP, the request is sent again, over a lenient session.

    `timeout` is the maximum duration of a whole exchange, in seconds. An answer that for `slow_seconds`
    arrives at fewer than `slow_rate` bytes per second is given up as well. No body is read beyond the limits.
    """

    sessions: Sessions
    timeout: float
    zone_of: ZoneOf = zone_of
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    spool: bool = False
    """Whether large bodies go to files (`RawReply.spooled`)."""
    slow_seconds: float = 60
    slow_rate: int = 16
    on_resend: Callable[[], None] = lambda: None
    """Called before a request is sent again."""
    _corrected: set[str] = field(default_factory=set)
    """Servers with headers that had to be corrected; their answers are all read leniently."""

    async def __call__(self, request: HttpRequest) -> RawReply:
        """Send the request and read the answer, without following redirects.

        A truncated body is returned as far as it was received, with the reason in `cut`.
        """
        try:
            return await self._exchange(request, lenient=urlsplit(request.url).netloc in self._corrected)
        except TransportError as error:
            if error.kind is not TransportKind.HTTP:
                raise
        self.on_resend()
        return await self._exchange(request, lenient=True)

    async def _exchange(self, request: HttpRequest, *, lenient: bool) -> RawReply:
        session = self.sessions.choose(public_only=request.public_only, lenient=lenient)
        with _translated(request.url):
            async with session.request(
                request.method,
                URL(request.url, encoded=True),
                data=request.body or None,
                headers=list(request.headers),
                allow_redirects=False,
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=self.timeout),
                max_line_size=_LONGEST_LINE,
                max_field_size=_LONGEST_LINE,
            ) as answer:
                if was_corrected(answer):
                    self._corrected.add(urlsplit(request.url).netloc)
                body, cut = await self._body(answer, request.url)
                return _reply(answer, body, cut, public=is_from_public(answer, self.zone_of))

    async def _body(self, answer: aiohttp.ClientResponse, url: str) -> tuple[Body, TransportError | None]:
        received = Gathering(spool=self.spool)
        try:
            with _translated(url):
                await self._read(answer, url, received)
        except TransportError as error:
            if not received.size:
                raise
            return received.whole(), error
        return received.whole(), None

    async def _read(self, answer: aiohttp.ClientResponse, url: str, received: Gathering) -> None:
        """Read the body into `received`, which keeps what was received if the body is truncated."""
        size, head = 0, b""
        try:
            async with asyncio.timeout(None) as limit:
                pace = _Pace(limit, self.slow_seconds, self.slow_rate)
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    size += len(chunk)
                    head += chunk[: _HEAD_BYTES - len(head)]
                    if answer.status >= _FIRST_FAILURE and size > _MAX_ERROR_BODY and _ROOT not in head:
                        return
                    most = self.limits.answer_bytes
                    if size > most:
                        raise AnswerTooLargeError(url, self.limits.failure(FailureCode.ANSWER_BYTES, most))
                    received.add(chunk)
                    pace.note(len(chunk))
        except TimeoutError as error:
            if not limit.expired():
                raise
            words = (
                f"fewer than {self.slow_rate} bytes per second were received for {self.slow_seconds:g} "
                "seconds"
            )
            reason = f"{words}; see settings slow_seconds and slow_rate"
            raise TransportError(url, TransportKind.TIMEOUT, reason) from error


class _Pace:
    """Extends a time limit for as long as the bytes arrive fast enough."""

    def __init__(self, limit: asyncio.Timeout, seconds: float, rate: int) -> None:
        self._limit = limit
        self._seconds = seconds
        self._wanted = max(seconds * rate, 1)
        self._received = 0
        self._put_off()

    def note(self, size: int) -> None:
        self._received += size
        if self._received >= self._wanted:
            self._put_off()

    def _put_off(self) -> None:
        self._received = 0
        self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)


def _reply(
    answer: aiohttp.ClientResponse, body: Body, cut: TransportError | None, *, public: bool
) -> RawReply:
    return RawReply(
        status=answer.status,
        reason=answer.reason or "",
        headers=[(_text(name), _text(value)) for name, value in answer.raw_headers],
        body=body if isinstance(body, bytes) else b"",
        spooled=None if isinstance(body, bytes) else body,
        cut=cut,
        public=public,
    )


def _text(raw: bytes) -> str:
    """Decode a header's bytes, for which no standard defines an encoding: mostly ASCII, otherwise UTF-8."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw.decode("latin-1")


@contextlib.contextmanager
def _translated(url: str) -> Iterator[None]:
    try:
        yield
    except ClientError:
        raise
    except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
        # Only an error of a file here has a name, such as that of a full disk; no retry helps.
        if getattr(error, "filename", None) is not None:
            raise
        kind, reason = _in_words(error)
        raise TransportError(url, kind, reason) from error


def _in_words(error: Exception) -> tuple[TransportKind, str]:
    """Return the error as a kind and as text."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, UnreachableZoneError):
        return TransportKind.PRIVATE, f"{error.os_error}; {PRIVATE_SETTINGS}"
    if isinstance(error, aiohttp.ClientResponseError):
        found = error.message.partition("\n")[0].rstrip(":")  # then it shows the place in the header
        return TransportKind.HTTP, f"the answer breaks the rules of HTTP ({found})"
    if fault := tls_fault(error):
        plain = fault == NO_TLS
        return (TransportKind.NO_TLS, f"{fault}; try http://") if plain else (TransportKind.TLS, fault)
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, ConnectionResetError):
        return TransportKind.DISCONNECTED, _ENDED_EARLY
    for types, kind, words in _KINDS:
        if isinstance(error, types):
            detail = str(error)
            return kind, f"{words} ({detail})" if detail and detail not in words else words
    return TransportKind.DISCONNECTED, f"the connection was lost ({str(error) or type(error).__name__})"


_ENDED_EARLY = (
    "the server ended the connection before it received the request; "
    "it may demand a client certificate, which harvests do not have"
)
_KINDS: tuple[tuple[tuple[type[Exception], ...], TransportKind, str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), TransportKind.DNS, "the host name is not known; check the spelling"),
    ((aiohttp.InvalidURL, ValueError), TransportKind.ADDRESS, "not an address; write it as http://host/path"),
    ((TimeoutError,), TransportKind.TIMEOUT, "the answer was not complete in time; see setting timeout"),
    ((aiohttp.ClientConnectorError,), TransportKind.REFUSED, "the server does not accept connections"),
)
