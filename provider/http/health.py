"""`/healthz` and `/readyz`: whether the process lives, and whether it can answer harvesters now."""

from typing import Final

from aiohttp import web
from sqlalchemy import text

from provider.http.admission import admitted
from provider.http.attending import ATTENDANCE
from provider.http.keys import DATABASE

ALIVE: Final = "/healthz"
READY: Final = "/readyz"


def add_routes(app: web.Application) -> None:
    """Add both paths; they are for our own watchers and are not counted."""
    app.router.add_get(ALIVE, _alive)
    app.router.add_get(READY, _ready)
    app[ATTENDANCE].uncounted.update({ALIVE, READY})


async def _alive(_: web.Request) -> web.Response:
    return _said("alive")


async def _ready(request: web.Request) -> web.Response:
    """Ready is who gets a thread and an answer from the database in time; else 503 says why."""

    def work() -> None:
        with request.app[DATABASE].session() as session:
            session.execute(text("SELECT 1"))

    await admitted(request, work)
    return _said("ready")


def _said(word: str) -> web.Response:
    return web.Response(text=f"{word}\n", headers={"Cache-Control": "no-store"})
