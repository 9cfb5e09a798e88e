"""Pages of lists: the key in the address behind which they begin, and the one that leads on."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeVar

from aiohttp import web

PAGE: Final = 50
_DIGITS: Final = 18
"""Numbers of the database have no more."""
_BAR: Final = "|"

_Row = TypeVar("_Row")


@dataclass(frozen=True, kw_only=True)
class Shown(Generic[_Row]):
    """A page of a list."""

    rows: Sequence[_Row]
    next: object | None
    """The last row's key, where there are more."""
    first: bool


def page_of(
    rows: Sequence[_Row], key: Callable[[_Row], object], *, behind: object | None, size: int = PAGE
) -> Shown[_Row]:
    """The page for rows of which one more than `size` was asked for; `behind` is the key in the address."""
    kept = rows[:size]
    return Shown(rows=kept, next=key(kept[-1]) if len(rows) > size else None, first=not behind)


def number_in(request: web.Request, name: str) -> int | None:
    """The number of that name in the query; None for what is none."""
    text = request.query.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def text_in(request: web.Request, name: str) -> str:
    """The text of that name in the query; no text of the database has control characters."""
    text = request.query.get(name, "")
    return text if text.isprintable() else ""


def moment_in(request: web.Request, name: str) -> tuple[datetime, uuid.UUID] | None:
    """The moment and key of that name in the query, as `moment_key` writes them; None for anything else."""
    moment, _bar, key = request.query.get(name, "").partition(_BAR)
    try:
        found = datetime.fromisoformat(moment), uuid.UUID(key)
    except ValueError:
        return None
    return found if found[0].tzinfo is not None else None


def moment_key(moment: datetime, key: uuid.UUID) -> str:
    """A key of rows in the order of a moment, for an address."""
    return f"{moment.isoformat()}{_BAR}{key}"
