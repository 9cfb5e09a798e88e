"""Carries an OAI-PMH request to a repository: GET or POST, redirects, politeness, decompression."""

import asyncio
import contextlib
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import quote, urldefrag, urlencode, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from harvester.client.decoding import TooLargeError, decode
from harvester.client.exchange import HttpRequest, Method, RawReply, Send
from harvester.client.guarding import public_connector
from harvester.client.politeness import Politeness
from harvester.client.sending import SessionSender
from harvester.reading.errors import AnswerTooLargeError, TransportError, TransportKind
from harvester.reading.spooled import Body, Spooled
from oai.limits import AnswerLimits
from oai.sections import HarvesterSettings

MAX_REDIRECTS = 5
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SEE_OTHER = 303
_URL_TOO_LONG = 414
_QUICK_TO_DECODE = 64 * 1024
"""Bytes; a larger body is decompressed in a thread."""

Arguments = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """A whole HTTP answer; the body is decompressed.

    `url` is the address of the request as GET would write it, whatever was redirected. `hops` are the
    addresses that redirects led to. `compression` names what was undone. `cut` says why the body may not be
    whole.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    spooled: Spooled | None = None
    """The body where it is in a file, for it is large; `body` is empty then."""
    hops: Sequence[str] = ()
    compression: Sequence[str] = ()
    method: Method = "GET"
    cut: TransportError | None = None

    @property
    def content(self) -> Body:
        """The body, wherever it is."""
        return self.body if self.spooled is None else self.spooled

    @property
    def content_type(self) -> str:
        """As the server said it; empty where it did not."""
        return self.headers.get("Content-Type", "")


Transport = Callable[[str, Arguments], Awaitable[HttpReply]]
"""Sends OAI-PMH arguments to a base URL. Raises TransportError and AnswerTooLargeError, nothing else."""


def request_url(base_url: str, arguments: Arguments) -> str:
    """The address of a GET request; reserved characters are encoded as section 3.1.1.3 asks."""
    base_url = urldefrag(base_url).url if "#" in base_url else base_url
    if not arguments:
        return base_url
    joint = "&" if urlsplit(base_url).query else "" if base_url.endswith("?") else "?"
    return base_url + joint + _form(arguments)


@dataclass(kw_only=True)
class HttpTransport:
    """Requests over `send`, politely; redirects lead to http and https only.

    Where a server finds an address too long (HTTP status 414), that request and all later ones go by POST.
    """

    send: Send
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    spool: bool = False
    """Whether large bodies go to files (`HttpReply.spooled`)."""
    headers: Sequence[tuple[str, str]] = ()
    method: Method = "GET"
    politeness: Politeness = field(default_factory=Politeness)

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        """Send the request, follow where it is redirected to, and read the whole answer."""
        reply = await self._by(self.method, base_url, arguments)
        if reply.status == _URL_TOO_LONG and self.method == "GET":
            self.method = "POST"
            reply = await self._by(self.method, base_url, arguments)
        return reply

    async def fetch(self, url: str) -> HttpReply:
        """GET what is no OAI-PMH answer; the body is given as it came, still packed."""
        own = {"Accept", "Accept-Encoding"}
        # A proxy that packed the answer on its way would change the bytes.
        headers = [pair for pair in self.headers if pair[0] not in own]
        headers += [("Accept", "*/*"), ("Accept-Encoding", "identity")]
        raw, hops = await self._followed(HttpRequest(method="GET", url=url, headers=headers), ())
        fields = CIMultiDict(raw.headers)
        return HttpReply(url=url, status=raw.status, headers=fields, body=raw.body, hops=hops, cut=raw.cut)

    async def _by(self, method: Method, base_url: str, arguments: Arguments) -> HttpReply:
        url = request_url(base_url, arguments)
        request = HttpRequest(method="GET", url=url, headers=self.headers)
        if method == "POST":
            form = ("Content-Type", "application/x-www-form-urlencoded")
            request = HttpRequest(
                method="POST",
                url=urldefrag(base_url).url,
                headers=[*self.headers, form],
                body=_form(arguments).encode("ascii"),
            )
        raw, hops = await self._followed(request, arguments)
        return await self._decoded(raw, url=url, method=method, hops=hops)

    async def _followed(self, request: HttpRequest, arguments: Arguments) -> tuple[RawReply, Sequence[str]]:
        hops: list[str] = []
        while True:
            async with self.politeness.turn(request.url):
                raw = await self.send(request)
            location = raw.header("Location")
            if raw.status not in _REDIRECTS or not location:
                return raw, hops
            if len(hops) == MAX_REDIRECTS:
                reason = f"more than {MAX_REDIRECTS} redirects, the last one to {location!r}"
                raise TransportError(request.url, TransportKind.REDIRECT, reason)
            request = _redirected(request, raw.status, location, arguments)
            hops.append(request.url)

    async def _decoded(self, raw: RawReply, *, url: str, method: Method, hops: Sequence[str]) -> HttpReply:
        announced = raw.header("Content-Encoding")
        try:
            if len(raw.content) < _QUICK_TO_DECODE:
                decoded = decode(raw.content, announced, self.limits, spool=self.spool)
            else:
                decoded = await asyncio.to_thread(
                    decode, raw.content, announced, self.limits, spool=self.spool
                )
        except TooLargeError as error:
            raise AnswerTooLargeError(url, error.failure) from None
        cut = raw.cut
        if decoded.fault and cut is None:
            cut = TransportError(url, TransportKind.DISCONNECTED, decoded.fault)
        return HttpReply(
            url=url,
            status=raw.status,
            headers=CIMultiDict(raw.headers),
            body=decoded.body if isinstance(decoded.body, bytes) else b"",
            spooled=None if isinstance(decoded.body, bytes) else decoded.body,
            hops=hops,
            compression=decoded.found,
            method=method,
            cut=cut,
        )


@contextlib.asynccontextmanager
async def open_transport(
    settings: HarvesterSettings,
    *,
    session: aiohttp.ClientSession | None = None,
    method: Method = "GET",
    politeness: Politeness | None = None,
    around: Callable[[Send], Send] = lambda send: send,
    spool: bool = False,
) -> AsyncIterator[HttpTransport]:
    """A transport over the session, or over one of its own that is closed at the end of the block.

    `around` may put something between the transport and the network, as the raw capture does. With `spool`,
    large answers are kept in files (`HttpReply.spooled`).
    """
    async with contextlib.AsyncExitStack() as own:
        used = session if session is not None else await own.enter_async_context(_new_session(settings))
        send = SessionSender(
            session=used,
            timeout=settings.timeout,
            limits=settings.limits,
            spool=spool,
            slow_seconds=settings.slow_seconds,
            slow_rate=settings.slow_rate,
        )
        yield HttpTransport(
            send=around(send),
            limits=settings.limits,
            spool=spool,
            headers=request_headers(settings),
            method=method,
            politeness=politeness or Politeness(per_host=settings.per_host, delay=settings.delay),
        )


def _new_session(settings: HarvesterSettings) -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=None if settings.private_addresses else public_connector())


def request_headers(settings: HarvesterSettings) -> list[tuple[str, str]]:
    """The headers of each request."""
    headers = [
        ("User-Agent", settings.user_agent),
        ("Accept", "text/xml, application/xml;q=0.9, */*;q=0.1"),
        ("Accept-Encoding", "gzip, deflate"),
    ]
    return [*headers, ("From", settings.contact)] if settings.contact else headers


def _form(arguments: Arguments) -> str:
    return urlencode(list(arguments), quote_via=quote, safe="")


def _redirected(request: HttpRequest, status: int, location: str, arguments: Arguments) -> HttpRequest:
    """The request for the place that a redirect names."""
    try:
        target = _target(request.url, location)
    except ValueError:
        reason = f"redirected to {location!r}, which is not a valid address"
        raise TransportError(request.url, TransportKind.REDIRECT, reason) from None
    if target.scheme not in {"http", "https"} or not target.host:
        reason = f"redirected to {location!r}, which is not an http or https address"
        raise TransportError(request.url, TransportKind.REDIRECT, reason)
    if request.method == "POST" and status != _SEE_OTHER:
        return replace(request, url=str(target))
    url = str(target)
    # Some servers forget the arguments where they lead from http to https or to a new path.
    if not target.raw_query_string and request.method == "GET":
        url = request_url(url, arguments)
    headers = [pair for pair in request.headers if pair[0] != "Content-Type"]
    return HttpRequest(method="GET", url=url, headers=headers)


def _target(url: str, location: str) -> URL:
    # What is encoded already stays as it is; blanks and other letters than ASCII are not allowed as they are.
    text = quote(location.strip(), safe=string.punctuation)
    target = URL(url, encoded=True).join(URL(text, encoded=True))
    return target.with_fragment(None) if target.raw_fragment else target
