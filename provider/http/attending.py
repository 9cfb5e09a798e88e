"""What is done around every request: whose it is, whether it may, how it ended."""

import asyncio
import ipaddress
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler

from oai.datestamps import utc_now
from oai.proxies import Network, Visitor, visitor
from oai.sections import ProviderSettings
from provider.http.admission import TryLater, Why
from provider.http.limits import Limits
from provider.http.metrics import Metrics
from provider.http.outcome import OUTCOME, Outcome
from provider.http.tally import Client, Tally, shortened

_CLIENTS_TOLD_APART: Final = 5_000
_LISTS_TOLD_APART: Final = 20_000
_OF_NO_ROUTE: Final = "other"
_OK: Final = "ok"
_GONE: Final = "gone"


@dataclass(frozen=True, kw_only=True)
class Attendance:
    """The parts that see every request."""

    limits: Limits
    tally: Tally
    metrics: Metrics
    trusted: tuple[Network, ...]
    kept_addresses: str
    uncounted: set[str] = field(default_factory=set)
    """Paths that are not counted or limited: they are there for our own watchers."""

    def visitor(self, request: web.Request) -> Visitor:
        """Who sent the request."""
        return visitor(request.remote, request.headers.getall("X-Forwarded-For", []), self.trusted)


ATTENDANCE: Final = web.AppKey("attendance", Attendance)


def attendance(settings: ProviderSettings) -> Attendance:
    """The parts as the settings have them, one set for each process."""
    return Attendance(
        limits=Limits(at_once=settings.client_requests, in_a_minute=settings.client_rate),
        tally=Tally(clients=_CLIENTS_TOLD_APART, lists=_LISTS_TOLD_APART),
        metrics=Metrics(),
        trusted=tuple(ipaddress.ip_network(network) for network in settings.trusted_proxies),
        kept_addresses=settings.client_addresses,
    )


@web.middleware
async def attended(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer within the client's limits, see the answer sent, and count it.

    The answer is sent here, so that a client that reads slowly uses up its own limit.
    """
    parts = request.app[ATTENDANCE]
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
    """The answer, when all of it was sent."""
    parts = request.app[ATTENDANCE]
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
    request: web.Request, parts: Attendance, asked: Visitor, ended: str, why: Why | None, seconds: float
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
    client = Client(
        address=asked.kept_as(parts.kept_addresses),
        user_agent=shortened(request.headers.get("User-Agent", "")),
        sender=shortened(request.headers.get("From", "")),
    )
    parts.tally.count(client, utc_now(), sent=sent, refused=why is not None, outcome=outcome)


def _what(request: web.Request) -> str:
    """The verb, or the route's path as it was written down: few different texts, whatever clients send."""
    outcome: Outcome | None = request.get(OUTCOME)
    if outcome is not None:
        return outcome.verb
    resource = request.match_info.route.resource
    return resource.canonical if resource else _OF_NO_ROUTE
