"""`/sitemap-titles.xml`: the pages of titles for search engines (sitemaps.org, protocol 0.9).

An index of parts, each of which holds the listed titles of a range of 50,000 numbers, which is also the most
that the protocol allows: so a part is one range scan, and a new title changes only the last one.
"""

from collections.abc import Iterator
from typing import Final
from urllib.parse import urljoin

from aiohttp import web
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.datestamps import format_datestamp
from oai.xml import escape
from provider.http.admission import admitted
from provider.http.keys import BASE_URL, DATABASE
from provider.http.title_pages import PATH as PAGES

PATH: Final = "/sitemap-titles.xml"
PART: Final = 50_000
_NAMESPACE: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
_PARTS: Final = f"""
SELECT title_id / {PART} AS part, max(datestamp) AS changed FROM title_search JOIN title USING (title_id)
GROUP BY 1 ORDER BY 1
"""  # noqa: S608 our own number
_TITLES: Final = """
SELECT title.key, title.datestamp FROM title_search JOIN title USING (title_id)
WHERE title_id >= :begin AND title_id < :end ORDER BY title_id
"""


def add_routes(app: web.Application) -> None:
    """Add the paths of the index and its parts."""
    app.router.add_get(PATH, _index, allow_head=True)
    app.router.add_get("/sitemap-titles-{part:[0-9]{1,6}}.xml", _part, allow_head=True)


async def _index(request: web.Request) -> web.Response:
    database, base_url = request.app[DATABASE], request.app[BASE_URL]

    def work() -> bytes:
        with database.session() as session:
            return sitemap("sitemapindex", "sitemap", _parts(session, base_url))

    return _response(await admitted(request, work))


async def _part(request: web.Request) -> web.Response:
    database, base_url = request.app[DATABASE], request.app[BASE_URL]
    begin = int(request.match_info["part"]) * PART

    def work() -> bytes:
        with database.session() as session:
            return sitemap("urlset", "url", _pages(session, base_url, begin))

    return _response(await admitted(request, work, lengthy=True))


def _parts(session: Session, base_url: str) -> Iterator[tuple[str, str]]:
    for row in session.execute(text(_PARTS)):
        yield urljoin(_root(base_url), f"sitemap-titles-{row.part}.xml"), format_datestamp(row.changed)


def _pages(session: Session, base_url: str, begin: int) -> Iterator[tuple[str, str]]:
    beginning = urljoin(_root(base_url), PAGES.removeprefix("/"))
    for row in session.execute(text(_TITLES), {"begin": begin, "end": begin + PART}):
        yield f"{beginning}/{row.key.hex}", format_datestamp(row.datestamp)


def _root(base_url: str) -> str:
    """Return the folder of the provider's paths: that of the base URL."""
    return urljoin(base_url.rstrip("/"), ".")


def sitemap(root: str, entry: str, found: Iterator[tuple[str, str]]) -> bytes:
    """Return the XML of addresses and the times of their last change."""
    entries = "".join(
        f"<{entry}><loc>{escape(url)}</loc><lastmod>{changed}</lastmod></{entry}>\n" for url, changed in found
    )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{_NAMESPACE}">\n{entries}</{root}>\n'
    ).encode()


def _response(body: bytes) -> web.Response:
    if b"<loc>" not in body:  # the protocol needs one entry at least
        raise web.HTTPNotFound(text="404: no titles are published here\n")
    headers = {"Content-Type": "application/xml; charset=utf-8", "Cache-Control": "no-cache"}
    return web.Response(body=body, headers=headers)
