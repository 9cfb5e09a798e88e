"""A small OAI-PMH repository over a list in memory, on 127.0.0.1, with configurable faults."""

import argparse
import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from aiohttp import web

from oai.datestamps import format_datestamp, utc_now
from oai.xml import escape

Answer = tuple[int, dict[str, str], bytes]
Fault = Callable[[dict[str, str], bytes], bytes | Answer | None]
"""Receives a request's arguments and the good response; returns other bytes or a complete response."""


@dataclass(frozen=True, kw_only=True)
class Item:
    """A record of the fake repository."""

    identifier: str
    datestamp: str = "2024-01-01T00:00:00Z"
    sets: tuple[str, ...] = ()
    deleted: bool = False
    title: str = "A title"
    metadata: str = ""

    def header(self) -> str:
        status = ' status="deleted"' if self.deleted else ""
        sets = "".join(f"<setSpec>{escape(spec)}</setSpec>" for spec in self.sets)
        return (
            f"<header{status}><identifier>{escape(self.identifier)}</identifier>"
            f"<datestamp>{self.datestamp}</datestamp>{sets}</header>"
        )

    def record(self) -> str:
        if self.deleted:
            return f"<record>{self.header()}</record>"
        metadata = self.metadata or (
            '<oai_dc:dc xmlns:oai_dc="http://www.openarchives.org/OAI/2.0/oai_dc/" '
            'xmlns:dc="http://purl.org/dc/elements/1.1/">'
            f"<dc:title>{escape(self.title)}</dc:title></oai_dc:dc>"
        )
        return f"<record>{self.header()}<metadata>{metadata}</metadata></record>"


