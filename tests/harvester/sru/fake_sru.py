"""A small SRU service over a list in memory, on 127.0.0.1, with configurable faults."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from aiohttp import web
from aiohttp.test_utils import TestServer

from oai.xml import escape

ONE = "http://www.loc.gov/zing/srw/"
TWO = "http://docs.oasis-open.org/ns/search-ws/sruResponse"
DIAGNOSTICS = "http://www.loc.gov/zing/srw/diagnostic/"
Answer = tuple[int, bytes]
Fault = Callable[[dict[str, str], bytes], bytes | Answer | None]
"""Receives a request's arguments and the good answer; returns other bytes or a complete answer."""


@dataclass(frozen=True, kw_only=True)
class Book:
    """A record of the service."""

    number: str
    title: str = "A title"
    changed: str = "20240102030405.0"
    surrogate: str = ""
    """The diagnostic that is returned in place of the record."""
    published: str = ""
    """The number of the publication, the first dc:identifier."""
    raw: str = ""
    """Literal recordData in place of a good record."""

    def marcxml(self) -> str:
        control = f'<controlfield tag="001">{escape(self.number)}</controlfield>' if self.number else ""
        changed = f'<controlfield tag="005">{self.changed}</controlfield>' if self.changed else ""
        return (
            '<record xmlns="http://www.loc.gov/MARC21/slim"><leader>00000nam a2200000 a 4500</leader>'
            f"{control}{changed}"
            '<controlfield tag="008">910710s1991    nju           00010 eng  </controlfield>'
            '<datafield tag="245" ind1="1" ind2="0">'
            f'<subfield code="a">{escape(self.title)}</subfield></datafield></record>'
        )

    def dc(self) -> str:
        given = [number for number in (self.published, self.number) if number]
        named = "".join(f"<identifier>{escape(number)}</identifier>" for number in given)
        return (
            '<srw_dc:dc xmlns:srw_dc="info:srw/schema/1/dc-schema" xmlns="http://purl.org/dc/elements/1.1/">'
            f"<title>{escape(self.title)}</title>{named}</srw_dc:dc>"
        )


@dataclass(kw_only=True)
class FakeSru:
    """Serves `books` for any query; `asked` has the arguments of every request."""

    books: list[Book] = field(default_factory=list)
    version: str = "1.2"
    packing: str = "xml"
    cap: int = 50
    """The maximum of records in an answer, whatever is requested."""
    sizes: bool = True
    tells_next: bool = True
    explains: bool = True
    location: str = ""
    """The address of the schema of `marcxml` in the explain answer."""
    limit: int | None = None
    """The last position that the server returns."""
    fault: Fault | None = None
    before: Callable[[dict[str, str]], Awaitable[None]] | None = None
    """Awaited before each answer."""
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""

    def searches(self) -> list[dict[str, str]]:
        return [asked for asked in self.asked if "query" in asked]

    async def handle(self, request: web.Request) -> web.Response:
        arguments = dict(request.query)
        self.asked.append(arguments)
        if self.before:
            await self.before(arguments)
        body = (self._search(arguments) if "query" in arguments else self._explain()).encode()
        answer = self.fault(arguments, body) if self.fault else None
        if isinstance(answer, tuple):
            return web.Response(status=answer[0], body=answer[1])
        if not self.explains and "query" not in arguments:
            return web.Response(status=404, text="no such page")
        return web.Response(body=answer if answer is not None else body, content_type="text/xml")

    def _explain(self) -> str:
        location = f' location="{self.location}"' if self.location else ""
        explain = (
            f'<explain xmlns="http://explain.z3950.org/dtd/2.0/"><serverInfo version="{self.version}"/>'
            "<databaseInfo><title>Fake catalogue</title><contact>books@fake.example</contact></databaseInfo>"
            '<schemaInfo><schema name="marcxml" identifier="info:srw/schema/1/marcxml-v1.1"'
            f"{location}/>"
            '<schema name="dc" identifier="info:srw/schema/1/dc-v1.1"/></schemaInfo>'
            f'<configInfo><setting type="maximumRecords">{self.cap}</setting></configInfo></explain>'
        )
        return self._envelope("explainResponse", f"<record>{self._packed(explain)}</record>")

    def _search(self, arguments: dict[str, str]) -> str:
        name = "searchRetrieveResponse"
        if arguments.get("version", "2.0") != self.version:
            return self._envelope(
                name, f"<numberOfRecords>0</numberOfRecords>{diagnostics('5', self.version)}"
            )
        if "wrong" in arguments["query"]:
            return self._envelope(name, diagnostics("10", "wrong"))
        if arguments["recordSchema"] not in {"marcxml", "dc"}:
            return self._envelope(name, diagnostics("66", arguments["recordSchema"]))
        start, most = int(arguments["startRecord"]), int(arguments["maximumRecords"])
        if self.limit is not None and start > self.limit:
            return self._envelope(name, diagnostics("61", ""))
        shown = self.books[start - 1 : start - 1 + min(most, self.cap)]
        following = start + len(shown)
        size = f"<numberOfRecords>{len(self.books)}</numberOfRecords>" if self.sizes else ""
        more = self.tells_next and following <= len(self.books)
        records = "".join(self._record(book, arguments["recordSchema"]) for book in shown)
        return self._envelope(
            name,
            size
            + (f"<records>{records}</records>" if records else "")
            + (f"<nextRecordPosition>{following}</nextRecordPosition>" if more else ""),
        )

    def _record(self, book: Book, schema: str) -> str:
        if book.surrogate:
            uri = f"<uri>info:srw/diagnostic/1/{book.surrogate}</uri>"
            diagnostic = f'<diagnostic xmlns="{DIAGNOSTICS}">{uri}</diagnostic>'
            return f"<record>{self._packed(diagnostic)}</record>"
        data = book.raw or (book.marcxml() if schema == "marcxml" else book.dc())
        return f"<record><recordSchema>{schema}</recordSchema>{self._packed(data)}</record>"

    def _packed(self, data: str) -> str:
        return f"<recordData>{escape(data) if self.packing == 'string' else data}</recordData>"

    def _envelope(self, name: str, inside: str) -> str:
        namespace = TWO if self.version == "2.0" else ONE
        return f'<{name} xmlns="{namespace}"><version>{self.version}</version>{inside}</{name}>'


def diagnostics(code: str, details: str) -> str:
    return (
        f'<diagnostics><diagnostic xmlns="{DIAGNOSTICS}"><uri>info:srw/diagnostic/1/{code}</uri>'
        f"<details>{escape(details)}</details></diagnostic></diagnostics>"
    )


def books(count: int) -> list[Book]:
    return [Book(number=f"nkc{number:04}", title=f"Title {number}") for number in range(count)]


@contextlib.asynccontextmanager
async def serve_sru(fake: FakeSru) -> AsyncIterator[FakeSru]:
    application = web.Application()
    application.router.add_get("/sru/books", fake.handle)
    async with TestServer(application) as server:
        fake.url = str(server.make_url("/sru/books"))
        yield fake
