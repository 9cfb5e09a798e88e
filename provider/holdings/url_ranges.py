"""Which ranges of the index on URLs a look-up reads.

They come in groups, one group behind the other. The ranges of one group begin differently (http and https,
with and without `www.`) and go on alike, so that they are merged by what follows the beginning.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from sqlalchemy import text
from sqlalchemy.orm import Session

from provider.holdings.selection import INDEXED_CHARACTERS
from provider.holdings.sets import domain_set_specs
from provider.holdings.urlkeys import bare_roots, parts_of, prefixes, spellings, without_www

_LAST: Final = "\U0010ffff"
_NEXT: Final = "\x01"
"""Behind a text of the index comes next what continues it with this, for no URL has a NUL."""
_HOSTS_AT_ONCE: Final = 200
# The bare host, and whatever may follow one in a URL: its place in the order of bytes to the next character.
_ENDINGS: Final = (("", _NEXT), ("#", "$"), ("/", "0"), (":", ";"), ("?", "@"))
_WITHOUT_SLASH: Final = (("", _NEXT), ("?", "@"))
_HOSTS: Final = r"""
SELECT host.id, host.set_spec, host.name, host.documents, ARRAY(
    SELECT other.name FROM domain AS other
    WHERE other.set_spec >= host.set_spec || '\:www' AND other.set_spec < host.set_spec || '\:wwx'
        AND other.parent_id = host.id AND other.name ~ '^www[0-9]*\.'
) AS others
FROM domain AS host
WHERE (host.set_spec = :top OR host.set_spec >= :below AND host.set_spec < :behind)
    AND host.set_spec >= :first
ORDER BY host.set_spec LIMIT :most
"""


@dataclass(frozen=True, kw_only=True)
class UrlRange:
    """A range of the index."""

    start: str
    """What its URLs begin with."""
    low: str
    high: str
    """The first that is behind the range."""

    def holds(self, url: str) -> bool:
        """Whether a URL is in the range, as far as its indexed characters tell."""
        return self.low <= url[:INDEXED_CHARACTERS] < self.high

    def rest(self, url: str) -> str:
        """What a URL of this range is put in order by."""
        return url[:INDEXED_CHARACTERS][len(self.start) :]

    def behind(self, rest: str) -> tuple["UrlRange | None", "UrlRange | None"]:
        """The range of just the URL that goes on so, and the range behind it, where there are such."""
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
    host: int | None = None
    """Row in `domain`, where a look-up goes from host to host."""
    documents: int | None = None
    """About how many there are, if that is known; never fewer than there are."""


def of_url(url: str) -> Group:
    """One URL in all its spellings."""
    return _of_beginnings(spellings(url), _NEXT)


def of_prefix(url: str) -> Group:
    """All URLs that begin so; a root is below itself also where it was archived without its slash."""
    below = _of_beginnings(prefixes(url), _LAST).ranges
    return Group(ranges=[*below, *_of_starts(bare_roots(url), _WITHOUT_SLASH)])


def of_host(url: str) -> Group:
    """All URLs of the host."""
    host = parts_of(url).host
    bare = without_www(host)
    return Group(ranges=_of_names(dict.fromkeys((host, bare, f"www.{bare}"))))


def of_domain(session: Session, url: str, *, first: str = "") -> Iterator[Group]:
    """A group for each host at and below that of a URL, with its `www.`, from a set spec on."""
    top = domain_set_specs(without_www(parts_of(url).host))[-1][0]
    values = {"top": top, "below": f"{top}:", "behind": f"{top};", "most": _HOSTS_AT_ONCE}
    while True:
        rows = session.execute(text(_HOSTS), {**values, "first": first}).all()
        for row in rows:
            if leader(row.name) == row.name:
                names = [row.name, *(name for name in row.others if leader(name) == row.name)]
                yield Group(ranges=_of_names(names), host=row.id, documents=row.documents)
        if len(rows) < _HOSTS_AT_ONCE:
            return
        first = behind(rows[-1].set_spec)


def leader(host: str) -> str:
    """The host in whose group a host is: without its `www.`, unless what is left begins so, too."""
    bare = without_www(host)
    return bare if without_www(bare) == bare else host


def behind(set_spec: str) -> str:
    """Where the set specs begin that come behind one, those below it among them."""
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
    """A range for each; those that differ behind the indexed characters have one in common."""
    starts = dict.fromkeys(url[:INDEXED_CHARACTERS] for url in urls)
    return Group(ranges=[UrlRange(start=start, low=start, high=start + end) for start in starts])
