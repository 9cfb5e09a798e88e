"""One HTTP request to a repository: bytes out of a stream with a limit, foreign errors translated here."""

import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from yarl import URL

from harvester.client.errors import AnswerTooLargeError, ClientError, TransportError, TransportKind
from oai.sections import HarvesterSettings

_MAX_REDIRECTS = 5
_CHUNK = 256 * 1024
_MAX_ERROR_BODY = 64 * 1024
_FIRST_FAILURE = 400

Arguments = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """A whole HTTP answer; the body is decompressed."""

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes


Transport = Callable[[str, Arguments], Awaitable[HttpReply]]
"""Sends OAI-PMH arguments to a base URL. Raises TransportError and AnswerTooLargeError, nothing else."""


def request_url(base_url: str, arguments: Arguments) -> str:
    """The address of a GET request; reserved characters are encoded as section 3.1.1.3 asks."""
    query = urlencode(list(arguments), quote_via=quote, safe="")
    joint = "&" if urlsplit(base_url).query else "" if base_url.endswith("?") else "?"
    return base_url + joint + query


@dataclass(frozen=True, kw_only=True)
class HttpTransport:
    """Requests by GET over an aiohttp session; redirects lead to http and https only."""

    session: aiohttp.ClientSession
    max_bytes: int

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        """Send the request and read the whole answer."""
        url = request_url(base_url, arguments)
        with _translated(url):
            async with self.session.get(URL(url, encoded=True), max_redirects=_MAX_REDIRECTS) as answer:
                body = await self._body(answer, url)
                return HttpReply(url=url, status=answer.status, headers=answer.headers, body=body)

    async def _body(self, answer: aiohttp.ClientResponse, url: str) -> bytes:
        limit = self.max_bytes
        chunks: list[bytes] = []
        size = 0
        async for chunk in answer.content.iter_chunked(_CHUNK):
            size += len(chunk)
            if answer.status >= _FIRST_FAILURE and size > _MAX_ERROR_BODY:
                break
            if size > limit:
                raise AnswerTooLargeError(url, limit)
            chunks.append(chunk)
        return b"".join(chunks)


@contextlib.asynccontextmanager
async def open_transport(settings: HarvesterSettings) -> AsyncIterator[HttpTransport]:
    """A transport with a session of its own, closed at the end of the block."""
    headers = {"User-Agent": settings.user_agent, "Accept": "text/xml, application/xml;q=0.9, */*;q=0.1"}
    if settings.contact:
        headers["From"] = settings.contact
    timeout = aiohttp.ClientTimeout(total=settings.timeout)
    async with aiohttp.ClientSession(headers=headers, timeout=timeout) as session:
        yield HttpTransport(session=session, max_bytes=settings.max_answer_bytes)


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
    for types, kind, words in _KINDS:
        if isinstance(error, types):
            detail = str(error)
            return kind, f"{words} ({detail})" if detail and detail not in words else words
    return TransportKind.DISCONNECTED, f"the connection broke ({str(error) or type(error).__name__})"


_KINDS: tuple[tuple[tuple[type[Exception], ...], TransportKind, str], ...] = (
    ((aiohttp.ClientConnectorDNSError,), TransportKind.DNS, "the host name is not known; is it spelt right?"),
    (
        (aiohttp.ClientSSLError, ssl.SSLError),
        TransportKind.TLS,
        "no secure connection; the server's certificate or its TLS is at fault",
    ),
    (
        (aiohttp.NonHttpUrlRedirectClientError, aiohttp.InvalidUrlRedirectClientError),
        TransportKind.REDIRECT,
        "redirected to an address that is neither http nor https",
    ),
    ((aiohttp.TooManyRedirects,), TransportKind.REDIRECT, f"more than {_MAX_REDIRECTS} redirects"),
    ((aiohttp.InvalidURL, ValueError), TransportKind.ADDRESS, "not an address; write it as http://host/path"),
    ((TimeoutError,), TransportKind.TIMEOUT, "no whole answer in time; see setting timeout"),
    ((aiohttp.ClientConnectorError,), TransportKind.REFUSED, "the server does not accept connections"),
)
