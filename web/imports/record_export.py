"""Hits of the catalogue as a file: what the list shows, with identifier, source, numbers and subjects."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.bibliographic.record_view import DetailedHit, with_details
from web.auth.access import who_asks
from web.imports.pages_records import asked_in, find_hits
from web.site.export import AT_ONCE, KINDS, columns_of, export
from web.site.keys import database_of

_COLUMNS: Final = columns_of(
    "bibliographic_id", "repository_id", "title", "subtitle", "statement", "contributors", "kind", "place",
    "publisher", "date_text", "year_from", "year_to", "languages", "identifier", "source", "numbers",
    "subjects",
)  # fmt: skip


async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the hits with all their names."""
    asked, who, following = asked_in(request), who_asks(request), ""

    def find(session: Session, after: str | None) -> tuple[Sequence[DetailedHit], str]:
        page = find_hits(session, who, asked, after=after, limit=AT_ONCE, all_names=True)
        return with_details(session, page.hits), page.next or ""

    async def behind(last: DetailedHit | None) -> Sequence[DetailedHit]:
        nonlocal following
        if last is not None and not following:
            return []
        hits, following = await database_of(request).run(find, following or None)
        return hits

    return await export(request, "bibliographic-records", _COLUMNS, behind)


ROUTES = (web.get(f"/records.{KINDS}", as_file, allow_head=False),)
