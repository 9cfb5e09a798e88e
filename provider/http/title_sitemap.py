"""`/sitemap-titles.xml`: the pages of titles for search engines (sitemaps.org, protocol 0.9).

An index of parts with at most 50,000 titles, which the protocol allows: one part with all titles, or one for
each beginning of a title's key, of as few digits as are needed. Keys are digests, and only listed titles are
counted, so neither the parts nor their sizes say anything about others; and a new title changes only one of
them.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import urljoin

from aiohttp import web
from sqlalchemy import Row, text
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
_WHOLE: Final = "all"
_DIGITS: Final = 32
_LONGEST: Final = 8
"""Digits of the beginning of a key; its first hyphen in PostgreSQL follows."""
_NAMESPACE: Final = "http://www.sitemaps.org/schemas/sitemap/0.9"
_PARTS: Final = """
SELECT left(key::text, :digits) AS part, max(datestamp) AS changed, count(*) AS titles
FROM title WHERE NOT deleted GROUP BY 1 ORDER BY 1
"""
_TITLES: Final = f"""
SELECT key, datestamp FROM title WHERE key BETWEEN :first AND :last AND NOT deleted ORDER BY key LIMIT {PART}
"""  # noqa: S608 our own number


def add_routes(app: web.Application) -> None:
    """Add the paths of the index and its parts."""
    app.router.add_get(PATH, _index, allow_head=True)
    app.router.add_get(
        f"/sitemap-titles-{{part:{_WHOLE}|[0-9a-f]{{1,{_LONGEST}}}}}.xml", _part, allow_head=True
    )


async def _index(request: web.Request) -> web.Response:
    base_url = request.app[BASE_URL]
    return await _answer(
        request, lambda session: sitemap("sitemapindex", "sitemap", _parts(session, base_url))
    )


async def _part(request: web.Request) -> web.Response:
    base_url, part = request.app[BASE_URL], request.match_info["part"].replace(_WHOLE, "")
    return await _answer(request, lambda session: sitemap("urlset", "url", _pages(session, base_url, part)))


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
    for row in divided(session):
        name = f"sitemap-titles-{row.part or _WHOLE}.xml"
        yield urljoin(_root(base_url), name), format_datestamp(row.changed)


def divided(session: Session, most: int = PART) -> Sequence[Row[tuple[str, datetime, int]]]:
    """Return the parts with the last datestamps and numbers of their listed titles.

    They are named by the fewest digits of a key with which none has more than `most` titles.
    """
    for digits in range(_LONGEST + 1):
        rows = session.execute(text(_PARTS), {"digits": digits}).all()
        if all(row.titles <= most for row in rows):
            break
    return rows


def _pages(session: Session, base_url: str, part: str) -> Iterator[tuple[str, str]]:
    beginning = urljoin(_root(base_url), PAGES.removeprefix("/"))
    bounds = {
        "first": uuid.UUID(hex=part.ljust(_DIGITS, "0")), "last": uuid.UUID(hex=part.ljust(_DIGITS, "f")),
    }  # fmt: skip
    for row in session.execute(text(_TITLES), bounds):
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
