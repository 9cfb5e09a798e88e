"""A client sees that a download which ends early is incomplete."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp import AiohttpClient
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from manager.repository_lists import list_repositories
from oai.errors import UsageError
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.overview import exports
from web.site.export import stream
from web.site.faults import faults, mark_prepared, unfinished

_DATABASE = OperationalError("SELECT 1", {}, Exception("terminating connection"))
_ERRORS = {"user": UsageError("no repository 1"), "database": _DATABASE, "internal": KeyError("x")}


def _pieces(error: Exception | None) -> Iterator[bytes]:
    yield b"<a>"
    yield b"<b/>"
    if error is not None:
        raise error
    yield b"</a>"


async def _download(request: web.Request) -> web.StreamResponse:
    pieces = _pieces(_ERRORS.get(request.match_info["error"]))
    return await stream(request, pieces, media="application/xml", file_name="a.xml")


async def _ended(request: web.Request) -> web.StreamResponse:
    """As aiohttp ends a handler when the server stops."""
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(b"<a>")
    raise asyncio.CancelledError


async def _fetched(aiohttp_client: AiohttpClient, version: str, error: str) -> bytes:
    """Return the bytes of the response as they are sent; raises ConnectionResetError if it is broken off."""
    app = web.Application(middlewares=(faults, unfinished))
    app.add_routes([web.get("/ended", _ended), web.get("/{error}", _download)])
    app.on_response_prepare.append(mark_prepared)
    server = (await aiohttp_client(app)).server
    reader, writer = await asyncio.open_connection(server.host, server.port)
    writer.write(f"GET /{error} HTTP/{version}\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    try:
        return await reader.read()
    finally:
        writer.close()


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_complete_download_ends_properly(aiohttp_client: AiohttpClient, version: str) -> None:
    sent = await _fetched(aiohttp_client, version, "none")

    assert sent.startswith(f"HTTP/{version} 200 OK\r\n".encode())
    assert b"<b/>" in sent
    assert b"</a>" in sent


@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize(
    ("error", "logged"),
    [("user", "no repository 1"), ("database", "terminating connection"), ("internal", "KeyError: 'x'")],
)
async def test_a_download_that_an_error_ends_breaks_off(
    aiohttp_client: AiohttpClient, caplog: pytest.LogCaptureFixture, version: str, error: str, logged: str
) -> None:
    with pytest.raises(ConnectionResetError):
        await _fetched(aiohttp_client, version, error)

    assert f"/{error}: the download ended early: " in caplog.text
    assert logged in caplog.text


@pytest.mark.parametrize("version", ["1.0", "1.1"])
async def test_a_download_breaks_off_when_the_dashboard_stops(
    aiohttp_client: AiohttpClient, version: str
) -> None:
    with pytest.raises(ConnectionResetError):
        await _fetched(aiohttp_client, version, "ended")


async def test_the_dashboard_breaks_off_a_list_when_the_database_fails(
    server: Server, viewer: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    with server.database.session() as session:
        a_repository(session)
        session.commit()

    def find(session: Session, **given: Any) -> Sequence[object]:
        if "after" in given:
            raise _DATABASE
        return list_repositories(session, **given)

    monkeypatch.setattr(exports, "list_repositories", find)

    with pytest.raises((aiohttp.ClientPayloadError, aiohttp.ClientOSError)):
        await viewer.get("/repositories.csv")
