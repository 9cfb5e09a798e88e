"""Notices a list that goes in circles, or never fills."""

import hashlib
from collections.abc import Sequence

from harvester.reading.errors import EndlessListError
from oai.failures import Failure, FailureCode

_MOST_EMPTY_PAGES = 1000
_MOST_MARKS = 20_000


class Circles:
    """Looks at a list's pages as they come.

    A token that comes again is no proof, for some servers use one token for a whole list; a token that comes
    again with the same items is. The first pages are all remembered; of later ones every one whose number is
    a power of two, which is enough to notice any circle, if not at once (R. P. Brent's way).
    """

    def __init__(self) -> None:
        self._seen: set[bytes] = set()
        self._pages = 0
        self._empty = 0

    def check(self, url: str, token: str, names: Sequence[str]) -> None:
        """Take note of a page: its token, and what its items are called.

        Raises EndlessListError where the list goes in circles, or 1,000 pages in a row are empty.
        """
        self._empty = 0 if names else self._empty + 1
        if self._empty > _MOST_EMPTY_PAGES:
            failure = Failure(
                code=FailureCode.EMPTY_PAGES,
                facts={"pages": self._empty, "setting": "harvester.max_empty_pages"},
            )
            raise EndlessListError(url, failure)
        if not token:
            return
        mark = hashlib.sha256("\n".join((token, *names)).encode("utf-8", "surrogatepass")).digest()[:16]
        if mark in self._seen:
            failure = Failure(code=FailureCode.LIST_IN_CIRCLES, facts={"token": repr(token)})
            raise EndlessListError(url, failure)
        self._pages += 1
        if self._pages <= _MOST_MARKS or not self._pages & (self._pages - 1):
            self._seen.add(mark)