@dataclass(kw_only=True)
class FakeRepository:
    """Serves `items`; `fault` may change any response; `asked` has the arguments of every request."""

    items: list[Item] = field(default_factory=list)
    page_size: int = 10
    granularity: str = "YYYY-MM-DDThh:mm:ssZ"
    first_from: str = ""
    """Its earliestDatestamp, if lists from before it are rejected."""
    sets: Sequence[str] = ()
    sizes: bool = True
    now: str | None = None
    fault: Fault | None = None
    before: Callable[[dict[str, str]], Awaitable[None]] | None = None
    """Awaited before each response."""
    asked: list[dict[str, str]] = field(default_factory=list)
    url: str = ""
    kept: dict[str, bytes] | None = None
    """Prepared responses, for items that never change when speed matters."""

    def lists(self) -> list[dict[str, str]]:
        """Return the list requests so far."""
        return [asked for asked in self.asked if asked.get("verb", "").startswith(("ListR", "ListI"))]

    async def handle(self, request: web.Request) -> web.Response:
        arguments = dict(request.query)
        self.asked.append(arguments)
        if self.before:
            await self.before(arguments)
        if self.kept is None:
            body = self.answer(arguments).encode()
        else:
            key = repr(arguments)
            body = self.kept.get(key) or self.kept.setdefault(key, self.answer(arguments).encode())
        answer = self.fault(arguments, body) if self.fault else None
        if isinstance(answer, tuple):
            status, headers, content = answer
            return web.Response(status=status, headers=headers, body=content)
        return web.Response(body=answer if answer is not None else body, content_type="text/xml")

    def answer(self, arguments: dict[str, str]) -> str:
        verbs: dict[str, Callable[[dict[str, str]], str]] = {
            "Identify": self._identify,
            "ListMetadataFormats": self._formats,
            "ListSets": self._sets,
            "GetRecord": self._get,
            "ListRecords": self._list,
            "ListIdentifiers": self._list,
        }
        make = verbs.get(arguments.get("verb", ""))
        content = make(arguments) if make else _error("badVerb")
        date = self.now or format_datestamp(utc_now())
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/">'
            f"<responseDate>{date}</responseDate><request>{escape(self.url)}</request>{content}</OAI-PMH>"
        )

    def _identify(self, _: dict[str, str]) -> str:
        return (
            f"<Identify><repositoryName>Fake</repositoryName><baseURL>{escape(self.url)}</baseURL>"
            "<protocolVersion>2.0</protocolVersion><adminEmail>admin@fake.example</adminEmail>"
            f"<earliestDatestamp>{self.first_from or '2000-01-01T00:00:00Z'}</earliestDatestamp>"
            "<deletedRecord>persistent</deletedRecord>"
            f"<granularity>{self.granularity}</granularity></Identify>"
        )

    def _formats(self, _: dict[str, str]) -> str:
        return (
            "<ListMetadataFormats><metadataFormat><metadataPrefix>oai_dc</metadataPrefix>"
            "<schema>http://www.openarchives.org/OAI/2.0/oai_dc.xsd</schema>"
            "<metadataNamespace>http://www.openarchives.org/OAI/2.0/oai_dc/</metadataNamespace>"
            "</metadataFormat></ListMetadataFormats>"
        )

    def _sets(self, arguments: dict[str, str]) -> str:
        if not self.sets:
            return _error("noSetHierarchy")
        first = int(arguments.get("resumptionToken", "0"))
        last = first + self.page_size
        found = "".join(
            f"<set><setSpec>{spec}</setSpec><setName>Set {spec}</setName></set>"
            for spec in self.sets[first:last]
        )
        token = f"<resumptionToken>{last}</resumptionToken>" if last < len(self.sets) else ""
        return f"<ListSets>{found}{token}</ListSets>"

    def _get(self, arguments: dict[str, str]) -> str:
        for item in self.items:
            if item.identifier == arguments.get("identifier"):
                return f"<GetRecord>{item.record()}</GetRecord>"
        return _error("idDoesNotExist")

    def _list(self, arguments: dict[str, str]) -> str:
        verb = arguments["verb"]
        token = arguments.get("resumptionToken")
        if token is None:
            first, from_, until, set_spec = 0, *(arguments.get(name, "") for name in ("from", "until", "set"))
        else:
            try:
                number, from_, until, set_spec = token.split("|")
                first = int(number)
            except ValueError:
                return _error("badResumptionToken")
        if from_ and from_ < self.first_from:
            return _error("badArgument")
        found = [item for item in self.items if _selected(item, from_, until, set_spec)]
        if not found:
            return _error("noRecordsMatch")
        last = first + self.page_size
        page = found[first:last]
        entries = "".join(item.record() if verb == "ListRecords" else item.header() for item in page)
        size = f' completeListSize="{len(found)}"' if self.sizes else ""
        following = f"{last}|{from_}|{until}|{set_spec}" if last < len(found) else ""
        needed = following or token is not None
        element = f'<resumptionToken cursor="{first}"{size}>{following}</resumptionToken>' if needed else ""
        return f"<{verb}>{entries}{element}</{verb}>"


def _selected(item: Item, from_: str, until: str, set_spec: str) -> bool:
    return (
        item.datestamp[: len(from_)] >= from_
        and (not until or item.datestamp[: len(until)] <= until)
        and (not set_spec or any(spec == set_spec or spec.startswith(f"{set_spec}:") for spec in item.sets))
    )


def _error(code: str) -> str:
    return f'<error code="{code}">no</error>'


@contextlib.asynccontextmanager
async def serve(repository: FakeRepository, port: int = 0) -> AsyncIterator[FakeRepository]:
    """Serve the repository for the block; its `url` is set."""
    app = web.Application()
    app.router.add_get("/oai", repository.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    repository.url = f"http://127.0.0.1:{runner.addresses[0][1]}/oai"
    try:
        yield repository
    finally:
        await runner.cleanup()


def many(count: int, *, size: int = 100, start: int = 0) -> list[Item]:
    """Return `count` items, with titles of `size` characters."""
    return [
        Item(identifier=f"oai:fake.example:{number}", title=f"Title {number} ".ljust(size, "x"))
        for number in range(start, start + count)
    ]


async def main() -> None:
    """Serve many records until interrupted, for benchmarks."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=600)
    parser.add_argument("--page", type=int, default=500)
    arguments = parser.parse_args()
    repository = FakeRepository(
        items=many(arguments.records, size=arguments.size), page_size=arguments.page, kept={}
    )
    async with serve(repository):
        print(repository.url, flush=True)  # noqa: T201 read by the benchmark
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
