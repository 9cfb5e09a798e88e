"""Archived documents: look up by URL or key, show, hide and unhide."""

import asyncio
import uuid
from itertools import chain
from typing import Final

from aiohttp import web

from oai.datestamps import utc_now
from oai.errors import UsageError
from oai.rights import Right
from provider.export.warc_download import export_warc
from provider.holdings import selection
from provider.holdings.document_details import DocumentFacts, document_facts
from provider.holdings.identifiers import oai_identifier, parse_oai_identifier
from provider.holdings.lookup import LookupPlace, MatchType, Query, find_captures, read_wildcard
from provider.holdings.selection import Selection
from provider.holdings.sets import is_set_spec
from web.archive.address import document_address
from web.archive.capture_days import CaptureDays
from web.auth.access import about, needs, who_asks
from web.auth.audit import record_export
from web.site.export import stream
from web.site.i18n import _, error_text
from web.site.keys import SETTINGS, database_of, margin_of
from web.site.params import day_in
from web.site.render import confirmation, render

_PAGE: Final = 50
_MOST_EXAMINED: Final = 20_000
_LONGEST: Final = 4000
KEY: Final = r"{key:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}}"


@needs(Right.LOOK_AROUND)
async def listing(request: web.Request) -> web.Response:
    """Show the captures of a URL, or the lookup form."""
    settings = request.config_dict[SETTINGS]
    url, match = _wanted(request)
    key = _key(settings.provider.namespace, url)
    if key is not None:
        raise web.HTTPSeeOther(f"/archive/documents/{key}")
    fault = result = None
    days = _days(request)
    if url:
        since, until = days.moments()
        wanted = Query(
            url=url, match=match, since=since, until=until, limit=_PAGE, examined=_MOST_EXAMINED,
            hidden=True, begin=_begin(request),
        )  # fmt: skip
        try:
            result = await database_of(request).run(find_captures, wanted)
        except UsageError as error:
            fault = error_text(error)
    end = result.end if result else None
    return render(
        request,
        "archive_documents.html",
        status=200 if fault is None else 422,
        url=url,
        match=match.value,
        matches=matches(),
        days={name: day.isoformat() for name, day in days if day},
        fault=fault,
        found=result.found if result else [],
        next=_written(end) if end else None,
    )


@needs(Right.LOOK_AROUND)
async def as_warc(request: web.Request) -> web.StreamResponse:
    """Download the captures that the look-up finds as a WARC file; only those that are open to everybody."""
    url, match = _wanted(request)
    since, until = _days(request).moments()
    query = Query(url=url, match=match, since=since, until=until, limit=_PAGE)
    settings, database = request.config_dict[SETTINGS].provider, database_of(request).database
    # Without the reader's address, because a client can forge that of a reading room here.
    steps = export_warc(database, settings, query)
    try:
        first = await asyncio.to_thread(next, steps, None)
    except UsageError as error:
        raise web.HTTPBadRequest(text=error_text(error)) from None
    if first is None:
        raise web.HTTPNotFound(text=_("No archived documents found."))
    await record_export(request, "captures", "warc")
    return await stream(
        request,
        chain([first], steps),
        media="application/warc",
        file_name=f"zatva-{utc_now():%Y%m%d%H%M%S}.warc.gz",
    )


@needs(Right.LOOK_AROUND)
async def show(request: web.Request) -> web.Response:
    """Show one document."""
    settings, facts = request.config_dict[SETTINGS], await facts_of(request, request.match_info["key"])
    return render(
        request,
        "archive_document.html",
        document=facts,
        takedowns=facts.takedowns if who_asks(request).may(Right.ARCHIVE) else (),
        identifier=oai_identifier(settings.provider.namespace, facts.key),
        address=document_address(settings, facts.key),
    )


