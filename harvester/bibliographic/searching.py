"""Search among bibliographic records, page by page (BIB-5)."""

import base64
import binascii
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from harvester.bibliographic.restricting import Search, conditions_of
from oai.errors import UsageError

_MOST_HITS: Final = 1000


class Order(StrEnum):
    """What the hits are sorted by."""

    RELEVANCE = "relevance"
    TITLE = "title"
    NEWEST = "newest"


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A record that was found, as a list shows it."""

    bibliographic_id: int
    repository_id: int
    title: str
    subtitle: str
    statement: str
    kind: str
    place: str
    publisher: str
    date_text: str
    year_from: int | None
    year_to: int | None
    languages: Sequence[str]
    contributors: Sequence[str]
    """Names, the first three."""


@dataclass(frozen=True, kw_only=True)
class HitPage:
    """A page of hits; `next` is the key of the page after it, None on the last."""

    hits: Sequence[Hit]
    next: str | None


@dataclass(frozen=True, kw_only=True)
class _Sorting:
    """How an order is put in SQL: the key's columns, compared as a row with those of the last hit."""

    columns: tuple[str, str]
    types: tuple[str, str]
    direction: str

    @property
    def behind(self) -> str:
        """The condition that a hit comes after the last one, whose key is in `first` and `second`."""
        values = ", ".join(
            f"CAST(:{name} AS {type_})" for name, type_ in zip(("first", "second"), self.types, strict=True)
        )
        return f"({', '.join(self.columns)}) {'>' if self.direction == 'ASC' else '<'} ({values})"


_SORTINGS: Final = {
    Order.RELEVANCE: _Sorting(
        columns=("ts_rank(row.words, to_tsquery('simple', :words))", "-row.bibliographic_id"),
        types=("float4", "bigint"),
        direction="DESC",
    ),
    Order.TITLE: _Sorting(
        columns=("row.sort_title", "row.bibliographic_id"), types=("text", "bigint"), direction="ASC"
    ),
    Order.NEWEST: _Sorting(
        columns=("row.sort_year", "row.bibliographic_id"), types=("integer", "bigint"), direction="DESC"
    ),
}
_SHOWN: Final = (
    "bibliographic_id", "repository_id", "title", "subtitle", "statement", "kind", "place", "publisher",
    "date_text", "year_from", "year_to", "languages",
)  # fmt: skip
_NAMES: Final = """
    ARRAY(SELECT name FROM bibliographic_contributor AS named
          WHERE named.bibliographic_id = row.bibliographic_id ORDER BY position LIMIT 3) AS contributors
    """


def search(
    session: Session, wanted: Search, *, order: Order | None = None, after: str | None = None, limit: int = 50
) -> HitPage:
    """A page of hits; `after` is the `next` of the page before it, in the same order.

    Without an order, hits for a text come by relevance, others by title. Raises UsageError where `after` is
    none of ours, or `limit` is not from 1 to 1,000.
    """
    if not 1 <= limit <= _MOST_HITS:
        raise UsageError(f"{limit} hits per page is not valid; give 1 to {_MOST_HITS:,}")
    conditions, values = conditions_of(wanted)
    chosen = _chosen(order, has_words="words" in values)
    sorting = _SORTINGS[chosen]
    if after is not None:
        conditions.append(sorting.behind)
        values["first"], values["second"] = _position(after, chosen)
    keys = sorting.columns
    statement = f"""
        SELECT {", ".join(f"row.{name}" for name in _SHOWN)}, {_NAMES},
               {keys[0]} AS key_one, {keys[1]} AS key_two
        FROM bibliographic_record AS row WHERE {" AND ".join(conditions)}
        ORDER BY {", ".join(f"{key} {sorting.direction}" for key in keys)} LIMIT :limit
        """  # noqa: S608 made of our own words
    rows = session.execute(text(statement), {**values, "limit": limit + 1}).mappings().all()
    last = rows[limit - 1] if len(rows) > limit else None
    return HitPage(
        hits=[Hit(**{name: row[name] for name in (*_SHOWN, "contributors")}) for row in rows[:limit]],
        next=None if last is None else _key(chosen, last["key_one"], last["key_two"]),
    )


def _chosen(order: Order | None, *, has_words: bool) -> Order:
    """The order that is asked for; nothing is more relevant than another where no words are searched."""
    if has_words:
        return order or Order.RELEVANCE
    return Order.TITLE if order in {None, Order.RELEVANCE} else order


def _key(order: Order, first: object, second: object) -> str:
    whole = json.dumps([order.value, str(first), str(second)], ensure_ascii=False)
    return base64.urlsafe_b64encode(whole.encode()).decode().rstrip("=")


def _position(after: str, order: Order) -> tuple[str, str]:
    """The key of the last hit. Raises UsageError where it is none, or one of another order."""
    try:
        whole = json.loads(base64.urlsafe_b64decode(after + "=" * (-len(after) % 4)))
        kind, first, second = whole
        int(second)
        if order is not Order.TITLE:
            float(first)
    except (binascii.Error, ValueError, TypeError):
        raise UsageError(f"{after!r} is not a page key; take it from the previous page") from None
    if kind != order.value:
        raise UsageError(
            f"the key {after!r} belongs to a list by {kind}, not by {order}; start at the first page"
        )
    return str(first), str(second)
