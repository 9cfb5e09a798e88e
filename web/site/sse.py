"""The server-sent events of live rows: `/events?topics=jobs`."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence

from aiohttp import web

from oai.sections import WebSettings
from web.auth.access import signed_in, who_asks
from web.auth.sessions import SignedIn, find_session, session_token
from web.site.i18n import _, language
from web.site.keys import database_of
from web.site.live_rows import HEARTBEAT_SECONDS, Follower, Hub
from web.site.zones import here

HUB = web.AppKey("hub", Hub)


class Streams:
    """The open streams: a few per session, and at most `most()` in all."""

    def __init__(self, settings: WebSettings, *, most: Callable[[], int]) -> None:
        self.topics = settings.event_topics
        """Maximum number of topics per stream, because each is read from the database every second."""
        self._streams = settings.event_streams
        self._most = most
        self._open: dict[str, dict[web.RequestHandler, asyncio.Task[object] | None]] = {}

    @contextlib.contextmanager
    def one_more(self, request: web.Request) -> Iterator[None]:
        """Count a stream as open during the block; first ends those whose page was left.

        Raises HTTPTooManyRequests if the session has too many streams, and HTTPServiceUnavailable if the
        server has.
        """
        session = session_token(request) or f"user {who_asks(request).user_id}"
        for streams in self._open.values():
            _end_left(streams)
        own = self._open.get(session, {})
        if len(own) >= self._streams:
            raise web.HTTPTooManyRequests(
                text=_("This session has %(count)s live pages open; close one of them.")
                % {"count": self._streams}
            )
        if sum(map(len, self._open.values())) >= self._most():
            raise web.HTTPServiceUnavailable(
                text=_("Too many live pages are open. Try again in a moment."), headers={"Retry-After": "5"}
            )
        # No await since the checks, so two requests cannot both take the last place.
        self._open[session] = own
        own[request.protocol] = asyncio.current_task()
        try:
            yield
        finally:
            own.pop(request.protocol, None)
            # An ended stream may finish after newer streams of its session have started.
            if not own and self._open.get(session) is own:
                del self._open[session]


STREAMS = web.AppKey("streams", Streams)


def _end_left(streams: dict[web.RequestHandler, asyncio.Task[object] | None]) -> None:
    """End streams whose page was left; until their next heartbeat, their topics would still be read."""
    for connection, task in list(streams.items()):
        if connection.transport is None:
            del streams[connection]
            if task is not None:
                task.cancel()


async def stream(request: web.Request) -> web.StreamResponse:
    """Send changed rows of the requested topics until the browser leaves or its session ends."""
    hub, streams = request.app[HUB], request.app[STREAMS]
    topics = list(dict.fromkeys(filter(None, request.query.get("topics", "").split(","))))
    unknown = [topic for topic in topics if not hub.knows(topic)]
    if unknown or not topics:
        raise web.HTTPBadRequest(text=_("Unknown topic; use an existing one, such as ?topics=jobs"))
    if len(topics) > streams.topics:
        raise web.HTTPBadRequest(
            text=_("A stream can follow at most %(count)s topics.") % {"count": streams.topics}
        )
    with streams.one_more(request):
        return await _sent(request, hub, topics)


async def _sent(request: web.Request, hub: Hub, topics: Sequence[str]) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
    )
    checked = asyncio.get_running_loop().time()
    try:
        await response.prepare(request)
        following = hub.follow(topics, request.headers.get("Last-Event-ID"), _follower(who_asks(request)))
        async with contextlib.aclosing(following) as frames:
            async for frame in frames:
                await response.write(frame)
                now = asyncio.get_running_loop().time()
                if now - checked >= HEARTBEAT_SECONDS:
                    checked = now
                    if not await _still_signed_in(request):
                        break
    except ConnectionResetError:
        # A disconnected browser, even before the headers, is noticed when something is sent to it,
        return response
    except asyncio.CancelledError:
        # or when the next stream is opened. Otherwise the server ends the request.
        if request.transport is not None:
            raise
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
    # A user whose visibility has changed must reconnect.
    return before is not None and now is not None and _identity(now) == _identity(before)


def _identity(who: SignedIn) -> tuple[object, ...]:
    return who.user_id, who.role, who.organisation_id, who.language, who.time_zone


ROUTES = (web.get("/events", stream, allow_head=False),)
