"""Targets of the links of a restored page: other files of the copy, or the web."""

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from harvester.restoring.addresses import canonical, escaped_whole, joined, loosened

_HOPS: Final = 10
_IN_LINKS: Final = "/-_.@=&+"
"""Characters that a relative link may contain unescaped.

Not the comma, which separates a srcset's candidates.
"""


@dataclass(frozen=True, kw_only=True)
class Target:
    """A document of the copy."""

    url: str
    path: str
    leads_to: str = ""
    """A redirect's target as an absolute URL."""
    charset: str = ""
    """The character set declared by the HTTP header."""


@dataclass(frozen=True, kw_only=True)
class Link:
    """The replacement of a link."""

    text: str
    """The link's text in ASCII."""
    target: Target | None = None
    """None if it leads out of the copy."""


class SiteMap:
    """All documents of the copy, indexed by the URLs that links use."""

    def __init__(self, targets: Iterable[Target]) -> None:
        self._exact: dict[str, Target] = {}
        self._loose: dict[str, Target] = {}
        # A document takes precedence over a redirect to it.
        for target in sorted(targets, key=lambda one: (bool(one.leads_to), one.url)):
            url = canonical(target.url)
            self._exact.setdefault(url, target)
            self._loose.setdefault(loosened(url), target)

    def find(self, url: str, charset: str = "utf-8") -> Target | None:
        """Return the document at an absolute URL, following redirects within the copy.

        None if there is none.
        """
        found = self.at(url, charset)
        for _ in range(_HOPS):
            further = self.at(found.leads_to) if found and found.leads_to else None
            if further is None:
                break
            found = further
        return found

    def at(self, url: str, charset: str = "utf-8") -> Target | None:
        """Return the document at the absolute URL itself, redirect or not."""
        bare = url.partition("#")[0]
        spellings = dict.fromkeys((canonical(bare, charset), canonical(bare)))
        tables = ((self._exact, lambda one: one), (self._loose, loosened))
        return next(
            (table[key(one)] for table, key in tables for one in spellings if key(one) in table), None
        )


class PageLinks:
    """The links of one page."""

    def __init__(self, site: SiteMap, url: str, path: str, charset: str = "utf-8") -> None:
        self._site = site
        self._base = url
        self._folder = posixpath.dirname(path)
        self._charset = charset
        self._has_base = False
        self._known: dict[str, Link | None] = {}

    def set_base(self, link: str) -> None:
        """Set a page's `<base href>`; only the first one counts."""
        if not self._has_base:
            self._base = joined(self._base, link) or self._base
            self._has_base = True
            self._known.clear()

    def link(self, written: str) -> Link | None:
        """Return the replacement of a link; None if it stays unchanged."""
        if written not in self._known:
            self._known[written] = self._found(written)
        return self._known[written]

    def restored(self, written: str) -> Link | None:
        """Return the replacement of a link if it leads to a document of the copy, else None."""
        found = self.link(written)
        return found if found is not None and found.target is not None else None

    def text(self, written: str) -> str | None:
        """Return the replacement text of a link; None if it stays unchanged."""
        found = self.link(written)
        return found.text if found is not None else None

    def _found(self, written: str) -> Link | None:
        stripped = written.strip()
        if not stripped or (stripped.startswith("#") and not self._has_base):
            return None
        whole = joined(self._base, written)
        if whole is None:
            return None
        url, mark, fragment = whole.partition("#")
        fragment = mark + escaped_whole(fragment)
        target = self._site.find(url, self._charset)
        if target is not None:
            if not fragment and target.leads_to == "" and (moved := self._fragment(url)):
                fragment = moved
            return Link(text=relative(target.path, self._folder) + fragment, target=target)
        if stripped.lower().startswith(("http://", "https://")):
            return None
        return Link(text=canonical(url, self._charset).replace("'", "%27") + fragment)

    def _fragment(self, url: str) -> str:
        """Return the fragment that a redirect adds."""
        first = self._site.at(url, self._charset)
        place = first.leads_to.partition("#") if first else ("", "", "")
        return place[1] + escaped_whole(place[2])


def relative(path: str, folder: str) -> str:
    """Return the link from a page in the folder to the file; both paths are relative to the copy's folder."""
    return quote(posixpath.relpath(path, folder or "."), safe=_IN_LINKS)
