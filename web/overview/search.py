"""Search over what the user may see: pages, repositories, runs, rules, records, and the archive."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final
from urllib.parse import urlencode

from aiohttp import web
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from sqlalchemy import select
from sqlalchemy.orm import Session

from harvester.bibliographic.text import tidy
from harvester.listing import find_repositories
from harvester.models import Harvest, History, Record
from harvester.rule_lab.versions import list_rules
from harvester.store.paths import identifier_key
from oai.errors import UsageError
from oai.folding import folded
from oai.rights import Right
from provider.holdings.collections import find_by_name as find_collections
from provider.holdings.identifiers import parse_oai_identifier
from provider.holdings.lookup import Query, find_captures, read_wildcard
from provider.titles.listing import find_by_name as find_titles
from web.api.operations import Call, Operations
from web.api.shapes import Out
from web.auth.access import find_visible, needs, visible_repositories, who_asks
from web.auth.sessions import SignedIn
from web.imports.pages_records import RecordSearch, find_hits
from web.site.formats import day
from web.site.i18n import _
from web.site.keys import SETTINGS, database_of
from web.site.paging import as_number
from web.site.render import pages_of, render
from web.site.zones import local

OPERATIONS: Final = Operations("search")

_MOST: Final = 5
"""Hits of each kind; the link below them leads to the others."""
_MOST_EXAMINED: Final = 2_000
_LONGEST: Final = 1000
_LONGEST_NAME: Final = 200
"""Characters of the words that are sought in titles, as on their page."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """One hit."""

    title: str
    address: str
    details: str = ""


@dataclass(frozen=True, kw_only=True)
class Group:
    """The hits of one kind."""

    kind: str
    """page, repository, run, rule, record, catalogue, title, collection or document."""
    hits: Sequence[Found]
    more: str | None = None
    """Address of the page with further hits, if there are any."""


def search(session: Session, who: SignedIn, words: str, namespace: str) -> list[Group]:
    """Return the hits by kind; kinds without a hit are missing.

    A number finds the run with this number, an OAI identifier its record, an address its archived document.
    """
    searches = (_repositories, _runs, _rules, _records, _catalogue)
    groups = [find(session, who, words) for find in searches]
    if who.may(Right.ARCHIVE):
        groups.append(_titles(session, words))
    if who.may(Right.LOOK_AROUND):
        groups += [_collections(session, words), _documents(session, words, namespace)]
    return [group for group in groups if group.hits]


def _repositories(session: Session, who: SignedIn, words: str) -> Group:
    found = find_repositories(session, limit=_MOST + 1, search=words, among=visible_repositories(who))
    hits = [
        Found(
            title=one.display_name,
            address=f"/repositories/{one.repository_id}",
            details=one.display_url,
        )
        for one in found
    ]
    return _group("repository", hits, f"/repositories?{urlencode({'find': words})}")


def _runs(session: Session, who: SignedIn, words: str) -> Group:
    number = as_number(words.removeprefix("#"))
    run = None if number is None else find_visible(session, who, History, number)
    if run is None:
        return Group(kind="run", hits=())
    details = " · ".join(filter(None, (run.metadata_prefix, run.set_spec)))
    title = _("Run %(number)s") % {"number": run.history_id}
    return Group(kind="run", hits=[Found(title=title, address=f"/runs/{run.history_id}", details=details)])


def _rules(session: Session, who: SignedIn, words: str) -> Group:
    found = list_rules(session, among=visible_repositories(who), words=words, limit=_MOST + 1)
    hits = [
        Found(
            title=view.rule.name,
            address=f"/rules/{view.rule.rule_id}",
            details=view.repository_name or "",
        )
        for view in found
    ]
    return _group("rule", hits, "/rules")


def _records(session: Session, who: SignedIn, words: str) -> Group:
    """Find harvested records by their whole identifier."""
    seen = visible_repositories(who)
    # The index of records begins with repository and format, so each pair that was harvested is looked up.
    named = (
        select(Record)
        .join(
            Harvest,
            (Harvest.repository_id == Record.repository_id)
            & (Harvest.metadata_prefix == Record.metadata_prefix),
        )
        .where(Record.identifier_key == identifier_key(words))
        .distinct()
        .limit(_MOST)
    )
    if seen is not None:
        named = named.where(Record.repository_id.in_(seen))
    hits = [
        Found(title=one.identifier, address=f"/records/{one.record_id}", details=one.metadata_prefix)
        for one in session.scalars(named)
    ]
    return Group(kind="record", hits=hits)


def _catalogue(session: Session, who: SignedIn, words: str) -> Group:
    found = find_hits(session, who, RecordSearch(find=words), after=None, limit=_MOST + 1)
    hits = [
        Found(
            title=hit.title or "–",  # noqa: RUF001 en dash intended
            address=f"/records/bibliographic/{hit.bibliographic_id}",
            details=", ".join(filter(None, (*hit.contributors, hit.date_text))),
        )
        for hit in found.hits
    ]
    return _group("catalogue", hits, f"/records?{urlencode({'find': words})}")


def _titles(session: Session, words: str) -> Group:
    asked = words[:_LONGEST_NAME]
    hits = [
        Found(title=one.name, address=f"/archive/titles/{one.title_id}", details=one.publisher or "")
        for one in find_titles(session, asked, limit=_MOST + 1)
    ]
    return _group("title", hits, f"/archive/titles?{urlencode({'q': asked})}")


def _collections(session: Session, words: str) -> Group:
    hits = [
        Found(title=one.name, address=f"/archive/collections/{one.set_spec}", details=one.set_spec)
        for one in find_collections(session, words, limit=_MOST + 1)
    ]
    return _group("collection", hits, "/archive/collections")


def _documents(session: Session, words: str, namespace: str) -> Group:
    key = parse_oai_identifier(namespace, words)
    if key is not None:
        return Group(kind="document", hits=[Found(title=words, address=f"/archive/documents/{key}")])
    url, match = read_wildcard(words)
    if " " in words or "." not in words:
        return Group(kind="document", hits=())
    wanted = Query(url=url, match=match, limit=_MOST + 1, examined=_MOST_EXAMINED, hidden=True)
    try:
        found = find_captures(session, wanted).found
    except UsageError:  # no address: other kinds may have hits
        return Group(kind="document", hits=())
    hits = [
        Found(title=one.url, address=f"/archive/documents/{one.key}", details=day(local(one.archived).date()))
        for one in found
    ]
    more = urlencode({"url": url, "match": match.value})
    return _group("document", hits, f"/archive/documents?{more}")


def _group(kind: str, hits: Sequence[Found], more: str) -> Group:
    return Group(kind=kind, hits=hits[:_MOST], more=more if len(hits) > _MOST else None)


def _pages(path: str, who: SignedIn, words: str) -> Iterator[Found]:
    """Yield the pages whose name contains the words."""
    for tab in pages_of(path, who):
        if folded(words) in folded(tab.title):
            yield Found(title=tab.title, address=tab.path)


@needs(Right.LOOK)
async def show(request: web.Request) -> web.Response:
    """Show what was found; without words, the search form."""
    who, words = who_asks(request), tidy(request.query.get("q", ""))[:_LONGEST]
    groups: list[Group] = []
    if words:
        pages = list(_pages(request.path, who, words))
        namespace = request.config_dict[SETTINGS].provider.namespace
        groups = await database_of(request).run(search, who, words, namespace)
        groups = [Group(kind="page", hits=pages), *groups] if pages else groups
    return render(request, "search.html", words=words, groups=groups, kinds=_kinds())


def _kinds() -> dict[str, str]:
    return {
        "page": _("Pages"),
        "repository": _("Repositories"),
        "run": _("Runs"),
        "record": _("Harvested records"),
        "catalogue": _("Catalogue"),
        "rule": _("Rules"),
        "title": _("Titles"),
        "collection": _("Collections"),
        "document": _("Archived documents"),
    }


class SearchQuery(BaseModel):
    """What is searched for."""

    model_config = ConfigDict(extra="forbid")

    q: Annotated[str, BeforeValidator(tidy)] = Field(
        min_length=1,
        max_length=_LONGEST,
        description="Words, the number of a run, an OAI identifier, or the address of an archived document. "
        "Words are sought in catalogue records and in the names of repositories and rules, and, with the "
        "rights to the archive, of titles and collections.",
    )


class SearchHit(Out):
    """One hit."""

    kind: str = Field(description="repository, run, rule, record, catalogue, title, collection or document.")
    title: str
    details: str
    address: str = Field(description="Path of the dashboard's page.")


class SearchHits(Out):
    """The hits, at most five of each kind."""

    items: list[SearchHit]


@OPERATIONS.add("GET /search", "search", Right.LOOK, query=SearchQuery)
async def _search(call: Call) -> SearchHits:
    """Search repositories, runs, rules, records, and the archive's titles, collections and documents."""
    words = call.asked(SearchQuery).q
    groups = await call.database.run(search, call.who, words, call.settings.provider.namespace)
    return SearchHits(items=[_out(group.kind, hit) for group in groups for hit in group.hits])


def _out(kind: str, hit: Found) -> SearchHit:
    shown: dict[str, Any] = {"title": hit.title, "details": hit.details, "address": hit.address}
    return SearchHit(kind=kind, **shown)


ROUTES = (web.get("/search", show),)
