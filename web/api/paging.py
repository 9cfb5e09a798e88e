"""Pages of lists: an opaque cursor carries the key of the last item."""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from web.api.faults import ApiError, FieldFault
from web.api.operations import Call
from web.api.shapes import Page, Paged
from web.site.paging import LARGEST_INTEGER

_Row = TypeVar("_Row")
_Key = TypeVar("_Key")


def after(call: Call, kind: type[_Key], *, largest: int = LARGEST_INTEGER) -> _Key | None:
    """Return the key after which the page starts, or None for the first page; 422 for an invalid cursor.

    `largest` is the largest number that the column of the key takes.
    """
    query = call.asked(Paged)
    if query.cursor is None:
        return None
    try:
        text = base64.b64decode(query.cursor.encode(), altchars=b"-_", validate=True)
        key = TypeAdapter(kind).validate_json(text, strict=True)
    except (ValueError, binascii.Error, ValidationError):
        raise unreadable_cursor() from None
    if not _is_storable(key, largest):
        raise unreadable_cursor()
    return key


def _is_storable(key: object, largest: int) -> bool:
    """Return whether the database can compare its columns with the key: it refuses anything else."""
    match key:
        case str():
            return "\0" not in key
        case int():
            return 0 <= key <= largest
        case tuple():
            return all(_is_storable(one, largest) for one in key)
    return True


def unreadable_cursor() -> ApiError:
    """Return the error for a cursor that this API did not issue."""
    fault = FieldFault(pointer="?cursor", detail="use the value from `next` of an answer unchanged")
    return ApiError(422, "the cursor cannot be read", errors=[fault])


def page_of(
    call: Call,
    rows: Sequence[_Row],
    shown: Callable[[_Row], Any],
    key: Callable[[_Row], object],
) -> Page[Any]:
    """Return the page from rows that were queried with a limit of `limit` + 1."""
    query = call.asked(Paged)
    kept = rows[: query.limit]
    following = link(call, key(kept[-1])) if len(rows) > query.limit else None
    return Page(items=[shown(row) for row in kept], next=following)


async def list_page(
    call: Call,
    find: Callable[..., Sequence[_Row]],
    shown: Callable[[_Row], Any],
    *,
    kind: Any = int,  # noqa: ANN401 a type, or tuple[…]
    largest: int = LARGEST_INTEGER,
    **place: Callable[[_Row], object],
) -> Page[Any]:
    """Return the page of the rows that `find` reads from the database, as `web.site.export.export_list` does.

    `place` is the argument of `find` after which, or before which, rows follow, with its value for a row;
    `kind` and `largest` are of that value, as `after` reads it.
    """
    ((argument, key),) = place.items()
    begin = after(call, kind, largest=largest)
    given = {} if begin is None else {argument: begin}
    rows = await call.database.run(find, limit=call.asked(Paged).limit + 1, **given)
    return page_of(call, rows, shown, key)


def link(call: Call, key: object) -> str:
    """Return the URL of the page that starts after the item with the given key."""
    values = json.dumps(key, separators=(",", ":")).encode()
    cursor = base64.urlsafe_b64encode(values).decode()
    return str(call.request.rel_url.update_query(cursor=cursor))
