"""The dashboard as an aiohttp application."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from aiohttp import web

from oai.database import Database
from oai.settings import Settings
from web import streams
from web.access import access, sessions
from web.csrf import csrf
from web.events import Hub
from web.faults import faults
from web.headers import add_headers
from web.keys import SETTINGS
from web.pages import account, history, jobs, overview, repositories, schedules
from web.rendering import STATIC, TEMPLATES, make_environment
from web.streams import HUB
from web.threads import DATABASE, DatabaseThreads

_FORM_BYTES = 1024 * 1024


def create_app(settings: Settings, database: Database, *, poll_seconds: float = 1.0) -> web.Application:
    """The dashboard over an open database, which must stay open as long as the application runs.

    Live pages are refreshed every `poll_seconds`.
    """
    app = web.Application(middlewares=[faults, sessions, access, csrf], client_max_size=_FORM_BYTES)
    app[SETTINGS] = settings
    app[TEMPLATES] = make_environment()
    app[DATABASE] = DatabaseThreads(database)
    app[HUB] = Hub(app[DATABASE], app[TEMPLATES], jobs.TOPICS, poll_seconds=poll_seconds)
    app.cleanup_ctx.append(_database_threads)
    app.cleanup_ctx.append(_poller)
    app.on_response_prepare.append(add_headers)
    app.on_shutdown.append(_end_streams)
    for part in (account, overview, repositories, schedules, jobs, history, streams):
        app.add_routes(part.ROUTES)
    app.router.add_static("/static", STATIC)
    return app


async def _database_threads(app: web.Application) -> AsyncIterator[None]:
    yield
    await asyncio.to_thread(app[DATABASE].close)


async def _poller(app: web.Application) -> AsyncIterator[None]:
    task = asyncio.create_task(app[HUB].poll())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def _end_streams(app: web.Application) -> None:
    app[HUB].close()
