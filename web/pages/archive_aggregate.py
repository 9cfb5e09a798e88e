"""The aggregate: harvested records that our provider gives out again."""

from typing import Final

from aiohttp import web

from oai.datestamps import utc_now
from oai.rights import Right
from provider.aggregate.overview import read_overview
from web.access import needs
from web.archive_address import aggregate_address
from web.keys import SETTINGS
from web.rendering import render
from web.threads import database_of
from web.words import _


@needs(Right.LOOK_AROUND)
async def show(request: web.Request) -> web.Response:
    """Its address, how many records of which source and format, and how late it is."""
    found = await database_of(request).run(read_overview)
    return render(
        request,
        "archive_aggregate.html",
        found=found,
        base_url=aggregate_address(request.config_dict[SETTINGS]),
        prefixes=list(dict.fromkeys(prefix for source in found.sources for prefix in source.formats)),
        lag=(utc_now() - found.followed).total_seconds() if found.followed else None,
        identifiers={"original": _("original"), "own": _("new (own)")},
        states={
            "followed": _("up to date"),
            "being read": _("being read"),
            "being withdrawn": _("being withdrawn"),
            "withdrawn": _("withdrawn"),
        },
    )


ROUTES: Final = (web.get("/archive/aggregate", show),)
