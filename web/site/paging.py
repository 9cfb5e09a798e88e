"""Pages of lists: the key in the query string after which a page starts, and the key of the next page."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from aiohttp import web

PAGE: Final = 50
_DIGITS: Final = 18
"""Maximum number of digits of the database's integers."""
_BAR: Final = "|"

_Row = TypeVar("_Row")


@dataclass(frozen=True, kw_only=True)
class Shown(Generic[_Row]):
    """A page of a list."""

    rows: Sequence[_Row]
    next: object | None
    """Key of the last row, if there are more."""
    first: bool


def page_of(
    rows: Sequence[_Row], key: Callable[[_Row], object], *, behind: object | None, size: int = PAGE
) -> Shown[_Row]:
    """Return the page from rows queried with a limit of `size` + 1; `behind` is the key in the query."""
    kept = rows[:size]
    return Shown(rows=kept, next=key(kept[-1]) if len(rows) > size else None, first=not behind)


def number_in(request: web.Request, name: str) -> int | None:
    """Return the query parameter as a number; None if it is not one."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def text_in(request: web.Request, name: str) -> str:
    """Return the query parameter as text; no text column contains control characters."""
    text = request.query.get(name, "")
    return text if text.isprintable() else ""


def moment_in(request: web.Request, name: str) -> tuple[datetime, uuid.UUID] | None:
    """Return the query parameter as time and key, as written by `moment_key`; None if it is not one."""
    moment, _bar, key = request.query.get(name, "").partition(_BAR)
    try:
        found = datetime.fromisoformat(moment), uuid.UUID(key)
    except ValueError:
        return None
    return found if found[0].tzinfo is not None else None


def moment_key(moment: datetime, key: uuid.UUID) -> str:
    """Return a key for URLs, of rows that are ordered by time."""
    return f"{moment.isoformat()}{_BAR}{key}"
