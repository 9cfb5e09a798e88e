"""Archive pages: base URLs, contents, set hierarchies and the aggregate."""

from typing import Final

from aiohttp import web
from lxml import etree

from oai.database import Database
from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.rights import Right
from oai.settings import Settings
from oai.xml import parse
from provider.aggregate.overview import read_overview
from provider.holdings.sets import Tree, children, tree_of
from provider.holdings.status import archive_status, by_month
from provider.protocol.repository import make_repository
from web.archive.address import aggregate_address, is_local, provider_address
from web.auth.access import needs
from web.site.i18n import _, told
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, page_of, text_in
from web.site.plots import columns, growth
from web.site.render import render

_LONGEST: Final = 1000


@needs(Right.LOOK_AROUND)
async def overview(request: web.Request) -> web.Response:
    """Show the base URL, the Identify response, totals and growth."""
    settings, database = request.config_dict[SETTINGS], database_of(request)
    status = await database.run(archive_status)
    months = columns(await database.run(by_month))
    return render(
        request,
        "archive.html",
        totals=status,
        base_url=provider_address(settings),
        is_local=is_local(provider_address(settings)),
        identify=await database.run_apart(_identify, settings),
        months=months,
        plot=growth(months, label=_("Documents by month of capture")),
        lag=(utc_now() - status.last_indexed).total_seconds() if status.last_indexed else None,
    )


@needs(Right.LOOK_AROUND)
async def sets(request: web.Request) -> web.Response:
    """Show one level of a set hierarchy."""
    below = request.query.get("below", "")[:_LONGEST]
    after = text_in(request, "after")
    try:
        tree = tree_of(below or request.query.get("tree", Tree.COLLECTION))
        found = await database_of(request).run(
            children, tree, below=below or None, limit=PAGE + 1, after=after
        )
    except UsageError as error:
        raise web.HTTPNotFound(text=told(error)) from None
    return render(
        request,
        "archive_sets.html",
        tree=tree.value,
        trees=[
            (Tree.COLLECTION.value, _("Collections")),
            (Tree.DOMAIN.value, _("Domains")),
            (Tree.MIMETYPE.value, _("MIME types")),
        ],
        below=below,
        above=_above(below),
        page=page_of(found, lambda node: node.set_spec, behind=after),
    )


def _above(set_spec: str) -> list[str]:
    """Return the set's ancestors, outermost first, without the name of the hierarchy itself."""
    parts = set_spec.split(":")
    begin = 1 if parts[0] == Tree.COLLECTION else 2
    return [":".join(parts[:end]) for end in range(begin, len(parts))]


def _identify(database: Database, settings: Settings) -> list[tuple[str, str]]:
    """Return the fields of the provider's Identify response, in the order of the response."""
    repository = make_repository(settings.provider, database, provider_address(settings))
    root = parse(repository.answer([("verb", "Identify")]).body, source="Identify")
    element = root.find("{*}Identify")
    fields = element.iterchildren(etree.Element) if element is not None else ()
    return [(etree.QName(field).localname, field.text) for field in fields if field.text and not len(field)]


ROUTES: Final = (web.get("/archive", overview), web.get("/archive/sets", sets))


@needs(Right.LOOK_AROUND)
async def show(request: web.Request) -> web.Response:
    """Show the aggregate: its address, its records by source and format, and its delay."""
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


AGGREGATE_ROUTES: Final = (web.get("/archive/aggregate", show),)
