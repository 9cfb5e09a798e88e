"""Detects a list that never ends: it is circular, repeats the same items, or never contains any."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from harvester.reading.answers import Fault, Page, ResumptionToken
from harvester.reading.errors import EndlessListError
from oai.failures import Failure, FailureCode
from oai.sections import HarvesterSettings

_MOST_MARKS: Final = 20_000
_MOST_NAMES: Final = 10_000
"""Names in one part of the memory, if they make enough pages; a name takes some 70 bytes."""
_FULL: Final = 20 * _MOST_NAMES
"""Names after which a part is full regardless of its pages: the pages of such a list are large."""
_MORE_EMPTY_PAGES: Final = 10
"""Factor by which more empty pages are tolerated while the server's cursor advances over them."""


@dataclass(frozen=True, kw_only=True)
class ListLimits:
    """After how many consecutive pages without a new item a list is ended."""

    empty_pages: int = 100
    repeated_pages: int = 20


def list_limits(settings: HarvesterSettings) -> ListLimits:
    """Return the limits from the settings."""
    return ListLimits(empty_pages=settings.max_empty_pages, repeated_pages=settings.max_repeated_pages)


class LoopDetector:
    """Checks a list's pages as they arrive.

    A repeated token is no proof, because some servers use one token for a whole list; a repeated token with
    the same items is. The first pages are all remembered; of later ones those whose number is a power of two,
    which is enough to detect any circle, if not at once (R. P. Brent's method).

    Whatever the tokens, consecutive pages whose items have all occurred before in this list end it
    (`_Memory`). Each list has its own memory: pages from before a list was resumed or continued do not count.
    """

    def __init__(self, limits: ListLimits | None = None) -> None:
        self._limits = limits or ListLimits()
        self._seen: set[bytes] = set()
        self._memory = _Memory(self._limits.repeated_pages)
        self._pages = 0
        self._empty = 0
        self._repeated = 0
        self._cursor: int | None = None
        self._advancing = True

    def look_at(self, page: Page) -> None:
        """Record a page of records or headers; raise as `check` does.

        Unreadable records are identified by their bytes: a page of nothing else is not empty, and equals
        another page only if the bytes are equal.
        """
        names = [header.identifier for header in page.headers] or [*map(_digest, page.faults)]
        self.check(page.url, page.token, names)

    def check(self, url: str, token: ResumptionToken | None, names: Sequence[str]) -> None:
        """Record a page: its token, and the names of its items.

        Raises EndlessListError if the list is circular, or if too many consecutive pages are empty or contain
        no new item. A page without a token ends its list anyway.
        """
        self._note_cursor(names, token.cursor if token else None)
        self._empty = 0 if names else self._empty + 1
        if names:
            self._repeated = self._repeated + 1 if self._memory.note(names) else 0
        if token is None or not token.value:
            return
        self._check_empty(url, token.complete_list_size)
        self._check_repeated(url)
        mark = hashlib.sha256("\n".join((token.value, *names)).encode("utf-8", "surrogatepass")).digest()[:16]
        if mark in self._seen:
            failure = Failure(code=FailureCode.LIST_IN_CIRCLES, facts={"token": repr(token.value)})
            raise EndlessListError(url, failure, empty=not names)
        self._pages += 1
        if self._pages <= _MOST_MARKS or not self._pages & (self._pages - 1):
            self._seen.add(mark)

    def _note_cursor(self, names: Sequence[str], cursor: int | None) -> None:
        """Record whether the cursor has advanced with each of the consecutive empty pages."""
        moved = cursor is not None and (self._cursor is None or cursor > self._cursor)
        self._advancing = bool(names) or (moved and self._advancing)
        self._cursor = cursor

    def _check_empty(self, url: str, size: int | None) -> None:
        """Tolerate servers that skip unselected records, as long as they announce further ones."""
        most = self._limits.empty_pages
        if self._advancing and (size is None or (self._cursor or 0) < size):
            most *= _MORE_EMPTY_PAGES
        if self._empty >= most:
            facts = {"pages": self._empty, "setting": "harvester.max_empty_pages"}
            raise EndlessListError(url, Failure(code=FailureCode.EMPTY_PAGES, facts=facts))

    def _check_repeated(self, url: str) -> None:
        if self._repeated >= self._limits.repeated_pages:
            facts = {"pages": self._repeated, "setting": "harvester.max_repeated_pages"}
            raise EndlessListError(url, Failure(code=FailureCode.NO_NEW_RECORDS, facts=facts))


def _digest(fault: Fault) -> str:
    return hashlib.sha256(fault.raw or fault.reason.encode()).hexdigest()


@dataclass(kw_only=True, slots=True)
class _Part:
    """The names of some consecutive pages, as Python's hashes, which differ between processes."""

    names: set[int] = field(default_factory=set)
    pages: int = 0

    def add(self, names: Sequence[int]) -> None:
        self.names.update(names)
        self.pages += 1

    def is_full(self, pages: int) -> bool:
        """Return whether it has enough names, and enough pages to detect their repetition."""
        size = len(self.names)
        return size >= _FULL or (size >= _MOST_NAMES and self.pages > pages)


class _Memory:
    """Some of what a list has contained: its first pages, the latest ones, and some in between.

    Whatever it reports as repeated has occurred before, with the certainty of 64 bits; what it has forgotten
    counts as new. A list that starts again, or repeats its last pages endlessly, is detected at once. The
    pages in between are those from the latest power of two on: they are in any circle as soon as the list is
    twice as long as the distance to the circle, and as the circle itself (Brent).
    """

    def __init__(self, pages: int) -> None:
        self._wanted = pages
        self._pages = 0
        self._first, self._between, self._before, self._latest = (_Part() for _ in range(4))

    def note(self, names: Sequence[str]) -> bool:
        """Remember the page; return whether all its items have occurred before."""
        page = [*map(hash, names)]  # building a set would take half as long again
        repeated = self._has(page)
        self._pages += 1
        if not self._pages & (self._pages - 1):
            self._between = _Part()
        for part in (self._first, self._between):
            if not part.is_full(self._wanted):
                part.add(page)
        if self._latest.is_full(self._wanted):
            self._before, self._latest = self._latest, _Part()
        self._latest.add(page)
        return repeated

    def _has(self, page: Sequence[int]) -> bool:
        # A new item, which the first almost always is in a good list, ends the search immediately.
        parts = [part.names for part in (self._latest, self._before, self._first, self._between)]
        return all(any(name in part for part in parts) for name in page)
