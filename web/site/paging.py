"""Pages of lists: the key in the query string after which a page starts, and the key of the next page."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

from aiohttp import web
from multidict import MultiMapping

PAGE: Final = 50
LARGEST_INTEGER: Final = 2**31 - 1
LARGEST_BIGINT: Final = 2**63 - 1
"""The largest numbers that the database takes for a column of type integer, and for one of type bigint."""
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


def number_in(request: web.Request, name: str, *, largest: int = LARGEST_INTEGER) -> int | None:
    """Return the query parameter as a number; None if it is not one, or larger than its column takes."""
    return as_number(request.query.get(name, ""), largest=largest)


def as_number(text: str, *, largest: int = LARGEST_INTEGER) -> int | None:
    """Return the text as a number; None if it is not one from 0 to `largest`."""
    if not text.isascii() or not text.isdecimal() or len(text) > len(str(largest)):
        return None
    number = int(text)
    return number if number <= largest else None


def numbers_in(posted: MultiMapping[Any], name: str, *, largest: int = LARGEST_INTEGER) -> list[int]:
    """Return what is ticked under that name in a form, without what is not a number."""
    given = (as_number(str(text), largest=largest) for text in posted.getall(name, []))
    return [number for number in given if number is not None]


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
