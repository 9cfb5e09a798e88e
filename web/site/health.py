"""`/healthz`, `/readyz`, `/metrics`: liveness, readiness and metrics of the dashboard."""

import asyncio
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from oai import probes
from oai.connections import Connections
from oai.executor import DatabaseExecutor
from oai.rights import Right
from web.auth.access import canonical, needs
from web.site.keys import PROBES

_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_STREAM: Final = "/events"


class Metrics:
    """Counts of requests and responses since the process started."""

    def __init__(self, database: DatabaseExecutor, connections: Connections) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "zatva_web_requests",
            "Requests by route, method and status.",
            ("route", "method", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "zatva_web_request_seconds",
            "Time from the request until its answer is ready, without event streams.",
            ("route",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        for name, meaning, value in (
            ("database_work", "Tasks that use or wait for a database thread.", lambda: database.pending),
            ("connections_open", "Open connections of clients.", lambda: connections.open),
            ("connections_refused", "Connections refused so far.", lambda: connections.refused),
        ):
            Gauge(f"zatva_web_{name}", meaning, registry=self.registry).set_function(value)

    def count(self, *, route: str, method: str, status: int, seconds: float) -> None:
        """Count an answered request."""
        self._requests.labels(route, method, str(status)).inc()
        if route != _STREAM:
            self._seconds.labels(route).observe(seconds)


METRICS: Final = web.AppKey("web_metrics", Metrics)


@web.middleware
async def counting(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Count every request by its declared route, because the number of paths is unlimited."""
    clock = asyncio.get_running_loop().time
    begun, status = clock(), 500
    try:
        response = await handler(request)
        status = response.status
    except web.HTTPException as error:
        status = error.status
        raise
    finally:
        request.config_dict[METRICS].count(
            route=canonical(request) or "(none)",
            method=request.method,
            status=status,
            seconds=clock() - begun,
        )
    return response


@needs(Right.ANYBODY)
async def ready(request: web.Request) -> web.Response:
    """Report whether the database answers in time; else 503."""
    return await probes.ready(lambda: request.config_dict[PROBES].run(probes.answers))


@needs(Right.LOOK_AROUND)
async def metrics(request: web.Request) -> web.Response:
    """Serve metrics to Prometheus, which authenticates with an API token."""
    return probes.metrics(request.config_dict[METRICS].registry)


ROUTES: Final = (
    web.get(probes.ALIVE, needs(Right.ANYBODY)(probes.alive)),
    web.get(probes.READY, ready),
    web.get(probes.METRICS, metrics),
)
