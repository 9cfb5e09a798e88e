"""`/archive/<key>`: archived documents over HTTP as captured, isolated from the provider's own pages.

A document is sent with the archived Content-Type and, if the content has it, Content-Encoding (its digest
covers these bytes, so they are not decompressed here), in a sandbox: archived scripts must not act in the
archive's name.
Redirects and errors were captured, too; all are sent with status 200, and with their status and target in
separate fields, because the response is archived content and not a current page.
"""

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from email.utils import format_datetime
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from aiohttp import ETag, web
from prometheus_client import Counter
from sqlalchemy.orm import Session

from oai.connections import break_off
from oai.errors import TryLaterError
from provider.holdings.documents import NotServedError, OpenDocument, Query, find_document, open_holding
from provider.http.admission import READING, TryLater, Why, admitted
from provider.http.keys import DATABASE, SETTINGS
from provider.http.memento import Links, links_of
from provider.http.metrics import METRICS
from provider.http.middleware import OBSERVERS
from provider.models import Access
from provider.reading.archived_record import DigestError
from provider.reading.content import DamageError

PATH: Final = "/archive/{key:[0-9a-f]{32}}"

_ORIGINAL_FIELDS: Final = (
    "Location", "Refresh", "Transfer-Encoding", "Content-Language", "Content-Disposition", "Last-Modified",
    "Date", "Link", "Server",
)  # fmt: skip
"""Archived fields that are sent as `X-Archive-Orig-…`, for restoring a site or writing a WARC file."""
_LONGEST_FIELD: Final = 2048
"""Characters; proxies accept only a few thousand bytes of header fields in total."""
_EMPTY_SUFFIX: Final = re.compile(r"bytes=-0+")
"""The last zero bytes; aiohttp takes them for all bytes."""
_RETRY_SECONDS: Final = 300
_DAMAGED: Final = web.AppKey("damaged_documents", Counter)

_Result = TypeVar("_Result")
_log = logging.getLogger("provider.http.document_routes")


def add_routes(app: web.Application) -> None:
    """Add the path of archived documents."""
    app[_DAMAGED] = Counter(
        "zatva_provider_damaged_documents",
        "Documents that could not be served as they were archived.",
        registry=app[METRICS].registry,
    )
    app.router.add_get(PATH, _answer, allow_head=True)


async def _answer(request: web.Request) -> web.StreamResponse:
    settings, database = request.app[SETTINGS].provider, request.app[DATABASE]
    key = UUID(hex=request.match_info["key"])
    reader = request.app[OBSERVERS].visitor(request)
    address = None if reader.ours else reader.address
    opened: list[OpenDocument] = []
    try:
        asked = await admitted(request, lambda: database.read(partial(find_document, key=key)))
        query = _query(request)
        await admitted(
            request,
            lambda: opened.append(open_holding(query, settings, asked, address)),
            lengthy=asked.is_remote,
            where=READING,
        )
        return await _send(request, opened[0])
    except NotServedError as error:
        if error.status == web.HTTPServiceUnavailable.status_code:
            raise TryLater(Why.ARCHIVE, str(error), _RETRY_SECONDS) from None
        if error.status == web.HTTPInternalServerError.status_code:
            request.app[_DAMAGED].inc()
        return _not_served(error)
    except (asyncio.CancelledError, ConnectionError):
        while opened:
            # A thread may still be reading the file, and closing it waits for that.
            request.app[READING].begin(opened.pop().record.close)
        raise
    finally:
        # Also if the client disconnected while the document was being opened.
        for document in opened:
            document.record.close()


def _query(request: web.Request) -> Query:
    """Return how a thread that reads files queries the database: in the threads for that."""
    loop, database = asyncio.get_running_loop(), request.app[DATABASE]

    def query(work: Callable[[Session], _Result], /) -> _Result:
        return asyncio.run_coroutine_threadsafe(admitted(request, lambda: database.read(work)), loop).result()

    return query


def _not_served(error: NotServedError) -> web.Response:
    return web.Response(
        status=error.status, text=f"{error.status}: {error}\n", headers={"Cache-Control": "no-store"}
    )


async def _send(request: web.Request, document: OpenDocument) -> web.StreamResponse:
    headers = _headers(document, links_of(request, document.asked.url))
    if request.if_match is not None and not _has_one_of(document, request.if_match):
        return web.Response(status=412, text="412: the document has another ETag\n")
    if _has_one_of(document, request.if_none_match or ()):
        kept = ("ETag", "Cache-Control", "Memento-Datetime", "Link")
        return web.Response(status=304, headers={name: headers[name] for name in kept if name in headers})
    begin, end, status = 0, document.size, 200
    part = _part(request, document)
    if part is not None:
        begin, end = part
        if begin >= end:
            return web.Response(status=416, headers={"Content-Range": f"bytes */{document.size}"})
        status = 206
        headers["Content-Range"] = f"bytes {begin}-{end - 1}/{document.size}"
    if document.held is not None:
        return web.Response(status=status, headers=headers, body=document.held[begin:end])
    response = web.StreamResponse(status=status, headers=headers)
    if end is not None:
        response.content_length = end - begin
    await response.prepare(request)
    if request.method != "HEAD":
        await _stream(request, response, document, begin, end)
    return response


