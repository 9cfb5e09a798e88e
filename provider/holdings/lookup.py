"""Looks up the captures of a URL, of a URL prefix, of a host or of a domain (requirement IDX-7).

All look-ups use one index, on URL and capture time, in batches of bounded size. Filters are applied here
and not in the database, so that a look-up that finds little is bounded, too: it ends after a given number
of rows, and can be continued from there.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Final

from sqlalchemy import RowMapping
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings import index_reads
from provider.holdings.capture import Collapse, FoundCapture, Test
from provider.holdings.index_reads import EARLIEST, LATEST, Edge, Group, IndexReading, ReadOrder, batches
from provider.holdings.sets import domain_set_specs
from provider.holdings.urlkeys import bare_roots, parts_of, prefixes, spellings, url_key
from provider.models import Access, Document, Domain

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_AT_ONCE: Final = 1000


class MatchType(StrEnum):
    """Which URLs a look-up matches."""

    EXACT = "exact"
    """This URL, in all its spellings (see `provider.holdings.urlkeys`)."""
    PREFIX = "prefix"
    """All URLs with this prefix."""
    HOST = "host"
    """All URLs of its host."""
    DOMAIN = "domain"
    """All URLs of its host and of the hosts below it."""


@dataclass(frozen=True, kw_only=True)
class LookupPlace:
    """Position of a look-up."""

    capture: int | None = None
    """After this document (its id),"""
    host: int | None = None
    """or after this host (its row in `domain`); with neither, at the beginning."""
    run: str | None = None
    """Key of the current run of equal captures, the first of which has already been returned."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """The parameters of a look-up."""

    url: str
    match: MatchType = MatchType.EXACT
    since: datetime | None = None
    """First capture time that matches."""
    until: datetime | None = None
    """Last capture time that matches."""
    order: ReadOrder = ReadOrder.FORWARD
    """Orders other than by URL and time require an exact match."""
    closest: datetime | None = None
    """The time to which captures should be close, for that order."""
    limit: int
    examined: int | None = None
    """The look-up ends after about this many index rows; None: no limit."""
    rules: Sequence[Access] = tuple(Access)
    """Only documents with one of these effective rules."""
    hidden: bool = False
    """Include documents that are shown as deleted."""
    filters: Sequence[Test] = ()
    """All must match."""
    collapse: Collapse | None = None
    begin: LookupPlace = field(default_factory=LookupPlace)
    """Where an earlier look-up with the same query ended."""


@dataclass(frozen=True, kw_only=True)
class LookupResult:
    """The result of a look-up."""

    found: list[FoundCapture]
    end: LookupPlace | None
    """Where to continue; None if there are no more captures."""
    cut: bool = False
    """Whether the look-up ended because of its limit on index rows."""


def read_wildcard(url: str) -> tuple[str, MatchType]:
    """Return the URL and the match type of a URL with an asterisk, as in CDX servers.

    `http://host/path*` is a prefix, `*.host` a domain; any other is that URL alone.
    """
    if url.startswith("*."):
        return url.removeprefix("*."), MatchType.DOMAIN
    if url.endswith("*"):
        return url.removesuffix("*"), MatchType.PREFIX
    return url, MatchType.EXACT


def find_captures(session: Session, query: Query) -> LookupResult:
    """Return captures, by URL key and time or in another order; at most `query.limit` of them.

    Consecutive results of one look-up follow the order of the archived URLs, and each is itself ordered
    by URL key. Raises UsageError for a URL without a host, for a position of another look-up, and for an
    order other than by URL and time without an exact match.
    """
    if _CONTROL.search(query.url) or not parts_of(query.url).host:
        raise UsageError(
            "%(url)s has no host; write it as http://host/path or host/path", url=repr(query.url)
        )
    if query.order is not ReadOrder.FORWARD and query.match is not MatchType.EXACT:
        raise UsageError(
            "the order %(order)s needs a single URL and cannot be combined with %(match)s; remove "
            "one of them",
            order=query.order,
            match=query.match,
        )
    result = _sift(session, query)
    if query.order is ReadOrder.FORWARD:
        result.found.sort(key=lambda one: (one.url_key, one.archived, one.url))
    return result


def _sift(session: Session, query: Query) -> LookupResult:
    """Collect matching captures up to the limits."""
    edge = _edge(session, query.begin)
    found: list[FoundCapture] = []
    place = query.begin
    examined = 0
    meant = _meant(query)
    for batch in batches(session, _groups(session, query, edge), _reading(query), edge, _at_once(query)):
        if query.examined is not None and examined >= query.examined:
            return LookupResult(found=found, end=place, cut=True)
        for row in batch.rows:
            if len(found) == query.limit:
                return LookupResult(found=found, end=place)
            one = _found(row)
            run = place.run
            if meant(one.url) and _is_wanted(one, query):
                run = query.collapse.run(one) if query.collapse else None
                if run is None or run != place.run:
                    found.append(one)
            place = LookupPlace(capture=one.id, run=run)
        if batch.host is not None:
            place = LookupPlace(host=batch.host, run=place.run)
        examined += batch.cost
    return LookupResult(found=found, end=None)


def _meant(query: Query) -> Callable[[str], bool]:
    """Return a predicate for URLs that also checks the characters that are not in the index."""
    if query.match is MatchType.EXACT:
        return frozenset(spellings(query.url)).__contains__
    if query.match is MatchType.PREFIX:
        roots = bare_roots(query.url)
        beginnings = (*prefixes(query.url), *(f"{root}?" for root in roots))
        return lambda url: url.startswith(beginnings) or url in roots
    return lambda _: True


def _found(row: RowMapping) -> FoundCapture:
    values = {name: value for name, value in row.items() if name != "n"}
    return FoundCapture(**values, url_key=url_key(row["url"]))


def _is_wanted(one: FoundCapture, query: Query) -> bool:
    return (
        one.access in query.rules
        and (query.hidden or not one.deleted)
        and (query.since or EARLIEST) <= one.archived <= (query.until or LATEST)
        and all(test(one) for test in query.filters)
    )


def _at_once(query: Query) -> int:
    """Return the batch size: small if few captures are wanted and none can be skipped."""
    sifted = (
        query.filters
        or query.collapse
        or (query.match is not MatchType.EXACT and (query.since or query.until))
    )
    most = min(_AT_ONCE, query.examined or _AT_ONCE)
    return most if sifted else min(most, query.limit + 1)


def _reading(query: Query) -> IndexReading:
    if query.match is not MatchType.EXACT:
        return IndexReading()
    return IndexReading(
        order=query.order,
        closest=query.closest,
        since=query.since or EARLIEST,
        until=query.until or LATEST,
    )


def _edge(session: Session, place: LookupPlace) -> Edge | None:
    if place.capture is None:
        return None
    row = session.get(Document, place.capture)
    if row is None:
        raise UsageError("cannot continue from this position; start again from the beginning")
    return Edge(id=row.id, url=row.url, archived=row.archived)


def _groups(session: Session, query: Query, edge: Edge | None) -> Iterator[Group]:
    if query.match is MatchType.DOMAIN:
        return index_reads.of_domain(session, query.url, first=_first_host(session, query.begin, edge))
    return iter([_SINGLE[query.match](query.url)])


_SINGLE: Final = {
    MatchType.EXACT: index_reads.of_url,
    MatchType.PREFIX: index_reads.of_prefix,
    MatchType.HOST: index_reads.of_host,
}


def _first_host(session: Session, place: LookupPlace, edge: Edge | None) -> str:
    """Return the set spec from which a domain's remaining hosts are read."""
    if edge is not None:
        return domain_set_specs(index_reads.leader(parts_of(edge.url).host))[-1][0]
    if place.host is not None:
        return index_reads.behind(session.get_one(Domain, place.host).set_spec)
    return ""
