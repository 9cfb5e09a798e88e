"""The server-sent events of live rows: `/events?topics=jobs`."""

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from aiohttp import web

from oai.errors import required
from oai.executor import DatabaseExecutor
from oai.sections import WebSettings
from web.auth.access import who_asks
from web.auth.identify import credential, identified
from web.auth.sessions import SignedIn
from web.site.i18n import _, language
from web.site.live_rows import Follower, Hub
from web.site.zones import here

HUB = web.AppKey("hub", Hub)


@dataclass(eq=False, kw_only=True)
class _Stream:
    """An open stream: whom it was opened for, and the task that sends it."""

    who: SignedIn
    task: asyncio.Task[object]
    is_over: bool = False
    """Whether it was ended; the task then ends the response instead of breaking it off."""

    def end(self) -> None:
        self.is_over = True
        self.task.cancel()


class Streams:
    """The open streams: a few per session or API token, and at most `most()` in all."""

    def __init__(self, settings: WebSettings, *, most: Callable[[], int]) -> None:
        self.topics = settings.event_topics
        """Maximum number of topics per stream, because each is read from the database every second."""
        self._streams = settings.event_streams
        self._most = most
        self._open: dict[str, dict[web.RequestHandler, _Stream]] = {}
        """By credential and connection."""

    @contextlib.contextmanager
    def one_more(self, request: web.Request) -> Iterator[_Stream]:
        """Count a stream as open during the block; first ends those whose page was left.

        Raises HTTPTooManyRequests if the session has too many streams, and HTTPServiceUnavailable if the
        server has.
        """
        session = credential(request)
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
        task = required(asyncio.current_task(), "a handler runs in a task")
        own[request.protocol] = stream = _Stream(who=who_asks(request), task=task)
        try:
            yield stream
        finally:
            own.pop(request.protocol, None)
            # An ended stream may finish after newer streams of its session have started.
            if not own and self._open.get(session) is own:
                del self._open[session]

    async def end_revoked(self, database: DatabaseExecutor) -> None:
        """End the streams of sessions and tokens that are over, and of users who now see something else."""
        # Streams that are opened during the statement were identified after it began, and are left alone.
        asked = {session: list(streams.items()) for session, streams in self._open.items()}
        now = await database.run(identified, asked)
        for session, streams in asked.items():
            for connection, stream in streams:
                is_open = self._open.get(session, {}).get(connection) is stream
                if is_open and _identity(now.get(session)) != _identity(stream.who):
                    stream.end()


STREAMS = web.AppKey("streams", Streams)


def _end_left(streams: dict[web.RequestHandler, _Stream]) -> None:
    """End streams whose page was left; until their next heartbeat, their topics would still be read."""
    for connection, stream in list(streams.items()):
        if connection.transport is None:
            del streams[connection]
            stream.end()


def _identity(who: SignedIn | None) -> tuple[object, ...]:
    return () if who is None else (who.user_id, who.rights, who.organisation_id, who.language, who.time_zone)


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
    with streams.one_more(request) as opened:
        return await _sent(request, hub, topics, opened)


async def _sent(request: web.Request, hub: Hub, topics: Sequence[str], opened: _Stream) -> web.StreamResponse:
    response = web.StreamResponse(
        headers={"Content-Type": "text/event-stream; charset=utf-8", "X-Accel-Buffering": "no"}
    )
    try:
        await response.prepare(request)
        following = hub.follow(topics, request.headers.get("Last-Event-ID"), _follower(opened.who))
        async with contextlib.aclosing(following) as frames:
            async for frame in frames:
                await response.write(frame)
    except ConnectionResetError:
        # A disconnected browser, even before the headers, is noticed when something is sent to it,
        return response
    except asyncio.CancelledError:
        # or when the next stream is opened. Otherwise the server ends the request.
        if not opened.is_over:
            raise
    return response


def _follower(who: SignedIn) -> Follower:
    return Follower(
        sees_everything=who.sees_everything,
        organisation_id=who.organisation_id or 0,
        language=language.get(),
        zone=here().key,
    )


ROUTES = (web.get("/events", stream, allow_head=False),)
