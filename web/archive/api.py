"""REST API: totals, growth and sets of the archive, its documents, and the aggregate."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from pydantic import Field
from sqlalchemy.orm import Session

from oai.rights import Right
from oai.settings import Settings
from provider.aggregate.identifiers import Identifiers
from provider.aggregate.models import AggregateSource
from provider.aggregate.overview import read_overview
from provider.aggregate.sources import add_source, find_repository, values_of, withdraw_source
from provider.holdings import selection
from provider.holdings.capture import FoundCapture
from provider.holdings.document_details import DocumentFacts, InCollection
from provider.holdings.identifiers import oai_identifier
from provider.holdings.lookup import LookupPlace, MatchType, Query, find_captures, read_wildcard
from provider.holdings.selection import Selection
from provider.holdings.sets import Node, Tree, children, tree_of
from provider.holdings.status import archive_status, by_month
from web.api.faults import ApiError
from web.api.operations import Call, Operations
from web.api.paging import after, link, list_page
from web.api.shapes import Done, In, Moment, Out, Page, Paged
from web.archive.address import aggregate_address, document_address, provider_address
from web.archive.pages_aggregate import asked_to_publish
from web.archive.pages_documents import facts_of
from web.auth.access import about
from web.site.i18n import _

OPERATIONS: Final = Operations("archive")

_MOST_EXAMINED: Final = 20_000


class ArchiveOut(Out):
    """Totals of the archive."""

    base_url: str
    documents: int
    hidden: int
    files: int
    problems: int
    domains: int
    mimetypes: int
    collections: int
    unseen_files: int
    last_published: datetime | None
    last_indexed: datetime | None
    missing_indexes: list[str]


class MonthOut(Out):
    """The number of documents of a major type captured in a month."""

    month: str
    type: str
    documents: int


class Months(Out):
    """The growth of the archive, by month of capture."""

    items: list[MonthOut]


class NodeOut(Out, Node):
    """A set and its number of documents."""


class SetQuery(Paged):
    """Filters for sets."""

    tree: Tree = Field(Tree.COLLECTION, description="Top-level sets of this tree, if `below` is not given.")
    below: str | None = Field(
        None, min_length=1, max_length=1000, description="Sets directly below this set."
    )


@OPERATIONS.add("GET /archive", "getArchive", Right.LOOK_AROUND)
async def _archive(call: Call) -> ArchiveOut:
    """Show the totals of the archive, and when it was last indexed and published."""
    status = await call.database.run(archive_status)
    missing = list(status.missing_indexes)
    return ArchiveOut.from_row(status, base_url=provider_address(call.settings), missing_indexes=missing)


@OPERATIONS.add("GET /archive/growth", "getGrowth", Right.LOOK_AROUND)
async def _months(call: Call) -> Months:
    """Count documents by month of capture and type."""
    return Months(items=[MonthOut(**row) for row in await call.database.run(by_month)])


@OPERATIONS.add("GET /archive/sets", "listArchiveSets", Right.LOOK_AROUND, query=SetQuery, faults={409})
async def _sets(call: Call) -> Page[NodeOut]:
    """List the sets directly below a set, or the top-level sets of a tree."""
    query = call.asked(SetQuery)
    tree = tree_of(query.below) if query.below is not None else query.tree
    find = partial(children, tree=tree, below=query.below)
    return await list_page(call, find, NodeOut.model_validate, kind=str, after=lambda node: node.set_spec)


class AggregateSourceOut(Out):
    """A harvested repository that the aggregate republishes."""

    repository_id: int
    set_spec: str
    title: str
    base_url: str
    identifiers: str = Field(description="original: as harvested; own: in the namespace of this archive.")
    added: datetime
    state: str = Field(description="followed (up to date), being read, being withdrawn or withdrawn.")
    formats: Mapping[str, int] = Field(
        description="Published records by metadataPrefix, including deleted records."
    )
    records: int
    unreadable: int = Field(description="Number of records withheld because their files cannot be read.")


class AggregateOut(Out):
    """Totals of the aggregate."""

    base_url: str
    records: int
    since: datetime | None = Field(description="Time when the first source was added.")
    followed: datetime | None = Field(description="Time up to which harvested records have been processed.")
    sources: Sequence[AggregateSourceOut]


@OPERATIONS.add("GET /archive/aggregate", "getAggregate", Right.LOOK_AROUND)
async def _aggregate(call: Call) -> AggregateOut:
    """Show the aggregate of harvested records: sources, counts, last update."""
    found = await call.database.run(read_overview)
    return AggregateOut.from_row(found, base_url=aggregate_address(call.settings))


class NewSource(In):
    """A repository to republish."""

    repository_id: int = Field(ge=1, le=999_999_999)
    set_spec: str | None = Field(
        None, min_length=1, max_length=60, description="Set of its records; null: named after its host."
    )
    identifiers: Identifiers = Field(
        Identifiers.ORIGINAL, description="original: as harvested; own: in the namespace of this archive."
    )
    altered: bool = Field(
        default=False, description="Report the records as altered even if no schedule normalises them."
    )


class SourceOut(Out):
    """A repository of the aggregate; its records follow within seconds while the provider runs."""

    repository_id: int
    set_spec: str
    title: str
    base_url: str
    identifiers: str
    state: str = Field(description="in the aggregate, or withdrawn.")


@OPERATIONS.add(
    "POST /archive/aggregate/sources",
    "addAggregateSource",
    Right.ARCHIVE,
    body=NewSource,
    status=201,
    faults={404},
)
async def _add_source(call: Call) -> SourceOut:
    """Republish the records of a harvested repository."""
    asked = call.sent(NewSource)
    await asked_to_publish(call.request, asked.repository_id)

    def work(session: Session) -> dict[str, Any]:
        made = add_source(
            session,
            find_repository(session, str(asked.repository_id)),
            name=asked.set_spec,
            identifiers=asked.identifiers,
            altered=asked.altered or None,
        )
        return values_of(made)

    made = SourceOut.model_validate(await call.database.run(work))
    about(call.request, "aggregate source", made.repository_id, made.title)
    return made


@OPERATIONS.add("DELETE /archive/aggregate/sources/{repository}", "removeAggregateSource", Right.ARCHIVE)
async def _remove_source(call: Call) -> SourceOut:
    """Withdraw a repository: harvesters see its records as deleted."""
    number = call.place["repository"]

    def work(session: Session) -> dict[str, Any] | None:
        known = session.get(AggregateSource, number)
        return None if known is None else values_of(withdraw_source(session, number))

    found = await call.database.run(work)
    if found is None:
        raise ApiError(
            404, _("Repository %(number)s does not exist; it may have been removed.") % {"number": number}
        )
    withdrawn = SourceOut.model_validate(found)
    about(call.request, "aggregate source", withdrawn.repository_id, withdrawn.title)
    return withdrawn


class FoundOut(Out):
    """A capture that matches a look-up."""

    key: uuid.UUID
    identifier: str
    url: str
    archived: datetime
    mime_type: str
    http_status: int | None
    digest: str | None
    access: str
    deleted: bool


class DocumentQuery(Paged):
    """Filters for documents."""

    url: str = Field(min_length=1, max_length=4000, description="A URL, a URL prefix, or a host.")
    match: MatchType = Field(
        MatchType.EXACT,
        description="How the URL is matched; without it, `host/path*` is a prefix and `*.host` a domain.",
    )
    since: Moment | None = Field(None, description="Captured at this time or later.")
    until: Moment | None = Field(None, description="Captured at this time or earlier.")


class InCollectionOut(Out, InCollection):
    """A collection that contains the document."""


class DocumentOut(Out):
    """A document."""

    key: uuid.UUID
    identifier: str
    address: str = Field(description="URL of the document at the provider.")
    url: str
    title: str | None
    archived: datetime
    datestamp: datetime | None
    mime_type: str
    recognised_type: str | None
    http_status: int | None
    length: int | None
    digest: str | None
    record_type: str
    deleted: bool
    access: str
    embargo_until: datetime | None
    file: str
    offset: int
    host: str | None
    collections: list[InCollectionOut]


@OPERATIONS.add(
    "GET /archive/documents", "findDocuments", Right.LOOK_AROUND, query=DocumentQuery, faults={409}
)
async def _documents(call: Call) -> Page[FoundOut]:
    """List archived documents of a URL, including hidden documents."""
    query = call.asked(DocumentQuery)
    place = after(call, tuple[uuid.UUID | None, str | None, bool])
    is_chosen = "match" in query.model_fields_set
    url, match = (query.url, query.match) if is_chosen else read_wildcard(query.url)
    wanted = Query(
        url=url,
        match=match,
        since=query.since,
        until=query.until,
        limit=query.limit,
        examined=_MOST_EXAMINED,
        hidden=True,
        begin=LookupPlace(capture=place[0], host=place[1], keyed=place[2]) if place else LookupPlace(),
    )
    result = await call.database.run(find_captures, wanted)
    namespace = call.settings.provider.namespace
    end = result.end
    return Page(
        items=[_found_out(one, namespace) for one in result.found],
        next=link(call, (str(end.capture) if end.capture else None, end.host, end.keyed)) if end else None,
    )


@OPERATIONS.add("GET /archive/documents/{document}", "getDocument", Right.LOOK_AROUND)
async def _document(call: Call) -> DocumentOut:
    """Show a document."""
    return _document_out(await facts_of(call.request, call.place["document"]), call.settings)


@OPERATIONS.add("POST /archive/documents/{document}/hide", "hideDocument", Right.ARCHIVE)
async def _hide(call: Call) -> Done:
    """Hide a document; harvesters see it as deleted."""
    return await _mark(call, selection.hide)


@OPERATIONS.add("POST /archive/documents/{document}/unhide", "unhideDocument", Right.ARCHIVE)
async def _unhide(call: Call) -> Done:
    """Unhide a document."""
    return await _mark(call, selection.unhide)


async def _mark(call: Call, mark: Any) -> Done:  # noqa: ANN401 the service that hides or unhides
    key = (await facts_of(call.request, call.place["document"])).key
    margin = call.settings.provider.publish_margin
    return Done(changed=await call.database.run(mark, Selection(key=key), margin=margin))


def _found_out(one: FoundCapture, namespace: str) -> FoundOut:
    return FoundOut.from_row(one, identifier=oai_identifier(namespace, one.key))


def _document_out(facts: DocumentFacts, settings: Settings) -> DocumentOut:
    return DocumentOut.from_row(
        facts,
        identifier=oai_identifier(settings.provider.namespace, facts.key),
        address=document_address(settings, facts.key),
    )
