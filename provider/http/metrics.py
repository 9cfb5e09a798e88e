"""The provider's metrics for Prometheus.

Each process has its own metrics and port: memory, threads and open files belong to one process, and
Prometheus can sum what should be summed. (prometheus-client's method of sharing one port writes files and
loses exactly those metrics.)
"""

from collections.abc import AsyncIterator, Callable, Iterable
from datetime import datetime
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector

from oai import probes
from oai.connections import ConnectionLimits, bound
from oai.datestamps import utc_now
from oai.serving import create_runner, open_listener, serving
from provider.http.keys import SETTINGS

_HOST: Final = "127.0.0.1"
_STOP_SECONDS: Final = 1.0
_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Counters of requests and answers since the process started."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "zatva_provider_requests",
            "Requests by verb or route and outcome.",
            ("request", "outcome"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "zatva_provider_request_seconds",
            "Time from the request until the client has the answer.",
            ("request",),
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._errors = Counter(
            "zatva_provider_protocol_errors",
            "OAI-PMH errors in answers; one answer may have several.",
            ("code",),
            registry=self.registry,
        )
        self._refused = Counter(
            "zatva_provider_refused", "Answers 503, by reason.", ("why",), registry=self.registry
        )
        self._behind = Gauge(
            "zatva_provider_answer_behind_seconds",
            "How far the responseDate of the last answer was behind the clock.",
            registry=self.registry,
        )
        self._bytes = Counter("zatva_provider_sent_bytes", "Bytes of answers.", registry=self.registry)

    def count(
        self,
        *,
        request: str,
        outcome: str,
        codes: Iterable[str],
        why: str | None,
        sent: int,
        seconds: float,
    ) -> None:
        """Count a finished request."""
        self._requests.labels(request, outcome).inc()
        self._seconds.labels(request).observe(seconds)
        self._bytes.inc(sent)
        for code in codes:
            self._errors.labels(code).inc()
        if why is not None:
            self._refused.labels(why).inc()

    def dated(self, moment: datetime) -> None:
        """Note the responseDate of an answer: changes that are published slowly hold it back."""
        self._behind.set((utc_now() - moment).total_seconds())

    def watch(self, name: str, meaning: str, value: Callable[[], float]) -> None:
        """Register a gauge whose value is read from `value`, named `zatva_provider_` and `name`."""
        Gauge(f"zatva_provider_{name}", meaning, registry=self.registry).set_function(value)


METRICS: Final = web.AppKey("metrics", Metrics)


async def metrics_listener(app: web.Application) -> AsyncIterator[None]:
    """Serve `/metrics` on a separate port, reachable only from this machine, if one is configured.

    Raises UsageError if the port is in use.
    """
    port = app[SETTINGS].provider.metrics_port
    if not port:
        yield
        return

    async def answer(_: web.Request) -> web.Response:
        return probes.metrics(app[METRICS].registry)

    own = web.Application()
    bound(own, ConnectionLimits())
    own.router.add_get(probes.METRICS, answer)
    listener = open_listener(_HOST, port, option="the setting provider.metrics_port")
    async with serving(create_runner(own, log=__name__, stop_seconds=_STOP_SECONDS), listener):
        yield
