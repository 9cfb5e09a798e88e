"""Which URL keys a seed or an address of a list means, and how overlapping ones share the keys.

Keys (`provider.holdings.urlkeys`) have no user, no `www.` (unless the rule of the index keeps it), no default
port and no slash at the end, and are sorted by bytes. So a seed with or without any of these means the same.
A port other than the default one is part of the host.

**When some ranges change**, only the keys in them are divided again (`merged`, `meets`, `replaced`). What
holds for a key follows from the ranges that contain it and from nothing else. So nothing differs outside the
ranges that are added, removed or changed, and within them only the ranges that meet them count. Stored pieces
are cut at the edges of the changed ranges, and joined with what is then beside them if the same holds there.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, Protocol, TypeVar

from oai.sections import ProviderSettings
from provider.holdings.urlkeys import WwwRule, host_key, parts_of, url_key, with_scheme
from provider.models import Access

HostScope = Literal["host", "domain"]
FileScope = Literal["directory", "url"]
MOST_KEY: Final = 1300
"""Characters of the longest key of a range: an entry of a B-tree has 2,704 bytes, and may hold both ends."""

_FILE: Final = re.compile(
    r"/[^/]*\.(?:aspx?|cfml?|f?cgi|dll|do|[jps]?html?|xhtml|jsf|jspx?|php[3-8]?|pl|rss|xml)(?:;[^/]*)?\Z",
    re.IGNORECASE,
)
"""A last segment that is a page in a directory; others with a dot, as `/jan.novak`, may have pages below."""
_BLANK: Final = re.compile(r"\s")
_AUTHORITY_END: Final = re.compile(r"[/?#]")
_SCHEMES: Final = frozenset({"http", "https", "ftp"})
_NEXT: Final = {")": "*", ",": "-", "/": "0", "?": "@", "": "!"}
"""The character after each one, as the end of a range; keys have no character below `!`. The range of a
domain begins with `)` and ends after `,`, with which the keys of its subdomains continue."""


class KeyRange(NamedTuple):
    """A range of URL keys: from `low` up to, but not including, `high`."""

    low: str
    high: str


EVERYTHING: Final = KeyRange("", "\x7f")
"""All keys: they are ASCII."""


class _HasRange(Protocol):
    @property
    def range(self) -> KeyRange: ...


_Ranged = TypeVar("_Ranged", bound=_HasRange)
_State = TypeVar("_State")


@dataclass(frozen=True, kw_only=True)
class RangeRules:
    """How seeds are read if they can be read in two ways, and what follows from them."""

    host: HostScope = "host"
    """What `http://x.cz/` means: that host, or the domain with all hosts below it."""
    file: FileScope = "directory"
    """What a seed with a file name or a query means: its directory, or that URL."""
    carve_out: Access = Access.READING_ROOM
    """The rule of what is carved out of a title."""
    document_sets: bool = False
    """Whether the documents of a title, and those of a curated collection, are a set in `/oai`."""


def range_rules(settings: ProviderSettings) -> RangeRules:
    """Return how seeds are understood, from the settings."""
    return RangeRules(
        host=settings.title_seed_host,
        file=settings.title_seed_file,
        carve_out=Access(settings.title_carve_out_access),
        document_sets=settings.title_document_sets,
    )


def ranges_of(url: str, rules: RangeRules, www: WwwRule) -> list[KeyRange]:
    """Return the ranges of keys that a seed means.

    Empty if it is not an http, https or ftp URL whose host has at least two labels, if it has blanks or a
    wildcard, or if its key is longer than `MOST_KEY`.
    """
    if not _is_address(url):
        return []
    url = with_scheme(url)
    parts = parts_of(url)
    key = url_key(url, www)
    host, _, path = key.partition(")")
    query = bool(parts.query)
    is_file = _FILE.search(parts.path) is not None
    if (query or is_file) and rules.file == "url":
        return _stored(_one(key)) if query else _stored(_one(key), _below(key, "?"))
    if query:
        path = path.partition("?")[0]
    if is_file:
        path = path.rpartition("/")[0]
    if path in {"", "/"}:
        # The port stands between the host's labels and the parenthesis. The key of www.cz has one label: what
        # is below it would be all of .cz.
        whole = rules.host == "domain" and host == host_key(url, www) and "," in host
        return [KeyRange(f"{host})", f"{host}-") if whole else _below(host, ")")]
    directory = f"{host}){path}"
    return _stored(_one(directory), _below(directory, "/"), _below(directory, "?"))


def _is_address(url: str) -> bool:
    """Return whether a seed is the address of a host or of a page, and no pattern."""
    if _BLANK.search(url) or url.rstrip("/").endswith("*"):
        return False
    scheme, _, rest = with_scheme(url).partition("://")
    authority = _AUTHORITY_END.split(rest, maxsplit=1)[0]
    # Without a scheme, what has a user is an e-mail address.
    if scheme.lower() not in _SCHEMES or "*" in authority or ("@" in authority and "://" not in url):
        return False
    host = parts_of(with_scheme(url)).host
    return "." in host.strip(".") or ":" in host


def ranges_of_address(url: str, www: WwwRule) -> list[KeyRange]:
    """Return the ranges of keys that an address of a list means; empty as for `ranges_of`.

    Without a path, it means the whole domain; otherwise that URL only.
    """
    key = url_key(url, www)
    is_host = key.partition(")")[2] in {"", "/"}
    return ranges_of(url, RangeRules(host="domain"), www) if is_host else _stored(_one(key))


def widest_range(url: str, www: WwwRule) -> KeyRange:
    """Return a range that has all those of `ranges_of` and `ranges_of_address`; cheaper than they are."""
    host = url_key(with_scheme(url), www).partition(")")[0]
    return KeyRange(f"{host})", f"{host}-")


def ranges_meeting(spans: Sequence[KeyRange], url: str, rules: RangeRules, www: WwwRule) -> list[KeyRange]:
    """Return those of the ranges of a seed that meet the spans, a result of `merged`."""
    if not meets(widest_range(url, www), spans):
        return []
    return [found for found in ranges_of(url, rules, www) if meets(found, spans)]


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


def _stored(*found: KeyRange) -> list[KeyRange]:
    return [] if any(len(one.low) > MOST_KEY for one in found) else list(found)


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


class ListedRange(NamedTuple):
    """A range whose captures an address of a list closes, whatever title they belong to."""

    range: KeyRange
    access: Access


class Segment(NamedTuple):
    """A range of keys that belongs to one title, is carved out of it, or is closed by lists."""

    range: KeyRange
    title_id: int | None
    """None for what only lists name."""
    is_carve_out: bool = False
    listed: Access | None = None
    """The strictest rule of the lists that name it."""


class Conflict(NamedTuple):
    """Two titles that claim the same range; the first one keeps it."""

    range: KeyRange
    kept: int
    refused: int


def divide(
    claims: Iterable[Claim], listed: Iterable[ListedRange] = ()
) -> tuple[list[Segment], list[Conflict]]:
    """Return segments that do not overlap, in order: each key belongs to the narrowest claim that has it.

    Of two claims of the same range, a carve-out wins, then a title that is not gone, then the lower id. Of
    the lists that name a key, the strictest one counts. The ranges of `ranges_of` and `ranges_of_address` lie
    within each other or apart, which this requires.
    """
    best: dict[KeyRange, Claim] = {}
    conflicts = []
    for claim in sorted(claims, key=_precedence):
        kept = best.setdefault(claim.range, claim)
        if kept.title_id != claim.title_id and not (kept.is_carve_out or claim.is_gone):
            conflicts.append(Conflict(claim.range, kept.title_id, claim.title_id))
    both: list[Claim | ListedRange] = [*best.values(), *listed]
    return [Segment(found, *owner) for found, owner in _joined(nested_pieces(both, _within))], conflicts


def _precedence(claim: Claim) -> tuple[KeyRange, bool, bool, int]:
    return claim.range, not claim.is_carve_out, claim.is_gone, claim.title_id


_Owner = tuple[int | None, bool, Access | None]
"""What a segment says about its range."""


def _within(outer: _Owner | None, claim: Claim | ListedRange) -> _Owner:
    """Return what holds in the range of a claim within a wider one."""
    title_id, is_carve_out, listed = outer or (None, False, None)
    if isinstance(claim, Claim):
        return claim.title_id, claim.is_carve_out, listed
    return title_id, is_carve_out, strictest_access(listed, claim.access)


def strictest_access(*rules: str | None) -> Access | None:
    """Return the strictest of these rules; None if there are none."""
    return max((Access(rule) for rule in rules if rule is not None), key=list(Access).index, default=None)


class Member(NamedTuple):
    """A range that is in collections because a title, or the collection itself, names it."""

    range: KeyRange
    owner: tuple[int, bool]
    """The title's or the collection's id, and whether it is the title's."""
    collections: tuple[int, ...]
    """Ids; none for what is carved out of the title."""


