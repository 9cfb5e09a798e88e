"""The demo's two other repositories: one that is slow, and one with a fault of every kind."""

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.vocabulary import Level
from oai.connections import ConnectionLimits, bound
from oai.database import Database
from oai.datestamps import format_datestamp, utc_now
from oai.sections import ProviderSettings
from oai.serving import address, create_runner, open_listener, serving
from oai.vocabulary import DC_NAMESPACE, OAI_DC_NAMESPACE, OAI_DC_SCHEMA, XSI_NAMESPACE, Verb
from oai.xml import escape
from provider.protocol import answers
from provider.protocol.catalogue import Identity, OfferedFormat, SetRow
from provider.protocol.formats.format import Site
from provider.protocol.formats.marc21 import NAMESPACE as MARC_NAMESPACE
from provider.protocol.repository import Repository
from provider.protocol.requests import read_pairs
from provider.protocol.tokens import Position, bad_token


@dataclass(frozen=True, kw_only=True)
class SampleRecord:
    """A generated record, in every format of its catalogue."""

    id: int
    identifier: str
    datestamp: datetime
    """UTC, whole seconds."""
    set_spec: str
    metadata: Mapping[str, str]
    """XML by metadataPrefix, sent unchanged including its faults; empty for a record without metadata."""

    @property
    def place(self) -> int:
        """Its place in lists among the records of its datestamp."""
        return self.id

    def header(self) -> str:
        """Return the `header` element."""
        return (
            f"<header><identifier>{escape(self.identifier)}</identifier>"
            f"<datestamp>{format_datestamp(self.datestamp)}</datestamp>"
            f"<setSpec>{escape(self.set_spec)}</setSpec></header>"
        )

    def in_format(self, prefix: str) -> str:
        """Return the `record` element."""
        content = self.metadata[prefix]
        return f"<record>{self.header()}{f'<metadata>{content}</metadata>' if content else ''}</record>"


@dataclass(frozen=True, kw_only=True)
class SampleCatalogue:
    """Records in memory as a `provider.protocol.catalogue.Catalogue`; the sessions are not used."""

    offered: Sequence[OfferedFormat]
    held: Sequence[SampleRecord]
    """Ordered by datestamp and id."""

    @property
    def prefixes(self) -> frozenset[str]:
        """Return the available metadataPrefixes."""
        return frozenset(each.prefix for each in self.offered)

    def formats(self, session: Session) -> Sequence[OfferedFormat]:
        """Return the available formats."""
        del session
        return self.offered

    def has_format(self, session: Session, prefix: str) -> bool:
        """Return whether the format is available."""
        del session
        return prefix in self.prefixes

    def item(self, session: Session, identifier: str, now: datetime) -> "_Item | None":
        """Return the record with this identifier; None if there is none."""
        del session, now
        found = (record for record in self.held if record.identifier == identifier)
        return next((_Item(found=record, offered=self.offered) for record in found), None)

    def extent(self, session: Session, prefix: str, set_spec: str | None) -> "_Extent | None":
        """Return the records of a set, or all records for None; None if there is no such set."""
        del session
        if set_spec is None:
            return _Extent(prefix=prefix, held=self.held)
        if set_spec not in SET_NAMES:
            return None
        return _Extent(prefix=prefix, held=[record for record in self.held if record.set_spec == set_spec])

    def sets(self, session: Session, *, after: str | None, limit: int) -> Sequence[SetRow]:
        """Return at most `limit` sets after `after`."""
        del session
        behind = [set_spec for set_spec in sorted(SET_NAMES) if set_spec > (after or "")]
        return [SetRow(set_spec=set_spec, name=SET_NAMES[set_spec]) for set_spec in behind[:limit]]

    def identity(self, session: Session) -> Identity:
        """Return the identity, with the first record's datestamp and identifier."""
        del session
        return Identity(earliest=self.held[0].datestamp, sample=self.held[0].identifier, friends=())


@dataclass(frozen=True, kw_only=True)
class _Item:
    found: SampleRecord
    offered: Sequence[OfferedFormat]

    def formats(self) -> Sequence[OfferedFormat]:
        return self.offered

    def record(self, prefix: str) -> str | None:
        return self.found.in_format(prefix)


