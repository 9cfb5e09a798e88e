"""The dashboard as an aiohttp application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from oai.connections import CONNECTIONS, bound, limits_of
from oai.database import Database
from oai.settings import Settings
from web import streams
from web.access import access
from web.api import table
from web.api.limits import LIMITER, Limiter
from web.audit import auditing
from web.csrf import csrf
from web.drafts import DRAFTS, Drafts
from web.events import Hub
from web.examinations import EXAMINATIONS, Examinations
from web.explorations import EXPLORATIONS, Explorations
from web.faults import faults
from web.headers import add_headers
from web.identifying import sessions
from web.import_processes import IMPORTS, ImportProcesses
from web.keys import SETTINGS
from web.languages import languages
from web.pages import (
    account,
    admin,
    alerts,
    archive,
    archive_activity,
    archive_aggregate,
    archive_collections,
    archive_documents,
    archive_exports,
    audit_log,
    bibliographic_records,
    doctor,
    errors,
    explorer,
    exports,
    filtering_sets,
    guide,
    health,
    history,
    imports,
    jobs,
    organisations,
    overview,
    records,
    repositories,
    rule_editor,
    rule_replay,
    rules,
    runs,
    schedules,
    sign_in,
    users,
    wizard,
)
from web.rendering import STATIC, TEMPLATES, environment
from web.replays import REPLAYS, Replays
from web.rule_trials import TRIALS, Trials
from web.self_tests import SELF_TESTS, SelfTests
from web.streams import HUB, STREAMS, Streams
from web.threads import DATABASE, DatabaseThreads
from web.zones import zones

_FORM_BYTES = 1024 * 1024
_PARTS = (
    sign_in,
    account,
    admin,
    users,
    organisations,
    audit_log,
    overview,
    wizard,
    repositories,
    records,
    bibliographic_records,
    imports,
    filtering_sets,
    doctor,
    explorer,
    exports,
    schedules,
    jobs,
    history,
    runs,
    errors,
    alerts,
    rule_editor,
    rule_replay,
    rules,
    streams,
    archive,
    archive_activity,
    archive_aggregate,
    archive_collections,
    archive_documents,
    archive_exports,
    guide,
    health,
    table,
)


def create_app(settings: Settings, database: Database, *, poll_seconds: float = 1.0) -> web.Application:
    """The dashboard over an open database, which must stay open as long as the application runs.

    Live pages are refreshed every `poll_seconds`.
    """
    app = web.Application(client_max_size=_FORM_BYTES)
    bound(app, limits_of(settings.web))
    app.middlewares.extend((health.counting, languages, zones, faults, sessions, auditing, access, csrf))
    app[SETTINGS] = settings.guarded
    app[TEMPLATES] = environment()
    app[DATABASE] = DatabaseThreads(database)
    app[HUB] = Hub(app[DATABASE], app[TEMPLATES], jobs.TOPICS, poll_seconds=poll_seconds)
    app[health.METRICS] = health.Metrics(app[DATABASE], app[CONNECTIONS])
    app[STREAMS] = Streams(settings.web, most=lambda: app[CONNECTIONS].most // 2)
    app[LIMITER] = Limiter(per_minute=settings.web.api_per_minute)
    app[SELF_TESTS] = SelfTests(app[DATABASE])
    app[TRIALS] = Trials(settings=app[SETTINGS], database=app[DATABASE])
    app[REPLAYS] = Replays(settings=app[SETTINGS])
    app[DRAFTS] = Drafts(settings=app[SETTINGS])
    app[EXAMINATIONS] = Examinations(settings=app[SETTINGS], database=app[DATABASE])
    app[EXPLORATIONS] = Explorations(settings=app[SETTINGS])
    app[IMPORTS] = ImportProcesses(settings=app[SETTINGS], database=app[DATABASE])
    app.cleanup_ctx.append(_database_threads)
    app.cleanup_ctx.append(_imports)
    app.cleanup_ctx.append(_replays)
    app.cleanup_ctx.append(_examinations)
    app.cleanup_ctx.append(_self_tests)
    app.cleanup_ctx.append(_poller)
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_end_streams)
    for part in _PARTS:
        app.add_routes(part.ROUTES)
    app.router.add_static("/static", STATIC)
    return app


async def _database_threads(app: web.Application) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(app[DATABASE].close)


async def _imports(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[IMPORTS].close()


async def _replays(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[REPLAYS].close()


async def _self_tests(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[SELF_TESTS].close()


async def _examinations(app: web.Application) -> AsyncIterator[None]:
    yield
    await app[EXAMINATIONS].close()


async def _poller(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[HUB].poll())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _end_streams(app: web.Application) -> None:
    app[HUB].close()
