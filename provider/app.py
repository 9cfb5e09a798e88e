"""Assembles the provider's HTTP application: its routes, and what all of them share."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from aiohttp import web
from sqlalchemy import QueuePool

from oai import probes
from oai.connections import CONNECTIONS, bound, limits_of
from oai.database import Database
from oai.settings import Settings
from provider.clients.store import write_statistics
from provider.http import (
    aggregate,
    cdx,
    documents,
    endpoint,
    loads,
    memento,
    title_pages,
    title_sitemap,
    titles,
)
from provider.http.admission import ADMISSION, READING, Admission, DaemonThreads, admitted
from provider.http.aggregate import AGGREGATING, Aggregating, aggregating
from provider.http.keys import BASE_URL, DATABASE, REPLICAS, SETTINGS
from provider.http.metrics import METRICS, Metrics, metrics_listener
from provider.http.middleware import OBSERVERS, attended, request_observers
from provider.http.pages_ahead import PAGES_AHEAD, PagesAhead
from provider.http.query_cancellation import Statements
from provider.protocol.replicas import Replicas


def _add_health(app: web.Application) -> None:
    """Add both health-check paths, which are for monitoring and are not counted."""
    app.router.add_get(probes.ALIVE, probes.alive)
    app.router.add_get(probes.READY, _ready)
    app[OBSERVERS].uncounted.update({probes.ALIVE, probes.READY})


async def _ready(request: web.Request) -> web.Response:
    """Return 200 if a thread and a database answer are available in time; otherwise 503 with the reason."""

    def work() -> None:
        with request.app[DATABASE].session() as session:
            probes.answers(session)

    await admitted(request, work)
    return probes.text_answer("ready")


PATH: Final = endpoint.PATH
_LONGEST_BODY: Final = 64 * 1024

_ROUTES: Final = (
    endpoint.add_routes,
    aggregate.add_routes,
    titles.add_routes,
    title_pages.add_routes,
    title_sitemap.add_routes,
    _add_health,
    documents.add_routes,
    loads.add_routes,
    cdx.add_routes,
    memento.add_routes,
)
"""Each adds the routes of its module; their database work goes through `provider.http.admission.admitted`."""


def create_app(
    settings: Settings, database: Database, *, base_url: str, replicas: Sequence[Database] = ()
) -> web.Application:
    """Return the provider's application; `base_url` is its public address.

    `database` and its `replicas` should have as many connections as the settings have provider threads, one
    more if there are replicas, and their statement timeout. They are not used before the application starts.
    """
    app = web.Application(client_max_size=_LONGEST_BODY)
    bound(app, limits_of(settings.provider))
    app.middlewares.append(attended)
    app[SETTINGS], app[DATABASE], app[BASE_URL] = settings, database, base_url
    app[OBSERVERS] = request_observers(settings.provider)
    app[METRICS] = app[OBSERVERS].metrics
    app[REPLICAS] = Replicas(database, replicas, most_behind=settings.provider.replica_seconds)
    app[AGGREGATING] = Aggregating()
    app.cleanup_ctx.extend(
        (_watch_replicas, _admission, _reading, write_statistics, aggregating, titles.counting)
    )
    app.cleanup_ctx.append(metrics_listener)
    app.on_shutdown.append(_stop_reading)
    for add_routes in _ROUTES:
        add_routes(app)
    return app


async def _watch_replicas(app: web.Application) -> AsyncIterator[None]:
    if not app[REPLICAS]:
        yield
        return
    watching = asyncio.create_task(app[REPLICAS].watch())
    yield
    watching.cancel()
    await asyncio.wait([watching])


async def _admission(app: web.Application) -> AsyncIterator[None]:
    provider = app[SETTINGS].provider
    app[ADMISSION] = Admission(
        threads=provider.threads,
        waiting_room=provider.waiting_room,
        wait_seconds=provider.wait_seconds,
        statements=Statements([app[DATABASE].engine, *app[REPLICAS].engines]),
    )
    _watch(app)
    app[PAGES_AHEAD] = PagesAhead()
    yield
    await app[PAGES_AHEAD].close()
    await app[ADMISSION].close()


async def _reading(app: web.Application) -> AsyncIterator[None]:
    provider = app[SETTINGS].provider
    # However slow remote servers are, half of the threads are left for files of this machine.
    app[READING] = Admission(
        threads=2 * provider.threads,
        lengthy=provider.threads,
        waiting_room=provider.waiting_room,
        wait_seconds=provider.wait_seconds,
        statements=Statements([]),
        pool=DaemonThreads(),
    )
    yield
    await app[READING].close()


async def _stop_reading(app: web.Application) -> None:
    app[READING].stop_soon()


def _watch(app: web.Application) -> None:
    """Register the gauges for Prometheus."""
    metrics: Metrics = app[METRICS]
    admission, attends, pool = app[ADMISSION], app[OBSERVERS], app[DATABASE].engine.pool
    metrics.watch("threads", "Threads for database work.", lambda: admission.threads)
    metrics.watch("threads_working", "Threads that are working.", lambda: admission.working)
    metrics.watch("waiting", "Requests waiting for a thread.", lambda: admission.waiting)
    connections = app[CONNECTIONS]
    slowness = connections.slowness
    metrics.watch(
        "cut_off", "Connections closed because the client read too slowly.", lambda: slowness.cut_off
    )
    metrics.watch("connections_open", "Open client connections.", lambda: connections.open)
    metrics.watch(
        "made_room", "Idle connections closed to make room for new ones.", lambda: connections.closed
    )
    metrics.watch("connections_refused", "Connections refused.", lambda: connections.refused)
    metrics.watch(
        "lists_under_way", "Lists that harvesters are currently reading.", attends.tally.lists_under_way
    )
    given = app[AGGREGATING]
    metrics.watch("aggregate_records", "Harvested records published.", lambda: given.records)
    metrics.watch("aggregate_age_seconds", "Time since the aggregate was up to date.", given.age)
    if app[REPLICAS]:
        replicas = app[REPLICAS]
        metrics.watch("replicas_used", "Replicas that lists are read from.", lambda: replicas.usable)
        metrics.watch(
            "replica_behind_seconds", "How far the last of these is behind.", lambda: replicas.behind
        )
    if isinstance(pool, QueuePool):
        metrics.watch("connections_used", "Database connections in use.", pool.checkedout)
