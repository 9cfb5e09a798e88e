"""Whether the manager is well, over HTTP: `/healthz`, `/readyz`, `/metrics`, where a port is set."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Final

from aiohttp import web
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from manager.metrics import exposition, read_figures
from manager.transactions import Transactions
from oai.connections import ConnectionLimits, bound
from oai.sections import ManagerSettings
from oai.serving import create_runner, open_listener, serving

_PATIENCE: Final = 10.0
_SHUTDOWN: Final = 1.0


@contextlib.asynccontextmanager
async def health(
    settings: ManagerSettings, transactions: Transactions, leads: Callable[[], bool]
) -> AsyncIterator[None]:
    """Answer during the block, where `manager.health_port` is set; raises UsageError when it is taken."""
    if not settings.health_port:
        yield
        return
    listener = open_listener(
        settings.health_host, settings.health_port, option="the setting manager.health_port"
    )
    runner = create_runner(create_app(transactions, leads), log=__name__, stop_seconds=_SHUTDOWN)
    async with serving(runner, listener):
        yield


def create_app(transactions: Transactions, leads: Callable[[], bool]) -> web.Application:
    """The three addresses. `leads` tells whether this manager leads now."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="alive\n")

    async def ready(_: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_PATIENCE):
                await transactions.run(_answers)
        except (SQLAlchemyError, TimeoutError):
            return web.Response(status=503, text="the database does not answer\n")
        return web.Response(text="ready: leads\n" if leads() else "ready: stands by\n")

    async def metrics(_: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(_PATIENCE):
                figures = await transactions.run(read_figures)
        except (SQLAlchemyError, TimeoutError):
            return web.Response(status=503, text="the database does not answer\n")
        return web.Response(
            body=exposition(figures, leads=leads()), headers={"Content-Type": CONTENT_TYPE_LATEST}
        )

    app = web.Application()
    bound(app, ConnectionLimits())
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", ready)
    app.router.add_get("/metrics", metrics)
    return app


def _answers(session: Session) -> None:
    session.execute(text("SELECT 1"))
