"""Live pages: changed rows are pushed to every browser that follows them (server-sent events).

One poller reads once a second only what is followed: the rows of a topic that one organisation may see, from
one place in the list on; organisations without any rows are found by one query. It renders the rows once for
each followed language and time zone, with the page's own template, and sends the result to all followers
alike. An event's id is `<epoch>.<version>`; a browser that reconnects with it gets the changes since.

Safe without locks: only the event loop changes feeds and versions; worker threads render new rows and return
them, and one poller at a time reads a feed.
"""

import asyncio
import contextlib
import json
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final

from jinja2 import Environment, Template
from sqlalchemy import Select
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import first_line
from oai.errors import TryLaterError
from oai.executor import DatabaseExecutor
from oai.languages import SOURCE
from web.auth.access import repositories_of
from web.site.i18n import use_language
from web.site.paging import LARGEST_BIGINT, as_number
from web.site.zones import live_in

HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = b"event: alive\ndata: {}\n\n"
"""An event, because scripts do not see comments; `zatva.js` reconnects after three missing heartbeats."""
_NOTHING_SEEN: Final = -1
_RETRY: Final = b"retry: 2000\n\n"
_MOST_KEPT: Final = 64
"""Number of feeds kept without followers, for browsers that reconnect."""

_log = logging.getLogger("web.events")

Rows = Sequence[tuple[str, Mapping[str, Any]]]
"""Pairs of a row's element id and its template context."""


@dataclass(frozen=True, kw_only=True)
class Topic:
    """A followable topic: how its rows are read, and the template of one row.

    `load` receives the visible repositories (None: all) and the place in the list, empty for its start;
    `is_place` returns whether a text is a valid place. `with_rows` returns those of the given organisations
    that may have rows, by one query; nothing is read for the others.
    """

    load: Callable[[Session, Select[int] | None, str], Rows]
    template: str
    is_place: Callable[[str], bool] = lambda _: False
    with_rows: Callable[[Session, Collection[int]], Collection[int]] | None = None


@dataclass(frozen=True, kw_only=True, order=True)
class TopicReading:
    """One query of rows: topic, starting place and visibility."""

    topic: str
    """The topic's name, followed by a colon and the place if there is one, as browsers request it."""
    sees_everything: bool = True
    organisation_id: int = 0

    @property
    def name(self) -> str:
        """The topic's name alone."""
        return self.topic.partition(":")[0]

    def load(self, session: Session, topic: Topic) -> Rows:
        """Read the rows."""
        among = None if self.sees_everything else repositories_of(self.organisation_id)
        return topic.load(session, among, self.topic.partition(":")[2])