async def _stream(
    request: web.Request, response: web.StreamResponse, document: OpenDocument, begin: int, end: int | None
) -> None:
    """Send the payload or a part of it; the last block only after the whole content has been verified.

    If verification fails, the connection is aborted, so that the client cannot mistake a part for the
    whole.
    """
    held = b""
    try:
        async for piece in _pieces(request, document, begin, end):
            if held:
                await response.write(held)
            held = piece
    except ConnectionError:
        raise  # raised for the client's connection
    except (DamageError, DigestError, OSError, TryLaterError) as fault:
        request.app[_DAMAGED].inc(not isinstance(fault, TryLaterError))
        _log.error("document %s: %s: %s", document.holder.key, document.holder.place, fault)
        break_off(request)
        raise ConnectionAbortedError(f"document {document.holder.key} was not sent whole") from None
    await response.write(held)


async def _pieces(
    request: web.Request, document: OpenDocument, begin: int, end: int | None
) -> AsyncIterator[bytes]:
    blocks, place = document.record.blocks(document.holder.digest), 0
    # Read to the very end for the whole document, because its digest is compared there.
    while begin == 0 or end is None or place < end:
        # Each block is awaited before the next one is requested, so one thread at a time uses the iterator.
        block = await request.app[READING].run(
            lambda: next(blocks, None), lengthy=document.holder.is_remote, patient=True
        )
        if block is None:
            return
        wanted = block[max(0, begin - place) : None if end is None else max(0, end - place)]
        place += len(block)
        if wanted:
            yield wanted


def _headers(document: OpenDocument, links: Links) -> dict[str, str]:
    asked, description = document.asked, document.record.description
    headers = {
        "Content-Type": _content_type(description.content_type),
        "Memento-Datetime": format_datetime(asked.archived, usegmt=True),
        "Content-Security-Policy": "sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cache-Control": "no-cache" if document.rule.access == Access.OPEN else "private, no-cache",
        "Accept-Ranges": "bytes" if document.checked else "none",
    }
    if link := _link(links):
        headers["Link"] = link
    if description.content_encoding and not _is_long(description.content_encoding):
        headers["Content-Encoding"] = description.content_encoding
    if description.http_status is not None:
        headers["X-Archive-Orig-Status"] = str(description.http_status)
    if document.holder.digest is not None:
        headers["ETag"] = f'"{document.holder.digest}"'
    return headers | _original_fields(description.http_fields)


def _is_long(value: str) -> bool:
    return len(value) > _LONGEST_FIELD


def _content_type(declared: str | None) -> str:
    """Return the type to send: the archived one, without its parameters if it is too long with them."""
    for kind in (declared or "", (declared or "").partition(";")[0].rstrip()):
        if kind and not _is_long(kind):
            return kind
    return "application/octet-stream"


def _link(links: Links) -> str:
    """Return the links of a memento (RFC 7089, section 2.2) that proxies accept; empty if none is."""
    if 3 * len(links.url) > _LONGEST_FIELD:
        return "" if _is_long(links.original()) else links.original()
    return f"{links.original()}, {links.timegate()}, {links.timemap()}"


def _original_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields to send; a field that is too long is omitted, and so are all after it."""
    left = _LONGEST_FIELD
    sent = {}
    for name in _ORIGINAL_FIELDS:
        value = fields.get(name.lower(), "")
        left -= len(value)
        if left < 0:
            break
        if value:
            sent[f"X-Archive-Orig-{name}"] = value
    return sent


def _has_one_of(document: OpenDocument, tags: Sequence[ETag]) -> bool:
    """Return whether one of the client's tags is the document's (RFC 9110, sections 13.1.1 and 13.1.2)."""
    return any(tag.value in {document.holder.digest, "*"} for tag in tags)


def _part(request: web.Request, document: OpenDocument) -> tuple[int, int] | None:
    """Return the requested range (start, stop), empty if out of bounds; None for the whole.

    Ranges are served for checked documents, and GET, only. Anything other than a single byte range is
    ignored (RFC 9110, section 14.2).
    """
    condition = request.headers.get("If-Range")
    if request.method == "HEAD" or "Range" not in request.headers:
        return None
    if not document.checked or document.size is None:
        return None
    if condition is not None and condition != f'"{document.holder.digest}"':
        return None
    if _EMPTY_SUFFIX.fullmatch(request.headers["Range"]):
        return 0, 0
    try:
        wanted = request.http_range
    except ValueError:
        return None
    begin, end, _ = wanted.indices(document.size)
    return begin, end
