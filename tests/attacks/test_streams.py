"""Event streams after the session, token or right with which they were opened has ended."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from aiohttp import web
from sqlalchemy import update

from manager.models import Job
from oai.rights import Scope
from tests.web.conftest import Browser, Server
from tests.web.rows import a_repository
from web.app import create_app
from web.auth.api_tokens import make_token, revoke_token
from web.auth.sessions import end_sessions
from web.auth.users import change_role, disable_user, get_user, set_password
from web.models import Role, UserSession
from web.site import live_rows

_SECONDS = 60


@pytest.fixture(autouse=True)
def no_heartbeat(monkeypatch: pytest.MonkeyPatch) -> None:
    """Turn off heartbeats, so that only a poll can end a stream."""
    monkeypatch.setattr(live_rows, "HEARTBEAT_SECONDS", 3600.0)


@contextlib.asynccontextmanager
async def _followed(browser: Browser, base_url: str) -> AsyncIterator[aiohttp.ClientResponse]:
    async with browser.http.get(f"{base_url}/events?topics=jobs") as answer:
        assert answer.status == 200
        await answer.content.readuntil(b"\n\n")  # the reconnection time
        await answer.content.readuntil(b"\n\n")  # the rows
        yield answer


def _add_job(server: Server) -> None:
    with server.database.session() as session:
        session.add(Job(repository_id=a_repository(session).repository_id))
        session.commit()


async def _next(answer: aiohttp.ClientResponse) -> bytes:
    async with asyncio.timeout(_SECONDS):
        return await answer.content.readuntil(b"\n\n")


async def _rest(answer: aiohttp.ClientResponse) -> bytes:
    async with asyncio.timeout(_SECONDS):
        return await answer.content.read()


@contextlib.asynccontextmanager
async def _another_process(server: Server) -> AsyncIterator[str]:
    """Yield the address of a second dashboard on the same database, in place of another process."""
    runner = web.AppRunner(create_app(server.settings, server.database, poll_seconds=0.02))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


async def test_signing_out_ends_the_streams_of_every_process(
    server: Server, viewer: Browser, administrator: Browser
) -> None:
    async with (
        _another_process(server) as elsewhere,
        _followed(viewer, server.base_url) as here,
        _followed(viewer, elsewhere) as there,
        _followed(administrator, elsewhere) as others,
    ):
        status, _, _ = await viewer.post("/sign-out")
        assert status == 303
        assert [await _rest(here), await _rest(there)] == [b"", b""]
        assert (await viewer.get("/events?topics=jobs"))[0] == 401

        _add_job(server)
        assert b"job-1" in await _next(others)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(disable_user, id="the user is disabled"),
        pytest.param(lambda session, user_id: set_password(session, user_id, "x"), id="a new password"),
        pytest.param(end_sessions, id="signed out everywhere"),
        pytest.param(lambda session, user_id: change_role(session, user_id, Role.CURATOR), id="another role"),
        pytest.param(
            lambda session, _: session.execute(update(UserSession).values(idle_until=UserSession.created)),
            id="idle for too long",
        ),
        pytest.param(
            lambda session, _: session.execute(update(UserSession).values(expires=UserSession.created)),
            id="expired",
        ),
    ],
)
async def test_a_stream_ends_with_the_session_and_after_a_new_password_or_role(
    server: Server, viewer: Browser, change: Callable[..., object]
) -> None:
    async with _followed(viewer, server.base_url) as answer:
        with server.database.session() as session:
            change(session, get_user(session, "Viktor").user_id)
            session.commit()

        assert await _rest(answer) == b""


async def test_a_stream_of_a_program_ends_when_its_token_is_revoked(
    server: Server, stranger: Browser
) -> None:
    with server.database.session() as session:
        user = get_user(session, "Viktor")
        number, token = make_token(session, server.settings.web, user.user_id, name="x", scopes=[Scope.READ])
        session.commit()
    stranger.http.headers["Authorization"] = f"Bearer {token}"
    async with _followed(stranger, server.base_url) as answer:
        _add_job(server)
        assert b"job-1" in await _next(answer)
        with server.database.session() as session:
            revoke_token(session, number)
            session.commit()

        assert await _rest(answer) == b""
