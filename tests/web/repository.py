"""A tiny OAI-PMH repository to add: Identify, two formats, three sets."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

_FRAME = """<?xml version="1.0" encoding="UTF-8"?>
<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-01-01T00:00:00Z</responseDate>
<request>http://repository.example/oai</request>{body}</OAI-PMH>"""

_IDENTIFY = """<Identify><repositoryName>Library of Telč</repositoryName><baseURL>{url}</baseURL>
<protocolVersion>2.0</protocolVersion><adminEmail>librarian@telc.example</adminEmail>
<earliestDatestamp>2001-01-01T00:00:00Z</earliestDatestamp><deletedRecord>persistent</deletedRecord>
<granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>"""

_FORMATS = """<ListMetadataFormats>
<metadataFormat><metadataPrefix>oai_dc</metadataPrefix><schema>http://www.openarchives.org/OAI/2.0/oai_dc.xsd</schema>
<metadataNamespace>http://www.openarchives.org/OAI/2.0/oai_dc/</metadataNamespace></metadataFormat>
<metadataFormat><metadataPrefix>marc21</metadataPrefix>
<schema>http://www.loc.gov/standards/marcxml/schema/MARC21slim.xsd</schema>
<metadataNamespace>http://www.loc.gov/MARC21/slim</metadataNamespace></metadataFormat></ListMetadataFormats>"""

_SETS = """<ListSets><set><setSpec>maps</setSpec><setName>Maps</setName></set>
<set><setSpec>books</setSpec><setName>Books &amp; more</setName></set>
<set><setSpec>books:old</setSpec><setName>Old prints</setName></set></ListSets>"""


async def _answer(request: web.Request) -> web.Response:
    bodies = {
        "Identify": _IDENTIFY.format(url=request.url.with_query(None)),
        "ListMetadataFormats": _FORMATS,
        "ListSets": _SETS,
    }
    return web.Response(
        text=_FRAME.format(body=bodies[request.query["verb"]]), content_type="text/xml", charset="utf-8"
    )


async def _home_page(_: web.Request) -> web.Response:
    return web.Response(text="<!doctype html><title>Library</title>", content_type="text/html")


async def _closed(_: web.Request) -> web.Response:
    raise web.HTTPForbidden


@asynccontextmanager
async def repository(when_asked: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
    """Yield the address below which `/oai` is served, for the duration of the block."""

    async def answer(request: web.Request) -> web.Response:
        when_asked()
        return await _answer(request)

    app = web.Application()
    app.add_routes([web.get("/oai", answer), web.get("/home", _home_page), web.get("/closed", _closed)])
    runner = web.AppRunner(app, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()
