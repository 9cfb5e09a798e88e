"""`/timemap/link/<url>` and `/timegate/<url>`: the captures of a URL for Memento clients (RFC 7089).

The URL follows the path as it is, with its query, because that is how aggregators such as MemGator ask.
They read a TimeMap that is whole, and the mementos in the TimeGate's `Link` field without following its
redirect. Only what the client may read is named, as in `/cdx`.
"""

import logging
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from typing import Final
from urllib.parse import quote, unquote_to_bytes, urljoin

from aiohttp import web

from oai.connections import break_off
from oai.errors import UsageError
from provider.holdings.capture import FoundCapture
from provider.holdings.lookup import LookupResult, Query, find_captures
from provider.holdings.mementos import NamedMementos, first_and_last, negotiate
from provider.http.admission import TryLater, admitted
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
from provider.http.middleware import readable_rules
from provider.models import Access

TIMEMAP: Final = "/timemap/link/"
TIMEGATE: Final = "/timegate/"
LINK_FORMAT: Final = "application/link-format"

_ANY: Final = "{url:(?s:.*)}"
_UNTOUCHED: Final = "!#$%&'()*+,/:;=?@[]~"
AT_ONCE: Final = 5000
"""Mementos of a TimeMap that are read together; between two such reads, other requests get the thread."""
_NEAREST: Final = 20
"""Captures that are read for one memento: some may be skipped because the client may not read them."""
_ESCAPED: Final = re.compile(r"(?:https?|ftp)%3a", re.IGNORECASE)
_ONE_SLASH: Final = re.compile(r"(https?|ftp):/(?!/)", re.IGNORECASE)
_WITH_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_DATETIME: Final = re.compile(
    r"(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} "
    r"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) [0-9]{4} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
)
_VARY: Final = "accept-datetime"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Links:
    """Links of one original resource, as in a `Link` field (RFC 8288) and in link-format (RFC 6690)."""

    base_url: str
    """The provider's public address; the other addresses are beside it."""
    url: str
    """The original resource, with only those characters that may be in a URL."""

    def original(self) -> str:
        """Return the link to the original resource."""
        return f'<{self.url}>; rel="original"'

    def timegate(self) -> str:
        """Return the link to its TimeGate."""
        return f'<{self._beside(TIMEGATE)}{self.url}>; rel="timegate"'

    def timemap(self, relation: str = "timemap", more: str = "") -> str:
        """Return the link to its TimeMap."""
        return f'<{self._beside(TIMEMAP)}{self.url}>; rel="{relation}"; type="{LINK_FORMAT}"{more}'

    def memento(self, one: FoundCapture, relations: str) -> str:
        """Return the link to a memento."""
        return f'<{self.address(one)}>; rel="{relations}"; datetime="{_http_date(one.archived)}"'

    def address(self, one: FoundCapture) -> str:
        """Return the address of a memento."""
        return f"{self._beside('/archive/')}{one.key.hex}"

    def _beside(self, path: str) -> str:
        return urljoin(self.base_url, path.removeprefix("/"))


def links_of(request: web.Request, url: str) -> Links:
    """Return the links of an archived URL."""
    return Links(base_url=request.app[BASE_URL], url=quote(url, safe=_UNTOUCHED))


def original_resource(target: str, path: str) -> str:
    """Return the URL that follows a path in a request target, with only characters that may be in a URL.

    The request target is used instead of the parsed path, in which escapes, the query and repeated slashes
    would not be as sent. A URL without a scheme is one of HTTP, one that is escaped as a whole is unescaped,
    and the second slash that some proxies remove from `http://` is restored.
    """
    url = quote(target.partition(path)[2].encode(errors="surrogateescape"), safe=_UNTOUCHED)
    if _ESCAPED.match(url):
        url = quote(unquote_to_bytes(url), safe=_UNTOUCHED)
    url = _ONE_SLASH.sub(r"\1://", url, count=1) if _ONE_SLASH.match(url) else url
    return url if _WITH_SCHEME.match(url) else f"http://{url}"


def accepted_datetime(fields: Iterable[str]) -> datetime | None:
    """Return the time in Accept-Datetime; None without that field.

    Raises UsageError for a repeated field, and for one that is no date of RFC 1123 in GMT (RFC 7089, section
    2.1.1.1).
    """
    given = [field.strip() for field in fields]
    if not given:
        return None
    moment = _calendar_date(given[0]) if len(given) == 1 else None
    if moment is None:
        shown = ", ".join(given)[:100]
        raise UsageError(f"Accept-Datetime {shown!r} is not one date such as 'Thu, 31 May 2007 20:35:00 GMT'")
    return moment


def _calendar_date(text: str) -> datetime | None:
    """Parse a date of RFC 1123 in GMT; None for anything else, and for a day that no calendar has."""
    try:
        return parsedate_to_datetime(text) if _DATETIME.fullmatch(text) else None
    except ValueError:
        return None


