"""Reads captures in batches through an index, in a fixed order from any starting position.

The index is that on URL keys, or that on URLs as archived as long as documents lack their keys.

Every range of a batch is read for no more rows than the whole batch may have, and no row is skipped here,
so the cost of a batch is bounded before it is read.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from itertools import product
from typing import Any, Final

from sqlalchemy import RowMapping, text
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings.selection import INDEXED_CHARACTERS
from provider.holdings.sets import domain_set_specs
from provider.holdings.urlkeys import (
    KEY_CHARACTERS,
    WwwRule,
    bare_roots,
    host_key,
    hosts_alike,
    key_prefix,
    parts_of,
    prefixes,
    spellings,
    stored_key,
    without_www,
)
from provider.models import UNLISTED

_LAST: Final = "\U0010ffff"
_NEXT: Final = "\x01"
"""The next possible text after a URL is that URL followed by this character, because no URL contains NUL."""
_HOSTS_AT_ONCE: Final = 200
# The bare host and the characters that may follow a host in a URL, each up to the next character in byte
# order.
_ENDINGS: Final = (("", _NEXT), ("#", "$"), ("/", "0"), (":", ";"), ("?", "@"))
_WITHOUT_SLASH: Final = (("", _NEXT), ("?", "@"))
_HOSTS: Final = r"""
SELECT host.set_spec, host.name,
    host.documents - CASE WHEN :withheld THEN 0 ELSE host.unlisted END AS documents, ARRAY(
    SELECT other.name FROM domain AS other
    WHERE other.set_spec >= host.set_spec || '\:www' AND other.set_spec < host.set_spec || '\:wwx'
        AND other.parent_id = host.id AND other.name ~ '^www[0-9]*\.'
        AND (:withheld OR other.listed)
) AS others
FROM domain AS host
WHERE (host.set_spec = :top OR host.set_spec >= :below AND host.set_spec < :behind)
    AND host.set_spec >= :first AND (:withheld OR host.listed)
ORDER BY host.set_spec LIMIT :most
"""
EARLIEST: Final = datetime(1, 1, 1, tzinfo=UTC)
LATEST: Final = datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
_GROUPS_AT_ONCE: Final = 50
_FIRST_ID: Final = -1
_LAST_ID: Final = (1 << 63) - 1


@dataclass(frozen=True, kw_only=True)
class UrlRange:
    """A range of an index: of indexed beginnings of URLs, or of keys."""

    start: str
    """The common beginning of its texts, without which groups are merged."""
    low: str
    high: str
    """The first text after the range."""

    def holds(self, indexed: str) -> bool:
        """Return whether an indexed text is in the range."""
        return self.low <= indexed < self.high

    def rest(self, indexed: str) -> str:
        """Return the part of an indexed text in this range by which it is ordered."""
        return indexed[len(self.start) :]

    def behind(self, rest: str) -> tuple["UrlRange | None", "UrlRange | None"]:
        """Return the range of exactly the URL with this rest and the range after it; None for empty ones."""
        here = self.start + rest
        following = max(self.low, here + _NEXT)
        within = self.low <= here < self.high
        same = UrlRange(start=self.start, low=here, high=here + _NEXT) if within else None
        later = UrlRange(start=self.start, low=following, high=self.high) if following < self.high else None
        return same, later


@dataclass(frozen=True, kw_only=True)
class Group:
    """Ranges that are merged."""

    ranges: Sequence[UrlRange]
    host: str | None = None
    """Its set spec, if a look-up reads host by host."""
    documents: int | None = None
    """Estimated number of documents, if known; never too low."""


def of_url(url: str, rule: WwwRule) -> Group:
    """Return the ranges of one URL in all its spellings."""
    return _of_beginnings(spellings(url, rule), _NEXT)


def of_prefix(url: str, rule: WwwRule) -> Group:
    """Return the ranges of all URLs with this prefix; a root includes itself archived without its slash."""
    below = _of_beginnings(prefixes(url, rule), _LAST).ranges
    return Group(ranges=[*below, *_of_starts(bare_roots(url, rule), _WITHOUT_SLASH)])


def of_host(url: str, rule: WwwRule) -> Group:
    """Return the ranges of all URLs of the host."""
    return Group(ranges=_of_names(hosts_alike(parts_of(url).host, rule)))


def of_domain(
    session: Session,
    url: str,
    rule: WwwRule,
    *,
    first: str = "",
    at_once: int = _HOSTS_AT_ONCE,
    withheld: bool = True,
) -> Iterator[Group]:
    """Yield a group for each host at or below that of a URL, with its `www.`, from a set spec on."""
    top = domain_set_specs(without_www(parts_of(url).host, rule))[-1][0]
    values = {"top": top, "below": f"{top}:", "behind": f"{top};", "most": at_once, "withheld": withheld}
    while True:
        rows = session.execute(text(_HOSTS), {**values, "first": first}).all()
        for row in rows:
            if leader(row.name, rule) == row.name:
                names = [row.name, *(name for name in row.others if leader(name, rule) == row.name)]
                yield Group(ranges=_of_names(names), host=row.set_spec, documents=row.documents)
        if len(rows) < at_once:
            return
        first = behind(rows[-1].set_spec)


def leader(host: str, rule: WwwRule) -> str:
    """Return the host that heads a host's group: without its `www.`, unless the rest begins with it, too."""
    bare = without_www(host, rule)
    return bare if without_www(bare, rule) == bare else host