@dataclass(frozen=True, kw_only=True)
class _Extent:
    prefix: str
    held: Sequence[SampleRecord]

    def page(
        self, *, from_: datetime | None, until: datetime, after: Position | None, limit: int
    ) -> Sequence[SampleRecord]:
        found = (
            record
            for record in self.held
            if (from_ is None or record.datestamp >= from_)
            and record.datestamp <= until
            and (after is None or (record.datestamp, record.id) > (after.datestamp, after.id))
        )
        return [record for record, _ in zip(found, range(limit), strict=False)]

    def size(self, now: datetime) -> int | None:
        del now
        return len(self.held)

    def records(self, found: Sequence[SampleRecord]) -> list[str]:
        return [record.in_format(self.prefix) for record in found]

    def headers(self, found: Sequence[SampleRecord]) -> list[str]:
        return [record.header() for record in found]


SET_NAMES: Final[Mapping[str, str]] = {"books": "Knihy", "journals": "Časopisy", "maps": "Mapy"}

_WORKS: Final = (
    ("Kronika", "cze"), ("Pověsti", "cze"), ("Zpěvník", "cze"), ("Památky", "cze"), ("Sborník", "cze"),
    ("Dejiny", "slo"), ("Povesti", "slo"), ("Spevník", "slo"), ("Pamiatky", "slo"), ("Zborník", "slo"),
)  # fmt: skip
_SUBJECTS: Final = ("obce", "hradu", "farnosti", "školy", "spolku")
_PLACES: Final = (
    "Lipovany", "Javorná", "Hrušovec", "Dubová Lhota", "Kamenica", "Olšany", "Vrbové Pole", "Zlatník",
    "Horní Žďár", "Čierny Brod", "Říčany", "Jasenica",
)  # fmt: skip
_NAMES: Final = ("Horáková, Anna", "Šťastný, Jiří", "Kováč, Ľudovít", "Žilková, Mária", "Beneš, Václav")
_FIRST: Final = datetime(2024, 1, 1, 6, 0, tzinfo=UTC)
_APART: Final = timedelta(minutes=11)
_LEADER: Final = "00000nam a2200000 i 4500"
_DC_OPENING: Final = (
    f'<oai_dc:dc xmlns:oai_dc="{OAI_DC_NAMESPACE}" xmlns:dc="{DC_NAMESPACE}" xmlns:xsi="{XSI_NAMESPACE}"'
    f' xsi:schemaLocation="{OAI_DC_NAMESPACE} {OAI_DC_SCHEMA}">'
)


@dataclass(frozen=True, kw_only=True)
class Book:
    """The data of a book."""

    number: int
    title: str
    author: str
    year: int
    language: str


Writer = Callable[[Book], str]
"""Returns a book's metadata as XML."""


def write_records(
    count: int, namespace: str, writers: Mapping[str, Writer], *, seed: int
) -> list[SampleRecord]:
    """Return `count` records, ordered by datestamp; the same seed gives the same records."""
    chance = random.Random(seed)  # noqa: S311 a sample, not a secret
    return [
        SampleRecord(
            id=book.number,
            identifier=f"oai:{namespace}:{book.number:05}",
            datestamp=_FIRST + _APART * book.number,
            set_spec=chance.choice(list(SET_NAMES)),
            metadata={prefix: write(book) for prefix, write in writers.items()},
        )
        for book in _books(count, chance)
    ]


def as_dublin_core(book: Book) -> str:
    """Return the book as `oai_dc:dc`."""
    elements = (
        ("title", book.title),
        ("creator", book.author),
        ("date", str(book.year)),
        ("type", "Text"),
        ("language", book.language),
    )
    lines = "\n".join(f"  <dc:{name}>{escape(text)}</dc:{name}>" for name, text in elements)
    return f"\n{_DC_OPENING}\n{lines}\n</oai_dc:dc>\n"


def as_marc(book: Book) -> str:
    """Return the book as `record` of MARCXML."""
    fixed = f"240101s{book.year}    xr {book.language:>20} d"
    lines = (
        f'<record xmlns="{MARC_NAMESPACE}">',
        f"  <leader>{_LEADER}</leader>",
        f'  <controlfield tag="001">{book.number:05}</controlfield>',
        f'  <controlfield tag="008">{fixed}</controlfield>',
        _field("100", "1 ", "a", book.author),
        _field("245", "10", "a", book.title),
        _field("264", " 1", "c", str(book.year)),
        "</record>",
    )
    return "\n".join(("", *lines, ""))


