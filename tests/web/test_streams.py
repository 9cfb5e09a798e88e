"""A client sees that a download which ends early is incomplete."""

from collections.abc import Iterator

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpClient

from oai.errors import UsageError
from web.site.export import stream


def _pieces(*, complete: bool) -> Iterator[bytes]:
    yield b"<a>"
    yield b"<b/>"
    if not complete:
        raise UsageError("no repository 1")
    yield b"</a>"


async def _complete(request: web.Request) -> web.StreamResponse:
    return await stream(request, _pieces(complete=True), media="application/xml", file_name="a.xml")


async def _broken(request: web.Request) -> web.StreamResponse:
    return await stream(request, _pieces(complete=False), media="application/xml", file_name="a.xml")


async def test_a_download_whose_pieces_end_early_breaks_off(
    aiohttp_client: AiohttpClient, caplog: pytest.LogCaptureFixture
) -> None:
    app = web.Application()
    app.add_routes([web.get("/complete", _complete), web.get("/broken", _broken)])
    client = await aiohttp_client(app)
    assert await (await client.get("/complete")).read() == b"<a><b/></a>"
    with pytest.raises(aiohttp.ClientPayloadError):
        await (await client.get("/broken")).read()
    assert "/broken: the download ended early: no repository 1" in caplog.text
