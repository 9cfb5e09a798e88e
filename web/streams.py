"""The address that browsers follow for live rows: `/events?topics=jobs`."""

import asyncio
import contextlib

from aiohttp import web

from web.access import signed_in, who_asks
from web.cookies import session_token
from web.events import HEARTBEAT_SECONDS, Follower, Hub
from web.sessions import SignedIn, find_session
from web.threads import database_of
from web.words import _, language
from web.zones import here

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
        following = hub.follow(topics, request.headers.get("Last-Event-ID"), _follower(who_asks(request)))
        async with contextlib.aclosing(following) as frames:
            async for frame in frames:
                await response.write(frame)
                now = asyncio.get_running_loop().time()
                if now - checked >= HEARTBEAT_SECONDS:
                    checked = now
                    if not await _still_signed_in(request):
                        break
    return response


def _follower(who: SignedIn) -> Follower:
    return Follower(
        sees_everything=who.sees_everything,
        organisation_id=who.organisation_id or 0,
        language=language.get(),
        zone=here().key,
    )


async def _still_signed_in(request: web.Request) -> bool:
    before, token = signed_in(request), session_token(request)
    now = await database_of(request).run(find_session, token) if token else None
    # Who sees something else by now asks anew.
    return before is not None and now is not None and _identity(now) == _identity(before)


def _identity(who: SignedIn) -> tuple[object, ...]:
    return who.user_id, who.role, who.organisation_id, who.language, who.time_zone


ROUTES = (web.get("/events", stream, allow_head=False),)