_Owners = Mapping[tuple[int, bool], tuple[int, ...]]
"""The collections of each owner."""


class _Members(NamedTuple):
    range: KeyRange
    owners: _Owners


def divide_members(members: Iterable[Member]) -> list[tuple[KeyRange, tuple[int, ...]]]:
    """Return ranges that do not overlap, in order, each with the ids of its collections, sorted.

    A key is in the collections of a title if the narrowest range of that title which has it is not carved
    out. Ranges must lie within each other or apart, as for `divide`.
    """
    # Thousands of collections may name one URL, which is then one range.
    same: dict[KeyRange, dict[tuple[int, bool], tuple[int, ...]]] = {}
    # Of a seed and a carve-out with the same range, the carve-out counts.
    for one in sorted(members, key=lambda one: not one.collections):
        same.setdefault(one.range, {})[one.owner] = one.collections
    pieces = nested_pieces([_Members(found, owners) for found, owners in same.items()], _among)
    named = ((found, sorted({one for ids in by.values() for one in ids})) for found, by in pieces)
    return [(found, ids) for found, ids in _joined((found, tuple(ids)) for found, ids in named) if ids]


def _among(outer: _Owners | None, members: _Members) -> _Owners:
    return {**(outer or {}), **members.owners}


def nested_pieces(
    claims: Sequence[_Ranged], within: Callable[[_State | None, _Ranged], _State]
) -> Iterator[tuple[KeyRange, _State]]:
    """Yield the parts of each range that no narrower one covers, in order, with what holds in them.

    `within` returns what holds in the range of a claim, given what holds in the narrowest range around it.
    """
    # Of ranges that begin together, the widest first.
    ordered = sorted(claims, key=lambda claim: claim.range.high, reverse=True)
    ordered.sort(key=lambda claim: claim.range.low)
    open_claims: list[tuple[str, _State]] = []
    begin = ""
    for claim in [*ordered, None]:
        while open_claims and (claim is None or open_claims[-1][0] <= claim.range.low):
            high, state = open_claims.pop()
            if begin < high:
                yield KeyRange(begin, high), state
                begin = high
        if claim is None:
            return
        around = open_claims[-1][1] if open_claims else None
        if around is not None and begin < claim.range.low:
            yield KeyRange(begin, claim.range.low), around
        begin = claim.range.low
        open_claims.append((claim.range.high, within(around, claim)))


