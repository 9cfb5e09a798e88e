"""Health checks and metrics of a server: `/healthz`, `/readyz`, `/metrics`, the same for every part."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.errors import TryLaterError

ALIVE: Final = "/healthz"
READY: Final = "/readyz"
METRICS: Final = "/metrics"
_SECONDS: Final = 10.0


async def alive(_: web.Request) -> web.Response:
    """Report that the process is alive."""
    return text_answer("alive")


async def ready(check: Callable[[], Awaitable[object]], word: str = "ready") -> web.Response:
    """Report `word` if the check returns within ten seconds; otherwise 503."""
    try:
        async with asyncio.timeout(_SECONDS):
            await check()
    except (SQLAlchemyError, TryLaterError, TimeoutError):
        return web.Response(status=503, text="the database does not answer\n")
    return text_answer(word)


def text_answer(word: str) -> web.Response:
    """Answer with one word, which no cache may keep."""
    return web.Response(text=f"{word}\n", headers={"Cache-Control": "no-store"})


def metrics(registry: CollectorRegistry) -> web.Response:
    """Answer with the metrics in Prometheus' text format."""
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


def answers(session: Session) -> None:
    """Ask the database for an answer."""
    session.execute(text("SELECT 1"))
