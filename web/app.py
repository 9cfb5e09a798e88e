"""The dashboard as an aiohttp application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from aiohttp import web

from oai.connections import CONNECTIONS, bound, limits_of
from oai.database import Database
from oai.limits import RateLimit
from oai.settings import Settings
from web.admin import pages as admin
from web.admin import pages_organisations, pages_users
from web.alerts import pages as alerts
from web.alerts import pages_mutes
from web.api import docs, table
from web.api.dispatch import LIMITER
from web.archive import pages as archive
from web.archive import (
    pages_activity,
    pages_aggregate,
    pages_collections,
    pages_documents,
    pages_exports,
    pages_takedowns,
    pages_titles,
    pages_titles_import,
)
from web.archive.pages_activity import SELF_TESTS, SelfTests
from web.auth import account, pages_openid, pages_second_factor
from web.auth import pages as sign_in
from web.auth.access import access
from web.auth.audit import auditing
from web.auth.csrf import csrf
from web.auth.identify import sessions
from web.auth.openid import PROVIDER, RETURN, OpenIdProvider
from web.auth.passwords import HASHING, Hashing
from web.errors import pages as errors
from web.imports import pages as imports
from web.imports import pages_marc, pages_sets, record_export
from web.imports import pages_records as imported_records
from web.imports.sources import IMPORTS, ImportProcesses
from web.jobs import pages as jobs
from web.overview import exports, search
from web.overview import pages as overview
from web.repositories import (
    diagnostics,
    explorer,
    listing,
    record,
    record_downloads,
    report_card,
    selected,
    wizard,
)
from web.repositories import pages as repositories
from web.repositories.diagnostics import DIAGNOSTICS, DiagnosticsRuns
from web.repositories.explorer import EXPLORATIONS, Explorations
from web.repositories.removals import REMOVALS, Removals
from web.repositories.report_card import MEDIANS, KeptMedians
from web.repositories.wizard import DRAFTS, Drafts
from web.rules import by_example, editor, replay, unapplied
from web.rules import pages as rules
from web.rules.replay import REPLAYS, Replays
from web.rules.trials import TRIALS, Trials
from web.runs import pages as runs
from web.runs import pages_history
from web.schedules import pages as schedules
from web.site import health, preferences, sse
from web.site.faults import add_headers, faults, mark_prepared, unfinished
from web.site.i18n import languages
from web.site.keys import DATABASE, PAGE_SIZES, PROBES, SETTINGS, PageSizes, open_executor, open_probes
from web.site.live_rows import Hub
from web.site.render import STATIC, TEMPLATES, environment
from web.site.sse import HUB, STREAMS, Streams
from web.site.zones import zones
from web.store import pages as store

_FORM_BYTES = 1024 * 1024
_ROUTES = (
    sign_in.ROUTES,
    pages_openid.ROUTES,
    account.ROUTES,
    pages_second_factor.ROUTES,
    admin.ROUTES,
    pages_users.ROUTES,
    pages_organisations.ROUTES,
    overview.ROUTES,
    wizard.ROUTES,
    listing.ROUTES,
    selected.ROUTES,
    repositories.ROUTES,
    record.ROUTES,
    record_downloads.ROUTES,
    record_export.ROUTES,
    imported_records.ROUTES,
    imports.ROUTES,
    pages_marc.ROUTES,
    pages_sets.ROUTES,
    diagnostics.ROUTES,
    report_card.ROUTES,
    explorer.ROUTES,
    exports.ROUTES,
    search.ROUTES,
    schedules.ROUTES,
    jobs.ROUTES,
    pages_history.ROUTES,
    runs.ROUTES,
    errors.ROUTES,
    alerts.ROUTES,
    pages_mutes.ROUTES,
    store.ROUTES,
    by_example.ROUTES,
    editor.ROUTES,
    replay.ROUTES,
    rules.ROUTES,
    unapplied.ROUTES,
    sse.ROUTES,
    archive.ROUTES,
    pages_activity.ROUTES,
    pages_aggregate.ROUTES,
    pages_collections.ROUTES,
    pages_documents.ROUTES,
    pages_exports.ROUTES,
    pages_takedowns.ROUTES,
    pages_titles.ROUTES,
    pages_titles_import.ROUTES,
    preferences.ROUTES,
    health.ROUTES,
    docs.ROUTES,
    table.ROUTES,
)


_SIZES: Final = PageSizes()


def create_app(
    settings: Settings,
    database: Database,
    *,
    poll_seconds: float = 1.0,
    page_sizes: PageSizes = _SIZES,
) -> web.Application:
    """Return the dashboard application for an open database.

    The database must stay open while the application runs. Live pages are refreshed every `poll_seconds`
    seconds.
    """
    app = web.Application(client_max_size=_FORM_BYTES)
    bound(app, limits_of(settings.web))
    app.middlewares.extend(
        (health.counting, languages, zones, faults, unfinished, sessions, auditing, access, csrf)
    )
    app[SETTINGS] = settings.guarded
    app[PAGE_SIZES], app[TEMPLATES] = page_sizes, environment()
    app[DATABASE], app[PROBES] = open_executor(database), open_probes(database)
    app[HUB] = Hub(app[DATABASE], app[TEMPLATES], jobs.TOPICS, poll_seconds=poll_seconds)
    app[health.METRICS] = health.Metrics(app[DATABASE], app[CONNECTIONS])
    app[STREAMS] = Streams(settings.web, most=lambda: app[CONNECTIONS].most // 2)
    app[HASHING] = Hashing()
    app[LIMITER] = RateLimit(per_minute=settings.web.api_per_minute)
    app[TRIALS] = Trials(settings=app[SETTINGS], database=app[DATABASE])
    app[DRAFTS] = Drafts(settings=app[SETTINGS])
    _add_provider(app, settings)
    app[MEDIANS] = KeptMedians()
    app[EXPLORATIONS] = Explorations(settings=app[SETTINGS])
    _add_background_work(app)
    app.on_response_prepare.extend((add_headers, mark_prepared))
    app.on_shutdown.append(_end_streams)
    for routes in _ROUTES:
        app.add_routes(routes)
    app.router.add_static("/static", STATIC)
    return app


def _add_background_work(app: web.Application) -> None:
    app[SELF_TESTS] = SelfTests(database=app[DATABASE])
    app[DIAGNOSTICS] = DiagnosticsRuns(settings=app[SETTINGS], database=app[DATABASE])
    app[REPLAYS] = Replays(settings=app[SETTINGS])
    app[IMPORTS] = ImportProcesses(settings=app[SETTINGS], database=app[DATABASE])
    app[REMOVALS] = Removals(database=app[DATABASE])
    # They end in the opposite order: the database threads last.
    app.cleanup_ctx.extend((_database_threads, _removals, _background_work, _poller))


def _add_provider(app: web.Application, settings: Settings) -> None:
    if settings.openid.issuer is not None:
        here = (settings.web.base_url or "").rstrip("/")
        app[PROVIDER] = OpenIdProvider(settings.openid, return_address=here + RETURN)


async def _database_threads(app: web.Application) -> AsyncIterator[None]:
    yield
    for threads in (app[PROBES], app[DATABASE]):
        await asyncio.to_thread(threads.close)


async def _removals(app: web.Application) -> AsyncIterator[None]:
    await app[REMOVALS].resume()
    yield
    await app[REMOVALS].close()


async def _background_work(app: web.Application) -> AsyncIterator[None]:
    yield
    for work in (app[SELF_TESTS], app[DIAGNOSTICS], app[REPLAYS], app[IMPORTS]):
        await work.close()


async def _poller(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[HUB].poll(partial(app[STREAMS].end_revoked, app[DATABASE])))
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _end_streams(app: web.Application) -> None:
    app[HUB].close()
