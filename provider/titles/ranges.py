"""Which URL keys a seed means (`provider.holdings.urlkeys`), and how overlapping seeds share the keys.

Keys have no user, no `www.` (unless the rule of the index keeps it), no default port and no slash at the end,
and are sorted by bytes. So a seed with or without any of these means the same. A port other than the default
one is part of the host.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from oai.sections import ProviderSettings
from provider.holdings.urlkeys import WwwRule, host_key, parts_of, url_key
from provider.models import Access

HostScope = Literal["host", "domain"]
FileScope = Literal["directory", "url"]

_FILE: Final = re.compile(r"/[^/]*\.[^/]*\Z")
_NEXT: Final = {")": "*", ",": "-", "/": "0", "?": "@", "": "!"}
"""The character after each one, as the end of a range; keys have no character below `!`. The range of a
domain begins with `)` and ends after `,`, with which the keys of its subdomains continue."""


class KeyRange(NamedTuple):
    """A range of URL keys: from `low` up to, but not including, `high`."""

    low: str
    high: str


@dataclass(frozen=True, kw_only=True)
class RangeRules:
    """How seeds are understood where that is a matter of taste."""

    host: HostScope = "host"
    """What `http://x.cz/` means: that host, or the domain with all hosts below it."""
    file: FileScope = "directory"
    """What a seed with a file name or a query means: its directory, or that URL."""
    carve_out: Access = Access.READING_ROOM
    """The rule of what is carved out of a title."""


def range_rules(settings: ProviderSettings) -> RangeRules:
    """Return how seeds are understood, from the settings."""
    return RangeRules(
        host=settings.title_seed_host,
        file=settings.title_seed_file,
        carve_out=Access(settings.title_carve_out_access),
    )


def ranges_of(url: str, rules: RangeRules, www: WwwRule) -> list[KeyRange]:
    """Return the ranges of keys that a seed means; empty if the URL has no host with at least two labels."""
    parts = parts_of(url)
    if "." not in parts.host.strip(".") and ":" not in parts.host:
        return []
    key = url_key(url, www)
    host, _, path = key.partition(")")
    query = bool(parts.query)
    if (query or (_FILE.search(parts.path) and not parts.path.endswith("/"))) and rules.file == "url":
        return [_one(key)] if query else [_one(key), _below(key, "?")]
    if query or _FILE.search(parts.path):
        path = (
            path.partition("?")[0].rpartition("/")[0]
            if not parts.path.endswith("/")
            else path.partition("?")[0]
        )
    if path in {"", "/"}:
        # The port stands between the host's labels and the parenthesis.
        whole = rules.host == "domain" and host == host_key(url, www)
        return [KeyRange(f"{host})", f"{host}-") if whole else _below(host, ")")]
    directory = f"{host}){path}"
    return [_one(directory), _below(directory, "/"), _below(directory, "?")]


def keys_in(found: KeyRange) -> str:
    """Return which keys a range of `ranges_of` has, with `*` for any continuation.

    >>> [keys_in(one) for one in ranges_of("http://x.cz/a", RangeRules(), WwwRule.NUMBERED)]
    ['cz,x)/a', 'cz,x)/a/*', 'cz,x)/a?*']
    >>> [keys_in(one) for one in ranges_of("http://x.cz/", RangeRules(host="domain"), WwwRule.NUMBERED)]
    ['cz,x)* cz,x,*']
    """
    low, high = found
    if high == f"{low}{_NEXT['']}":
        return low
    if high == f"{low[:-1]}{_NEXT.get(low[-1])}":
        return f"{low}*"
    return f"{low}* {low[:-1]},*"


def _one(key: str) -> KeyRange:
    return KeyRange(key, f"{key}{_NEXT['']}")


def _below(key: str, continued: str) -> KeyRange:
    return KeyRange(f"{key}{continued}", f"{key}{_NEXT[continued]}")


class Claim(NamedTuple):
    """A range that a title claims, or that is carved out of all titles."""

    range: KeyRange
    title_id: int
    is_carve_out: bool
    is_gone: bool = False
    """Whether the title is no longer in its source; another one with the same range takes its place."""


class Segment(NamedTuple):
    """A range of keys that belongs to one title, or is carved out of it."""

    range: KeyRange
    title_id: int
    is_carve_out: bool = False


class Conflict(NamedTuple):
    """Two titles that claim the same range; the first one keeps it."""

    range: KeyRange
    kept: int
    refused: int


def divide(claims: Iterable[Claim]) -> tuple[list[Segment], list[Conflict]]:
    """Return segments that do not overlap, in order: each key belongs to the narrowest range that has it.

    Of two claims of the same range, a carve-out wins, then a title that is not gone, then the lower id. The
    ranges of `ranges_of` lie within each other or apart, which this requires.
    """
    best: dict[KeyRange, Claim] = {}
    conflicts = []
    for claim in sorted(claims, key=_precedence):
        kept = best.setdefault(claim.range, claim)
        if kept.title_id != claim.title_id and not (kept.is_carve_out or claim.is_gone):
            conflicts.append(Conflict(claim.range, kept.title_id, claim.title_id))
    # Of ranges that begin together, the widest first.
    ordered = sorted(best.values(), key=lambda claim: claim.range.high, reverse=True)
    ordered.sort(key=lambda claim: claim.range.low)
    return list(_joined(_pieces(ordered))), conflicts


def _precedence(claim: Claim) -> tuple[KeyRange, bool, bool, int]:
    return claim.range, not claim.is_carve_out, claim.is_gone, claim.title_id


def _pieces(claims: list[Claim]) -> Iterator[Claim]:
    """Yield the parts of each claim that no narrower one covers, in order."""
    open_claims: list[Claim] = []
    begin = ""
    for claim in [*claims, None]:
        while open_claims and (claim is None or open_claims[-1].range.high <= claim.range.low):
            inner = open_claims.pop()
            if begin < inner.range.high:
                yield inner._replace(range=KeyRange(begin, inner.range.high))
                begin = inner.range.high
        if claim is None:
            return
        if open_claims and begin < claim.range.low:
            outer = open_claims[-1]
            yield outer._replace(range=KeyRange(begin, claim.range.low))
        begin = claim.range.low
        open_claims.append(claim)


def _joined(pieces: Iterable[Claim]) -> Iterator[Segment]:
    """Yield the pieces as segments; neighbours of the same title and kind become one."""
    last: Segment | None = None
    for piece in pieces:
        found = Segment(piece.range, piece.title_id, piece.is_carve_out)
        if last is not None and last[1:] == found[1:] and last.range.high == found.range.low:
            last = found._replace(range=KeyRange(last.range.low, found.range.high))
            continue
        if last is not None:
            yield last
        last = found
    if last is not None:
        yield last
