"""The provider over HTTP: `/oai` by GET, POST and HEAD (OAI-PMH 2.0, section 3.1)."""

import asyncio
import gzip
import logging
import math
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from oai.database import Database
from oai.errors import TryLaterError
from oai.settings import Settings
from provider.admission import Admission
from provider.repository import Answer, Repository
from provider.requests import Pairs, read_pairs

PATH: Final = "/oai"
"""Where the provider answers."""

_FORM: Final = "application/x-www-form-urlencoded"
_LONGEST_BODY: Final = 64 * 1024
_BODY_SECONDS: Final = 30.0
_GZIP_LEVEL: Final = 5
_RETRY_BUSY: Final = 10
_RETRY_DATABASE: Final = 60

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class _Provider:
    repository: Repository
    admission: Admission


_PROVIDER: Final = web.AppKey("provider", _Provider)


def create_app(settings: Settings, database: Database, *, base_url: str) -> web.Application:
    """The provider's application; `base_url` is its address as the world sees it.

    `database` should have as many connections as the settings have provider threads, and their statement
    timeout. It is not touched before the first request.
    """
    app = web.Application(client_max_size=_LONGEST_BODY)
    repository = Repository(settings.provider, database, base_url)

    async def admission(app: web.Application) -> AsyncIterator[None]:
        doors = Admission(
            threads=settings.provider.threads,
            waiting_room=settings.provider.waiting_room,
            wait_seconds=settings.provider.wait_seconds,
        )
        app[_PROVIDER] = _Provider(repository=repository, admission=doors)
        yield
        await doors.close()

    app.cleanup_ctx.append(admission)
    app.router.add_get(PATH, _answer, allow_head=True)
    app.router.add_post(PATH, _answer)
    return app


async def _answer(request: web.Request) -> web.Response:
    provider = request.app[_PROVIDER]
    pairs = [*_query_pairs(request), *await _body_pairs(request)]
    wants_gzip = _accepts_gzip(request.headers.getall("Accept-Encoding", []))

    def work() -> Answer:
        answer = provider.repository.answer(pairs)
        if not wants_gzip:
            return answer
        return replace(answer, body=gzip.compress(answer.body, _GZIP_LEVEL, mtime=0))

    try:
        answer = await provider.admission.run(work)
    except TryLaterError as error:
        return _try_later(str(error), _RETRY_BUSY)
    except (OperationalError, InterfaceError, PoolTimeoutError) as error:
        _log.warning("503 for %s: %s", request.path_qs[:500], _first_line(error))
        return _try_later("the database does not answer in time", _RETRY_DATABASE)
    return _response(answer, compressed=wants_gzip)


def _response(answer: Answer, *, compressed: bool) -> web.Response:
    caching = f"public, max-age={answer.cached_seconds}" if answer.cached_seconds else "no-cache"
    headers = {
        "Content-Type": "text/xml; charset=utf-8",
        "Cache-Control": caching,
        "Vary": "Accept-Encoding",
        "X-Content-Type-Options": "nosniff",
    }
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=answer.body, headers=headers)


def _try_later(reason: str, seconds: int) -> web.Response:
    return web.Response(
        status=503,
        text=f"503: {reason}; try again in {seconds} seconds\n",
        headers={"Retry-After": str(seconds), "Cache-Control": "no-store"},
    )


def _query_pairs(request: web.Request) -> Pairs:
    """The URL's arguments from the bytes as they came: decoding them leniently would hide what is wrong."""
    _, _, query = request.raw_path.partition("?")
    query, _, _ = query.partition("#")
    return read_pairs(query.encode("utf-8", errors="surrogateescape"))


async def _body_pairs(request: web.Request) -> Pairs:
    if request.method != "POST" or not request.can_read_body:
        return []
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            body = await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(
            text=f"408: the form took longer than {_BODY_SECONDS:g} seconds\n"
        ) from None
    if body and request.content_type != _FORM:
        raise web.HTTPUnsupportedMediaType(
            text=f"415: {request.content_type!r} is not {_FORM}, in which OAI-PMH takes its arguments\n"
        )
    return read_pairs(body.strip(b"\r\n"))


def _accepts_gzip(fields: list[str]) -> bool:
    """Whether Accept-Encoding names gzip with a weight above nothing (RFC 9110, section 12.5.3)."""
    for coding in ",".join(fields).lower().split(","):
        name, _, parameter = coding.partition(";")
        if name.strip() in {"gzip", "x-gzip"}:
            return _weight(parameter) > 0
    return False


def _weight(parameter: str) -> float:
    name, _, value = parameter.partition("=")
    if name.strip() != "q":
        return 1.0
    try:
        weight = float(value)
    except ValueError:
        return 0.0
    return weight if math.isfinite(weight) else 0.0


def _first_line(error: Exception) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    return str(original).partition("\n")[0]
