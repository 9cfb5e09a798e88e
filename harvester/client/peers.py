"""HTTP sessions that know which address sent an answer, and connect only where they may."""

import contextlib
import functools
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection

from oai.reach import Zone, ZoneOf, guarded_connector

_END_OF_HEADER = re.compile(rb"\r?\n\r?\n")
_BLANKS_AFTER_NAME = re.compile(rb"^([^\s:]+)[ \t]+:", re.MULTILINE)
_CHUNKED = re.compile(rb"^transfer-encoding:[^\n]*\bchunked\b", re.MULTILINE | re.IGNORECASE)
# Part of HTTP/1.1 until RFC 7230; it changes nothing, but aiohttp rejects it beside a Content-Length.
_IDENTITY = re.compile(rb"\r?\ntransfer-encoding:[ \t]*identity[ \t]*(?=\r?\n|\Z)", re.IGNORECASE)
_LENGTH = b"content-length:"
_LONGEST_HEADER = 1024 * 1024


class _LenientHandler(ResponseHandler):
    """Corrects the header of the only answer on its connection before aiohttp's strict parser sees it."""

    lenient = False
    """Whether the header had to be corrected."""
    _header: bytes | None = b""

    def data_received(self, data: bytes) -> None:
        if self._header is not None:
            self._header += data
            end = _END_OF_HEADER.search(self._header)
            if end is None and len(self._header) < _LONGEST_HEADER:
                return
            place = end.start() if end else 0
            corrected = corrected_header(self._header[:place])
            self.lenient = corrected != self._header[:place]
            data, self._header = corrected + self._header[place:], None
        super().data_received(data)


class _LenientConnector(aiohttp.TCPConnector):
    """A connector that uses each connection for one request: late bytes of other answers cannot arrive."""

    def __init__(self, *, socket_factory: aiohttp.SocketFactoryType | None = None) -> None:
        super().__init__(force_close=True, socket_factory=socket_factory)
        handler: type[ResponseHandler] = _LenientHandler
        self._factory = functools.partial(handler, loop=self._loop)


def corrected_header(header: bytes) -> bytes:
    """Return an answer's header without those faults that leave no doubt about what is meant.

    They are blanks before the colon (RFC 9112, section 5.1), the Transfer-Encoding `identity`, and a
    Content-Length that is repeated with the same value or stands beside chunked Transfer-Encoding, which
    overrides it (section 6.3).
    """
    header = _IDENTITY.sub(b"", _BLANKS_AFTER_NAME.sub(rb"\1:", header))
    lines = [line.removesuffix(b"\r") for line in header.split(b"\n")]
    lengths = [line for line in lines if line.lower().startswith(_LENGTH)]
    values = {value.strip() for line in lengths for value in line[len(_LENGTH) :].split(b",")}
    others = [line for line in lines if line not in lengths]
    if lengths and _CHUNKED.search(header):
        return b"\r\n".join(others)
    if len(values) == 1 and (len(lengths) > 1 or b"," in lengths[0]):
        return b"\r\n".join([*others, b"Content-Length: " + values.pop()])
    return header


class _Answer(aiohttp.ClientResponse):
    """An answer that knows which address sent it."""

    peer: str | None = None
    lenient = False
    """Whether its header had to be corrected."""

    async def start(self, connection: Connection) -> aiohttp.ClientResponse:
        # The connection is given back as soon as the body is complete, which may be before this returns.
        name = connection.transport.get_extra_info("peername") if connection.transport else None
        self.peer = name[0] if name else None
        protocol = connection.protocol
        started = await super().start(connection)
        self.lenient = isinstance(protocol, _LenientHandler) and protocol.lenient
        return started


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """The sessions of one repository. Those for the public internet do not connect to private addresses.

    Connections are kept open, so a check of new ones would not be enough. The lenient sessions correct what
    headers have against the rules of HTTP, and use each connection once.
    """

    every: aiohttp.ClientSession
    public: aiohttp.ClientSession
    lenient: aiohttp.ClientSession
    lenient_public: aiohttp.ClientSession

    def choose(self, *, public_only: bool, lenient: bool) -> aiohttp.ClientSession:
        """Return the session for a request."""
        if lenient:
            return self.lenient_public if public_only else self.lenient
        return self.public if public_only else self.every


@contextlib.asynccontextmanager
async def open_sessions(
    given: aiohttp.ClientSession | None, zone_of: ZoneOf, *, private: bool
) -> AsyncIterator[Sessions]:
    """Provide sessions; with `private`, those not only for the public internet reach private addresses.

    A given session is used for all requests, and not closed.
    """
    if given is not None:
        yield Sessions(every=given, public=given, lenient=given, lenient_public=given)
        return
    # All sessions share the cookies, which are forgotten at the end. `unsafe` also keeps those of hosts that
    # are IP addresses; they are sent to that address only.
    cookies = aiohttp.CookieJar(unsafe=True)
    async with contextlib.AsyncExitStack() as stack:

        async def opened(kind: type[aiohttp.TCPConnector], *, private: bool) -> aiohttp.ClientSession:
            connector = guarded_connector(private=private, zone_of=zone_of, kind=kind)
            session = aiohttp.ClientSession(connector=connector, cookie_jar=cookies, response_class=_Answer)
            return await stack.enter_async_context(session)

        public = await opened(aiohttp.TCPConnector, private=False)
        lenient = await opened(_LenientConnector, private=False)
        yield Sessions(
            every=await opened(aiohttp.TCPConnector, private=True) if private else public,
            public=public,
            lenient=await opened(_LenientConnector, private=True) if private else lenient,
            lenient_public=lenient,
        )


def is_from_public(answer: aiohttp.ClientResponse, zone_of: ZoneOf) -> bool:
    """Return whether the answer came from the public internet, or from an unknown address."""
    peer = answer.peer if isinstance(answer, _Answer) else None
    return peer is None or zone_of(peer) is Zone.PUBLIC


def was_corrected(answer: aiohttp.ClientResponse) -> bool:
    """Return whether the answer's header had to be corrected."""
    return isinstance(answer, _Answer) and answer.lenient
