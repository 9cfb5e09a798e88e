"""Reads captures through the index on URLs in batches, in one order from wherever the reading begins.

Every range of a batch is read for no more rows than the batch has in all, and no row is passed over here: so
it is known what a batch costs before it is read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import RowMapping, text
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings.url_ranges import Group, UrlRange

EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_GROUPS_AT_ONCE: Final = 50
_FIRST_ID: Final = -1
_LAST_ID: Final = (1 << 63) - 1


class Order(StrEnum):
    """In which order captures come; those of one URL may come in all of them."""

    FORWARD = "forward"
    """By URL and time."""
    REVERSE = "reverse"
    """The latest first."""
    CLOSEST = "closest"
    """Those nearest to a moment first."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How captures are to be read."""

    order: Order = Order.FORWARD
    closest: datetime | None = None
    """The moment, where that is the order."""
    since: datetime = EARLIEST
    until: datetime = LATEST
    """Bounds that the index is asked for; good for a single URL only, for else they would hide a long way."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The capture behind which a reading begins."""

    id: int
    url: str
    archived: datetime


@dataclass(frozen=True, kw_only=True)
class Batch:
    """What was read at once."""

    rows: Sequence[RowMapping]
    cost: int
    """Rows, and ranges that were looked into."""
    host: int | None = None
    """The last group's host, where this batch is the end of it."""


# The index is on the first 512 characters, to the letter of this expression.
_SIDE: Final = """
SELECT document.*, substr(left(document.url, 512), length(wanted.start) + 1) AS rest
FROM document
WHERE left(document.url, 512) >= wanted.low AND left(document.url, 512) < wanted.high
    AND document.archived BETWEEN wanted.since AND wanted.until AND {behind}
ORDER BY left(document.url, 512) {way}, document.archived {way}, document.id {way} LIMIT :most
"""
_DISTANCE: Final = "abs(extract(epoch FROM {} - CAST(:closest AS timestamptz)))"
_BEHIND_CLOSEST: Final = (
    f"(:fresh OR ({_DISTANCE.format('document.archived')}, document.archived, document.id)"
    f" > ({_DISTANCE.format('CAST(:edge AS timestamptz)')}, :edge, wanted.edge_id))"
)
_SIDES: Final = {
    Order.FORWARD: _SIDE.format(
        behind="(document.archived > wanted.since OR document.id > wanted.edge_id)", way=""
    ),
    Order.REVERSE: _SIDE.format(
        behind="(document.archived < wanted.until OR document.id < wanted.edge_id)", way="DESC"
    ),
    Order.CLOSEST: "({}) UNION ALL ({})".format(
        _SIDE.format(
            behind=f"document.archived < :closest AND document.archived <= :earlier AND {_BEHIND_CLOSEST}",
            way="DESC",
        ),
        _SIDE.format(behind=f"document.archived >= :later AND {_BEHIND_CLOSEST}", way=""),
    ),
}
_KEYS: Final = {
    Order.FORWARD: "n, rest, archived, id",
    Order.REVERSE: "archived DESC, id DESC",
    Order.CLOSEST: f"{_DISTANCE.format('archived')}, archived, id",
}
_READ: Final = """
WITH page AS (
    SELECT wanted.n, page.*
    FROM unnest(
        CAST(:n AS int[]), CAST(:start AS text[]), CAST(:low AS text[]), CAST(:high AS text[]),
        CAST(:since AS timestamptz[]), CAST(:until AS timestamptz[]), CAST(:edge_id AS bigint[])
    ) AS wanted (n, start, low, high, since, until, edge_id)
    CROSS JOIN LATERAL ({sides}) AS page
    ORDER BY {keys} LIMIT :most
)
SELECT
    page.n, page.id, page.key, page.url, page.archived, mimetype.name AS mime_type, page.http_status,
    page.digest, page.length, page."offset", page.record_type, page.access, page.deleted,
    coalesce(arc.path, arc.name) AS path
FROM page
JOIN mimetype ON mimetype.id = page.mime_id
JOIN arc ON arc.id = page.arc_id
ORDER BY {keys}
"""