def _books(count: int, chance: random.Random) -> Iterator[Book]:
    for number in range(1, count + 1):
        work, language = chance.choice(_WORKS)
        year = chance.randrange(1790, 1940)
        yield Book(
            number=number,
            title=f"{work} {chance.choice(_SUBJECTS)} {chance.choice(_PLACES)}, {year}",
            author=chance.choice(_NAMES),
            year=year,
            language=language,
        )


def _field(tag: str, indicators: str, code: str, text: str) -> str:
    return (
        f'  <datafield tag="{tag}" ind1="{indicators[0]}" ind2="{indicators[1]}">'
        f'<subfield code="{code}">{escape(text)}</subfield></datafield>'
    )


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
"""The request of a list, counted by resumptionToken, that is answered with 503 and Retry-After."""
_EXPIRED_AT: Final = 4
"""The request that is answered with badResumptionToken."""

UNREADABLE: Final[Mapping[int, Callable[[str], str]]] = {
    37: lambda text: text.replace("</dc:title>", " & dodatky</dc:title>"),
    58: lambda text: text.replace("</dc:title>", "\x0b</dc:title>"),
    83: lambda _: "",
}
"""How the broken library damages its Dublin Core, by the record's number."""
_INVALID_MARC: Final = 5

Arguments = Mapping[str, str]
Interruption = Callable[[Arguments], Awaitable[web.Response | None]]
"""Called before each answer; returns another answer in its place, or delays it."""


@dataclass(frozen=True, kw_only=True)
class DemoRepository:
    """A repository that the demo serves, and its schedules."""

    base_url: str
    base_dir: str
    schedules: Sequence[Mapping[str, Any]]
    """Columns of `oai_recurring_job`."""


@contextlib.asynccontextmanager
async def slow_library(
    database: Database, *, page_seconds: float = _PAGE_SECONDS
) -> AsyncIterator[DemoRepository]:
    """Serve 5,000 records during the block, a page of 50 per `page_seconds`: by default 100 s in all."""

    async def pause(arguments: Arguments) -> None:
        if arguments.get("verb") == Verb.LIST_RECORDS:
            await asyncio.sleep(page_seconds)

    with open_listener("127.0.0.1", 0) as listener:
        site = _site(address(listener), "Slow library", "slow.example", _SLOW_PAGE)
        catalogue = SampleCatalogue(
            offered=[_dublin_core()],
            held=write_records(_SLOW_RECORDS, site.settings.namespace, {"oai_dc": as_dublin_core}, seed=2),
        )
        app = _app(Repository(site=site, database=database, catalogue=catalogue), pause)
        async with serving(_runner(app), listener):
            again = {"frequency": "every 5 minutes", "incremental": False}
            yield DemoRepository(base_url=site.base_url, base_dir="slow-library", schedules=[again])


@contextlib.asynccontextmanager
async def broken_library(database: Database) -> AsyncIterator[DemoRepository]:
    """Serve 120 records during the block.

    Every list has the same faults when requested from the beginning.
    """
    with open_listener("127.0.0.1", 0) as listener:
        site = _site(address(listener), "Broken library", "broken.example", _BROKEN_PAGE)
        writers: dict[str, Writer] = {"oai_dc": _broken_dublin_core, "marc21": _broken_marc}
        schema = address(listener) + _SCHEMA_PATH
        catalogue = SampleCatalogue(
            offered=[
                _dublin_core(),
                OfferedFormat(prefix="marc21", schema=schema, namespace=MARC_NAMESPACE),
            ],
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
    """The temporary faults of a list: once the server is too busy, and once a token has expired."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self._asked = 0

    async def __call__(self, arguments: Arguments) -> web.Response | None:
        if arguments.get("verb") != Verb.LIST_RECORDS:
            return None
        if "resumptionToken" not in arguments:
            # A list resumed from a datestamp continues without faults; otherwise its tokens would expire
            # every time.
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
