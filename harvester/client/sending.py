"""Makes one HTTP exchange over aiohttp, within limits of size and time; translates foreign errors."""

import asyncio
import contextlib
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field

import aiohttp
from yarl import URL

from harvester.client.exchange import HttpRequest, RawReply
from harvester.client.guarding import PrivateAddressError
from harvester.reading.errors import AnswerTooLargeError, ClientError, TransportError, TransportKind
from harvester.reading.spooled import Body, Gathering
from oai.failures import FailureCode
from oai.limits import AnswerLimits

_CHUNK = 256 * 1024
_MAX_ERROR_BODY = 64 * 1024
_FIRST_FAILURE = 400
_LONGEST_LINE = 64 * 1024
"""Bytes of a header line: redirects carry tokens, and tokens may be long."""


@dataclass(frozen=True, kw_only=True)
class SessionSender:
    """Sends over an aiohttp session, which it does not close.

    `timeout` is the longest time for a whole exchange, in seconds. An answer that for `slow_seconds` brings
    fewer than `slow_rate` bytes a second is given up as well. No body is read beyond the limits.
    """

    session: aiohttp.ClientSession
    timeout: float
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    spool: bool = False
    """Whether large bodies go to files (`RawReply.spooled`)."""
    slow_seconds: float = 60
    slow_rate: int = 16

    async def __call__(self, request: HttpRequest) -> RawReply:
        """Send the request and read the answer, following no redirect.

        A body that breaks off is given as far as it came, with the reason in `cut`.
        """
        with _translated(request.url):
            async with self.session.request(
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
                body, cut = await self._body(answer, request.url)
                return _reply(answer, body, cut)

    async def _body(self, answer: aiohttp.ClientResponse, url: str) -> tuple[Body, TransportError | None]:
        came = Gathering(spool=self.spool)
        try:
            with _translated(url):
                await self._read(answer, url, came)
        except TransportError as error:
            if not came.size:
                raise
            return came.whole(), error
        return came.whole(), None

    async def _read(self, answer: aiohttp.ClientResponse, url: str, came: Gathering) -> None:
        """Read the body into `came`, which keeps it where it breaks off."""
        size = 0
        try:
            async with asyncio.timeout(None) as limit:
                pace = _Pace(limit, self.slow_seconds, self.slow_rate)
                async for chunk in answer.content.iter_chunked(_CHUNK):
                    size += len(chunk)
                    if answer.status >= _FIRST_FAILURE and size > _MAX_ERROR_BODY:
                        return
                    most = self.limits.answer_bytes
                    if size > most:
                        raise AnswerTooLargeError(url, self.limits.failure(FailureCode.ANSWER_BYTES, most))
                    came.add(chunk)
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
    """Puts a time limit off for as long as the bytes come quickly enough."""

    def __init__(self, limit: asyncio.Timeout, seconds: float, rate: int) -> None:
        self._limit = limit
        self._seconds = seconds
        self._wanted = max(seconds * rate, 1)
        self._came = 0
        self._put_off()

    def note(self, size: int) -> None:
        self._came += size
        if self._came >= self._wanted:
            self._put_off()

    def _put_off(self) -> None:
        self._came = 0
        self._limit.reschedule(asyncio.get_running_loop().time() + self._seconds)


def _reply(answer: aiohttp.ClientResponse, body: Body, cut: TransportError | None) -> RawReply:
    return RawReply(
        status=answer.status,
        reason=answer.reason or "",
        headers=[(_text(name), _text(value)) for name, value in answer.raw_headers],
        body=body if isinstance(body, bytes) else b"",
        spooled=None if isinstance(body, bytes) else body,
        cut=cut,
    )


def _text(raw: bytes) -> str:
    """A header's bytes, which no standard gives an encoding: mostly ASCII, or else UTF-8."""
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
        kind, reason = _in_words(error)
        raise TransportError(url, kind, reason) from error


def _in_words(error: Exception) -> tuple[TransportKind, str]:
    """What happened, as a kind and in words."""
    if isinstance(error, aiohttp.ClientConnectorError) and isinstance(error.os_error, PrivateAddressError):
        return TransportKind.PRIVATE, f"{error.os_error}; see setting private_addresses"
    for types, kind, words in _KINDS:
        if isinstance(error, types):
            detail = str(error)
            return kind, f"{words} ({detail})" if detail and detail not in words else words
    return TransportKind.DISCONNECTED, f"the connection was lost ({str(error) or type(error).__name__})"


_KINDS: tuple[tuple[tuple[type[Exception], ...], TransportKind, str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), TransportKind.DNS, "the host name is not known; check the spelling"),
    (
        (aiohttp.ClientSSLError, ssl.SSLError),
        TransportKind.TLS,
        "no secure connection; the server's certificate or TLS configuration is invalid",
    ),
    ((aiohttp.InvalidURL, ValueError), TransportKind.ADDRESS, "not an address; write it as http://host/path"),
    ((TimeoutError,), TransportKind.TIMEOUT, "the answer was not complete in time; see setting timeout"),
    ((aiohttp.ClientConnectorError,), TransportKind.REFUSED, "the server does not accept connections"),
)
