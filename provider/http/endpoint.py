"""A repository over GET, POST and HEAD: maps HTTP to arguments and answers (OAI-PMH 2.0, section 3.1)."""

from collections.abc import Awaitable, Callable, Hashable, Mapping
from dataclasses import replace
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from oai.compression import gzipped
from oai.connections import leave_unread
from oai.database import Database
from oai.languages import weights
from oai.vocabulary import LIST_VERBS, RULES
from provider.clients.stats import BAD_VERB, OUTCOME, RequestOutcome
from provider.http import landing
from provider.http.admission import ADMISSION, admitted
from provider.http.keys import BASE_URL, DATABASE, FORMATS, REPLICAS, SETTINGS
from provider.http.landing import PAGE_HEADERS, VARIES, as_page, is_browser, takes_html_alone, wants_page
from provider.http.metrics import METRICS
from provider.http.pages_ahead import PAGES_AHEAD
from provider.protocol.formats import offered_formats
from provider.protocol.repository import OaiAnswer, make_repository
from provider.protocol.requests import Pairs, read_pairs

PATH: Final = "/oai"
"""The path of the provider."""

_FORM: Final = "application/x-www-form-urlencoded"

Ask = Callable[[Pairs], OaiAnswer]
"""Answers a request's arguments, in a thread of the pool for database work."""
Page = Callable[[web.Request], Awaitable[web.Response]]


class Availability:
    """Refuses requests until a repository has something to publish.

    What was published once is never removed altogether, so a positive answer is remembered. Threads share it
    without a lock: a stale False only costs another query.
    """

    def __init__(self, database: Database, exists: Callable[[Session], bool], reason: str) -> None:
        self._database = database
        self._exists = exists
        self._reason = reason
        self._published = False

    def refuse_until_published(self) -> None:
        """Raise a 404 with the reason as long as nothing is published."""
        if self._published:
            return
        with self._database.session() as session:
            self._published = self._exists(session)
        if not self._published:
            raise web.HTTPNotFound(text=self._reason)


def add_routes(app: web.Application) -> None:
    """Add the path for harvesting the archive's records."""
    app[FORMATS] = offered_formats(app[SETTINGS].provider.formats)
    repository = make_repository(app[SETTINGS].provider, app[DATABASE], app[BASE_URL], app[REPLICAS])
    add_repository(app, PATH, repository.answer, landing.landing_page)
    landing.add_files(app, {**landing.FILES, **landing.schemas_of(app[FORMATS].values())}, path=PATH)
    app.router.add_get("/", _to_landing_page)


async def _to_landing_page(_request: web.Request) -> web.Response:
    """Redirect the root; relative, because a proxy may serve the provider below a path."""
    raise web.HTTPFound(PATH.removeprefix("/"))


def add_repository(app: web.Application, path: str, ask: Ask, landing_page: Page) -> None:
    """Add the path of a repository; `landing_page` answers browsers that send no arguments."""

    async def handle(request: web.Request) -> web.Response:
        return await _answer(request, ask, landing_page)

    app.router.add_get(path, handle, allow_head=True)
    app.router.add_post(path, handle)


async def _answer(request: web.Request, ask: Ask, landing_page: Page) -> web.Response:
    pairs = [*_query_pairs(request), *await _body_pairs(request)]
    if not pairs and request.method != "POST" and _is_a_persons(request.headers):
        return await landing_page(request)
    readable = wants_page(request.headers)
    level = request.app[SETTINGS].provider.compression_level
    wants_gzip = accepts_gzip(request.headers.getall("Accept-Encoding", []))

    def work(pairs: Pairs) -> OaiAnswer:
        answer = ask(pairs)
        if readable:
            answer = replace(answer, body=as_page(answer.body))
        if not wants_gzip:
            return answer
        return replace(answer, body=gzipped(answer.body, level))

    answer = await _answered(request, pairs, work, variant=(wants_gzip, readable))
    request.app[METRICS].dated(answer.response_date)
    request[OUTCOME] = RequestOutcome(
        verb=answer.verb or _verb(pairs), codes=answer.errors, progress=answer.progress
    )
    return _response(answer, compressed=wants_gzip, readable=readable)


async def _answered(
    request: web.Request, pairs: Pairs, work: Callable[[Pairs], OaiAnswer], *, variant: Hashable
) -> OaiAnswer:
    """Do the work of a request; after a page of a list, begin the next one if the provider is idle."""
    verb, ahead = _verb(pairs), request.app[PAGES_AHEAD]
    if verb not in LIST_VERBS:
        return await admitted(request, lambda: work(pairs))
    answer = await ahead.take((request.path, variant, tuple(pairs)))
    if answer is None:
        answer = await admitted(request, lambda: work(pairs), lengthy=True)
    following = answer.following if request.app[SETTINGS].provider.pages_ahead else None
    if following is not None and request.app[ADMISSION].is_idle:
        next_pairs = [("verb", verb), ("resumptionToken", following)]
        key = (request.path, variant, tuple(next_pairs))
        ahead.begin(key, lambda: request.app[ADMISSION].run(lambda: work(next_pairs), lengthy=True))
    return answer


def _is_a_persons(headers: Mapping[str, str]) -> bool:
    """Return whether a browser without arguments is asking; a harvester gets its badVerb."""
    return is_browser(headers) or takes_html_alone(headers)


def _response(answer: OaiAnswer, *, compressed: bool, readable: bool) -> web.Response:
    caching = f"public, max-age={answer.cached_seconds}" if answer.cached_seconds else "no-cache"
    headers = {
        "Content-Type": "text/xml; charset=utf-8",
        "Cache-Control": caching,
        "Vary": VARIES,
        "X-Content-Type-Options": "nosniff",
        **(PAGE_HEADERS if readable else {}),
    }
    if compressed:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=answer.body, headers=headers)


def _verb(pairs: Pairs) -> str:
    """Return the verb that a refused request names, if it is valid."""
    given = next((value for name, value in pairs if name == "verb"), "")
    return given if given in RULES else BAD_VERB


def _query_pairs(request: web.Request) -> Pairs:
    """Return the URL's arguments from the raw bytes: lenient decoding would hide errors in them."""
    _, _, query = request.raw_path.partition("?")
    query, _, _ = query.partition("#")
    return read_pairs(query.encode("utf-8", errors="surrogateescape"))


async def _body_pairs(request: web.Request) -> Pairs:
    if request.method != "POST" or not request.can_read_body:
        return []
    try:
        body = await request.read()
    except web.RequestPayloadError:
        leave_unread(request)
        raise web.HTTPBadRequest(text="400: the form's bytes do not match its headers\n") from None
    if body and request.content_type != _FORM:
        raise web.HTTPUnsupportedMediaType(
            text=f"415: {request.content_type!r} is not supported; send the arguments as {_FORM}\n"
        )
    return read_pairs(body.strip(b"\r\n"))


def accepts_gzip(fields: list[str]) -> bool:
    """Return whether Accept-Encoding names gzip with a weight above zero (RFC 9110, section 12.5.3)."""
    found = weights(",".join(fields))
    return found.get("gzip", found.get("x-gzip", 0.0)) > 0