@dataclass(frozen=True, kw_only=True)
class Follower:
    """Visibility, language and time zone of a follower."""

    sees_everything: bool = True
    organisation_id: int = 0
    language: str = SOURCE
    zone: str = "UTC"


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A row as last read: its template context, the rendered HTML, and the version of its last change."""

    context: Mapping[str, Any]
    html: str
    version: int


class _Feed:
    """The rows of one query as last read, in one language and time zone."""

    def __init__(self, reading: TopicReading, language: str, zone: str) -> None:
        self.reading = reading
        self.watchers = 0
        self.fresh = False
        self._language = language
        self._zone = zone
        self._rows: dict[str, _Row] = {}
        self._order_version = _NOTHING_SEEN

    def rendered(self, loaded: Rows, template: Template, version: int) -> dict[str, _Row]:
        """Return the present rows; those that changed are rendered and get `version`."""
        use_language(self._language)
        live_in(self._zone)
        rows = {}
        for name, context in loaded:
            known = self._rows.get(name)
            if known is None or known.context != context:
                html = template.render(context)
                at = known.version if known is not None and known.html == html else version
                known = _Row(context=context, html=html, version=at)
            rows[name] = known
        return rows

    def update(self, rows: dict[str, _Row], version: int) -> bool:
        """Replace the rows; return whether followers must be notified."""
        if list(self._rows) != list(rows) or self._order_version == _NOTHING_SEEN:
            self._order_version = version
        self._rows = rows
        changed = self._order_version == version or any(row.version == version for row in rows.values())
        first_look, self.fresh = not self.fresh, True
        return changed or first_look

    def since(self, version: int) -> dict[str, Any] | None:
        """Return what changed after `version`, or None if nothing did."""
        if not self.fresh:
            return None
        rows = {name: row.html for name, row in self._rows.items() if row.version > version}
        if self._order_version > version:
            return {"rows": rows, "order": list(self._rows)}
        return {"rows": rows} if rows else None


class Hub:
    """Connects the poller with the followers."""

    def __init__(
        self,
        database: DatabaseExecutor,
        templates: Environment,
        topics: Mapping[str, Topic],
        *,
        poll_seconds: float,
    ) -> None:
        self._database = database
        self._templates = templates
        self._topics = topics
        self._feeds: OrderedDict[tuple[TopicReading, str, str], _Feed] = OrderedDict()
        self._poll_seconds = poll_seconds
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._watched = asyncio.Event()
        self._changed = asyncio.Event()
        self._closed = False

    def knows(self, topic: str) -> bool:
        """Return whether the topic exists and its place is valid."""
        name, _, place = topic.partition(":")
        return name in self._topics and (not place or self._topics[name].is_place(place))

    @property
    def followed(self) -> int:
        """Return the number of feeds with followers, each of which is polled."""
        return sum(feed.watchers > 0 for feed in self._feeds.values())

    def close(self) -> None:
        """End all followers."""
        self._closed = True
        self._wake()

    async def poll(self, check: Callable[[], Awaitable[None]]) -> None:
        """Poll what is followed; runs until cancelled.

        `check` ends the followers that may no longer follow, before each reading: nothing that was read after
        it is sent to them. If it fails, nothing is read.
        """
        while True:
            await self._watched.wait()
            if await self._succeeds(check()):
                watched = [feed for feed in self._feeds.values() if feed.watchers]
                for topic, feeds in groupby(sorted(watched, key=_reading), lambda feed: feed.reading.name):
                    await self._succeeds(self._read_topic(self._topics[topic], list(feeds)))
            await asyncio.sleep(self._poll_seconds)

    async def follow(
        self,
        topics: Sequence[str],
        last_event_id: str | None,
        follower: Follower,
    ) -> AsyncGenerator[bytes, None]:
        """Yield frames for one follower until the hub is closed; heartbeats while it has no news."""
        seen = self._seen(last_event_id)
        feeds = {topic: self._feed(topic, follower) for topic in topics}
        with self._watching(feeds.values()):
            yield _RETRY
            sent_at = time.monotonic()
            while not self._closed:
                # Taken together before anything is sent: rows may change while a frame is being sent.
                changed, version, frames = self._changed, self._version, self._frames(feeds, seen)
                if not frames and time.monotonic() >= sent_at + HEARTBEAT_SECONDS:
                    frames = [HEARTBEAT]
                for frame in frames:
                    yield frame
                if all(feed.fresh for feed in feeds.values()):
                    seen = version
                # Changes of other lists wake this follower, too, and must not delay its heartbeats.
                sent_at = time.monotonic() if frames else sent_at
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), sent_at + HEARTBEAT_SECONDS - time.monotonic())

    def _feed(self, topic: str, follower: Follower) -> _Feed:
        reading = TopicReading(
            topic=topic,
            sees_everything=follower.sees_everything,
            organisation_id=0 if follower.sees_everything else follower.organisation_id,
        )
        key = (reading, follower.language, follower.zone)
        feed = self._feeds.setdefault(key, _Feed(*key))
        self._feeds.move_to_end(key)
        idle = [known for known, each in self._feeds.items() if not each.watchers and each is not feed]
        for known in idle[:-_MOST_KEPT]:
            del self._feeds[known]
        return feed

    async def _read_topic(self, topic: Topic, feeds: Sequence[_Feed]) -> None:
        if topic.with_rows is not None:
            feeds = await self._with_rows(topic.with_rows, feeds)
        for reading, same in groupby(feeds, _reading):
            await self._succeeds(self._read(topic, reading, list(same)))

    async def _with_rows(
        self, find_busy: Callable[[Session, Collection[int]], Collection[int]], feeds: Sequence[_Feed]
    ) -> Sequence[_Feed]:
        """Empty the feeds of organisations that have no rows; return the others."""
        limited = [feed for feed in feeds if not feed.reading.sees_everything]
        organisations = {feed.reading.organisation_id for feed in limited}
        busy = await self._database.run(find_busy, organisations) if limited else ()
        empty = [feed for feed in limited if feed.reading.organisation_id not in busy]
        self._update(empty, [{} for _ in empty])
        return [
            feed for feed in feeds if feed.reading.sees_everything or feed.reading.organisation_id in busy
        ]

    async def _read(self, topic: Topic, reading: TopicReading, feeds: Sequence[_Feed]) -> None:
        version = self._version + 1
        template = self._templates.get_template(topic.template)

        def read(session: Session) -> list[dict[str, _Row]]:
            loaded = reading.load(session, topic)
            return [feed.rendered(loaded, template, version) for feed in feeds]

        self._update(feeds, await self._database.run(read))

    async def _succeeds(self, step: Awaitable[None]) -> bool:
        try:
            await step
        except OperationalError as error:
            self._database.database.outage.failed(first_line(error))
            return False
        except (SQLAlchemyError, TryLaterError) as error:
            _log.warning("live rows: %s", error)
            return False
        return True

    def _update(self, feeds: Sequence[_Feed], found: Sequence[dict[str, _Row]]) -> None:
        version = self._version + 1
        news = [feed.update(rows, version) for feed, rows in zip(feeds, found, strict=True)]
        if any(news):
            self._version = version
            self._wake()

    def _frames(self, feeds: Mapping[str, _Feed], seen: int) -> list[bytes]:
        frames = []
        for name, feed in feeds.items():
            news = feed.since(seen)
            if news is not None:
                data = json.dumps(news, ensure_ascii=False)
                frames.append(f"id: {self._epoch}.{self._version}\nevent: {name}\ndata: {data}\n\n".encode())
        return frames

    def _seen(self, last_event_id: str | None) -> int:
        epoch, _, version = (last_event_id or "").partition(".")
        seen = as_number(version, largest=LARGEST_BIGINT) if epoch == self._epoch else None
        return _NOTHING_SEEN if seen is None else seen

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # Followers hold the old event; replacing it after `set` wakes each of them once.

    @contextlib.contextmanager
    def _watching(self, feeds: Collection[_Feed]) -> Iterator[None]:
        for feed in feeds:
            feed.watchers += 1
        self._watched.set()
        try:
            yield
        finally:
            for feed in feeds:
                feed.watchers -= 1
                # A feed without followers is not polled, so its rows would be stale for the next follower.
                feed.fresh = feed.fresh and feed.watchers > 0
            if not self.followed:
                self._watched.clear()


def _reading(feed: _Feed) -> TopicReading:
    return feed.reading
