"""Looks up the captures of a URL, of a URL prefix, of a host or of a domain.

A look-up compares URL keys (`provider.holdings.urlkeys`), or the spellings of URLs as long as documents
lack their keys. It uses one index, on key or URL and capture time, in batches of bounded size. Filters are
applied here and not in the database, so that a look-up that finds little is bounded, too: it ends after a
given number of rows or time of the filters, and can be continued from there.
"""

import math
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from sqlalchemy import RowMapping, select
from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings import index_reads
from provider.holdings.capture import Collapse, FoundCapture, Test
from provider.holdings.index_reads import (
    EARLIEST,
    LATEST,
    Edge,
    Group,
    IndexReading,
    ReadOrder,
    UrlIndex,
    batches,
)
from provider.holdings.selection import INDEXED_CHARACTERS
from provider.holdings.sets import domain_set_specs
from provider.holdings.url_key_state import FILL_KEYS, keys_complete, www_rule
from provider.holdings.urlkeys import (
    WwwRule,
    bare_roots,
    has_key_prefix,
    key_prefix,
    parts_of,
    prefixes,
    spellings,
    stored_key,
    url_key,
    with_scheme,
)
from provider.models import Access, Document

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_AT_ONCE: Final = 1000


class MatchType(StrEnum):
    """Which URLs a look-up matches."""

    EXACT = "exact"
    """All URLs with this URL's key."""
    PREFIX = "prefix"
    """All URLs whose key begins like this URL's."""
    HOST = "host"
    """All URLs of its host."""
    DOMAIN = "domain"
    """All URLs of its host and of the hosts below it."""


@dataclass(frozen=True, kw_only=True)
class LookupPlace:
    """Position of a look-up."""

    capture: UUID | None = None
    """After this document (its key: gaps between ids would show how many documents are withheld),"""
    host: str | None = None
    """or after this host (its set spec); with neither, at the beginning."""
    run: str | None = None
    """Key of the current run of equal captures, the first of which has already been returned."""
    keyed: bool = False
    """Whether the look-up has compared keys up to here, and therefore continues so."""


@dataclass(frozen=True, kw_only=True)
class Query:
    """The parameters of a look-up."""

    url: str
    match: MatchType = MatchType.EXACT
    onward: bool = False
    """Instead of that, all URLs whose keys are this URL's or follow it."""
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
    filter_seconds: float = math.inf
    """The look-up ends when its filters have used this much processor time."""
    rules: Sequence[Access] = tuple(Access)
    """Only documents with one of these effective rules."""
    hidden: bool = False
    """Include documents that are shown as deleted."""
    filters: Sequence[Test] = ()
    """All must match."""
    collapse: Collapse | None = None
    begin: LookupPlace = field(default_factory=LookupPlace)
    """Where an earlier look-up with the same query ended."""

    @property
    def is_single(self) -> bool:
        """Whether only captures of one URL match."""
        return self.match is MatchType.EXACT and not self.onward


