"""HTTP requests in a thread, with urllib, whose connections may not lead where `oai.reach` forbids it.

For a few large answers or single requests; whoever sends many at a time uses aiohttp.
"""

import http.client
import socket
import urllib.request
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final

from oai.deadline import Deadline
from oai.reach import UnreachableZoneError, Zone, ZoneOf, check_address, zone_of

_LONGEST_ASKED: Final = 366 * 86_400.0


class Trail:
    """The connections of one request and its redirects: none leads from a public address to a private one.

    All are shut down at the `deadline`.
    """

    def __init__(self, zone_of: ZoneOf = zone_of, *, deadline: Deadline | None = None) -> None:
        self._zone_of = zone_of
        self._deadline = deadline
        self._public = False

    def add(self, connection: socket.socket) -> None:
        """Raise UnreachableZoneError if a connection may not follow those before it."""
        if self._deadline is not None:
            self._deadline.add(connection)
        address = str(connection.getpeername()[0])
        zone = check_address(address, private=not self._public, zone_of=self._zone_of)
        self._public |= zone is Zone.PUBLIC


class _Connection(http.client.HTTPConnection):
    """A connection that is checked before anything is sent, be it a request or TLS."""

    trail: Trail

    def connect(self) -> None:
        super().connect()
        try:
            self.trail.add(self.sock)
        except UnreachableZoneError:
            self.close()
            raise


class _TlsConnection(http.client.HTTPSConnection, _Connection):
    """The same with TLS, which begins after `_Connection.connect`."""


class _Handler(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, trail: Trail) -> None:
        super().__init__()
        self._trail = trail

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection(_Connection), req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        return self.do_open(self._connection(_TlsConnection), req)

    def _connection(self, kind: type[_Connection]) -> Any:  # noqa: ANN401 the library's own protocol
        def make(host: str, **options: Any) -> _Connection:  # noqa: ANN401 as above
            connection = kind(host, **options)
            connection.trail = self._trail
            return connection

        return make


def guarded_opener(trail: Trail) -> urllib.request.OpenerDirector:
    """Return an opener for http and https alone, without proxies; it follows redirects.

    It returns None for other schemes, and raises HTTPError for statuses of 300 and above.
    """
    opener = urllib.request.OpenerDirector()
    opener.add_handler(_Handler(trail))
    for handler in (
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.HTTPDefaultErrorHandler,
    ):
        opener.add_handler(handler())
    return opener


def retry_after(value: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After header asks to wait, given in seconds or as a date.

    Source: RFC 9110, section 10.2.3. At most a year; None if the header is missing or has neither form. `now`
    is in seconds since 1970.
    """
    text = (value or "").strip()
    if text.isascii() and text.replace(".", "", 1).isdigit():
        return min(float(text), _LONGEST_ASKED)
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return min(max((moment - datetime.fromtimestamp(now, UTC)).total_seconds(), 0.0), _LONGEST_ASKED)
