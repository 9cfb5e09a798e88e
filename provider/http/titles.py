"""`/oai/titles`: the titles of the archive as a repository, served like the archive's documents."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from typing import Final
from urllib.parse import urljoin

from aiohttp import web
from sqlalchemy import Engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from oai.database import Database, first_line
from oai.sections import ProviderSettings
from provider.http import endpoint, landing
from provider.http.admission import admitted
from provider.http.aggregate import background_engine
from provider.http.keys import BASE_URL, DATABASE, REPLICAS, SETTINGS
from provider.protocol.repository import OaiAnswer, Repository
from provider.protocol.requests import Pairs
from provider.titles.catalogue import has_titles, make_titles
from provider.titles.formats import FORMATS
from provider.titles.front_pages import read_front_pages
from provider.titles.publication import count_new

_BELOW: Final = "/titles"
PATH: Final = endpoint.PATH + _BELOW
"""The path of the repository of titles."""
_NONE: Final = (
    "404: no title is listed here (titles are listed once they are public and have captures); "
    "see `zatva provider titles list`\n"
)


_log = logging.getLogger("provider.titles")


def add_routes(app: web.Application) -> None:
    """Add the path; it answers 404 until a title is listed."""
    database = app[DATABASE]
    repository = make_titles(
        app[SETTINGS], database, app[BASE_URL].rstrip("/") + _BELOW, FORMATS, app[REPLICAS]
    )
    available = endpoint.Availability(database, has_titles, _NONE)

    def ask(pairs: Pairs) -> OaiAnswer:
        available.refuse_until_published()
        return repository.answer(pairs)

    async def page(request: web.Request) -> web.Response:
        def work() -> bytes:
            available.refuse_until_published()
            return _render(repository)

        return landing.page_response(await admitted(request, work))

    endpoint.add_repository(app, PATH, ask, page)
    landing.add_files(app, landing.STYLES, path=PATH)


def _render(repository: Repository) -> bytes:
    """Return the page that explains the address, as HTML in UTF-8."""
    with repository.database.session() as session:
        formats = repository.catalogue.formats(session)
    pages_url = urljoin(repository.site.base_url, "../titles")
    return landing.page_of(repository.site, "titles.html", formats=formats, pages_url=pages_url)


async def counting(app: web.Application) -> AsyncIterator[None]:
    """Count new captures of titles every `titles_seconds` while the application runs.

    Files that workers index, take-downs and access rules change the figures, too, not only `provider index`.
    """
    settings = app[SETTINGS].provider
    engine = background_engine(app[DATABASE], "zatva titles")

    async def keep_counting() -> None:
        while True:
            await asyncio.sleep(settings.titles_seconds)
            await asyncio.to_thread(_count, engine, settings.publish_margin)
            while settings.title_front_pages and await asyncio.to_thread(_read_pages, engine, settings):
                pass  # in small steps, because a running one delays the end of the application

    task = asyncio.create_task(keep_counting())
    yield
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


def _read_pages(engine: Engine, settings: ProviderSettings) -> bool:
    """Read some front pages; return whether there may be more."""
    try:
        return read_front_pages(Database(engine=engine), settings) > 0
    except SQLAlchemyError as error:
        _log.warning("front pages of titles were not read: %s", first_line(error))
        return False


def _count(engine: Engine, margin: float) -> None:
    try:
        with Session(engine) as session:
            count_new(session, margin=margin)
            session.commit()
    except SQLAlchemyError as error:
        _log.warning("titles were not counted: %s", first_line(error))
