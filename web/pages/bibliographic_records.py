"""Harvested records as a catalogue: searched with facets, exported, one of them shown whole."""

from collections.abc import Sequence
from typing import Final

from aiohttp import web

from harvester.bibliographic.models import BibliographicRow
from harvester.bibliographic.searching import Hit, Order
from harvester.bibliographic.showing import get_record, made_from
from oai.errors import UsageError
from web.access import asked_for, who_asks
from web.exports import AT_ONCE, KINDS, columns_of, export
from web.record_searches import asked_in, find_hits, find_with_facets
from web.record_words import chapters, kinds, notes
from web.rendering import render
from web.threads import database_of
from web.words import _

_PAGE: Final = 50
_BIG_NUMBER: Final = r"{id:[1-9][0-9]{0,17}}"
_COLUMNS: Final = columns_of(
    "bibliographic_id", "repository_id", "title", "subtitle", "statement", "contributors", "kind", "place",
    "publisher", "date_text", "year_from", "year_to", "languages",
)  # fmt: skip


async def listing(request: web.Request) -> web.Response:
    """The records that are searched for, page by page, with how they spread."""
    asked, after = asked_in(request), request.query.get("after") or None
    try:
        found = await database_of(request).run(
            find_with_facets, who_asks(request), asked, after=after, limit=_PAGE
        )
    except UsageError:
        raise web.HTTPNotFound(text=_("This page of the list does not exist.")) from None
    orders = {
        Order.RELEVANCE: _("best matches first"),
        Order.TITLE: _("title"),
        Order.NEWEST: _("newest first"),
    }
    return render(
        request,
        "bibliographic_records.html",
        asked=asked,
        found=found,
        kinds=kinds(),
        orders={one.value: title for one, title in orders.items()},
        first=after is None,
    )


async def as_file(request: web.Request) -> web.StreamResponse:
    """The records that are searched for, as a file."""
    asked, who, following = asked_in(request), who_asks(request), ""

    async def behind(last: Hit | None) -> Sequence[Hit]:
        nonlocal following
        if last is not None and not following:
            return []
        after = following if last is not None else None
        page = await database_of(request).run(find_hits, who, asked, after=after, limit=AT_ONCE)
        following = page.next or ""
        return page.hits

    return await export(request, "bibliographic-records", _COLUMNS, behind)


async def show(request: web.Request) -> web.Response:
    """All that one record says."""
    _who, row = await asked_for(request, BibliographicRow)
    database = database_of(request)
    found = await database.run(get_record, row.bibliographic_id)
    return render(
        request,
        "bibliographic_record.html",
        found=found,
        stored=await database.run(made_from, row),
        chapters=chapters(found),
        notes=notes(found),
        kinds=kinds(),
    )


ROUTES = (
    web.get("/records", listing),
    web.get(f"/records.{KINDS}", as_file, allow_head=False),
    web.get(f"/records/bibliographic/{_BIG_NUMBER}", show),
)