def behind(set_spec: str) -> str:
    """Return the beginning of the set specs after a given one, starting with its descendants."""
    return set_spec + _NEXT


def _of_names(names: Iterable[str]) -> list[UrlRange]:
    shown = [f"[{name}]" if ":" in name else name for name in names]
    starts = (f"{scheme}://{name}" for scheme, name in product(("http", "https"), shown))
    return _of_starts(starts, _ENDINGS)


def _of_starts(starts: Iterable[str], endings: Sequence[tuple[str, str]]) -> list[UrlRange]:
    return [
        UrlRange(start=start, low=start + low, high=start + high) for start in starts for low, high in endings
    ]


def _of_beginnings(urls: Iterable[str], end: str) -> Group:
    """Return a range for each URL; URLs that differ only after the indexed characters share a range."""
    starts = dict.fromkeys(url[:INDEXED_CHARACTERS] for url in urls)
    return Group(ranges=[UrlRange(start=start, low=start, high=start + end) for start in starts])


def of_key(url: str, rule: WwwRule) -> Group:
    """Return the range of all URLs with this URL's key."""
    key = stored_key(url, rule)
    return _of_keys((key, key + _NEXT))


def of_keys_onward(url: str, rule: WwwRule) -> Group:
    """Return the range of this URL's key and all keys after it, as in outbackcdx."""
    return _of_keys((stored_key(url, rule), _LAST))


def of_key_prefix(url: str, rule: WwwRule) -> Group:
    """Return the range of all keys that begin like this URL's, as pywb does."""
    beginning = key_prefix(url, rule)[:KEY_CHARACTERS]
    return _of_keys((beginning, beginning + _LAST))


def of_key_host(url: str, rule: WwwRule) -> Group:
    """Return the ranges of the keys of a host: those of pywb, and those with other ports."""
    host = host_key(url, rule)
    return _of_keys((f"{host})", f"{host}*"), (f"{host}:", f"{host};"))


def of_key_domain(url: str, rule: WwwRule) -> Group:
    """Return the ranges of the keys of a host and the hosts below it: the comma is between `)` and `-`."""
    host = host_key(url, rule)
    return _of_keys((f"{host})", f"{host}-"), (f"{host}:", f"{host};"))


def _of_keys(*bounds: tuple[str, str]) -> Group:
    return Group(ranges=[UrlRange(start="", low=low, high=high) for low, high in bounds])