def add_routes(app: web.Application) -> None:
    """Add the paths of TimeMaps and TimeGates."""
    app.router.add_get(TIMEMAP + _ANY, _timemap, allow_head=True)
    app.router.add_get(TIMEGATE + _ANY, _timegate, allow_head=True)


async def _timegate(request: web.Request) -> web.Response:
    links = _links(request, TIMEGATE)
    headers = _headers(request) | {"Vary": _VARY}
    try:
        moment = accepted_datetime(request.headers.getall("Accept-Datetime", []))
        query, database = _query(request, links), request.app[DATABASE]

        def work() -> NamedMementos | None:
            with database.session() as session:
                return negotiate(session, query, moment)

        named = await admitted(request, work)
    except UsageError as error:
        return web.Response(status=400, text=f"400: {error}\n", headers=headers)
    if named is None:
        return _nothing(links, headers)
    address = links.address(named.chosen)
    mementos = [links.memento(one, relations) for one, relations in named.relations()]
    headers |= {
        "Location": address,
        "Link": ", ".join((links.original(), links.timemap(), links.timegate(), *mementos)),
    }
    return web.Response(status=302, text=f"302: {address}\n", headers=headers)


async def _timemap(request: web.Request) -> web.StreamResponse:
    links, headers = _links(request, TIMEMAP), _headers(request)
    try:
        timemap = await _begun(request, _query(request, links))
    except UsageError as error:
        return web.Response(status=400, text=f"400: {error}\n", headers=headers)
    if timemap is None:
        return _nothing(links, headers)
    response = web.StreamResponse(headers={**headers, "Content-Type": LINK_FORMAT})
    await response.prepare(request)
    if request.method != "HEAD":
        await _write(request, response, links, timemap)
    return response


@dataclass(frozen=True, kw_only=True)
class _TimeMap:
    """A TimeMap whose first piece has been read."""

    query: Query
    """Ends with the last memento, so that one captured meanwhile does not follow it."""
    first: FoundCapture
    last: FoundCapture
    piece: LookupResult

    def relations(self, one: FoundCapture) -> str:
        """Return the relation types of a memento, separated by blanks."""
        named = [name for name, end in (("first", self.first), ("last", self.last)) if one.key == end.key]
        return " ".join((*named, "memento"))


async def _begun(request: web.Request, query: Query) -> _TimeMap | None:
    database = request.app[DATABASE]

    def work() -> _TimeMap | None:
        with database.session() as session:
            ends = first_and_last(session, query)
            if ends is None:
                return None
            first, last = ends
            whole = replace(query, limit=AT_ONCE, until=last.archived)
            return _TimeMap(query=whole, first=first, last=last, piece=find_captures(session, whole))

    return await admitted(request, work)


async def _write(request: web.Request, response: web.StreamResponse, links: Links, timemap: _TimeMap) -> None:
    """Send the TimeMap piece by piece; if it cannot be completed, the connection is aborted.

    A client must not mistake a part for the whole.
    """
    span = f'; from="{_http_date(timemap.first.archived)}"; until="{_http_date(timemap.last.archived)}"'
    await response.write(
        ",\n".join((links.original(), links.timemap("self", span), links.timegate())).encode()
    )
    piece = timemap.piece
    while True:
        lines = (f",\n{links.memento(one, timemap.relations(one))}" for one in piece.found)
        await response.write("".join(lines).encode())
        if piece.end is None:
            break
        try:
            piece = await next_piece(request, replace(timemap.query, begin=piece.end))
        except (TryLater, UsageError) as error:
            reason = error.text if isinstance(error, TryLater) else error
            _log.warning("the TimeMap of %s was not completed: %s", links.url[:500], reason)
            break_off(request)
            raise ConnectionAbortedError("the TimeMap could not be completed") from None
    await response.write(b"\n")


async def next_piece(request: web.Request, query: Query) -> LookupResult:
    """Return the next mementos of a TimeMap that is being sent."""
    database = request.app[DATABASE]

    def work() -> LookupResult:
        with database.session() as session:
            return find_captures(session, query)

    return await admitted(request, work, lengthy=True, look_up=True)


def _links(request: web.Request, path: str) -> Links:
    return Links(base_url=request.app[BASE_URL], url=original_resource(request.raw_path, path))


def _query(request: web.Request, links: Links) -> Query:
    return Query(
        url=links.url,
        limit=_NEAREST,
        examined=request.app[SETTINGS].provider.cdx_examined,
        rules=readable_rules(request),
    )


def _headers(request: web.Request) -> dict[str, str]:
    return {"Cache-Control": "no-cache" if readable_rules(request) == (Access.OPEN,) else "private, no-cache"}


def _nothing(links: Links, headers: dict[str, str]) -> web.Response:
    return web.Response(
        status=404,
        text=f"404: the archive has no capture of {links.url[:500]} that you may read\n",
        headers=headers,
    )


def _http_date(moment: datetime) -> str:
    return format_datetime(moment.astimezone(UTC), usegmt=True)
