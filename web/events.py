"""Live pages: rows that changed are pushed to every browser that follows them (server-sent events).

One poller reads each topic once a second, and only while somebody follows it. A row is rendered once in each
language that is followed in, by the template that the page itself uses, and is sent to all who may see it. An
event's id is `<epoch>.<version>`, from which a
browser that comes back gets what changed meanwhile.
"""

import asyncio
import contextlib
import json
import logging
import secrets
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, Template
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.errors import TryLaterError
from web.languages import LANGUAGES, SOURCE, speak
from web.threads import DatabaseThreads

HEARTBEAT_SECONDS: Final = 15.0
HEARTBEAT: Final = b": still here\n\n"
_NOTHING_SEEN: Final = -1
_RETRY: Final = b"retry: 2000\n\n"

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Topic:
    """Something that can be followed: how its rows are read, and the template of one row.

    `load` gives pairs of the row's element id and what the template is given; `owner` the number of the
    repository that a row is of. Rows of none are for those who see every repository.
    """

    load: Callable[[Session], Sequence[tuple[str, Mapping[str, Any]]]]
    template: str
    owner: Callable[[Mapping[str, Any]], int | None] = lambda _: None


Sees = Callable[[int | None], bool]
"""Whether a follower may see the rows of a repository."""


def everything(_: int | None) -> bool:
    """What those see who see every repository."""
    return True


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A row as it was last read: what its template was given, what came of it, and when that changed."""

    context: Mapping[str, Any]
    html: str
    version: int


class _Feed:
    """The rows of one topic as they were last read."""

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self.watchers = 0
        self.fresh = False
        self._rows: dict[str, _Row] = {}
        self._order_version = _NOTHING_SEEN

    def read(self, session: Session, template: Template, version: int) -> dict[str, _Row]:
        """The rows of this moment; those that changed are rendered, as of `version`."""
        rows = {}
        for name, context in self.topic.load(session):
            known = self._rows.get(name)
            if known is None or known.context != context:
                html = template.render(context)
                at = known.version if known is not None and known.html == html else version
                known = _Row(context=context, html=html, version=at)
            rows[name] = known
        return rows

    def update(self, rows: dict[str, _Row], version: int) -> bool:
        """Take new rows over; whether followers have to be told."""
        if list(self._rows) != list(rows) or self._order_version == _NOTHING_SEEN:
            self._order_version = version
        self._rows = rows
        changed = self._order_version == version or any(row.version == version for row in rows.values())
        first_look, self.fresh = not self.fresh, True
        return changed or first_look

    def since(self, version: int, sees: Sees) -> dict[str, Any] | None:
        """What a follower that has seen `version` lacks, or None where it lacks nothing."""
        if not self.fresh:
            return None
        seen = {name: row for name, row in self._rows.items() if sees(self.topic.owner(row.context))}
        rows = {name: row.html for name, row in seen.items() if row.version > version}
        if self._order_version > version:
            return {"rows": rows, "order": list(seen)}
        return {"rows": rows} if rows else None


class Hub:
    """Joins the poller and the followers."""

    def __init__(
        self,
        database: DatabaseThreads,
        templates: Environment,
        topics: Mapping[str, Topic],
        *,
        poll_seconds: float,
    ) -> None:
        self._database = database
        self._templates = templates
        self._topics = frozenset(topics)
        self._feeds = {
            (name, language): _Feed(topic) for name, topic in topics.items() for language in LANGUAGES
        }
        self._poll_seconds = poll_seconds
        self._epoch = secrets.token_hex(4)
        self._version = 0
        self._watched = asyncio.Event()
        self._changed = asyncio.Event()
        self._closed = False

    def knows(self, topic: str) -> bool:
        """Whether there is such a topic."""
        return topic in self._topics

    def close(self) -> None:
        """Let every follower end."""
        self._closed = True
        self._tell()

    async def poll(self) -> None:
        """Read what is followed, again and again; runs until cancelled."""
        while True:
            await self._watched.wait()
            for (_topic, language), feed in self._feeds.items():
                if feed.watchers:
                    speak(language)
                    await self._read(feed)
            await asyncio.sleep(self._poll_seconds)

    async def follow(
        self,
        topics: Sequence[str],
        last_event_id: str | None,
        *,
        language: str = SOURCE,
        sees: Sees = everything,
    ) -> AsyncGenerator[bytes, None]:
        """Frames for one follower, until the hub is closed; comments while there is nothing to tell."""
        seen = self._seen(last_event_id)
        feeds = {name: self._feeds[name, language] for name in topics}
        with self._watching(feeds.values()):
            yield _RETRY
            while not self._closed:
                # All of one moment, before anything is sent: sending takes time in which rows change.
                changed, version, frames = self._changed, self._version, self._frames(feeds, seen, sees)
                for frame in frames:
                    yield frame
                if all(feed.fresh for feed in feeds.values()):
                    seen = version
                try:
                    await asyncio.wait_for(changed.wait(), HEARTBEAT_SECONDS)
                except TimeoutError:
                    yield HEARTBEAT

    async def _read(self, feed: _Feed) -> None:
        template, version = self._templates.get_template(feed.topic.template), self._version + 1
        try:
            rows = await self._database.run(feed.read, template, version)
        except (SQLAlchemyError, TryLaterError) as error:
            _log.warning("live rows: %s", error)
            return
        if feed.update(rows, version):
            self._version = version
            self._tell()

    def _frames(self, feeds: Mapping[str, _Feed], seen: int, sees: Sees) -> list[bytes]:
        frames = []
        for name, feed in feeds.items():
            news = feed.since(seen, sees)
            if news is not None:
                data = json.dumps(news, ensure_ascii=False)
                frames.append(f"id: {self._epoch}.{self._version}\nevent: {name}\ndata: {data}\n\n".encode())
        return frames

    def _seen(self, last_event_id: str | None) -> int:
        epoch, _, version = (last_event_id or "").partition(".")
        return int(version) if epoch == self._epoch and version.isdecimal() else _NOTHING_SEEN

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

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
                # What nobody follows is not read, so it is not to be shown as it was.
                feed.fresh = feed.fresh and feed.watchers > 0
            if not any(feed.watchers for feed in self._feeds.values()):
                self._watched.clear()
