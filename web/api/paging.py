"""Pages of lists: a cursor carries the last item's key, opaque to whoever follows it."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from web.api.faults import ApiError, FieldFault
from web.api.operations import Call
from web.api.shapes import Page, Paged

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")


def after(call: Call, kind: type[_Key]) -> _Key | None:
    """The key to go on behind, or None at the beginning. Answers 422 for a cursor that is not from here."""
    query = call.asked(Paged)
    if query.cursor is None:
        return None
    try:
        text = base64.b64decode(query.cursor.encode(), altchars=b"-_", validate=True)
        return TypeAdapter(kind).validate_json(text, strict=True)
    except (ValueError, binascii.Error, ValidationError):
        raise unreadable_cursor() from None


def unreadable_cursor() -> ApiError:
    """The answer to a cursor that is not from here."""
    fault = FieldFault(pointer="?cursor", detail="use the value from `next` of an answer unchanged")
    return ApiError(422, "the cursor cannot be read", errors=[fault])


def page_of(
    call: Call,
    rows: Sequence[_Row],
    shown: Callable[[_Row], Any],
    key: Callable[[_Row], object],
) -> Page[Any]:
    """The page for rows of which one more than `limit` was asked for."""
    query = call.asked(Paged)
    kept = rows[: query.limit]
    following = link(call, key(kept[-1])) if len(rows) > query.limit else None
    return Page(items=[shown(row) for row in kept], next=following)


def link(call: Call, key: object) -> str:
    """The address of the page behind the item with that key."""
    values = json.dumps(key, separators=(",", ":")).encode()
    cursor = base64.urlsafe_b64encode(values).decode()
    return str(call.request.rel_url.update_query(cursor=cursor))
