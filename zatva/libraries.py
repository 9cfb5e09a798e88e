"""The demo's two other repositories: one that is slow, and one with a fault of every kind."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from aiohttp import web

from harvester.vocabulary import Level
from oai.connections import ConnectionLimits, bound
from oai.database import Database
from oai.datestamps import utc_now
from oai.sections import ProviderSettings
from oai.serving import address, create_runner, open_listener, serving
from oai.vocabulary import OAI_DC_NAMESPACE, OAI_DC_SCHEMA, Verb
from provider.protocol import answers
from provider.protocol.catalogue import OfferedFormat
from provider.protocol.formats.format import Site
from provider.protocol.formats.marc21 import NAMESPACE as MARC_NAMESPACE
from provider.protocol.repository import Repository
from provider.protocol.requests import read_pairs
from provider.protocol.tokens import bad_token
from zatva.sample_catalogue import SampleCatalogue
from zatva.sample_records import SET_NAMES, Book, Writer, as_dublin_core, as_marc, write_records

_PATH: Final = "/oai"
_SCHEMA_PATH: Final = "/marc21.xsd"
_SCHEMA_FILE: Final = Path(__file__).parent / "marc21.xsd"
_XML: Final = "text/xml"
_STOP_SECONDS: Final = 0.5
_SLOW_RECORDS: Final = 5000
_SLOW_PAGE: Final = 50
_PAGE_SECONDS: Final = 1.0
_BROKEN_RECORDS: Final = 120
_BROKEN_PAGE: Final = 10
_RETRY_SECONDS: Final = 2
_BUSY_AT: Final = 2
"""Which of a list's requests with a resumptionToken is answered with 503 and Retry-After."""
_EXPIRED_AT: Final = 4
"""And which one with badResumptionToken."""

UNREADABLE: Final[Mapping[int, Callable[[str], str]]] = MappingProxyType(
    {
        37: lambda text: text.replace("</dc:title>", " & dodatky</dc:title>"),
        58: lambda text: text.replace("</dc:title>", "\x0b</dc:title>"),
        83: lambda _: "",
    }
)
"""What becomes of the broken library's Dublin Core, by the record's number."""
_INVALID_MARC: Final = 5

Arguments = Mapping[str, str]
Interruption = Callable[[Arguments], Awaitable[web.Response | None]]
"""Is asked before each answer; gives another one in its place, or lets time pass."""


@dataclass(frozen=True, kw_only=True)
class DemoRepository:
    """A repository that the demo serves, and how it is harvested."""

    base_url: str
    base_dir: str
    schedules: Sequence[Mapping[str, Any]]
    """Columns of `oai_recurring_job`."""


@contextlib.asynccontextmanager
async def slow_library(database: Database) -> AsyncIterator[DemoRepository]:
    """Serve 5,000 records during the block, a page of 50 in a second: a harvest takes 100."""

    async def pause(arguments: Arguments) -> None:
        if arguments.get("verb") == Verb.LIST_RECORDS:
            await asyncio.sleep(_PAGE_SECONDS)

    with open_listener("127.0.0.1", 0) as listener:
        site = _site(address(listener), "Slow library", "slow.example", _SLOW_PAGE)
        catalogue = SampleCatalogue(
            offered=[_dublin_core()],
            set_names=SET_NAMES,
            held=write_records(_SLOW_RECORDS, site.settings.namespace, {"oai_dc": as_dublin_core}, seed=2),
        )
        app = _app(Repository(site=site, database=database, catalogue=catalogue), pause)
        async with serving(_runner(app), listener):
            again = {"frequency": "every 5 minutes", "incremental": False}
            yield DemoRepository(base_url=site.base_url, base_dir="slow-library", schedules=[again])


