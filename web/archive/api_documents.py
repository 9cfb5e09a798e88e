"""REST API: archived documents: look up, show, hide and unhide."""

import uuid
from datetime import datetime
from typing import Any, Final

from pydantic import Field

from oai.rights import Right
from oai.settings import Settings
from provider.holdings import selection
from provider.holdings.capture import FoundCapture
from provider.holdings.document_details import DocumentFacts, document_facts
from provider.holdings.identifiers import oai_identifier
from provider.holdings.lookup import LookupPlace, MatchType, Query, find_captures
from provider.holdings.selection import Selection
from web.api.faults import not_found
from web.api.operations import Call, Operation
from web.api.paging import after, link
from web.api.shapes import Done, Moment, Out, Page, Paged
from web.archive.address import document_address

_TAG: Final = "archive"


_MOST_EXAMINED: Final = 20_000


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
    match: MatchType = Field(MatchType.EXACT, description="How the URL is matched.")
    since: Moment | None = Field(None, description="Captured at this time or later.")
    until: Moment | None = Field(None, description="Captured at this time or earlier.")


class InCollectionOut(Out):
    """A collection that contains the document."""

    set_spec: str
    name: str
    direct: bool


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


async def _documents(call: Call) -> Page[FoundOut]:
    query = call.asked(DocumentQuery)
    place = after(call, tuple[int | None, int | None])
    wanted = Query(
        url=query.url,
        match=query.match,
        since=query.since,
        until=query.until,
        limit=query.limit,
        examined=_MOST_EXAMINED,
        hidden=True,
        begin=LookupPlace(capture=place[0], host=place[1]) if place else LookupPlace(),
    )
    result = await call.database.run(find_captures, wanted)
    namespace = call.settings.provider.namespace
    end = result.end
    return Page(
        items=[_found(one, namespace) for one in result.found],
        next=link(call, (end.capture, end.host)) if end else None,
    )


async def _document(call: Call) -> DocumentOut:
    key = uuid.UUID(call.place["document"])
    facts = await call.database.run(document_facts, key)
    if facts is None:
        raise not_found("document", key)
    return _shown(facts, call.settings)


async def _hide(call: Call) -> Done:
    return await _mark(call, selection.hide)


async def _unhide(call: Call) -> Done:
    return await _mark(call, selection.unhide)


async def _mark(call: Call, mark: Any) -> Done:  # noqa: ANN401 the service that hides or unhides
    key = uuid.UUID((await _document(call)).key.hex)
    margin = call.settings.provider.publish_margin
    return Done(changed=await call.database.run(mark, Selection(key=key), margin=margin))


def _found(one: FoundCapture, namespace: str) -> FoundOut:
    columns = {name: getattr(one, name) for name in FoundOut.model_fields if name != "identifier"}
    return FoundOut(identifier=oai_identifier(namespace, one.key), **columns)


def _shown(facts: DocumentFacts, settings: Settings) -> DocumentOut:
    own = {"identifier", "address", "collections"}
    columns = {name: getattr(facts, name) for name in DocumentOut.model_fields if name not in own}
    return DocumentOut(
        identifier=oai_identifier(settings.provider.namespace, facts.key),
        address=document_address(settings, facts.key),
        collections=[InCollectionOut.model_validate(one) for one in facts.collections],
        **columns,
    )


def _get(name: str, path: str, summary: str, work: Any, **more: Any) -> Operation:  # noqa: ANN401 as declared
    declared = {"method": "GET", "right": Right.LOOK_AROUND, **more}
    return Operation(name=name, path=f"/archive{path}", tag=_TAG, summary=summary, work=work, **declared)


_CHANGE: Final = {"method": "POST", "right": Right.ARCHIVE}


_FOUND_NO_SET: Final = frozenset({409})


OPERATIONS: Final = (
    _get(
        "findDocuments",
        "/documents",
        "List archived documents of a URL, including hidden documents.",
        _documents,
        query=DocumentQuery,
        answer=Page[FoundOut],
        faults=_FOUND_NO_SET,
    ),
    _get("getDocument", "/documents/{document}", "Show a document.", _document, answer=DocumentOut),
    _get(
        "hideDocument",
        "/documents/{document}/hide",
        "Hide a document; harvesters see it as deleted.",
        _hide,
        answer=Done,
        **_CHANGE,
    ),
    _get(
        "unhideDocument",
        "/documents/{document}/unhide",
        "Unhide a document.",
        _unhide,
        answer=Done,
        **_CHANGE,
    ),
)
