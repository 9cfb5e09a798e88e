"""`/loads` and `/loads.atom`: what each indexing run has published, as a page and as a feed (RFC 4287)."""

import hashlib
from collections.abc import Sequence
from typing import Final
from urllib.parse import urljoin

from aiohttp import web

from oai.console import counted
from oai.datestamps import format_datestamp
from oai.sections import ProviderSettings
from oai.xml import escape
from provider.holdings.loads import ListedLoad, list_loads
from provider.holdings.mark import begin_at_mark
from provider.http.admission import admitted
from provider.http.keys import BASE_URL, DATABASE, SETTINGS
from provider.http.landing import page_response, request_for, sets_of, templates
from provider.protocol import answers

PAGE: Final = "/loads"
FEED: Final = "/loads.atom"

_ON_A_PAGE: Final = 50
_DIGITS: Final = 9
_ATOM_TYPE: Final = "application/atom+xml"
_OPENING: Final = '<?xml version="1.0" encoding="utf-8"?>\n<feed xmlns="http://www.w3.org/2005/Atom">'
_BEGINNING: Final = "1970-01-01T00:00:00Z"
"""Time of the last change of an empty feed."""


def add_routes(app: web.Application) -> None:
    """Add both paths."""
    app.router.add_get(PAGE, _page, allow_head=True)
    app.router.add_get(FEED, _feed, allow_head=True)


async def _page(request: web.Request) -> web.Response:
    before, base_url = _before(request), request.app[BASE_URL]
    loads = await _loads(request, before)
    body = (
        templates()
        .get_template("loads.html")
        .render(
            settings=request.app[SETTINGS].provider,
            folder=answers.folder(base_url),
            oai=answers.folder(base_url).removesuffix("/"),
            loads=loads[:_ON_A_PAGE],
            next=_next(loads),
            older=before is not None,
        )
    )
    return page_response(body.encode())


async def _feed(request: web.Request) -> web.Response:
    before = _before(request)
    loads = await _loads(request, before)
    body = feed_of(request.app[SETTINGS].provider, request.app[BASE_URL], loads, before=before)
    tag = f'"{hashlib.blake2b(body, digest_size=16).hexdigest()}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}
    if tag in request.headers.get("If-None-Match", ""):
        return web.Response(status=304, headers=headers)
    headers["Content-Type"] = f"{_ATOM_TYPE}; charset=utf-8"
    return web.Response(body=body, headers=headers)


async def _loads(request: web.Request, before: int | None) -> Sequence[ListedLoad]:
    """Return the loads of a page, and one more if there are older ones."""
    database = request.app[DATABASE]

    def work() -> Sequence[ListedLoad]:
        with database.session() as session:
            return list_loads(session, begin_at_mark(session), limit=_ON_A_PAGE + 1, before=before)

    return await admitted(request, work)


def _before(request: web.Request) -> int | None:
    text = request.query.get("before")
    if text is None:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > _DIGITS:
        raise web.HTTPBadRequest(text=f"400: before={text[:20]!r} is not the number of a load\n")
    return int(text)


def _next(loads: Sequence[ListedLoad]) -> int | None:
    return loads[_ON_A_PAGE - 1].load_id if len(loads) > _ON_A_PAGE else None


def feed_of(
    settings: ProviderSettings, base_url: str, loads: Sequence[ListedLoad], *, before: int | None = None
) -> bytes:
    """Return the loads as an Atom feed; one load more than fits on a page becomes a link to older ones.

    Identifiers are tag URIs (RFC 4151) with the provider's namespace, so that they outlast its address.
    """
    page, own = urljoin(base_url, PAGE[1:]), urljoin(base_url, FEED[1:])
    shown, following = loads[:_ON_A_PAGE], _next(loads)
    name = _element("name", settings.repository_name)
    mails = "".join(_element("email", address) for address in settings.admin_emails[:1])
    parts = (
        _element("id", f"tag:{settings.namespace},2026:loads"),
        _element("title", f"{settings.repository_name}: what is new"),
        _element("updated", max((format_datestamp(load.until) for load in shown), default=_BEGINNING)),
        f"<author>{name}{mails}</author>",
        _link("self", own if before is None else f"{own}?before={before}", _ATOM_TYPE),
        _link("alternate", page, "text/html"),
        *([] if following is None else [_link("next", f"{own}?before={following}", _ATOM_TYPE)]),
        *(_entry(settings, base_url, page, load) for load in shown),
    )
    return f"{_OPENING}{''.join(parts)}</feed>\n".encode()


def _entry(settings: ProviderSettings, base_url: str, page: str, load: ListedLoad) -> str:
    sets, begun = sets_of(load), format_datestamp(load.begun)
    requests = [(request_for(base_url, load, verb), verb) for verb in ("ListRecords", "ListIdentifiers")]
    for one in sets:
        of_set = request_for(base_url, load, "ListRecords", one.set_spec)
        requests.append((of_set, f"ListRecords, {one.set_spec}"))
    parts = (
        _element("id", f"tag:{settings.namespace},{begun[:10]}:load:{load.load_id}"),
        _element("title", _title(load)),
        _element("published", begun),
        _element("updated", format_datestamp(load.until)),
        _element("summary", _summary(load)),
        # The page on which the load is the first.
        _link("alternate", f"{page}?before={load.load_id + 1}", "text/html"),
        *(f'<category term="{escape(one.set_spec)}" label="{escape(one.name)}"/>' for one in sets),
        *(_link("related", address, "text/xml", title) for address, title in requests),
    )
    return f"<entry>{''.join(parts)}</entry>"


def _element(name: str, text: str) -> str:
    return f"<{name}>{escape(text)}</{name}>"


def _link(rel: str, href: str, kind: str, title: str = "") -> str:
    named = f' title="{escape(title)}"' if title else ""
    return f'<link rel="{rel}" type="{kind}" href="{escape(href)}"{named}/>'


def _title(load: ListedLoad) -> str:
    where = f" in {load.collection.set_spec}" if load.collection else ""
    if load.changed:
        return f"{load.new:,} new and {counted(load.changed, 'changed capture')}{where}"
    return counted(load.new, "new capture") + where


def _summary(load: ListedLoad) -> str:
    range_ = f"Datestamps from {format_datestamp(load.since)} until {format_datestamp(load.until)}"
    named = [f"{one.set_spec} ({one.documents:,})" for one in sets_of(load) if one.documents is not None]
    return f"{range_}; {', '.join(named)}" if named else range_