@contextlib.asynccontextmanager
async def broken_library(database: Database) -> AsyncIterator[DemoRepository]:
    """Serve 120 records during the block, with the same faults in every list from the beginning."""
    with open_listener("127.0.0.1", 0) as listener:
        site = _site(address(listener), "Broken library", "broken.example", _BROKEN_PAGE)
        writers: dict[str, Writer] = {"oai_dc": _broken_dublin_core, "marc21": _broken_marc}
        schema = address(listener) + _SCHEMA_PATH
        catalogue = SampleCatalogue(
            offered=[
                _dublin_core(),
                OfferedFormat(prefix="marc21", schema=schema, namespace=MARC_NAMESPACE),
            ],
            set_names=SET_NAMES,
            held=write_records(_BROKEN_RECORDS, site.settings.namespace, writers, seed=3),
        )
        app = _app(Repository(site=site, database=database, catalogue=catalogue), _Faults(site.base_url))
        async with serving(_runner(app), listener):
            whole = {"frequency": "every 10 minutes", "incremental": False}
            checked = {**whole, "metadata_prefix": "marc21", "validation": int(Level.VERY_STRICT)}
            yield DemoRepository(
                base_url=site.base_url, base_dir="broken-library", schedules=[whole, checked]
            )


class _Faults:
    """The faults of a list on its way: once it is too busy, and once a token is no longer good."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._asked = 0

    async def __call__(self, arguments: Arguments) -> web.Response | None:
        if arguments.get("verb") != Verb.LIST_RECORDS:
            return None
        if "resumptionToken" not in arguments:
            # A list that is taken up from a datestamp goes on; it would expire for ever otherwise.
            self._asked = self._asked if "from" in arguments else 0
            return None
        self._asked += 1
        if self._asked == _BUSY_AT:
            return web.Response(status=503, headers={"Retry-After": str(_RETRY_SECONDS)}, text="busy\n")
        if self._asked == _EXPIRED_AT:
            error = answers.errors([bad_token("the token has expired")])
            body = answers.envelope(utc_now(), self._base_url, arguments, error)
            return web.Response(body=body, content_type=_XML)
        return None


def _broken_dublin_core(book: Book) -> str:
    break_it = UNREADABLE.get(book.number, str)
    return break_it(as_dublin_core(book))


def _broken_marc(book: Book) -> str:
    written = as_marc(book)
    return written.replace('tag="245"', 'tag="24"') if book.number == _INVALID_MARC else written


def _app(repository: Repository, interrupt: Interruption) -> web.Application:
    async def handle(request: web.Request) -> web.Response:
        query = request.raw_path.partition("?")[2].encode("utf-8", errors="surrogateescape")
        pairs = [*read_pairs(query), *read_pairs(await request.read())]
        instead = await interrupt(dict(pairs))
        if instead is not None:
            return instead
        answer = await asyncio.to_thread(repository.answer, pairs)
        response = web.Response(body=answer.body, content_type=_XML, charset="utf-8")
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            response.enable_compression(web.ContentCoding.gzip)
        return response

    async def schema(_: web.Request) -> web.FileResponse:
        return web.FileResponse(_SCHEMA_FILE)

    app = web.Application()
    bound(app, ConnectionLimits())
    app.router.add_get(_PATH, handle)
    app.router.add_post(_PATH, handle)
    app.router.add_get(_SCHEMA_PATH, schema)
    return app


def _runner(app: web.Application) -> web.AppRunner:
    return create_runner(app, log=__name__, stop_seconds=_STOP_SECONDS)


def _site(where: str, name: str, namespace: str, page: int) -> Site:
    settings = ProviderSettings(
        repository_name=name,
        namespace=namespace,
        admin_emails=(f"catalogue@{namespace}",),
        records_per_answer=page,
        headers_per_answer=page,
    )
    return Site(base_url=f"{where}{_PATH}", settings=settings)


def _dublin_core() -> OfferedFormat:
    return OfferedFormat(prefix="oai_dc", schema=OAI_DC_SCHEMA, namespace=OAI_DC_NAMESPACE)
