"""Sends OAI-PMH requests to a repository: GET or POST, redirects, politeness, decompression."""

import asyncio
import base64
import contextlib
import re
import string
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from urllib.parse import parse_qsl, quote, unquote, urldefrag, urlencode, urlsplit

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from harvester.client.decoding import TooLargeError, decode, unknown_coding
from harvester.client.exchange import AUTHORIZATION, HttpRequest, Method, RawReply, Send
from harvester.client.peers import open_sessions
from harvester.client.politeness import Politeness
from harvester.client.session_sender import SessionSender
from harvester.reading.errors import AnswerTooLargeError, TransportError, TransportKind
from harvester.reading.spooled import Body, Spooled
from oai.errors import UsageError
from oai.limits import AnswerLimits
from oai.reach import ZoneOf, without_credentials, zone_of
from oai.sections import HarvesterSettings

MAX_REDIRECTS = 5
_SCHEMES = frozenset({"http", "https"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_PERMANENT = frozenset({301, 308})
_SEE_OTHER = 303
_URL_TOO_LONG = 414
_CHECKS = frozenset({"challenge", "captcha"})
_QUICK_TO_DECODE = 64 * 1024
"""Number of bytes above which a body is decompressed in a thread."""

Arguments = Sequence[tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class HttpReply:
    """A whole HTTP answer; the body is decompressed.

    `url` is the address of the request in GET notation, regardless of redirects. `hops` are the addresses to
    which redirects led; `public` says whether one of them, or the first, is on the public internet.
    `moved` is where permanent redirects led, without the arguments; empty if nowhere.
    `compression` names what was undone. `cut` says why the body may be incomplete.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    spooled: Spooled | None = None
    """The body if it is large and therefore in a file; `body` is empty then."""
    hops: Sequence[str] = ()
    moved: str = ""
    compression: Sequence[str] = ()
    method: Method = "GET"
    cut: TransportError | None = None
    public: bool = True

    @property
    def content(self) -> Body:
        """The body, in memory or in a file."""
        return self.body if self.spooled is None else self.spooled

    @property
    def content_type(self) -> str:
        """The content type as the server stated it; empty if it did not."""
        return self.headers.get("Content-Type", "")

    @property
    def redirection(self) -> str:
        """Where redirects led, for the reason of a failure; empty if nowhere."""
        return f"after a redirect to {self.hops[-1].partition('?')[0]}" if self.hops else ""

    @property
    def is_bot_check(self) -> bool:
        """Whether Cloudflare or AWS WAF sent it instead of the repository, as a check for browsers."""
        return any(self.headers.get(name) in _CHECKS for name in ("cf-mitigated", "x-amzn-waf-action"))

    @property
    def date(self) -> datetime:
        """When the answer was sent, by its `Date` header (RFC 9110, section 6.6.1); else the present time."""
        try:
            sent = parsedate_to_datetime(self.headers.get("Date", ""))
        except (ValueError, OverflowError):  # the latter for a year of many digits
            return datetime.now(UTC)
        return sent if sent.tzinfo is not None else sent.replace(tzinfo=UTC)


Transport = Callable[[str, Arguments], Awaitable[HttpReply]]
"""Sends OAI-PMH arguments to a base URL. Raises only TransportError and AnswerTooLargeError."""


def check_http_url(base_url: str) -> str:
    """Return the base URL, after checking that it is one of HTTP. Raises UsageError otherwise."""
    try:
        parts = urlsplit(base_url)
        # A host "http" is a second scheme: http://http://host/path.
        has_host = bool(parts.hostname) and parts.hostname not in _SCHEMES
        usable = parts.scheme in _SCHEMES and has_host and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"\s", base_url):
        raise UsageError(
            "%(base_url)s is not a valid base URL; write it as http://host/path", base_url=repr(base_url)
        )
    return base_url


def request_url(base_url: str, arguments: Arguments) -> str:
    """Return the address of a GET request; reserved characters are encoded according to section 3.1.1.3.

    User name and password in the base URL are not part of it: they are sent as a header. An
    internationalised host name is in ASCII (RFC 5890), as in the header Host.
    """
    base_url = without_credentials(base_url)
    with contextlib.suppress(ValueError):  # the request then fails with the reason
        base_url = _with_ascii_host(base_url)
    base_url = urldefrag(base_url).url if "#" in base_url else base_url
    if not arguments:
        return base_url
    joint = "&" if urlsplit(base_url).query else "" if base_url.endswith("?") else "?"
    return base_url + joint + _form(arguments)


@dataclass(kw_only=True)
class HttpTransport:
    """Sends requests through `send` at a polite rate; follows redirects to http and https only.

    Nothing on the public internet leads to a private address: no redirect, and no name that resolved to a
    public address and later does not.

    If a server rejects an address as too long (HTTP status 414), that request and all later ones use POST.
    """

    send: Send
    limits: AnswerLimits = field(default_factory=AnswerLimits)
    spool: bool = False
    """Whether large bodies go to files (`HttpReply.spooled`)."""
    headers: Sequence[tuple[str, str]] = ()
    method: Method = "GET"
    politeness: Politeness = field(default_factory=Politeness)
    _public: bool = False
    """Whether a request (not only a redirect) has led to the public internet."""

    async def __call__(self, base_url: str, arguments: Arguments) -> HttpReply:
        """Send the request, follow redirects, and read the whole answer."""
        reply = await self._by(self.method, base_url, arguments)
        if reply.status == _URL_TOO_LONG and self.method == "GET":
            self.method = "POST"
            reply = await self._by(self.method, base_url, arguments)
        return reply

    async def fetch(self, url: str) -> HttpReply:
        """GET a resource that is not an OAI-PMH answer; return the body as received, still compressed."""
        own = {"Accept", "Accept-Encoding"}
        # A proxy that compressed the answer in transit would change the bytes.
        headers = [pair for pair in self.headers if pair[0] not in own]
        headers += [("Accept", "*/*"), ("Accept-Encoding", "identity")]
        raw, hops, _ = await self._followed(HttpRequest(method="GET", url=url, headers=headers), ())
        fields = CIMultiDict(raw.headers)
        return HttpReply(
            url=url,
            status=raw.status,
            headers=fields,
            body=raw.body,
            hops=hops,
            cut=raw.cut,
            public=raw.public,
        )

    async def _by(self, method: Method, base_url: str, arguments: Arguments) -> HttpReply:
        url = request_url(base_url, arguments)
        headers = [*self.headers, *_authorization(base_url)]
        request = HttpRequest(method="GET", url=url, headers=headers)
        if method == "POST":
            form = ("Content-Type", "application/x-www-form-urlencoded")
            request = HttpRequest(
                method="POST",
                url=request_url(base_url, ()),
                headers=[*headers, form],
                body=_form(arguments).encode("ascii"),
            )
        raw, hops, permanent = await self._followed(request, arguments)
        reply = await self._decoded(raw, url=url, method=method, hops=hops)
        return replace(reply, moved=_without(hops[permanent - 1], arguments) if permanent else "")

    async def _followed(
        self, request: HttpRequest, arguments: Arguments
    ) -> tuple[RawReply, Sequence[str], int]:
        """Return the answer, the targets of redirects, and how many permanent ones are the first."""
        hops: list[str] = []
        permanent = 0
        public = self._public
        while True:
            async with self.politeness.turn(request.url):
                raw = await self.send(replace(request, public_only=public))
            public = public or raw.public
            if not hops:
                self._public = public
            location = raw.header("Location")
            if raw.status not in _REDIRECTS or not location:
                return replace(raw, public=public), hops, permanent
            if len(hops) == MAX_REDIRECTS:
                reason = f"more than {MAX_REDIRECTS} redirects, the last one to {location!r}"
                raise TransportError(request.url, TransportKind.REDIRECT, reason)
            request = _redirected(request, raw.status, location, arguments)
            permanent += permanent == len(hops) and raw.status in _PERMANENT
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
        if unknown := unknown_coding(decoded.body, announced):
            reason = f"the answer is compressed with {unknown!r}, though only gzip and deflate are accepted"
            raise TransportError(url, TransportKind.HTTP, reason)
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
            public=raw.public,
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
    zone_of: ZoneOf = zone_of,
    on_resend: Callable[[], None] = lambda: None,
) -> AsyncIterator[HttpTransport]:
    """Provide a transport over the session, or over its own, which is closed at the end of the block.

    `around` wraps the function that sends requests to the network, as the raw capture does. With `spool`,
    large answers are kept in files (`HttpReply.spooled`). `zone_of` says which addresses are private. Where a
    given session connects to is up to the caller. `on_resend` is called before a request is sent again
    because its answer broke the rules of HTTP.
    """
    opened = open_sessions(session, zone_of, private=settings.private_addresses)
    async with opened as sessions:
        send = SessionSender(
            sessions=sessions,
            zone_of=zone_of,
            timeout=settings.timeout,
            limits=settings.limits,
            spool=spool,
            slow_seconds=settings.slow_seconds,
            slow_rate=settings.slow_rate,
            on_resend=on_resend,
        )
        yield HttpTransport(
            send=around(send),
            limits=settings.limits,
            spool=spool,
            headers=request_headers(settings),
            method=method,
            politeness=politeness or Politeness(per_host=settings.per_host, delay=settings.delay),
        )


def request_headers(settings: HarvesterSettings) -> list[tuple[str, str]]:
    """Return the headers of each request."""
    headers = [
        ("User-Agent", settings.user_agent),
        ("Accept", "text/xml, application/xml;q=0.9, */*;q=0.1"),
        ("Accept-Encoding", "gzip, deflate"),
    ]
    return [*headers, ("From", settings.contact)] if settings.contact else headers


def _form(arguments: Arguments) -> str:
    return urlencode(list(arguments), quote_via=quote, safe="")


def _redirected(request: HttpRequest, status: int, location: str, arguments: Arguments) -> HttpRequest:
    """Return the request for the target of a redirect."""
    try:
        target = _target(request.url, location)
        host = target.host  # raises for an impossible port, too
    except ValueError:
        reason = f"redirected to {location!r}, which is not a valid address"
        raise TransportError(request.url, TransportKind.REDIRECT, reason) from None
    if target.scheme not in _SCHEMES or not host:
        reason = f"redirected to {location!r}, which is not an http or https address"
        raise TransportError(request.url, TransportKind.REDIRECT, reason)
    kept = [pair for pair in request.headers if pair[0] != AUTHORIZATION]
    if target.origin() == URL(request.url, encoded=True).origin():
        kept = list(request.headers)
    if request.method == "POST" and status != _SEE_OTHER:
        return replace(request, url=str(target), headers=kept)
    url = str(target)
    # Some servers drop the arguments when they redirect from http to https or to a new path.
    if not target.raw_query_string and request.method == "GET":
        url = request_url(url, arguments)
    headers = [pair for pair in kept if pair[0] != "Content-Type"]
    return HttpRequest(method="GET", url=url, headers=headers)


def _without(url: str, arguments: Arguments) -> str:
    """Return the address without the arguments and without credentials."""
    parts = urlsplit(without_credentials(url))
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    return parts._replace(query=_form([pair for pair in pairs if pair not in arguments])).geturl()


def _authorization(base_url: str) -> list[tuple[str, str]]:
    """Return the header for the user name and password in a base URL, if it has them (RFC 7617)."""
    parts = urlsplit(base_url)
    if parts.username is None:
        return []
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return [(AUTHORIZATION, f"Basic {base64.b64encode(pair.encode()).decode()}")]


def _with_ascii_host(url: str) -> str:
    """Return an address whose host name is in ASCII. Raises ValueError if that is not possible."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if host.isascii():
        return url
    netloc = URL.build(scheme="http", host=host).raw_host or ""
    credentials, at, _ = parts.netloc.rpartition("@")
    port = "" if parts.port is None else f":{parts.port}"
    return parts._replace(netloc=f"{credentials}{at}{netloc}{port}").geturl()


def _target(url: str, location: str) -> URL:
    # Existing percent-encoding stays; blanks and non-ASCII letters must be encoded.
    text = quote(_with_ascii_host(location.strip()), safe=string.punctuation)
    target = URL(url, encoded=True).join(URL(text, encoded=True))
    return target.with_fragment(None) if target.raw_fragment else target
