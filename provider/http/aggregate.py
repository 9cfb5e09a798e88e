"""`/oai/aggregate`: harvested records republished, served like the archive's repository."""

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from aiohttp import web
from sqlalchemy import Engine, NullPool, create_engine, func, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import Database, first_line
from oai.datestamps import format_datestamp, utc_now
from oai.errors import ZatvaError, of_kind
from oai.outage import Outage
from oai.settings import Settings
from provider.aggregate.catalogue import (
    AggregateCatalogue,
    UnreadablePageError,
    is_set_up,
    make_aggregate,
)
from provider.aggregate.models import AggregateCount, AggregateSet, AggregateSource
from provider.aggregate.update import notice_unreadable, updater
from provider.http import endpoint, landing
from provider.http.admission import TryLater, Why, admitted
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
from provider.protocol.catalogue import OfferedFormat
from provider.protocol.formats.format import Site
from provider.protocol.repository import OaiAnswer, Repository
from provider.protocol.requests import Pairs

_BELOW: Final = "/aggregate"
PATH: Final = endpoint.PATH + _BELOW
"""The path of the aggregate."""

_RETRY_SECONDS: Final = 15
"""By then, publishing has retried the unreadable files."""
_REPOSITORY: Final = web.AppKey("aggregate", Repository)
_NONE: Final = "404: no harvested repository is published here; add one with `zatva provider aggregate add`\n"

_log = logging.getLogger("provider.http.aggregate_endpoint")


@dataclass(frozen=True, kw_only=True)
class SourceSize:
    """A source and its number of listed records, in all formats."""

    set_spec: str
    name: str
    base_url: str
    records: int


def add_routes(app: web.Application) -> None:
    """Add the path; it answers 404 until a source is added."""
    database = app[DATABASE]
    repository = make_aggregate(app[SETTINGS], database, app[BASE_URL].rstrip("/") + _BELOW)
    app[_REPOSITORY] = repository
    available = endpoint.Availability(database, is_set_up, _NONE)

    def ask(pairs: Pairs) -> OaiAnswer:
        available.refuse_until_published()
        try:
            return repository.answer(pairs)
        except UnreadablePageError as error:
            _log.error("503 for a page of the aggregate: %s", error)
            _notice(database, error)
            raise TryLater(Why.STORE, "records cannot be read from the store", _RETRY_SECONDS) from None

    async def page(request: web.Request) -> web.Response:
        return await _landing_page(request, available)

    endpoint.add_repository(app, PATH, ask, page)
    landing.add_files(app, landing.STYLES, path=PATH)


def _notice(database: Database, error: UnreadablePageError) -> None:
    with database.session() as session:
        notice_unreadable(session, error.reasons)
        session.commit()


async def _landing_page(request: web.Request, available: endpoint.Availability) -> web.Response:
    repository, database = request.app[_REPOSITORY], request.app[DATABASE]
    catalogue = of_kind(repository.catalogue, AggregateCatalogue, "`add_routes` made it")

    def work() -> bytes:
        available.refuse_until_published()
        with database.session() as session:
            return render(repository.site, read_sources(session), catalogue.formats(session), utc_now())

    return landing.page_response(await admitted(request, work))


def read_sources(session: Session) -> Sequence[SourceSize]:
    """Return the sources with their kept counts, without counting records."""
    rows = session.execute(
        select(
            AggregateSource.name,
            AggregateSource.title,
            AggregateSource.base_url,
            func.coalesce(func.sum(AggregateCount.records), 0),
        )
        .join(AggregateSet, AggregateSet.set_spec == AggregateSource.name)
        .outerjoin(AggregateCount, AggregateCount.set_id == AggregateSet.id)
        .where(AggregateSource.withdrawn.is_(None))
        .group_by(AggregateSource.repository_id)
        .order_by(AggregateSource.name)
    )
    return [
        SourceSize(set_spec=name, name=title, base_url=base_url, records=int(records))
        for name, title, base_url, records in rows
    ]


def render(
    site: Site, sources: Sequence[SourceSize], formats: Sequence[OfferedFormat], now: datetime
) -> bytes:
    """Return the page as HTML in UTF-8; `now` provides the dates in its examples."""
    moment = format_datestamp(now)
    return landing.page_of(site, "aggregate.html", sources=sources, formats=formats, moment=moment)


_OPTIONS: Final = "-c timezone=UTC -c temp_buffers=64MB -c lock_timeout=10000"

publishing_log = logging.getLogger("provider.http.aggregating")


@dataclass(kw_only=True)
class Aggregating:
    """Publishing statistics of this process."""

    records: int = 0
    updated: float | None = None
    """When this process last found everything published, by the monotonic clock."""

    def age(self) -> float:
        """Return the seconds since then; NaN before the first time."""
        return float("nan") if self.updated is None else time.monotonic() - self.updated


AGGREGATING: Final = web.AppKey("aggregating", Aggregating)


class _StopError(ZatvaError):
    """The provider is stopping; the next process publishes the rest."""


class _Publisher:
    """Publishes over a dedicated connection, open only while it works."""

    def __init__(self, engine: Engine, outage: Outage, settings: Settings, figures: Aggregating) -> None:
        self._engine = engine
        self._outage = outage
        self._settings = settings
        self._figures = figures
        self._compared: dict[int, datetime | None] = {}
        self.stopping = False

    def publish(self) -> None:
        """Publish all outstanding changes; errors are logged and the work is retried the next time."""
        try:
            with updater(self._engine, self._settings, self._check, self._compared) as mine:
                if mine is not None:
                    # Only this thread writes these figures; the metrics read each one in a single access.
                    self._figures.records += mine.run().records
                    self._figures.updated = time.monotonic()
            self._outage.answered()
        except _StopError:
            return
        except OperationalError as error:
            self._outage.failed(first_line(error))
        except (SQLAlchemyError, ZatvaError) as error:
            publishing_log.warning("harvested records were not published: %s", str(error).partition("\n")[0])

    def _check(self) -> None:
        if self.stopping:
            raise _StopError


def background_engine(database: Database, name: str) -> Engine:
    """Return an engine for work between requests, with a connection only while it is used."""
    return create_engine(
        database.url,
        poolclass=NullPool,
        connect_args={"options": _OPTIONS, "application_name": name, "connect_timeout": 5},
    )


async def aggregating(app: web.Application) -> AsyncIterator[None]:
    """Publish every `aggregate_seconds` in a thread while the application runs; finish the current part."""
    settings, database = app[SETTINGS], app[DATABASE]
    engine = background_engine(database, "zatva aggregate")
    publisher = _Publisher(engine, database.outage, settings, app[AGGREGATING])
    stopping = asyncio.Event()

    async def keep_publishing() -> None:
        while not stopping.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopping.wait(), settings.provider.aggregate_seconds)
            if not stopping.is_set():
                await asyncio.to_thread(publisher.publish)

    task = asyncio.create_task(keep_publishing())
    yield
    # A plain flag is enough: only this thread sets it, and the publishing thread reads it between two
    # parts.
    publisher.stopping = True
    stopping.set()
    await task