class UrlIndex(StrEnum):
    """An index with the expression that it covers, for which alone it is used."""

    URL = "left(document.url, 512)"
    """`ix_document_url`."""
    KEY = "document.url_key"
    """`ix_document_url_key`."""


class ReadOrder(StrEnum):
    """The order of captures; all orders are available for the captures of a single URL."""

    FORWARD = "forward"
    """By URL and time."""
    REVERSE = "reverse"
    """The latest first."""
    CLOSEST = "closest"
    """The closest to a given time first."""


@dataclass(frozen=True, kw_only=True)
class IndexReading:
    """How captures are read."""

    index: UrlIndex = UrlIndex.KEY
    order: ReadOrder = ReadOrder.FORWARD
    closest: datetime | None = None
    """The time, for that order."""
    since: datetime = EARLIEST
    until: datetime = LATEST
    """Bounds for the index scan; useful for a single URL only, because otherwise they would hide its cost."""
    withheld: bool = True
    """Include documents that were never listed; otherwise nothing, not even the cost, depends on them."""


@dataclass(frozen=True, kw_only=True)
class Edge:
    """The capture after which reading begins."""

    id: int
    indexed: str
    """Its text in the index."""
    archived: datetime


@dataclass(frozen=True, kw_only=True)
class ReadBatch:
    """The rows of one batch."""

    rows: Sequence[RowMapping]
    cost: int
    """Number of rows, and of ranges that were scanned."""
    host: str | None = None
    """The last group's host, if the batch reaches its end."""


