"""The address that browsers follow for live rows: `/events?topics=jobs`."""

import asyncio
import contextlib

from aiohttp import web

from web.access import signed_in, visible_repositories, who_asks
from web.cookies import session_token
from web.events import HEARTBEAT_SECONDS, Hub
from web.sessions import SignedIn, find_session
from web.threads import database_of
from web.words import _, language

HUB = web.AppKey("hub", Hub)


async def stream(request: web.Request) -> web.StreamResponse:
    """Send changed rows of the topics asked for, until the browser leaves or its session ends."""
    hub = request.app[HUB]
    topics = list(dict.fromkeys(filter(None, request.query.get("topics", "").split(","))))
    unknown = [topic for topic in topics if not hub.knows(topic)]
    if unknown or not topics:
        raise web.HTTPBadRequest(text=_("Name topics that there are: ?topics=jobs"))
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
    )
    await response.prepare(request)
    checked = asyncio.get_running_loop().time()
    # A browser that has left is noticed when something is sent to it.
    with contextlib.suppress(ConnectionResetError):
        sight = Sight(who_asks(request))
        await sight.look(request)
        following = hub.follow(
            topics, request.headers.get("Last-Event-ID"), language=language.get(), sees=sight.sees
        )
        async with contextlib.aclosing(following) as frames:
            async for frame in frames:
                await response.write(frame)
                now = asyncio.get_running_loop().time()
                if now - checked >= HEARTBEAT_SECONDS:
                    checked = now
                    if not await _still_signed_in(request):
                        break
                    await sight.look(request)
    return response


class Sight:
    """Which repositories' rows somebody sees; looked at again from time to time, for owners change."""

    def __init__(self, who: SignedIn) -> None:
        self._among = visible_repositories(who)
        self._numbers: frozenset[int] = frozenset()

    async def look(self, request: web.Request) -> None:
        """Look which repositories they are now."""
        among = self._among
        if among is not None:
            self._numbers = await database_of(request).run(lambda session: frozenset(session.scalars(among)))

    def sees(self, repository_id: int | None) -> bool:
        """Whether rows of that repository are seen."""
        return self._among is None or repository_id in self._numbers


async def _still_signed_in(request: web.Request) -> bool:
    before, token = signed_in(request), session_token(request)
    now = await database_of(request).run(find_session, token) if token else None
    return before is not None and now is not None and now.user_id == before.user_id


ROUTES = (web.get("/events", stream, allow_head=False),)
