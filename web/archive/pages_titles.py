"""Titles for curators: a list of all titles, and everything about one."""

import re
import tempfile
from functools import partial
from typing import IO, Any, Final
from urllib.parse import urlencode, urljoin

from aiohttp import web
from sqlalchemy.orm import Session

from oai.rights import Right
from oai.settings import Settings
from provider.models import UNLISTED
from provider.titles.catalogue import identifier
from provider.titles.export import EXPORTS
from provider.titles.licences import licence_by_key
from provider.titles.listing import (
    MOST_SEEDS,
    Standing,
    list_titles,
    sources,
    standing_of,
    title_details,
)
from provider.titles.models import Title
from provider.titles.ranges import range_rules
from web.archive.address import provider_address
from web.auth.access import needs
from web.auth.audit import record_export
from web.site.export import KINDS, columns_of, export_list, stream
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.paging import PAGE, number_in, page_of, text_in
from web.site.params import NUMBER, choice_in, number_of
from web.site.render import render

_LONGEST: Final = 200
_PIECE: Final = 256 * 1024
"""Bytes that are sent at once."""
_TYPES: Final = {"csv": "text/csv", "jsonl": "application/jsonl"}
_NOT_IN_FILE_NAMES: Final = re.compile("[^A-Za-z0-9_-]+")
_COLUMNS: Final = columns_of(
    "title_id", "source", "source_key", "name", "publisher", "captures", "first_capture", "last_capture",
    "state", "public", "access", "gone", "deleted", "imported",
)  # fmt: skip


@needs(Right.ARCHIVE)
async def listing(request: web.Request) -> web.Response:
    """Show the titles in the order in which they were first imported."""
    after, filters, database = number_in(request, "after"), _filters(request), database_of(request)
    found = await database.run(list_titles, limit=PAGE + 1, after=after or 0, **filters)
    return render(
        request,
        "archive_titles.html",
        page=page_of(found, lambda row: row.title_id, behind=after),
        sources=await database.run(sources),
        query={"q": filters["words"], "source": filters["source"], "show": filters["standing"] or ""},
        **words(),
    )


@needs(Right.ARCHIVE)
async def as_file(request: web.Request) -> web.StreamResponse:
    """Export the titles that the filters select."""
    find = partial(list_titles, **_filters(request))
    return await export_list(request, "titles", _COLUMNS, find, after=lambda row: row.title_id)


@needs(Right.ARCHIVE)
async def for_import(request: web.Request) -> web.StreamResponse:
    """Export all titles of a source, as an import reads them."""
    kind, source, database = request.match_info["kind"], text_in(request, "source"), database_of(request)
    if source not in await database.run(sources):
        raise web.HTTPNotFound(text=_("No titles were imported from the source %(name)s.") % {"name": source})

    named = _NOT_IN_FILE_NAMES.sub("-", source)
    # A file: a slow client must not hold a transaction, and the titles may need much memory.
    with tempfile.TemporaryFile() as file:
        await database.run(_write, file, kind, source)
        await record_export(request, "titles", kind)
        file.seek(0)
        return await stream(
            request,
            iter(partial(file.read, _PIECE), b""),
            media=f"{_TYPES[kind]}; charset=utf-8",
            file_name=f"zatva-titles-{named}.{kind}",
        )


def _write(session: Session, file: IO[bytes], kind: str, source: str) -> None:
    # One state of the database: an import must not come between two titles of the file.
    session.connection(execution_options={"isolation_level": "REPEATABLE READ", "postgresql_readonly": True})
    for line in EXPORTS[kind](session, source):
        file.write(line.encode())


@needs(Right.ARCHIVE)
async def show(request: web.Request) -> web.Response:
    """Show everything about a title."""
    settings, number = request.config_dict[SETTINGS], number_of(request)
    rules = range_rules(settings.provider)
    found = await database_of(request).run(title_details, number, rules)
    if found is None:
        raise web.HTTPNotFound(text=_("Title %(number)s does not exist.") % {"number": number})
    title = found.title
    return render(
        request,
        "archive_title.html",
        found=found,
        title=title,
        most_seeds=MOST_SEEDS,
        identifier=identifier(settings.provider.namespace, title.key),
        page_address=None
        if title.deleted
        else urljoin(provider_address(settings), f"titles/{title.key.hex}"),
        record_address=None if title.datestamp == UNLISTED else _record_address(settings, title),
        licence=licence_by_key(title.licence) if title.licence else None,
        from_seeder=settings.provider.seeder_url and title.source == settings.provider.seeder_source,
        **words(),
    )


def _record_address(settings: Settings, title: Title) -> str:
    named = identifier(settings.provider.namespace, title.key)
    asked = {"verb": "GetRecord", "metadataPrefix": "oai_dc", "identifier": named}
    return f"{provider_address(settings).rstrip('/')}/titles?{urlencode(asked, safe=':')}"


def _filters(request: web.Request) -> dict[str, Any]:
    given = choice_in(request, "show", list(Standing))
    return {
        "words": text_in(request, "q")[:_LONGEST],
        "source": text_in(request, "source"),
        "standing": Standing(given) if given else None,
    }


def words() -> dict[str, Any]:
    """Return what pages of titles call their states, access rules and fields."""
    return {
        "standing_of": standing_of,
        "standings": {
            Standing.LISTED: _("listed"),
            Standing.GONE: _("no longer in the source"),
            Standing.NOT_PUBLIC: _("not public"),
            Standing.NO_CAPTURES: _("no captures"),
        },
        "rules": {"open": _("open"), "reading room": _("reading room"), "withheld": _("withheld")},
        "fields": {
            "name": _("Name"),
            "alternative_names": _("Alternative names"),
            "publisher": _("Publisher"),
            "annotation": _("Description"),
            "languages": _("Languages"),
            "issn": _("ISSN"),
            "catalogue_number": _("Catalogue number"),
            "classification": _("Classification"),
            "subjects": _("Subjects"),
            "keywords": _("Keywords"),
            "collections": _("Collections"),
            "state": _("State in the source"),
            "public": _("Public"),
            "access": _("Access"),
            "contract_from": _("Contract from"),
            "contract_to": _("Contract until"),
            "licence": _("Licence"),
            "gone": _("In the source again"),
            "seeds": _("Seeds"),
        },
    }


ROUTES: Final = (
    web.get("/archive/titles", listing),
    web.get(f"/archive/titles.{KINDS}", as_file, allow_head=False),
    web.get("/archive/titles/import.{kind:csv|jsonl}", for_import, allow_head=False),
    web.get(f"/archive/titles/{NUMBER}", show),
)