@needs(Right.ARCHIVE)
async def confirm(request: web.Request) -> web.Response:
    """Ask for confirmation before a document is hidden or unhidden."""
    facts = await facts_of(request, request.match_info["key"])
    hides = not facts.deleted
    lines = (
        [
            _("Harvesters get it as a deleted record; the archive file is not changed."),
            _("Only this capture is hidden; other captures of the URL remain visible."),
            _("You can show it again at any time."),
        ]
        if hides
        else [_("Harvesters get it again, unless an access rule withholds it.")]
    )
    return confirmation(
        request,
        (_("Hide %(url)s?") if hides else _("Show %(url)s again?")) % {"url": facts.url},
        *lines,
        steps=[(_("Archive"), "/archive"), (_("Documents"), "/archive/documents")],
        button=_("Hide document") if hides else _("Show document"),
        back=f"/archive/documents/{facts.key}",
    )


@needs(Right.ARCHIVE)
async def change(request: web.Request) -> web.Response:
    """Hide or unhide the document, depending on the path."""
    facts = await facts_of(request, request.match_info["key"])
    hides = request.path.endswith("/hide")
    mark = selection.hide if hides else selection.unhide
    await database_of(request).run(mark, Selection(key=facts.key), margin=margin_of(request))
    done = "document-hidden" if hides else "document-shown"
    raise web.HTTPSeeOther(f"/archive/documents/{facts.key}?done={done}")


async def facts_of(request: web.Request, named: str) -> DocumentFacts:
    """Return the document with that key; respond 404 if there is none."""
    key = uuid.UUID(named)
    facts = await database_of(request).run(document_facts, key)
    if facts is None:
        raise web.HTTPNotFound(text=_("Document %(key)s does not exist.") % {"key": key})
    about(request, "document", key, facts.url)
    return facts


def _key(namespace: str, text: str) -> uuid.UUID | None:
    """Return the key in the text, which is an OAI identifier or the key alone; None if it is neither."""
    named = parse_oai_identifier(namespace, text)
    if named is not None:
        return named
    try:
        return uuid.UUID(text)
    except ValueError:
        return None


def _days(request: web.Request) -> CaptureDays:
    """Return the days of capture; nothing is found if the last one is before the first."""
    return CaptureDays.model_construct(since=day_in(request, "since"), until=day_in(request, "until"))


def _wanted(request: web.Request) -> tuple[str, MatchType]:
    """Return the URL and how to search: by an asterisk, as chosen, or for a host alone everything below."""
    url, match = read_wildcard(request.query.get("url", "").strip()[:_LONGEST])
    given = request.query.get("match", "")
    if match is MatchType.EXACT and given in list(MatchType):
        match = MatchType(given)
    elif match is MatchType.EXACT and "." in url and "/" not in url:
        match = MatchType.DOMAIN
    return url, match


def matches() -> list[tuple[str, str]]:
    """Return how URLs can be matched, each with its label."""
    return [
        (MatchType.EXACT.value, _("this URL")),
        (MatchType.PREFIX.value, _("all URLs with this prefix")),
        (MatchType.HOST.value, _("the whole host")),
        (MatchType.DOMAIN.value, _("the domain and everything below it")),
    ]


_KEYED: Final = "k"


def _written(place: LookupPlace) -> str:
    capture = place.capture.hex if place.capture else ""
    return f"{_KEYED if place.keyed else ''}{capture}.{place.host or ''}"


def _begin(request: web.Request) -> LookupPlace:
    """Return the place that `_written` has written; the beginning for anything else."""
    capture, _dot, host = request.query.get("from", "").partition(".")
    keyed = capture.startswith(_KEYED)
    if is_set_spec(host):
        return LookupPlace(host=host, keyed=keyed)
    try:
        return LookupPlace(capture=uuid.UUID(hex=capture.removeprefix(_KEYED)), keyed=keyed)
    except ValueError:
        return LookupPlace()


ROUTES: Final = (
    web.get("/archive/documents", listing),
    web.get("/archive/documents.warc.gz", as_warc, allow_head=False),
    web.get(f"/archive/documents/{KEY}", show),
    web.get(f"/archive/documents/{KEY}/hide", confirm),
    web.post(f"/archive/documents/{KEY}/hide", change),
    web.get(f"/archive/documents/{KEY}/unhide", confirm),
    web.post(f"/archive/documents/{KEY}/unhide", change),
)
