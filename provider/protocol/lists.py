"""The list requests, page by page (OAI-PMH 2.0, sections 3.5, 4.3, 4.5 and 4.6)."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, TypeVar

from oai.errors import ProtocolError
from oai.vocabulary import ErrorCode
from provider.holdings.mark import MarkBehindError
from provider.protocol import answers
from provider.protocol.catalogue import Extent
from provider.protocol.exchange import Content, Exchange, ListPosition, just_changed
from provider.protocol.requests import shown, unknown_format
from provider.protocol.tokens import ItemList, Position, SetList, bad_token

_State = TypeVar("_State", ItemList, SetList)


def list_records(exchange: Exchange) -> Content:
    """Return a page of records (section 4.5)."""
    return _list_items(
        exchange, exchange.settings.records_per_answer, lambda extent, page: extent.records(page)
    )


def list_identifiers(exchange: Exchange) -> Content:
    """Return a page of headers (section 4.3)."""
    return _list_items(
        exchange, exchange.settings.headers_per_answer, lambda extent, page: extent.headers(page)
    )


def list_sets(exchange: Exchange) -> Content:
    """Return a page of sets (section 4.6)."""
    page_size = exchange.settings.sets_per_answer
    state = _read_token(exchange, exchange.tokens.read_sets) or SetList()
    found = exchange.catalogue.sets(exchange.session, after=state.after, limit=page_size + 1)
    if not found and state.after is None:
        raise exchange.absence(ProtocolError(ErrorCode.NO_SET_HIERARCHY, "there are no sets"))
    if not found:
        raise exchange.absence(bad_token("the list has no further sets after this token"))
    page = found[:page_size]
    following = None
    if len(found) > page_size:
        following = replace(state, after=page[-1].set_spec, cursor=state.cursor + len(page))
    elements = [answers.set_element(row.set_spec, row.name, row.description) for row in page]
    return _content(exchange, state, following, elements)


def _list_items(
    exchange: Exchange, page_size: int, write: Callable[[Extent, Sequence[Any]], list[str]]
) -> Content:
    state = _item_list(exchange)
    if not exchange.catalogue.has_format(exchange.session, state.metadata_prefix):
        raise exchange.absence(_unknown_format(state))
    extent = _extent(exchange, state)
    state, found = _find_items(exchange, state, extent, page_size + 1)
    if not found and state.after is not None:
        # What was left has moved to later dates. Harvesters take noRecordsMatch here for a failure, and no
        # list may be empty: a record that the next harvest brings, or that was sent, ends this list.
        found = extent.page(from_=state.from_, until=exchange.mark, after=None, limit=1)
        if not found and extent.page(from_=state.from_, until=exchange.soon, after=None, limit=1):
            raise just_changed()
    if not found:
        raise exchange.request.refusal(
            ProtocolError(ErrorCode.NO_RECORDS_MATCH, "no records match the set and the dates")
        )
    page = found[:page_size]
    following = None
    if len(found) > page_size:
        behind = Position(datestamp=page[-1].datestamp, id=page[-1].place)
        following = replace(state, after=behind, cursor=state.cursor + len(page))
    return _content(exchange, state, following, write(extent, page))


def _unknown_format(state: ItemList) -> ProtocolError:
    """Return the error for a format that is not offered; with a token, the format was offered earlier."""
    fault = unknown_format(state.metadata_prefix)
    return bad_token(fault.message) if state.after else fault


def _content(
    exchange: Exchange,
    state: ItemList | SetList,
    following: ItemList | SetList | None,
    elements: Sequence[str],
) -> Content:
    token = None if following is None else exchange.tokens.write(following, exchange.mark)
    parts = [*elements, _token(exchange, state, token)]
    asked: dict[str, Any] = {}
    if isinstance(state, ItemList):
        asked = {
            name: getattr(state, name) for name in ("metadata_prefix", "set_spec", "from_", "until", "size")
        }
    progress = ListPosition(cursor=state.cursor, count=len(elements), ended=following is None, **asked)
    xml = answers.verb_element(exchange.request.verb, parts)
    return Content(xml=xml, progress=progress, following=token)


def _item_list(exchange: Exchange) -> ItemList:
    """Return the list's position: that of the token, or its beginning, up to `until` and at most the mark."""
    request, mark = exchange.request, exchange.mark
    continued = _read_token(exchange, lambda token, now: exchange.tokens.read_items(token, request.verb, now))
    bound = continued.until if continued else request.until
    # Records up to the bound may not be visible here yet. Only the primary cuts a date in the future to its
    # mark.
    if bound is not None and bound > mark and (continued or not exchange.is_primary):
        raise MarkBehindError("changes up to the end of the list are still being published")
    return continued or ItemList(
        verb=request.verb,
        metadata_prefix=request.arguments["metadataPrefix"],
        set_spec=request.arguments.get("set"),
        from_=request.from_,
        until=min(request.until or mark, mark),
    )


def _extent(exchange: Exchange, state: ItemList) -> Extent:
    extent = exchange.catalogue.extent(exchange.session, state.metadata_prefix, state.set_spec)
    if extent is not None:
        return extent
    gone = f"set {shown(state.set_spec or '')} does not exist"
    raise exchange.absence(
        bad_token(f"{gone} any more") if state.after else ProtocolError(ErrorCode.NO_RECORDS_MATCH, gone)
    )


def _find_items(
    exchange: Exchange, state: ItemList, extent: Extent, limit: int
) -> tuple[ItemList, Sequence[Any]]:
    """Return the list, with its size if it becomes known here, and the next items."""
    found = extent.page(from_=state.from_, until=state.until, after=state.after, limit=limit)
    # The kept counts ignore dates, so they are a list's size only if the request has no date range.
    whole = exchange.request.from_ is None and exchange.request.until is None
    if state.after is None and whole and len(found) == limit:
        state = replace(state, size=extent.size(exchange.mark))
    return state, found


def _read_token(exchange: Exchange, read: Callable[[str, datetime], _State]) -> _State | None:
    """Return the list that the request's token continues; None for a request without a token."""
    token = exchange.request.arguments.get("resumptionToken")
    if token is None:
        return None
    try:
        return read(token, exchange.mark)
    except ProtocolError as error:
        raise exchange.request.refusal(error) from None


def _token(exchange: Exchange, state: ItemList | SetList, following: str | None) -> str:
    """Return the page's resumptionToken: empty on the last of several pages, none for a single page."""
    size = state.size if isinstance(state, ItemList) else None
    if following is None:
        no_more = answers.resumption_token("", cursor=state.cursor, size=size, expires=None)
        return no_more if state.after else ""
    return answers.resumption_token(
        following,
        cursor=state.cursor,
        size=size,
        expires=exchange.mark + exchange.tokens.lifetime,
    )
