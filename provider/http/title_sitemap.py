"""`/sitemap-titles.xml`: the pages of titles for search engines (sitemaps.org, protocol 0.9).

An index of parts, each of which holds the listed titles of a range of 50,000 numbers, which is also the most
that the protocol allows: so a part is one range scan, and a new title changes only the last one.
"""

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import urljoin

from aiohttp import web
from sqlalchemy import text
from sqlalchemy.orm import Session

from oai.compression import gzipped
from oai.datestamps import format_datestamp
from oai.xml import escape
from provider.http.admission import admitted
from provider.http.endpoint import accepts_gzip
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
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
    base_url = request.app[BASE_URL]
    return await _answer(
        request, lambda session: sitemap("sitemapindex", "sitemap", _parts(session, base_url))
    )


async def _part(request: web.Request) -> web.Response:
    base_url, begin = request.app[BASE_URL], int(request.match_info["part"]) * PART
    return await _answer(request, lambda session: sitemap("urlset", "url", _pages(session, base_url, begin)))


async def _answer(request: web.Request, read: Callable[[Session], bytes | None]) -> web.Response:
    database, level = request.app[DATABASE], request.app[SETTINGS].provider.compression_level
    compressed = accepts_gzip(request.headers.getall("Accept-Encoding", []))

    def work() -> bytes | None:
        with database.session() as session:
            body = read(session)
        return gzipped(body, level) if body is not None and compressed else body

    body = await admitted(request, work, lengthy=True)
    if body is None:
        raise web.HTTPNotFound(text="404: no titles are published here\n")
    headers = {
        "Content-Type": "application/xml; charset=utf-8",
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
        **({"Content-Encoding": "gzip"} if compressed else {}),
    }
    return web.Response(body=body, headers=headers)


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


def sitemap(root: str, entry: str, found: Iterator[tuple[str, str]]) -> bytes | None:
    """Return the XML of addresses and the times of their last change; None if there are none."""
    entries = "".join(
        f"<{entry}><loc>{escape(url)}</loc><lastmod>{changed}</lastmod></{entry}>\n" for url, changed in found
    )
    if not entries:
        return None
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<{root} xmlns="{_NAMESPACE}">\n{entries}</{root}>\n'
    ).encode()