def batches(
    session: Session, groups: Iterator[Group], reading: Reading, edge: Edge | None, most: int
) -> Iterator[Batch]:
    """All captures of the groups from behind the edge on, which is in the first; `most` rows at once."""
    for bunch in _bunches(groups, most):
        left = list(bunch)
        while True:
            ranges = _ranges(left, reading, edge)
            rows = _read(session, ranges, reading, edge, most)
            ended = len(rows) < most
            yield Batch(rows=rows, cost=len(rows) + len(ranges), host=bunch[-1].host if ended else None)
            if ended:
                break
            last = rows[-1]
            del left[: last["n"]]
            edge = Edge(id=last["id"], url=last["url"], archived=last["archived"])
        edge = None


def _bunches(groups: Iterator[Group], most: int) -> Iterator[Sequence[Group]]:
    """Groups that are read at once: together they have about as many captures as a batch."""
    bunch: list[Group] = []
    documents = 0
    for group in groups:
        bunch.append(group)
        documents += most if group.documents is None else group.documents
        if documents >= most or len(bunch) == _GROUPS_AT_ONCE:
            yield bunch
            bunch, documents = [], 0
    if bunch:
        yield bunch


def _ranges(groups: Sequence[Group], reading: Reading, edge: Edge | None) -> list[dict[str, Any]]:
    """The ranges with their group's number and their bounds in time."""
    bounds = {"since": reading.since, "until": reading.until, "edge_id": _FIRST_ID}
    if reading.order is Order.REVERSE:
        bounds["edge_id"] = _LAST_ID
    if edge is not None and reading.order is Order.REVERSE:
        bounds |= {"until": edge.archived, "edge_id": edge.id}
    if edge is not None and reading.order is Order.CLOSEST:
        bounds["edge_id"] = edge.id
    found = []
    for number, group in enumerate(groups):
        if number == 0 and edge is not None and reading.order is Order.FORWARD:
            found += [_row(number, *one) for one in _behind(group, bounds, edge)]
        else:
            found += [_row(number, one, bounds) for one in group.ranges]
    return found


def _row(number: int, one: UrlRange, bounds: dict[str, Any]) -> dict[str, Any]:
    return {"n": number, "start": one.start, "low": one.low, "high": one.high, **bounds}


def _behind(group: Group, bounds: dict[str, Any], edge: Edge) -> Iterator[tuple[UrlRange, dict[str, Any]]]:
    """What is left of a group behind a capture: later ones of URLs that go on so, and the URLs after it."""
    rest = next((one.rest(edge.url) for one in group.ranges if one.holds(edge.url)), None)
    if rest is None:
        raise UsageError("the position belongs to another look-up; start again from the beginning")
    for one in group.ranges:
        same, later = one.behind(rest)
        if same is not None:
            yield same, {**bounds, "since": edge.archived, "edge_id": edge.id}
        if later is not None:
            yield later, bounds


def _read(
    session: Session, ranges: list[dict[str, Any]], reading: Reading, edge: Edge | None, most: int
) -> Sequence[RowMapping]:
    if not ranges:
        return []
    statement = _READ.format(sides=_SIDES[reading.order], keys=_KEYS[reading.order])
    values = {name: [one[name] for one in ranges] for name in ranges[0]}
    if reading.closest is not None:
        values |= _around(reading.closest, edge)
    return session.execute(text(statement), {**values, "most": most}).mappings().all()


def _around(closest: datetime, edge: Edge | None) -> dict[str, Any]:
    """How near the captures are at least that are still to be read."""
    values: dict[str, Any] = {"closest": closest, "fresh": edge is None}
    if edge is None:
        return values | {"edge": closest, "earlier": closest, "later": closest}
    away = abs(edge.archived - closest)
    earlier = closest - away if closest - EARLIEST >= away else EARLIEST
    later = closest + away if LATEST - closest >= away else LATEST
    return values | {"edge": edge.archived, "earlier": earlier, "later": later}