_SIDE: Final = """
SELECT document.*, {{index}} AS indexed, substr({{index}}, length(wanted.start) + 1) AS rest
FROM document
WHERE {{index}} >= wanted.low AND {{index}} < wanted.high
    AND document.archived BETWEEN wanted.since AND wanted.until AND {behind}
    AND (:withheld OR document.datestamp < :unlisted)
ORDER BY {{index}} {way}, document.archived {way}, document.id {way} LIMIT :most
"""
_DISTANCE: Final = "abs(extract(epoch FROM {} - CAST(:closest AS timestamptz)))"
_BEHIND_CLOSEST: Final = (
    f"(:fresh OR ({_DISTANCE.format('document.archived')}, document.archived, document.id)"
    f" > ({_DISTANCE.format('CAST(:edge AS timestamptz)')}, :edge, wanted.edge_id))"
)
_SIDES: Final = {
    ReadOrder.FORWARD: _SIDE.format(
        behind="(document.archived > wanted.since OR document.id > wanted.edge_id)", way=""
    ),
    ReadOrder.REVERSE: _SIDE.format(
        behind="(document.archived < wanted.until OR document.id < wanted.edge_id)", way="DESC"
    ),
    ReadOrder.CLOSEST: "({}) UNION ALL ({})".format(
        _SIDE.format(
            behind=f"document.archived < :closest AND document.archived <= :earlier AND {_BEHIND_CLOSEST}",
            way="DESC",
        ),
        _SIDE.format(behind=f"document.archived >= :later AND {_BEHIND_CLOSEST}", way=""),
    ),
}
_KEYS: Final = {
    ReadOrder.FORWARD: "n, rest, archived, id",
    ReadOrder.REVERSE: "archived DESC, id DESC",
    ReadOrder.CLOSEST: f"{_DISTANCE.format('archived')}, archived, id",
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
    page.n, page.indexed, page.id, page.key, page.url, page.archived,
    coalesce(page.declared_type, mimetype.name) AS mime_type,
    page.http_status, page.digest, page.length, page."offset", page.record_type, page.access, page.deleted,
    coalesce(arc.path, arc.listed_name, arc.name) AS path, page.packed_length
FROM page
JOIN mimetype ON mimetype.id = page.mime_id
JOIN arc ON arc.id = page.arc_id
ORDER BY {keys}
"""


def batches(
    session: Session, groups: Iterator[Group], reading: IndexReading, edge: Edge | None, most: int
) -> Iterator[ReadBatch]:
    """Yield all captures of the groups after the edge, which is in the first one; `most` rows per batch."""
    for bunch in _batches(groups, most):
        left = list(bunch)
        while True:
            ranges = _ranges(left, reading, edge)
            rows = _read(session, ranges, reading, edge, most)
            ended = len(rows) < most
            yield ReadBatch(rows=rows, cost=len(rows) + len(ranges), host=bunch[-1].host if ended else None)
            if ended:
                break
            last = rows[-1]
            del left[: last["n"]]
            edge = Edge(id=last["id"], indexed=last["indexed"], archived=last["archived"])
        edge = None


def _batches(groups: Iterator[Group], most: int) -> Iterator[Sequence[Group]]:
    """Yield groups that are read together: their captures fill about one batch."""
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


def _ranges(groups: Sequence[Group], reading: IndexReading, edge: Edge | None) -> list[dict[str, Any]]:
    """Return the ranges with the number of their group and their time bounds."""
    bounds = {"since": reading.since, "until": reading.until, "edge_id": _FIRST_ID}
    if reading.order is ReadOrder.REVERSE:
        bounds["edge_id"] = _LAST_ID
    if edge is not None and reading.order is ReadOrder.REVERSE:
        bounds |= {"until": edge.archived, "edge_id": edge.id}
    if edge is not None and reading.order is ReadOrder.CLOSEST:
        bounds["edge_id"] = edge.id
    found = []
    for number, group in enumerate(groups):
        if number == 0 and edge is not None and reading.order is ReadOrder.FORWARD:
            found += [_row(number, *one) for one in _behind(group, bounds, edge)]
        else:
            found += [_row(number, one, bounds) for one in group.ranges]
    return found


def _row(number: int, one: UrlRange, bounds: dict[str, Any]) -> dict[str, Any]:
    return {"n": number, "start": one.start, "low": one.low, "high": one.high, **bounds}


def _behind(group: Group, bounds: dict[str, Any], edge: Edge) -> Iterator[tuple[UrlRange, dict[str, Any]]]:
    """Yield the rest of a group after a capture: later captures of the same URL, and the following URLs."""
    rest = next((one.rest(edge.indexed) for one in group.ranges if one.holds(edge.indexed)), None)
    if rest is None:
        raise UsageError("the position belongs to another look-up; start again from the beginning")
    for one in group.ranges:
        same, later = one.behind(rest)
        if same is not None:
            yield same, {**bounds, "since": edge.archived, "edge_id": edge.id}
        if later is not None:
            yield later, bounds


def _read(
    session: Session, ranges: list[dict[str, Any]], reading: IndexReading, edge: Edge | None, most: int
) -> Sequence[RowMapping]:
    if not ranges:
        return []
    statement = _READ.format(
        sides=_SIDES[reading.order].format(index=reading.index), keys=_KEYS[reading.order]
    )
    values = {name: [one[name] for one in ranges] for name in ranges[0]}
    if reading.closest is not None:
        values |= _around(reading.closest, edge)
    return (
        session.execute(
            text(statement), {**values, "most": most, "withheld": reading.withheld, "unlisted": UNLISTED}
        )
        .mappings()
        .all()
    )


def _around(closest: datetime, edge: Edge | None) -> dict[str, Any]:
    """Return the minimum distance in time of the captures that are still to be read."""
    values: dict[str, Any] = {"closest": closest, "fresh": edge is None}
    if edge is None:
        return values | {"edge": closest, "earlier": closest, "later": closest}
    away = abs(edge.archived - closest)
    earlier = closest - away if closest - EARLIEST >= away else EARLIEST
    later = closest + away if LATEST - closest >= away else LATEST
    return values | {"edge": edge.archived, "earlier": earlier, "later": later}