def _joined(pieces: Iterable[tuple[KeyRange, _State]]) -> Iterator[tuple[KeyRange, _State]]:
    """Yield the pieces; neighbours in which the same holds become one."""
    last: tuple[KeyRange, _State] | None = None
    for found, state in pieces:
        if last is not None and last[1] == state and last[0].high == found.low:
            last = KeyRange(last[0].low, found.high), state
            continue
        if last is not None:
            yield last
        last = found, state
    if last is not None:
        yield last


def merged(ranges: Iterable[KeyRange]) -> list[KeyRange]:
    """Return the same keys as ranges that neither overlap nor adjoin, in order."""
    spans: list[KeyRange] = []
    for low, high in sorted(ranges):
        if spans and low <= spans[-1].high:
            spans[-1] = KeyRange(spans[-1].low, max(high, spans[-1].high))
        else:
            spans.append(KeyRange(low, high))
    return spans


def meets(found: KeyRange, spans: Sequence[KeyRange]) -> bool:
    """Return whether a range has keys in common with the result of `merged`."""
    first = bisect_right(spans, found.low, key=_high)
    return first < len(spans) and spans[first].low < found.high


def replaced(
    stored: Iterable[tuple[KeyRange, _State]],
    pieces: Iterable[tuple[KeyRange, _State]],
    spans: Sequence[KeyRange],
) -> list[tuple[KeyRange, _State]]:
    """Return the stored pieces, in order, with the new ones in place of what they say within the spans.

    `spans` is a result of `merged`. Needed are the stored pieces that overlap or adjoin the spans, and the
    new ones that overlap them.
    """
    edges = [EVERYTHING.low, *(edge for span in spans for edge in span), EVERYTHING.high]
    beyond = [KeyRange(*edges[at : at + 2]) for at in range(0, len(edges), 2)]
    parts = [(part, state) for found, state in stored for part in _cut(found, beyond)]
    parts += [(part, state) for found, state in pieces for part in _cut(found, spans)]
    return list(_joined(sorted(parts, key=lambda one: one[0])))


def _cut(found: KeyRange, spans: Sequence[KeyRange]) -> Iterator[KeyRange]:
    """Yield the parts of a range that are in the spans."""
    for at in range(bisect_right(spans, found.low, key=_high), len(spans)):
        low, high = spans[at]
        if low >= found.high:
            return
        yield KeyRange(max(low, found.low), min(high, found.high))


def _high(span: KeyRange) -> str:
    return span.high
