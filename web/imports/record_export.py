"""Hits of the catalogue as a file: what the list shows, with identifier, source, numbers and subjects."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web
from sqlalchemy.orm import Session

from harvester.bibliographic.record_view import DetailedHit, with_details
from harvester.bibliographic.search import find_all, hits_of
from web.auth.access import who_asks
from web.imports.pages_records import asked_in, restricted
from web.site.export import AT_ONCE, KINDS, columns_of, export
from web.site.keys import database_of

_COLUMNS: Final = columns_of(
    "bibliographic_id", "repository_id", "title", "subtitle", "statement", "contributors", "kind", "place",
    "publisher", "date_text", "year_from", "year_to", "languages", "identifier", "source", "numbers",
    "subjects",
)  # fmt: skip


async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the hits with all their names."""
    asked, who, database = asked_in(request), who_asks(request), database_of(request)
    # A search for each piece would sort all hits each time.
    ids = await database.run(
        lambda session: find_all(session, restricted(session, who, asked), order=asked.order)
    )
    begins = iter(range(0, len(ids), AT_ONCE))

    def find(session: Session, begin: int) -> Sequence[DetailedHit]:
        return with_details(session, hits_of(session, ids[begin : begin + AT_ONCE]))

    async def behind(_last: DetailedHit | None) -> Sequence[DetailedHit]:
        for begin in begins:
            if hits := await database.run(find, begin):
                return hits
        return []

    return await export(request, "bibliographic-records", _COLUMNS, behind)


ROUTES = (web.get(f"/records.{KINDS}", as_file, allow_head=False),)
