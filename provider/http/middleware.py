"""Middleware around every request: identifies the client, applies limits, counts the result."""

import asyncio
import ipaddress
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from oai.datestamps import utc_now
from oai.limits import RateLimit
from oai.proxies import Network, Visitor, visitor
from oai.sections import ProviderSettings
from provider.clients.stats import OUTCOME, ClientKey, RequestOutcome, Tally, shortened
from provider.holdings.rules import in_reading_room
from provider.http.admission import TryLater, Why
from provider.http.keys import SETTINGS
from provider.http.metrics import Metrics
from provider.models import Access

_RETRY_AT_ONCE: Final = 5


class ClientLimits:
    """Counts each client's requests; a limit of 0 is none.

    The event loop's thread alone uses it, and no method awaits between a check and its update.
    """

    def __init__(
        self, *, at_once: int, in_a_minute: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._at_once = at_once
        self._rate = RateLimit(per_minute=in_a_minute, clock=clock)
        self._under_way: Counter[str] = Counter()

    @property
    def remembered(self) -> int:
        """Number of clients about which data is kept."""
        return len(self._rate.callers.keys() | self._under_way.keys())

    @contextmanager
    def request(self, client: str | None) -> Iterator[None]:
        """Count a request of this client for the duration of the block; None is not limited.

        Raises TryLater if the request exceeds a limit.
        """
        if client is None:
            yield
            return
        self._check_at_once(client)
        self._check_minute(client)
        self._under_way[client] += 1
        try:
            yield
        finally:
            self._under_way[client] -= 1
            if not self._under_way[client]:
                del self._under_way[client]

    def _check_at_once(self, client: str) -> None:
        if self._at_once and self._under_way[client] >= self._at_once:
            reason = f"{self._at_once} requests from your address are in progress, which is the limit"
            raise TryLater(Why.CLIENT, reason, _RETRY_AT_ONCE)

    def _check_minute(self, client: str) -> None:
        wait = self._rate.wait(client)
        if wait:
            reason = f"your address sent more than {self._rate.per_minute} requests in a minute"
            raise TryLater(Why.CLIENT, reason, math.ceil(wait))


_MOST_CLIENTS: Final = 5_000
_MOST_LISTS: Final = 20_000
_OF_NO_ROUTE: Final = "other"
_OK: Final = "ok"
_GONE: Final = "gone"


@dataclass(frozen=True, kw_only=True)
class RequestObservers:
    """The objects that see every request."""

    limits: ClientLimits
    tally: Tally
    metrics: Metrics
    trusted: tuple[Network, ...]
    kept_addresses: str
    uncounted: set[str] = field(default_factory=set)
    """Paths for monitoring, which are not counted or limited."""

    def visitor(self, request: web.Request) -> Visitor:
        """Return the client that sent the request."""
        return visitor(request.remote, request.headers.getall("X-Forwarded-For", []), self.trusted)


OBSERVERS: Final = web.AppKey("request_observers", RequestObservers)


def readable_rules(request: web.Request) -> tuple[Access, ...]:
    """Return the access rules under which the client may read documents."""
    visitor = request.app[OBSERVERS].visitor(request)
    if not visitor.ours and in_reading_room(request.app[SETTINGS].provider, visitor.address):
        return (Access.OPEN, Access.READING_ROOM)
    return (Access.OPEN,)


def request_observers(settings: ProviderSettings) -> RequestObservers:
    """Create these objects from the settings, once per process."""
    return RequestObservers(
        limits=ClientLimits(at_once=settings.client_requests, in_a_minute=settings.client_rate),
        tally=Tally(clients=_MOST_CLIENTS, lists=_MOST_LISTS),
        metrics=Metrics(),
        trusted=tuple(ipaddress.ip_network(network) for network in settings.trusted_proxies),
        kept_addresses=settings.client_addresses,
    )


@web.middleware
async def attended(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer within the client's limits, send the answer, and count it.

    The answer is sent here, so that a client that reads slowly uses up its own limit.
    """
    parts = request.app[OBSERVERS]
    if request.path in parts.uncounted:
        return await handler(request)
    asked = parts.visitor(request)
    begun = asyncio.get_running_loop().time()
    ended = _GONE
    why = None
    try:
        response = await _answered(request, handler, asked)
        ended = _outcome(request, response.status)
    except TryLater as error:
        why = error.why
        ended = why.value
        raise
    except web.HTTPException as error:
        ended = str(error.status)
        raise
    except ConnectionError:
        raise
    except Exception:
        ended = "500"
        raise
    finally:
        _count(request, parts, asked, ended, why, asyncio.get_running_loop().time() - begun)
    return response


async def _answered(request: web.Request, handler: Handler, asked: Visitor) -> web.StreamResponse:
    """Return the response after it has been sent completely."""
    parts = request.app[OBSERVERS]
    with parts.limits.request(asked.limited_as):
        response = await handler(request)
        await response.prepare(request)
        await response.write_eof()
    return response


def _outcome(request: web.Request, status: int) -> str:
    outcome = request.get(OUTCOME)
    if outcome is not None and outcome.codes:
        return str(outcome.codes[0])
    return _OK if status < web.HTTPBadRequest.status_code else str(status)


def _count(
    request: web.Request, parts: RequestObservers, asked: Visitor, ended: str, why: Why | None, seconds: float
) -> None:
    outcome = request.get(OUTCOME)
    sent = request.writer.output_size
    parts.metrics.count(
        request=_what(request),
        outcome=ended,
        codes=outcome.codes if outcome else (),
        why=why,
        sent=sent,
        seconds=seconds,
    )
    client = ClientKey(
        address=asked.kept_as(parts.kept_addresses),
        user_agent=shortened(request.headers.get("User-Agent", "")),
        sender=shortened(request.headers.get("From", "")),
    )
    parts.tally.count(client, utc_now(), sent=sent, refused=why is not None, outcome=outcome)


def _what(request: web.Request) -> str:
    """Return the verb, or the route's path as declared: a small set of labels, whatever clients send."""
    outcome: RequestOutcome | None = request.get(OUTCOME)
    if outcome is not None:
        return outcome.verb
    resource = request.match_info.route.resource
    return resource.canonical if resource else _OF_NO_ROUTE
