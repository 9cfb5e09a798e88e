"""The captures of one URL as mementos: the one for a requested time with its neighbours, and all in order.

RFC 7089 calls an archived URL the original resource and its captures mementos. They are those of an exact
look-up (`provider.holdings.lookup`), restricted to the rules of the query.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy.orm import Session

from oai.errors import UsageError
from provider.holdings.capture import FoundCapture
from provider.holdings.index_reads import ReadOrder
from provider.holdings.lookup import LookupPlace, Query, find_captures
from provider.holdings.url_key_state import keys_complete

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_SUCCESS: Final = 2
_NOT_MODIFIED: Final = 304
_SAME_VISIT: Final = timedelta(minutes=1)
_EXAMINED_BESIDE: Final = 100
"""Captures that are read to find the page to which a redirect leads."""


@dataclass(frozen=True, kw_only=True)
class NamedMementos:
    """The mementos that a TimeGate names (RFC 7089, section 2.2.1)."""

    first: FoundCapture
    last: FoundCapture
    chosen: FoundCapture
    previous: FoundCapture | None
    """The last one before the chosen one; None if the chosen one is the first."""
    following: FoundCapture | None

    def relations(self) -> list[tuple[FoundCapture, str]]:
        """Return each memento once, by time, with its relation types separated by blanks."""
        named = (
            ("first", self.first),
            ("last", self.last),
            ("prev", self.previous),
            ("next", self.following),
            ("", self.chosen),
        )
        found: dict[int, tuple[FoundCapture, list[str]]] = {}
        for name, one in named:
            if one is not None:
                found.setdefault(one.id, (one, []))[1].extend([name] if name else [])
        ordered = sorted(found.values(), key=lambda entry: (entry[0].archived, entry[0].id))
        return [(one, " ".join((*names, "memento"))) for one, names in ordered]


def first_and_last(session: Session, query: Query) -> tuple[FoundCapture, FoundCapture] | None:
    """Return the first and the last memento; None if there is none. Raises UsageError as `find_captures`."""
    first = _next(session, query)
    last = _next(session, replace(query, order=ReadOrder.REVERSE))
    return None if first is None or last is None else (first, last)


def negotiate(session: Session, query: Query, moment: datetime | None) -> NamedMementos | None:
    """Return the memento closest in time, the earlier one of two, or the last one without a time.

    If that is a redirect and the same visit has a page, as of a site that redirects HTTP to HTTPS, it is that
    page. Returns None if there is no memento. Raises UsageError as `find_captures` does.
    """
    ends = first_and_last(session, query)
    if ends is None:
        return None
    first, last = ends
    chosen = last
    if moment is not None:
        chosen = _next(session, replace(query, order=ReadOrder.CLOSEST, closest=moment)) or last
    chosen = _beyond_redirect(session, query, chosen)
    beside = replace(query, begin=LookupPlace(capture=chosen.key, keyed=keys_complete(session)))
    return NamedMementos(
        first=first,
        last=last,
        chosen=chosen,
        previous=_next(session, replace(beside, order=ReadOrder.REVERSE)),
        following=_next(session, beside),
    )


def _beyond_redirect(session: Session, query: Query, chosen: FoundCapture) -> FoundCapture:
    """Return the page closest to a redirect, within a minute; otherwise the chosen capture.

    Where a redirect leads is only in the archive file. One to the same URL key is followed by a capture of
    its target at once.
    """
    if chosen.http_status not in _REDIRECTS:
        return chosen
    beside = replace(
        query,
        order=ReadOrder.CLOSEST,
        closest=chosen.archived,
        since=chosen.archived - _SAME_VISIT,
        until=chosen.archived + _SAME_VISIT,
        limit=1,
        examined=_EXAMINED_BESIDE,
        filters=(*query.filters, _is_page),
    )
    return next(iter(find_captures(session, beside).found), chosen)


def _is_page(capture: FoundCapture) -> bool:
    """Return whether it has content for a reader, or is a revisit of such a capture."""
    if capture.record_type == "revisit" and capture.http_status == _NOT_MODIFIED:
        return True
    return capture.http_status is None or capture.http_status // 100 == _SUCCESS


def _next(session: Session, query: Query) -> FoundCapture | None:
    """Return the first capture of a look-up. Raises UsageError if its limit on index rows ends it."""
    result = find_captures(session, query)
    if result.cut and not result.found:
        raise UsageError(
            f"the limit of {query.examined or 0:,} captures per request was reached before one that you may "
            "read; use /cdx with from and to"
        )
    return result.found[0] if result.found else None