@dataclass(frozen=True, kw_only=True)
class LookupResult:
    """The result of a look-up."""

    found: list[FoundCapture]
    end: LookupPlace | None
    """Where to continue; None if there are no more captures."""
    cut: bool = False
    """Whether the look-up ended because of its limit on index rows or on the time of filters."""


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

    Consecutive results of one look-up follow the order of the keys; if documents lack their keys, that of the
    archived URLs, and each is itself ordered by key. Raises UsageError for a URL without a host, for a
    prefix that `has_key_prefix` refuses, for a position of another look-up, and for an order other than by
    URL and time without an exact match.
    """
    if _CONTROL.search(query.url) or not parts_of(query.url).host:
        raise UsageError(
            "%(url)s has no host; write it as http://host/path or host/path", url=repr(query.url)
        )
    if query.match is MatchType.PREFIX and not has_key_prefix(query.url):
        raise UsageError(
            "the prefix %(url)s ends in a fragment, in dots or within an escape, which the index does not "
            "have; end it before the # (…/page*), with the slash before the dots (…/dir/*) or after a whole "
            "escape",
            url=repr(query.url),
        )
    if query.order is not ReadOrder.FORWARD and not query.is_single:
        raise UsageError(
            "the order %(order)s needs a single URL and cannot be combined with %(match)s; remove "
            "one of them",
            order=query.order,
            match=query.match,
        )
    result = _filter(session, replace(query, url=with_scheme(query.url)))
    if query.order is ReadOrder.FORWARD:
        result.found.sort(key=lambda one: (one.url_key, one.archived, one.url))
    return result


def _filter(session: Session, query: Query) -> LookupResult:
    """Collect matching captures up to the limits."""
    place = _begin(session, query.begin)
    rule = www_rule(session)
    edge = _edge(session, place, rule)
    found: list[FoundCapture] = []
    examined = 0
    spent = 0.0
    meant = _meant(query, rule, keyed=place.keyed)
    groups = _groups(session, query, rule, place, edge)
    for batch in batches(session, groups, _reading(query, keyed=place.keyed), edge, _at_once(query)):
        if query.examined is not None and examined >= query.examined:
            return LookupResult(found=found, end=place, cut=True)
        for row in batch.rows:
            if len(found) == query.limit or spent > query.filter_seconds:
                return LookupResult(found=found, end=place, cut=len(found) < query.limit)
            one = _found(row, rule)
            run = place.run
            begun = time.thread_time()  # other threads and the database do not count
            is_wanted = meant(one) and _is_wanted(one, query)
            spent += time.thread_time() - begun
            if is_wanted:
                run = query.collapse.run(one) if query.collapse else None
                if run is None or run != place.run:
                    found.append(one)
            place = replace(place, capture=one.key, host=None, run=run)
        if batch.host is not None:
            place = replace(place, capture=None, host=batch.host)
        examined += batch.cost
    return LookupResult(found=found, end=None)


def _begin(session: Session, place: LookupPlace) -> LookupPlace:
    """Return where to begin: a new look-up compares keys if all documents have one."""
    begun = place.capture is not None or place.host is not None
    if begun and place.keyed:
        return place
    complete = keys_complete(session)
    if begun and complete:
        raise _cannot_continue()  # the index on spelling is removed when all documents have keys
    return replace(place, keyed=complete)


def _cannot_continue() -> UsageError:
    return UsageError("cannot continue from this position; start again from the beginning")


def _meant(query: Query, rule: WwwRule, *, keyed: bool) -> Callable[[FoundCapture], bool]:
    """Return a predicate for captures that also checks the characters that are not in the index."""
    if query.onward:
        first = url_key(query.url, rule)
        return lambda one: one.url_key >= first
    if query.match is MatchType.EXACT:
        key, urls = url_key(query.url, rule), frozenset(spellings(query.url, rule))
        return lambda one: one.url_key == key if keyed else one.url in urls
    if query.match is MatchType.PREFIX:
        roots = bare_roots(query.url, rule)
        beginnings = (*prefixes(query.url, rule), *(f"{root}?" for root in roots))
        prefix = key_prefix(query.url, rule)
        return lambda one: (
            one.url_key.startswith(prefix) if keyed else one.url.startswith(beginnings) or one.url in roots
        )
    return lambda _: True


def _found(row: RowMapping, rule: WwwRule) -> FoundCapture:
    values = {name: value for name, value in row.items() if name not in {"n", "indexed"}}
    return FoundCapture(**values, url_key=url_key(row["url"], rule))


def _is_wanted(one: FoundCapture, query: Query) -> bool:
    return (
        one.access in query.rules
        and (query.hidden or not one.deleted)
        and (query.since or EARLIEST) <= one.archived <= (query.until or LATEST)
        and all(test(one) for test in query.filters)
    )


def _at_once(query: Query) -> int:
    """Return the batch size: small if few captures are wanted and none can be skipped."""
    sifted = query.filters or query.collapse or (not query.is_single and (query.since or query.until))
    most = min(_AT_ONCE, query.examined or _AT_ONCE)
    return most if sifted else min(most, query.limit + 1)


def _reading(query: Query, *, keyed: bool) -> IndexReading:
    index = UrlIndex.KEY if keyed else UrlIndex.URL
    if not query.is_single:
        return IndexReading(index=index, withheld=query.hidden)
    return IndexReading(
        index=index,
        order=query.order,
        closest=query.closest,
        since=query.since or EARLIEST,
        until=query.until or LATEST,
        withheld=query.hidden,
    )


def _edge(session: Session, place: LookupPlace, rule: WwwRule) -> Edge | None:
    if place.capture is None:
        return None
    row = session.scalar(select(Document).where(Document.key == place.capture))
    if row is None:
        raise _cannot_continue()
    indexed = stored_key(row.url, rule) if place.keyed else row.url[:INDEXED_CHARACTERS]
    return Edge(id=row.id, indexed=indexed, archived=row.archived)


def _groups(
    session: Session, query: Query, rule: WwwRule, place: LookupPlace, edge: Edge | None
) -> Iterator[Group]:
    if query.onward:
        if not place.keyed:
            raise UsageError(f"a range of keys needs the keys of all documents; {FILL_KEYS}")
        return iter([index_reads.of_keys_onward(query.url, rule)])
    if place.keyed:
        return iter([_KEYED[query.match](query.url, rule)])
    if query.match is MatchType.DOMAIN:
        first = _first_host(place, edge, rule)
        return index_reads.of_domain(session, query.url, rule, first=first, withheld=query.hidden)
    return iter([_SINGLE[query.match](query.url, rule)])


_KEYED: Final = {
    MatchType.EXACT: index_reads.of_key,
    MatchType.PREFIX: index_reads.of_key_prefix,
    MatchType.HOST: index_reads.of_key_host,
    MatchType.DOMAIN: index_reads.of_key_domain,
}
_SINGLE: Final = {
    MatchType.EXACT: index_reads.of_url,
    MatchType.PREFIX: index_reads.of_prefix,
    MatchType.HOST: index_reads.of_host,
}


def _first_host(place: LookupPlace, edge: Edge | None, rule: WwwRule) -> str:
    """Return the set spec from which a domain's remaining hosts are read."""
    if edge is not None:
        return domain_set_specs(index_reads.leader(parts_of(edge.indexed).host, rule))[-1][0]
    if place.host is not None:
        return index_reads.behind(place.host)
    return ""
