"""Archive pages: base URLs, contents, set hierarchies and the aggregate, and the archive's lists as files."""

from functools import partial
from typing import Final

from aiohttp import web
from lxml import etree

from oai.database import Database
from oai.errors import UsageError
from oai.rights import Right
from oai.settings import Settings
from oai.xml import parse
from provider.clients.store import harvested_lists, harvesters
from provider.holdings.collections import list_collections
from provider.holdings.index_errors import find_problems, find_run_files
from provider.holdings.sets import Tree, children, tree_of
from provider.holdings.status import archive_status, by_month, index_backlog, run_statuses
from provider.protocol.repository import make_repository
from web.archive.address import is_local, provider_address
from web.archive.pages_activity import CLIENT, abandoned_after, client_of, list_self_tests
from web.auth.access import needs
from web.site.export import KINDS, columns_of, export_list
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, page_of, text_in
from web.site.params import NUMBER, number_of
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
        backlog=await database.run(index_backlog),
        base_url=provider_address(settings),
        is_local=is_local(provider_address(settings)),
        identify=await database.run_apart(_identify, settings),
        months=months,
        plot=growth(months, label=_("Documents by month of capture")),
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
        raise web.HTTPNotFound(text=error_text(error)) from None
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


_NODE: Final = columns_of("set_spec", "name", "documents", "has_children")
_COLLECTION: Final = columns_of("set_spec", "name", "description", "access", "embargo_until", "documents")
_RUN: Final = columns_of(
    "run_id", "queued", "host", "collection", "waiting", "lost", "running", "done", "failed", "new",
    "problems", "bytes_done", "bytes_total",
)  # fmt: skip
_FILE: Final = columns_of(
    "id", "path", "state", "reason", "host", "started", "ended", "new", "unchanged", "moved", "duplicates",
    "problems",
)  # fmt: skip
_PROBLEMS: Final = columns_of("id", "file", "offset", "reason")
_HARVESTER: Final = columns_of(
    "key", "address", "user_agent", "sender", "first_request", "last_request", "requests", "bytes_sent",
    "refused", "under_way", "finished", "abandoned",
)  # fmt: skip
_LIST: Final = columns_of(
    "verb", "metadata_prefix", "set_spec", "from_date", "until_date", "started", "last_request", "requests",
    "passed", "complete_size", "state",
)  # fmt: skip
_SELF_TEST: Final = columns_of(
    "self_test_id", "base_url", "asked_by", "started", "ended", "checks", "failure"
)


@needs(Right.LOOK_AROUND)
async def sets_as_file(request: web.Request) -> web.StreamResponse:
    """Export one level of a set hierarchy."""
    below = request.query.get("below") or None
    try:
        tree = tree_of(below or request.query.get("tree", Tree.COLLECTION))
        find = partial(children, tree=tree, below=below)
        return await export_list(request, "sets_exports", _NODE, find, after=lambda node: node.set_spec)
    except UsageError as error:
        raise web.HTTPNotFound(text=error_text(error)) from None


@needs(Right.LOOK_AROUND)
async def collections(request: web.Request) -> web.StreamResponse:
    """Export the collections with their rules, each after its parent."""
    return await export_list(
        request, "collections", _COLLECTION, list_collections, after=lambda row: row.set_spec
    )


@needs(Right.LOOK_AROUND)
async def runs(request: web.Request) -> web.StreamResponse:
    """Export the indexing runs, newest first."""
    return await export_list(request, "indexing", _RUN, run_statuses, before=lambda run: run.run_id)


@needs(Right.LOOK_AROUND)
async def files(request: web.Request) -> web.StreamResponse:
    """Export the files of an indexing run: all, or only those with faults."""
    number, troubled = number_of(request), request.query.get("show") == "troubled"
    find = partial(find_run_files, run_id=number, troubled=troubled)
    try:
        return await export_list(request, f"indexing-{number}", _FILE, find, after=lambda file: file.id)
    except UsageError as error:
        raise web.HTTPNotFound(text=error_text(error)) from None


@needs(Right.LOOK_AROUND)
async def problems(request: web.Request) -> web.StreamResponse:
    """Export the unreadable places in archive files, newest first."""
    return await export_list(request, "problems", _PROBLEMS, find_problems, before=lambda row: row.id)


@needs(Right.LOOK_AROUND)
async def who_harvests(request: web.Request) -> web.StreamResponse:
    """Export the harvesters of the provider, most recent first."""
    find = partial(harvesters, abandoned_after=abandoned_after(request))
    return await export_list(
        request, "harvesters", _HARVESTER, find, before=lambda row: (row.last_request, row.key)
    )


@needs(Right.LOOK_AROUND)
async def lists(request: web.Request) -> web.StreamResponse:
    """Export the lists that a harvester reads and their progress, most recent first."""
    client, after = await client_of(request), abandoned_after(request)
    find = partial(harvested_lists, abandoned_after=after, client=client.key)
    return await export_list(request, "lists", _LIST, find, before=lambda row: (row.last_request, row.key))


@needs(Right.LOOK_AROUND)
async def checks(request: web.Request) -> web.StreamResponse:
    """Export the self-tests, newest first."""
    return await export_list(
        request, "self-tests", _SELF_TEST, list_self_tests, before=lambda row: row.self_test_id
    )


ROUTES: Final = (
    web.get("/archive", overview),
    web.get("/archive/sets", sets),
    *(
        web.get(f"/archive/{path}.{KINDS}", handler, allow_head=False)
        for path, handler in (
            ("sets", sets_as_file),
            ("collections", collections),
            ("indexing", runs),
            (f"indexing/{NUMBER}/files", files),
            ("problems", problems),
            ("harvesters", who_harvests),
            (f"harvesters/{CLIENT}/lists", lists),
            ("check", checks),
        )
    ),
)
